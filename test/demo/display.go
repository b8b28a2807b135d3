package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// outcome is the state of a step.
type outcome struct {
	name string
	// seen is the observation, or the cause of a failure.
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

// display prints a line for each step and, unless it prints only steps, for each change in the
// cluster and in the cloud. It is safe for concurrent use.
type display struct {
	out       io.Writer
	stepsOnly bool
	begun     time.Time

	mu     sync.Mutex
	tables []table
}

// say prints a text, unless only steps are printed.
func (d *display) say(text string) {
	if d.stepsOnly {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = fmt.Fprintln(d.out, text)
}

// observe prints the differences from the previous tables.
func (d *display) observe(tables []table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stepsOnly {
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
	if o.state != running || !d.stepsOnly {
		_, _ = fmt.Fprintln(d.out, o)
	}
}
