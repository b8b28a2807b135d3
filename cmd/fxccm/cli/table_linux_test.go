package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

func tables() *cli.Tables {
	t := cli.NewTables()
	t.Row("NAME", "REASON")
	t.ColoredRow(cli.Red, "web", "no\nnetwork\tis here \x1b[2J")
	t.Section("NODE")
	t.Row("a")
	return t
}

func TestTables_EachScreen_WrapsAndColorsItsLines(t *testing.T) {
	const whole = "NAME   REASON\nweb    no network is here  [2J\n\nNODE\na\n"
	for name, test := range map[string]struct {
		screen cli.Screen
		want   string
	}{
		"a file":          {cli.Screen{}, whole},
		"a wide terminal": {cli.Screen{IsTerminal: true, Columns: 80}, whole},
		"a narrow terminal": {
			cli.Screen{IsTerminal: true, Columns: 13},
			"NAME   REASON\nweb    no\n    network\n    is here\n    [2J\n\nNODE\na\n",
		},
		"colors": {
			cli.Screen{IsTerminal: true, Columns: 80, Colors: true},
			"NAME   REASON\n\x1b[31mweb    no network is here  [2J\x1b[0m\n\nNODE\na\n",
		},
	} {
		got, err := tables().Text(test.screen)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, got\n%q, want\n%q", name, err, got, test.want)
		}
	}
}

func TestTables_Empty_PrintNothing(t *testing.T) {
	for _, colors := range []bool{false, true} {
		text, err := cli.NewTables().Text(cli.Screen{IsTerminal: true, Columns: 80, Colors: colors})
		if err != nil || text != "" {
			t.Errorf("colors %t: %v, %q", colors, err, text)
		}
	}
}

func TestPrintable_TextOfTheCloud_ControlsNothing(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\tb": "a\n\tb", "a\x1b[2J\u009bb": "a [2J b", "Zürich 東京": "Zürich 東京",
		"\u202efed\u202c\u2066x\u2069": " fed  x ", "\u200bx\ufeff": " x ",
	} {
		if got := cli.Printable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// Names and reasons are what an operator looks for.
func TestTables_NarrowTerminal_LosesNothing(t *testing.T) {
	replica := "fxccm-cloud-controller-manager-7d9c8b6f5d-x2x4k"
	reason := "OctaviaUnavailable: load balancer 4f1c8a0d is PENDING_UPDATE; retrying in 4s"
	text := func(columns int) string {
		t.Helper()
		tables := cli.NewTables()
		tables.Row("REPLICA", "STATE", "TERM", "READY", "SINCE", "PROBLEM")
		tables.ColoredRow(cli.Red, replica, "leading", "3", "true", "12d", reason)
		tables.Section("SERVICE", "STATE", "SINCE", "ADDRESS", "REASON")
		tables.Row("shop/web", "Degraded", "3m", "203.0.113.20,2001:db8::20", reason)
		text, err := tables.Text(cli.Screen{IsTerminal: columns > 0, Columns: columns})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	whole := text(0)
	if lines := strings.Count(whole, "\n"); lines != 5 {
		t.Errorf("%d lines without a terminal, want 5:\n%s", lines, whole)
	}
	for _, columns := range []int{120, 80, 60, 10} {
		got := text(columns)
		if !slices.Equal(strings.Fields(got), strings.Fields(whole)) {
			t.Errorf("%d columns: words are lost:\n%s", columns, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimRight(line, "\n")
			if len(line) > columns && len(strings.Fields(line)) > 1 {
				t.Errorf("%d columns: a line has %d: %s", columns, len(line), line)
			}
		}
	}
}

func TestScreenOf_APipeOrAFile_IsNoTerminal(t *testing.T) {
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	none := func(string) string { return "" }
	if got := cli.ScreenOf(pipe, none); got != (cli.Screen{}) {
		t.Errorf("a pipe is %+v", got)
	}
	if got := cli.ScreenOf(&strings.Builder{}, none); got != (cli.Screen{}) {
		t.Errorf("a builder is %+v", got)
	}
}

func TestScreenOf_ATerminal_HasItsWidthAndColorsUnlessTheUserWantsNone(t *testing.T) {
	terminal := openTerminal(t, 90)
	for name, test := range map[string]struct {
		variables map[string]string
		want      cli.Screen
	}{
		"colors":   {nil, cli.Screen{IsTerminal: true, Columns: 90, Colors: true}},
		"NO_COLOR": {map[string]string{"NO_COLOR": "1"}, cli.Screen{IsTerminal: true, Columns: 90}},
		"dumb":     {map[string]string{"TERM": "dumb"}, cli.Screen{IsTerminal: true, Columns: 90}},
	} {
		got := cli.ScreenOf(terminal, func(name string) string { return test.variables[name] })
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
