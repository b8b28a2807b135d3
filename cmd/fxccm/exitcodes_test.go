package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// The page of the commands has the rule: 2 if the arguments alone are wrong, else 1.
func TestCommands_ExitCode_FollowsOneRule(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	cloud := writeFile(t, "cloud.conf", "[Global]\nauth-url=https://keystone.example/v3\ntoken=a\n")
	// needed are the arguments without which a command does nothing else.
	needed := map[string][]string{
		"fxccm describe":      {"service/web"},
		"fxccm plan":          {"service/web", "--cloud-config=" + cloud},
		"fxccm config check":  {filepath.Join(t.TempDir(), "none")},
		"fxccm migrate apply": {"--image=example.com/fxccm"},
		"fxccm fleet":         {"--cloud-provider=fake"},
		"fxccm":               {"--cloud-provider=fake"},
	}
	root := newRoot(&bytes.Buffer{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	eachCommand(root, func(cmd *cobra.Command) {
		name := cmd.CommandPath()
		path := strings.Fields(name)[1:]
		given := slices.Concat(path, needed[name])
		exits := func(want int, args ...string) {
			t.Helper()
			code, stdout, stderr := runSubcommand(args...)
			if code != want || (want == exitClean) != (stderr == "") ||
				want == cli.ExitUsage && stdout != "" {
				t.Errorf("%q: exit code %d, want %d: %.300q, %.300q", args, code, want, stdout,
					stderr)
			}
		}
		exits(exitClean, append(path, "--help")...)
		exits(cli.ExitUsage, append(given, "--unknown-flag")...)
		exits(cli.ExitUsage, append(given, "unknown", "word")...)
		if cmd.Flags().Lookup("output") != nil {
			exits(cli.ExitUsage, append(given, "--output=xml")...)
		}
		if cmd.Flags().Lookup("kubeconfig") != nil && name != "fxccm" && name != "fxccm fleet" {
			exits(exitFailed, given...)
		}
		for _, flag := range []string{"port", "timeout"} {
			if of := cmd.Flags().Lookup(flag); of != nil && !of.Hidden {
				exits(cli.ExitUsage, append(given, "--"+flag+"=x")...)
			}
		}
		for _, argument := range needed[name] {
			if len(path) > 0 && name != "fxccm fleet" {
				exits(cli.ExitUsage, slices.DeleteFunc(slices.Clone(given), func(s string) bool {
					return s == argument
				})...)
			}
		}
	})
}
