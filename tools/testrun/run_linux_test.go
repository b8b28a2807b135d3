package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// framed is a line of go test -v for test2json.
const framed = "printf '\\026=== RUN   TestA\\n\\026--- %s: TestA (0.00s)\\n\\026%s\\n'; exit %d\n"

// binary is a job whose binary is a shell script.
func binary(t *testing.T, name, script string) job {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.test")
	// A process that begins meanwhile would have the file open, which then cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return job{Name: name, Dir: dir, Binary: path}
}

func TestRunner_Job_FailureMayRunAgainOnlyIfATestFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, want string
		limit        time.Duration
		again        string
		err          bool
		final        bool
	}{
		"passes": {script: fmt.Sprintf(framed, "PASS", "PASS", 0), want: `"Action":"pass"`},
		"a test fails": {
			script: fmt.Sprintf(framed, "FAIL", "FAIL", 1),
			want:   `"Action":"fail"`, again: ".", err: true,
		},
		"a test of another package fails": {
			script: fmt.Sprintf(framed, "FAIL", "FAIL", 1),
			want:   `"Action":"fail"`, again: "^e2e$", err: true, final: true,
		},
		"fails without a failed test": {
			script: "printf 'found unexpected goroutines\\n'; exit 1\n",
			want:   "found unexpected goroutines", again: ".", err: true, final: true,
		},
		"leaves a process": {
			script: "sleep 300 & " + fmt.Sprintf(framed, "PASS", "PASS", 0),
			want:   "processes of the tests did not end: ", again: ".", err: true, final: true,
		},
		"does not end": {
			script: "sleep 300\n", limit: time.Millisecond - killGrace,
			want: "killed: still running after 1ms", again: ".", err: true, final: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r := &runner{
				out: &out, progress: io.Discard, limit: c.limit,
				running: map[string]running{}, cpu: map[string]time.Duration{},
			}
			if c.again != "" {
				r.again = patterns{regexp.MustCompile(c.again)}
			}
			name := "project/" + strings.ReplaceAll(t.Name(), "/", "-")
			err := r.all(t.Context(), []job{binary(t, name, c.script)}, 1)
			if (err != nil) != c.err || r.final != c.final ||
				errors.Is(err, errFailed) != (c.err && !c.final) {
				t.Errorf("error %v, final %t; want an error %t, final %t", err, r.final, c.err,
					c.final)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("events:\n%s\nwant %s", out.String(), c.want)
			}
			if _, err := readResults(&out); err != nil {
				t.Errorf("the events cannot be read: %v", err)
			}
		})
	}
}

func TestEvents_Slow_NamesTestsThatRunTheLongestFirst(t *testing.T) {
	t.Parallel()
	e := &events{to: func([]byte) {}, running: map[string]time.Time{}}
	for _, line := range []string{
		`{"Action":"start"}`,
		`{"Action":"run","Test":"TestWaits"}`, `{"Action":"pause","Test":"TestWaits"}`,
		`{"Action":"run","Test":"TestFirst"}`, `{"Action":"run","Test":"TestEnds"}`,
		`{"Action":"output","Test":"TestFirst","Output":"the first state\n"}`,
		`{"Action":"skip","Test":"TestEnds"}`, `{"Action":"cont","Test":"TestSecond"}`,
	} {
		if _, err := e.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := e.slow(0), ", TestFirst 0 s, TestSecond 0 s"; got != want {
		t.Errorf("tests that run: %q, want %q", got, want)
	}
	if got := e.slow(time.Hour); got != "" {
		t.Errorf("tests that have run for an hour: %q, want none", got)
	}
}

func TestRun_NothingMatches_Fails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writePlan(dir, []job{{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	err := run([]string{"-dir", dir, "-only", "^b$"})
	if err == nil || exitCode(err) != codeNoRerun {
		t.Errorf("run without a match: %v, want an error that is final", err)
	}
}
