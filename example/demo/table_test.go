package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// machines is a table as the demo has it: one row that is settled and one that is not.
func machines() table {
	return table{
		heading: []string{"NODE", "STATE", "PROVIDER ID", "ZONE"},
		rows: [][]cell{
			{{text: "node-1"}, {"ready", good}, {text: "fake://eu/node-1"}, {text: "eu-a"}},
			{{text: "node-2"}, {"tainted", waiting}, {}, {}},
		},
	}
}

func wantText(t *testing.T, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, "\n"); text != strings.TrimPrefix(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}

func TestTable_LinesUpColumns(t *testing.T) {
	wantText(t, machines().lines(80, false), `
NODE    STATE    PROVIDER ID       ZONE
node-1  ready    fake://eu/node-1  eu-a
node-2  tainted`)
}

func TestTable_ColourDoesNotMoveColumns(t *testing.T) {
	wantText(t, machines().lines(80, true), "\x1b[1mNODE\x1b[0m    \x1b[1mSTATE\x1b[0m    \x1b[1mPROVIDER ID\x1b[0m       \x1b[1mZONE\x1b[0m\n"+
		"node-1  \x1b[32mready\x1b[0m    fake://eu/node-1  eu-a\n"+
		"node-2  \x1b[33mtainted\x1b[0m")
}

func TestTable_NarrowsTheWidestColumnFirst(t *testing.T) {
	wantText(t, machines().lines(30, false), `
NODE    STATE    PROVID…  ZONE
node-1  ready    fake:/…  eu-a
node-2  tainted`)
}

func TestTable_NeverExceedsTheWidth(t *testing.T) {
	for width := range 60 {
		for _, line := range machines().lines(width, false) {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("at width %d a line has %d characters: %q", width, n, line)
			}
		}
	}
}

func TestChanges_TellWhatIsNewOtherAndGone(t *testing.T) {
	before := machines()
	after := table{heading: before.heading, rows: [][]cell{
		{{text: "node-2"}, {"ready", good}, {text: "fake://eu/node-2"}, {}},
		{{text: "node-3"}, {"tainted", waiting}, {}, {}},
	}}
	wantText(t, changes([]table{before}, []table{after}), `
node-2: state ready, provider id fake://eu/node-2
node-3: state tainted
node-1: gone`)
	if told := changes([]table{after}, []table{after}); len(told) > 0 {
		t.Errorf("nothing has changed, but it tells %q", told)
	}
	wantText(t, changes([]table{machines()}, []table{{heading: before.heading, rows: [][]cell{
		machines().rows[0], {{text: "node-2"}, {}, {}, {}},
	}}}), `
node-2: no state`)
}

func TestWrap_BreaksBetweenWordsAndWithinLongOnes(t *testing.T) {
	wantText(t, wrap("a leader steps down verylongidentifier ok", 10), `
a leader
steps down
verylongid
entifier
ok`)
	wantText(t, wrap("", 10), "\n")
}

// played is a demo half-way through.
func played() view {
	return view{
		tables: []table{machines()},
		steps: []outcome{
			{name: "nodes join", seen: "2 of 2 have lost the taint", state: succeeded, took: 1234 * time.Millisecond},
			{name: "a machine vanishes"},
		},
	}
}

func TestFrame_ShowsTablesAndSteps(t *testing.T) {
	wantText(t, frame(played(), 80, 24, false), `
NODE    STATE    PROVIDER ID       ZONE
node-1  ready    fake://eu/node-1  eu-a
node-2  tainted

ok        1.2 s  nodes join: 2 of 2 have lost the taint
...              a machine vanishes`)
}

func TestFrame_WrapsStepsWhereThereIsRoomAndShortensThemWhereThereIsNone(t *testing.T) {
	wantText(t, frame(played(), 36, 24, false)[4:], `
ok        1.2 s  nodes join: 2 of 2
                 have lost the taint
...              a machine vanishes`)
	wantText(t, frame(played(), 36, 7, false)[4:], `
ok        1.2 s  nodes join: 2 of 2…
...              a machine vanishes`)
	wantText(t, frame(played(), 36, 6, false)[4:], `
...              a machine vanishes`)
}

func TestFrame_LeavesOutTablesWithoutRows(t *testing.T) {
	v := played()
	v.tables = append([]table{{heading: []string{"SERVICE", "ADDRESS"}}}, v.tables...)
	wantText(t, frame(v, 80, 24, false), strings.Join(frame(played(), 80, 24, false), "\n"))
}

// A frame as high as the terminal would scroll, and be drawn in a place where it was not.
func TestFrame_IsLowerThanTheTerminal(t *testing.T) {
	v := played()
	v.closing = []string{"", "That was all."}
	for height := 1; height < 20; height++ {
		if n := len(frame(v, 80, height, false)); n >= height {
			t.Errorf("in a terminal of %d lines the frame has %d", height, n)
		}
	}
}

func TestLines_PrintOneLineAChange(t *testing.T) {
	var out bytes.Buffer
	l := &lines{out: &out, begun: time.Now().Add(-2 * time.Second)}
	v := played()
	l.show(v)
	l.show(v)
	v.steps = append([]outcome{}, v.steps...)
	v.steps[1] = outcome{name: "a machine vanishes", seen: "its node was not deleted", state: failed, took: 60 * time.Second}
	v.tables = []table{{heading: v.tables[0].heading, rows: v.tables[0].rows[:1]}}
	l.show(v)
	wantText(t, strings.Split(out.String(), "\n"), `
   2.0 s  node-1: state ready, provider id fake://eu/node-1, zone eu-a
   2.0 s  node-2: state tainted
ok        1.2 s  nodes join: 2 of 2 have lost the taint
...              a machine vanishes
   2.0 s  node-2: gone
FAILED   60.0 s  a machine vanishes: its node was not deleted
`)
}

func TestLines_OfACheckAreOnlyItsSteps(t *testing.T) {
	var out bytes.Buffer
	l := &lines{out: &out, stepsOnly: true, begun: time.Now()}
	l.say("Look around")
	l.show(played())
	wantText(t, strings.Split(out.String(), "\n"), `
ok        1.2 s  nodes join: 2 of 2 have lost the taint
`)
}

func TestScreen_DrawsEachFrameOverTheLast(t *testing.T) {
	var out bytes.Buffer
	width := 80
	s := &screen{out: &out, size: func() (int, int) { return width, 24 }}
	draw := func(v view) string {
		out.Reset()
		s.show(v)
		return out.String()
	}
	small := view{tables: []table{{heading: []string{"NODE"}, rows: [][]cell{{{text: "node-1"}}}}}}
	const frame = "NODE\x1b[K\nnode-1\x1b[K\n\x1b[K\n\x1b[J"
	if got, want := draw(small), "\x1b[?25l"+frame; got != want {
		t.Errorf("the first frame is %q, want %q", got, want)
	}
	if got, want := draw(small), "\x1b[?25l\x1b[3F"+frame; got != want {
		t.Errorf("the second frame is %q, want %q: up by three lines and over them", got, want)
	}

	out.Reset()
	s.say("Look around")
	if got, want := out.String(), "\x1b[3F\x1b[JLook around\n\x1b[?25l"+frame; got != want {
		t.Errorf("a text is put above the frame with %q, want %q", got, want)
	}

	width = 60
	if got, want := draw(small), "\x1b[?25l\x1b[H\x1b[2JLook around\n"+frame; got != want {
		t.Errorf("in a terminal that has changed its size the frame is %q, want %q: all anew", got, want)
	}

	out.Reset()
	s.end()
	if got, want := out.String(), "\x1b[?25h"; got != want {
		t.Errorf("at the end it writes %q, want the cursor back: %q", got, want)
	}
}

func pipe(t *testing.T) (write, read *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	return write, read
}

func TestChooseDisplay_NoTerminalNoControlCharacters(t *testing.T) {
	out, in := pipe(t)
	env := func(string) string { return "" }
	if _, ok := chooseDisplay(out, false, env).(*lines); !ok {
		t.Error("a pipe gets something else than lines")
	}
	d := chooseDisplay(out, true, env)
	d.show(played())
	d.end()
	_ = out.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(in); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Errorf("a pipe gets control characters: %q", text.String())
	}
}
