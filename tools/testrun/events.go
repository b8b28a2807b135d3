package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// An event is a line of `go tool test2json`.
type event struct {
	Time    time.Time `json:",omitzero"`
	Action  string
	Package string  `json:",omitempty"`
	Test    string  `json:",omitempty"`
	Elapsed float64 `json:",omitempty"`
	Output  string  `json:",omitempty"`
}

// events passes whole lines on, and counts the tests that failed.
type events struct {
	to          func(line []byte)
	rest        []byte
	failedTests int
	// passed: the package passed.
	passed bool

	mu sync.Mutex
	// running are the times since which tests run, without those that wait for their turn.
	running map[string]time.Time
}

func (e *events) Write(p []byte) (int, error) {
	e.rest = append(e.rest, p...)
	for {
		i := bytes.IndexByte(e.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := e.rest[:i+1]
		e.rest = e.rest[i+1:]
		var found event
		if json.Unmarshal(line, &found) != nil {
			continue
		}
		if found.Action == "fail" && found.Test != "" {
			e.failedTests++
		}
		if found.Action == "pass" && found.Test == "" {
			e.passed = true
		}
		e.follow(found)
		e.to(bytes.Clone(line))
	}
}

func (e *events) follow(found event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case found.Action == "output" || found.Test == "":
	case found.begins():
		e.running[found.Test] = time.Now()
	default:
		delete(e.running, found.Test)
	}
}

// begins: from now on the test runs, maybe again.
func (e event) begins() bool { return e.Action == "run" || e.Action == "cont" }

// slow names the tests that have run for a time, the longest first.
func (e *events) slow(least time.Duration) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var text strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(e.running), func(a, b string) int {
		return e.running[a].Compare(e.running[b])
	}) {
		if took := time.Since(e.running[name]); took >= least {
			fmt.Fprintf(&text, ", %s %.0f s", name, took.Seconds())
		}
	}
	return text.String()
}

// failure is the events of a package that failed as a whole.
func failure(name string, err error) []byte {
	var lines []byte
	for _, e := range []event{
		{Action: "output", Package: name, Output: fmt.Sprintf("FAIL: %v\n", err)},
		{Action: "fail", Package: name},
	} {
		e.Time = time.Now()
		line, err := json.Marshal(e)
		if err != nil {
			continue // strings and numbers only
		}
		lines = append(append(lines, line...), '\n')
	}
	return lines
}
