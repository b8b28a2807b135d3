package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/pagetest"
	"github.com/fxccm/fxccm/options"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestCommandsPage_IsUpToDate$ .

// commandsPage is the reference page of the subcommands and of the program's own flags.
func commandsPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString("# Commands of fxccm\n\n" +
		"<!-- Generated from the commands' help; change it there and run: go generate ./cmd/fxccm -->\n\n" +
		"Without a command, `fxccm` is the cloud controller manager. Its [flags](flags.md) are " +
		"those of upstream, and the flags of logging [below](#logging).\n\n" +
		"| exit code | meaning |\n|---|---|\n" +
		"| 0 | success |\n" +
		"| 1 | the command failed: a file, the cluster, the cloud, or the configuration of the CCM " +
		"is wrong or missing |\n" +
		"| 2 | the arguments alone are wrong: an unknown command or flag, or arguments that are " +
		"missing, malformed or contradict each other. Nothing was done |\n" +
		"| 3 | the CCM was stopped while a call of its last term still ran |\n" +
		"| 4 | `fxccm migrate`: the migration is blocked |\n\n" +
		"The configuration of a CCM comes from its flags and from the file of `--config`. A value " +
		"that one of its flags can read, but that the CCM refuses, has the exit code 1, as in the " +
		"file.\n\n" +
		"`fxccm completion --help` says how a shell completes commands, flags and their values. " +
		"Contexts come from the kubeconfig; the names of namespaces and Services come from the " +
		"cluster, if it answers within two seconds. With the name " +
		"`kubectl-fxccm` in the `PATH`, the binary is the plugin `kubectl fxccm`, which does not " +
		"run a CCM without a command. The project has no release yet. krew will install the plugin from one: `kubectl " +
		"krew install --manifest-url=https://github.com/fxccm/fxccm/releases/download/VERSION/" +
		"fxccm.yaml`. For completion after `kubectl fxccm`, kubectl runs the program " +
		"`kubectl_complete-fxccm`. It is the same binary: `ln -s \"$(command -v kubectl-fxccm)\" " +
		"~/.local/bin/kubectl_complete-fxccm`, in a folder of the `PATH`.\n\nOn a terminal, tables have colors unless `NO_COLOR` is " +
		"set, and a row that is wider continues in the next line. `fxccm status --wide` and " +
		"`fxccm fleet status --wide` print each row on one line.\n")
	for _, name := range []string{
		"status", "describe", "plan", "config check", "migrate", "migrate check", "migrate plan",
		"migrate apply", "migrate rollback", "fleet", "fleet status", "version", "completion",
	} {
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(name), "--help")
		if code := run(args, &stdout, &stderr); code != exitClean {
			t.Fatalf("fxccm %s --help: exit code %d: %s", name, code, &stderr)
		}
		fmt.Fprintf(&page, "\n## fxccm %s\n\n```text\n%s\n```\n", name,
			strings.TrimSpace(stdout.String()))
	}
	var global []*pflag.Flag
	newCommandLine(options.New()).groups.FlagSets["global"].VisitAll(func(flag *pflag.Flag) {
		global = append(global, flag)
	})
	fmt.Fprintf(&page, "\n## Logging\n\n```text\n%s\n```\n",
		strings.TrimRight(cli.FlagUsages(global, 0), "\n"))
	page.WriteString("\n## Flags of older releases\n\n" +
		"These flags of older cloud-controller-managers are accepted with a warning, and have no " +
		"effect:\n\n| flag | instead |\n|---|---|\n")
	for _, old := range oldFlags() {
		fmt.Fprintf(&page, "| `--%s` | %s |\n", old.name,
			strings.ToUpper(old.instead[:1])+old.instead[1:])
	}
	lines := strings.Split(page.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestCommandsPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../../docs/reference/commands.md", commandsPage(t))
}
