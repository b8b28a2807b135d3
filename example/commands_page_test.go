package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
	"github.com/fxccm/fxccm/options"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestCommandsPage_IsUpToDate$ .

// commandsPage is the reference page of the subcommands and of the program's own flags.
func commandsPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString("# Commands of fxccm\n\n" +
		"<!-- Generated from the commands' help; change it there and run: go generate ./example -->\n\n" +
		"Without a command, `fxccm` is the cloud controller manager. Its [flags](flags.md) are " +
		"those of upstream, and the flags of logging [below](#logging).\n")
	for _, name := range []string{
		"status", "describe", "plan", "migrate", "fleet", "fleet status",
	} {
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(name), "--help")
		if code := run(args, &stdout, &stderr); code != exitClean {
			t.Fatalf("fxccm %s --help: exit code %d: %s", name, code, &stderr)
		}
		fmt.Fprintf(&page, "\n## fxccm %s\n\n```text\n%s\n```\n", name,
			strings.TrimSpace(stdout.String()))
	}
	global := newCommandLine(options.New()).groups.FlagSets["global"]
	fmt.Fprintf(&page, "\n## Logging\n\n```text\n%s\n```\n",
		strings.TrimRight(global.FlagUsages(), "\n"))
	lines := strings.Split(page.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestCommandsPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../docs/reference/commands.md", commandsPage(t))
}
