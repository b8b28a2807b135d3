// Package evidence is what the tools have in common that run tests and write the results to
// docs/evidence.
package evidence

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Result is the result of tests. It counts tests without subtests, and subtests.
type Result struct {
	Passed, Failed, Skipped int
	Problems                []Problem
}

// A Problem is a test that was skipped, or that failed.
type Problem struct{ Test, Verdict, Reason string }

// OK reports whether tests passed, and none failed.
func (r *Result) OK() bool { return r.Failed == 0 && r.Passed > 0 }

func (r *Result) String() string {
	if r.Passed+r.Failed+r.Skipped == 0 {
		return "no test ran"
	}
	parts := []string{fmt.Sprintf("%d passed", r.Passed)}
	if r.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", r.Skipped))
	}
	if r.Failed > 0 {
		parts = append([]string{fmt.Sprintf("**%d failed**", r.Failed)}, parts...)
	}
	return strings.Join(parts, ", ")
}

// An Event is a line of go test -json.
type Event struct {
	Time                          time.Time
	Action, Package, Test, Output string
	// Elapsed is how many seconds a test or package took, when it ends.
	Elapsed float64
	// Key and Value are those of testing.T.Attr.
	Key, Value string
}

// Read reads the events of one package. It writes the output of tests that fail, and calls progress
// after each event.
func Read(events io.Reader, failed io.Writer, progress func(*Result)) (*Result, error) {
	r := reader{
		failed:  failed,
		outputs: map[string][]string{}, running: map[string]bool{}, failures: map[string]int{},
	}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e Event
			if json.Unmarshal(line, &e) != nil {
				return nil, fmt.Errorf("not an event of go test: %s", line)
			}
			r.add(e)
			progress(&r.Result)
		}
		if errors.Is(err, io.EOF) {
			return r.end(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

type reader struct {
	Result
	failed  io.Writer
	outputs map[string][]string
	// running are the tests without a result.
	running map[string]bool
	// failures has the tests with subtests, and how many of these have failed.
	failures map[string]int
	// packageFails is an event of its own, also without a test that fails.
	packageFails bool
}

func (r *reader) add(e Event) {
	switch e.Action {
	case "run":
		r.running[e.Test] = true
		if parent := parentOf(e.Test); parent != "" {
			r.failures[parent] += 0
		}
	case "output", "build-output":
		r.outputs[e.Test] = append(r.outputs[e.Test], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.packageFails = e.Action == "fail"
			return
		}
		r.finish(e.Test, e.Action, message(r.outputs[e.Test]))
	}
}

func parentOf(test string) string { return test[:max(0, strings.LastIndex(test, "/"))] }

// finish counts a test. A test with subtests counts only if it fails or is skipped after them.
func (r *reader) finish(test, action, message string) {
	failures, isParent := r.failures[test]
	switch {
	case action == "skip":
		r.Skipped++
		r.Problems = append(r.Problems, Problem{test, "skipped", message})
	case action == "fail":
		if parent := parentOf(test); parent != "" {
			r.failures[parent]++
		}
		if failures == 0 {
			r.Failed++
			r.Problems = append(r.Problems, Problem{test, "failed", message})
		}
		fmt.Fprint(r.failed, strings.Join(r.outputs[test], ""))
	case !isParent:
		r.Passed++
	}
	delete(r.outputs, test)
	delete(r.running, test)
}

// end counts what has no event: tests that a panic or a timeout ends, and a package that does not
// compile, whose control plane does not start, or whose checks after the tests fail.
func (r *reader) end() *Result {
	for _, test := range slices.Backward(slices.Sorted(maps.Keys(r.running))) {
		r.finish(test, "fail", "did not end")
	}
	if r.packageFails && r.Failed == 0 {
		r.Failed++
		r.Problems = append(r.Problems, Problem{"(the package)", "failed", noMessage})
	}
	if r.packageFails {
		fmt.Fprint(r.failed, strings.Join(r.outputs[""], ""))
	}
	slices.SortFunc(r.Problems, func(a, b Problem) int { return cmp.Compare(a.Test, b.Test) })
	return &r.Result
}

const noMessage = "no message"

var (
	logged = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)`)
	// byLogger is a line of a logger, as klog and testr write it.
	byLogger = regexp.MustCompile(`^([IWEF]\d{4} \d\d:|"?level"?=)`)
)

// message is the last message of a test that was skipped or failed, without the lines of loggers;
// earlier ones may be about the progress.
func message(output []string) string {
	for _, line := range slices.Backward(output) {
		match := logged.FindStringSubmatch(line)
		if match != nil && !byLogger.MatchString(match[1]) {
			return cmp.Or(strings.TrimSpace(match[1]), noMessage)
		}
	}
	return noMessage
}
