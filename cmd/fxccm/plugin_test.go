package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

func runPlugin(name string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = runAs(name, args, &out, &err)
	return code, out.String(), err.String()
}

// The user of the plugin types "kubectl fxccm".
func TestPlugin_EachText_NamesTheCommandsAsTyped(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	bare := regexp.MustCompile(`(?m)(^|.{0,8})\bfxccm (status|describe|plan|config|migrate|fleet|version|completion|--)`)
	check := func(text string, args []string) {
		t.Helper()
		for _, found := range bare.FindAllString(text, -1) {
			if !strings.Contains(found, "kubectl fxccm") {
				t.Errorf("%q: %q", args, found)
			}
		}
	}
	eachCommand(newRoot(&bytes.Buffer{}), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		code, stdout, stderr := runPlugin(pluginName, args...)
		if code != exitClean || !strings.Contains(stdout, "kubectl "+cmd.CommandPath()) {
			t.Errorf("%q: exit code %d, %s%s", args, code, stdout, stderr)
		}
		check(stdout, args)
		args[len(args)-1] = "--unknown"
		code, _, stderr = runPlugin(pluginName, args...)
		if code != cli.ExitUsage || !strings.HasPrefix(stderr, "kubectl "+cmd.CommandPath()+": ") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
		check(stderr, args)
	})
	code, stdout, _ := runPlugin(pluginName)
	if code != exitClean || strings.Contains(stdout, "is the CCM") ||
		strings.Contains(stdout, "--leader-elect") {
		t.Errorf("the help of the plugin is that of a CCM: %s", stdout)
	}
}

// kubectl runs this program with the words after "kubectl fxccm".
func TestPlugin_AsCompleter_PrintsCompletions(t *testing.T) {
	code, stdout, _ := runPlugin(completerName, "status", "-o", "")
	if want := "json\nyaml\n:4\n"; code != exitClean || stdout != want {
		t.Errorf("exit code %d, %q, want %q", code, stdout, want)
	}
	code, stdout, _ = runPlugin(completerName, "")
	if code != exitClean || !strings.Contains(stdout, "describe\t") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}
