package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

func TestCommands_UnknownWord_IsAUsageErrorWithASuggestion(t *testing.T) {
	for line, want := range map[string]string{
		"completion zhs":          "did you mean zsh?",
		"completion zhs --help":   "did you mean zsh?",
		"completion bash extra":   "want flags only",
		"help bogus":              `unknown command "bogus"`,
		"help statsu":             "did you mean status?",
		"help config chek":        "did you mean check?",
		"bogus --help":            `unknown command "bogus"`,
		"statsu --help":           "did you mean status?",
		"--help statsu":           "did you mean status?",
		"config chek --help":      "did you mean check?",
		"migrate plann -h":        "did you mean plan?",
		"fleet statsu --help":     "did you mean status?",
		"help status extra":       "want flags only",
		"fleet status bogus -h":   "want flags only",
		"migrate check bogus -h":  "want flags only",
		"version bogus --help":    "want flags only",
		"fleet bogus":             `unknown command "bogus"`,
		"--cluster-name=a bogus2": `unknown command "bogus2"`,
	} {
		code, stdout, stderr := runSubcommand(strings.Fields(line)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %.200q, %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

func TestCommands_Help_IsPrinted(t *testing.T) {
	for line, want := range map[string]string{
		"--help":                "Commands for operators:",
		"help":                  "Commands for operators:",
		"help status":           "fxccm status",
		"help config check":     "fxccm config check",
		"help completion":       "fxccm completion",
		"completion":            "fxccm completion",
		"completion zsh --help": "fxccm completion zsh",
		"completion zsh":        "#compdef fxccm",
		"fleet --help":          "fxccm fleet",
		"fleet status -h":       "fxccm fleet status",
		"config -h check":       "fxccm config check",
		"migrate --help apply":  "fxccm migrate apply",
		"plan web --help":       "fxccm plan",
		"config":                "fxccm config",
	} {
		code, stdout, stderr := runSubcommand(strings.Fields(line)...)
		if code != exitClean || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, %.200q, %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

// An administrator has the contexts of several clusters in one kubeconfig.
func TestCommands_ThatReadAKubeconfig_HaveAContextAndANamespace(t *testing.T) {
	found := 0
	eachCommand(newRoot(&bytes.Buffer{}), func(cmd *cobra.Command) {
		name := cmd.CommandPath()
		if cmd.HasParent() && cmd.Short == "" {
			t.Errorf("%s has no summary for the list of commands", name)
		}
		// A server has the flags of upstream's command.
		if cmd.Flags().Lookup("kubeconfig") == nil || name == "fxccm" || name == "fxccm fleet" {
			return
		}
		found++
		for flag, other := range map[string]string{
			"kubeconfig": "context", "workload-kubeconfig": "workload-context",
		} {
			if cmd.Flags().Lookup(flag) != nil && cmd.Flags().Lookup(other) == nil {
				t.Errorf("%s has --%s and no --%s", name, flag, other)
			}
		}
		if cmd.Flags().ShorthandLookup("n") == nil {
			t.Errorf("%s has no -n", name)
		}
	})
	if found < 8 {
		t.Errorf("only %d commands read a kubeconfig", found)
	}
}

func TestCommands_ThatPrintAResult_PrintItAsJSONAndYAML(t *testing.T) {
	without := map[string]string{
		"fxccm":                  "it serves",
		"fxccm fleet":            "it serves",
		"fxccm config":           "it prints its help",
		"fxccm migrate":          "it prints its help",
		"fxccm migrate apply":    "it changes objects, and reports each step",
		"fxccm migrate rollback": "it changes objects, and reports each step",
	}
	eachCommand(newRoot(&bytes.Buffer{}), func(cmd *cobra.Command) {
		name := cmd.CommandPath()
		_, isException := without[name]
		delete(without, name)
		if has := cmd.Flags().Lookup("output") != nil; cmd.Runnable() && has == isException {
			t.Errorf("%s has --output: %t, want %t", name, has, !isException)
		}
	})
	if len(without) > 0 {
		t.Errorf("there are no commands %v", without)
	}
}

func TestHelp_NarrowTerminal_WrapsItsLines(t *testing.T) {
	root := newRoot(&bytes.Buffer{})
	root.InitDefaultCompletionCmd()
	eachCommand(root, func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		text, _, _ := strings.Cut(cli.HelpText(cmd, 60), "\nUsage:")
		_, flags, _ := strings.Cut(cli.HelpText(cmd, 60), "lags:\n")
		for line := range strings.Lines(text + flags) {
			line = strings.TrimSuffix(line, "\n")
			isCode := strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "      --")
			if len(line) > 60 && len(strings.Fields(line)) > 1 && !isCode {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), len(line), line)
			}
		}
	})
}
