package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// machines is a table with one initialized node and one tainted node.
func machines() table {
	return table{
		heading: []string{"NODE", "STATE", "PROVIDER ID", "ZONE"},
		rows: [][]string{
			{"node-1", "ready", "fake://eu/node-1", "eu-a"},
			{"node-2", "tainted", "", ""},
		},
	}
}

func wantText(t *testing.T, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, "\n"); text != strings.TrimPrefix(want, "\n") {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}

func TestChanges_NewChangedAndDeletedRows_AreALineEach(t *testing.T) {
	before := machines()
	after := table{heading: before.heading, rows: [][]string{
		{"node-2", "ready", "fake://eu/node-2", ""},
		{"node-3", "tainted", "", ""},
	}}
	wantText(t, changes([]table{before}, []table{after}), `
node-2: state ready, provider id fake://eu/node-2
node-3: state tainted
node-1: gone`)
	if lines := changes([]table{after}, []table{after}); len(lines) > 0 {
		t.Errorf("changes between equal tables: %q", lines)
	}
	wantText(t, changes([]table{machines()}, []table{{heading: before.heading, rows: [][]string{
		machines().rows[0], {"node-2", "", "", ""},
	}}}), `
node-2: no state`)
}

// play shows two steps, of which the second fails.
func play(d *display) {
	d.say("Look around")
	d.observe([]table{machines()})
	d.observe([]table{machines()})
	ok := outcome{name: "nodes join", seen: "2 of 2 have lost the taint", state: succeeded}
	ok.took = 1234 * time.Millisecond
	d.step(ok)
	d.step(outcome{name: "a machine vanishes"})
	d.observe([]table{{heading: machines().heading, rows: machines().rows[:1]}})
	bad := outcome{name: "a machine vanishes", seen: "its node was not deleted", state: failed}
	bad.took = time.Minute
	d.step(bad)
}

func TestDisplay_StepsAndChanges_AreALineEach(t *testing.T) {
	var out bytes.Buffer
	play(&display{out: &out, begun: time.Now().Add(-2 * time.Second)})
	wantText(t, strings.Split(out.String(), "\n"), `
Look around
   2.0 s  node-1: state ready, provider id fake://eu/node-1, zone eu-a
   2.0 s  node-2: state tainted
ok        1.2 s  nodes join: 2 of 2 have lost the taint
...              a machine vanishes
   2.0 s  node-2: gone
FAILED   60.0 s  a machine vanishes: its node was not deleted
`)
}

func TestDisplay_StepsOnly_PrintsResultsOnly(t *testing.T) {
	var out bytes.Buffer
	play(&display{out: &out, stepsOnly: true, begun: time.Now()})
	wantText(t, strings.Split(out.String(), "\n"), `
ok        1.2 s  nodes join: 2 of 2 have lost the taint
FAILED   60.0 s  a machine vanishes: its node was not deleted
`)
}
