package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// progressInterval is how often a suite that runs reports its progress.
const progressInterval = 20 * time.Second

// A suite is a package of tests that need an API server.
type suite struct {
	name string
	// module is the folder of the Go module.
	module, pkg string
}

var suites = []suite{
	{"controllers", ".", "./test/e2e/controllers"},
	{"openstack", ".", "./test/e2e/openstack"},
	{"hosts", ".", "./test/e2e/hostintegration"},
	{"leaks", ".", "./test/e2e/leaks"},
	{"drills", ".", "./test/drills"},
	{"takeover", ".", "./test/providers/takeover"},
	{"program", ".", "./cmd/fxccm"},
	{"chart", "test/chart", "."},
}

// A result is the result of a suite. It counts tests without subtests, and subtests.
type result struct {
	passed, failed, skipped int
	problems                []problem
}

// A problem is a test that was skipped, or that failed.
type problem struct{ test, verdict, reason string }

func (r *result) ok() bool { return r.failed == 0 && r.passed > 0 }

func (r *result) String() string {
	if r.passed+r.failed+r.skipped == 0 {
		return "no test ran"
	}
	parts := []string{fmt.Sprintf("%d passed", r.passed)}
	if r.skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", r.skipped))
	}
	if r.failed > 0 {
		parts = append([]string{fmt.Sprintf("**%d failed**", r.failed)}, parts...)
	}
	return strings.Join(parts, ", ")
}

// run runs the suite with the programs in folder. An error means that there is no result.
func (s suite) run(ctx context.Context, version, folder string) (*result, error) {
	log, err := os.Create(filepath.Join(folder, s.name+".json"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	begin := time.Now()
	fmt.Printf("kubernetes: %s %s\n", version, s.name)
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", "-ldflags=-s -w",
		"-parallel=8", "-timeout=30m", s.pkg)
	cmd.Dir, cmd.Stderr = s.module, os.Stderr
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+folder)
	// With an interrupt, the tests end their control planes.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	shown := begin
	done, err := read(io.TeeReader(out, log), func(r *result) {
		if time.Since(shown) >= progressInterval {
			shown = time.Now()
			fmt.Printf("kubernetes: %s %s: %s, %s\n", version, s.name, r,
				time.Since(begin).Round(time.Second))
		}
	})
	if err = errors.Join(err, ctx.Err(), ignoreExit(cmd.Wait())); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	fmt.Printf("kubernetes: %s %s: %s in %s\n", version, s.name, done,
		time.Since(begin).Round(time.Second))
	for _, p := range done.problems {
		fmt.Printf("kubernetes: %s %s: %s: %s %s\n", version, s.name, p.verdict, p.test, p.reason)
	}
	return done, nil
}

// ignoreExit ignores the exit code of go test, which the events show, too.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// An event is a line of go test -json.
type event struct {
	Action, Test, Output string
}

// read reads the events of one package, and calls progress after each.
func read(events io.Reader, progress func(*result)) (*result, error) {
	r := reader{
		outputs: map[string][]string{}, running: map[string]bool{}, failures: map[string]int{},
	}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				return nil, fmt.Errorf("not an event of go test: %s", line)
			}
			r.add(e)
			progress(&r.result)
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
	result
	outputs map[string][]string
	// running are the tests without a result.
	running map[string]bool
	// failures has the tests with subtests, and how many of these have failed.
	failures map[string]int
	// packageFails is an event of its own, also without a test that fails.
	packageFails bool
}

func (r *reader) add(e event) {
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
		r.skipped++
		r.problems = append(r.problems, problem{test, "skipped", message})
	case action == "fail":
		if parent := parentOf(test); parent != "" {
			r.failures[parent]++
		}
		if failures == 0 {
			r.failed++
			r.problems = append(r.problems, problem{test, "failed", message})
		}
		fmt.Print(strings.Join(r.outputs[test], ""))
	case !isParent:
		r.passed++
	}
	delete(r.outputs, test)
	delete(r.running, test)
}

// end counts what has no event: tests that a panic or a timeout ends, and a package that does not
// compile, whose control plane does not start, or whose checks after the tests fail.
func (r *reader) end() *result {
	for _, test := range slices.Backward(slices.Sorted(maps.Keys(r.running))) {
		r.finish(test, "fail", "did not end")
	}
	if r.packageFails && r.failed == 0 {
		r.failed++
		r.problems = append(r.problems, problem{"(the package)", "failed", noMessage})
	}
	if r.packageFails {
		fmt.Print(strings.Join(r.outputs[""], ""))
	}
	slices.SortFunc(r.problems, func(a, b problem) int { return cmp.Compare(a.test, b.test) })
	return &r.result
}

const noMessage = "no message"

var logged = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)`)

// message is the last message of a test that was skipped or failed; earlier ones may be logs.
func message(output []string) string {
	for _, line := range slices.Backward(output) {
		if match := logged.FindStringSubmatch(line); match != nil {
			return cmp.Or(strings.TrimSpace(match[1]), noMessage)
		}
	}
	return noMessage
}
