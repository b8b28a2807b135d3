package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// outcome is the state of a step.
type outcome struct {
	name string
	// seen is the observation, or the reason why the step failed.
	seen  string
	state stepState
	took  time.Duration
}

type stepState int

const (
	running stepState = iota
	succeeded
	failed
)

func (o outcome) String() string {
	word, took, text := "...", "", o.name
	if o.state != running {
		word = map[stepState]string{succeeded: "ok", failed: "FAILED"}[o.state]
		took = fmt.Sprintf("%5.1f s", o.took.Seconds())
	}
	if o.seen != "" {
		text += ": " + o.seen
	}
	return fmt.Sprintf("%-6s  %-7s  %s", word, took, text)
}

// display prints a line for each step and, unless it prints steps only, for each change in the
// cluster and in the cloud. Or it paints the tables and all steps again after each change. It is
// safe for concurrent use.
type display struct {
	out       io.Writer
	stepsOnly bool
	paints    bool
	begun     time.Time

	mu     sync.Mutex
	tables []table
	// steps and notes are painted below the tables.
	steps []outcome
	notes []string
}

// paint clears the terminal, and prints the tables and the steps. The lock is held.
func (d *display) paint() {
	var page strings.Builder
	page.WriteString("\x1b[H\x1b[J") // the cursor goes to the top, what is below is cleared
	columns := tabwriter.NewWriter(&page, 0, 8, 3, ' ', 0)
	for _, t := range d.tables {
		for _, row := range append([][]string{t.heading}, t.rows...) {
			_, _ = fmt.Fprintln(columns, strings.Join(row, "\t"))
		}
		_, _ = fmt.Fprintln(columns)
	}
	_ = columns.Flush()
	for _, o := range d.steps {
		_, _ = fmt.Fprintln(&page, o)
	}
	for _, note := range d.notes {
		_, _ = fmt.Fprintf(&page, "\n%s\n", note)
	}
	_, _ = io.WriteString(d.out, page.String())
}

// say prints a text, unless only steps are printed.
func (d *display) say(text string) {
	if d.stepsOnly {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paints {
		d.notes = append(d.notes, text)
		d.paint()
		return
	}
	_, _ = fmt.Fprintln(d.out, text)
}

// observe prints the differences from the previous tables.
func (d *display) observe(tables []table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.paints:
		isSame := reflect.DeepEqual(d.tables, tables)
		d.tables = tables
		if !isSame {
			d.paint()
		}
	case !d.stepsOnly:
		for _, change := range changes(d.tables, tables) {
			_, _ = fmt.Fprintf(d.out, "%6.1f s  %s\n", time.Since(d.begun).Seconds(), change)
		}
	}
	d.tables = tables
}

// step prints the start of a step, unless only results are printed, or its result.
func (d *display) step(o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paints {
		if last := len(d.steps) - 1; last >= 0 && d.steps[last].state == running {
			d.steps = d.steps[:last]
		}
		d.steps = append(d.steps, o)
		d.paint()
		return
	}
	if o.state != running || !d.stepsOnly {
		_, _ = fmt.Fprintln(d.out, o)
	}
}
