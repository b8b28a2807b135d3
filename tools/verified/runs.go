package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

// runs are the last runs of each release.
type runs map[string]*release

type release struct {
	// Versions are by the name of the program.
	Versions map[string]string `json:"versions"`
	// Archive is the day of Debian's archive, if the release has a root of its own.
	Archive string `json:"archive,omitempty"`
	// Seconds is how long it took to bring up the lab in an empty folder; 0 if that is unknown.
	Seconds int               `json:"seconds,omitempty"`
	Suites  map[string]*suite `json:"suites"`
}

// A suite is a run of the tests of a package.
type suite struct {
	Date     string  `json:"date"`
	Revision string  `json:"fxccm"`
	Result   string  `json:"result"`
	Seconds  float64 `json:"seconds"`
	Tests    []test  `json:"tests"`

	last map[string]*testRun
}

type test struct {
	Name    string  `json:"name"`
	Result  string  `json:"result"`
	Seconds float64 `json:"seconds"`
	// Seen is what the test notes by [testing.T.Attr] with seenKey, or why it did not pass.
	Seen string `json:"seen,omitempty"`
}

const (
	seenKey = "seen"
	// thePackage is the name of the events that are not of a test. It sorts after names of tests.
	thePackage = "the package"
)

// A testRun is the last run of a test with its events.
type testRun struct {
	test
	events bytes.Buffer
	passed int
	// seen are the notes of the test, or of its parts by their names.
	seen map[string]string
}

// merge puts suites in place of their earlier runs. No run of other versions of a release, or of
// another day's archive, stays.
func (r runs) merge(more runs) {
	for name, newer := range more {
		if older := r[name]; older != nil && older.Archive == newer.Archive &&
			maps.Equal(older.Versions, newer.Versions) {
			maps.Copy(older.Suites, newer.Suites)
			older.Seconds = cmp.Or(newer.Seconds, older.Seconds)
		} else {
			r[name] = newer
		}
	}
}

// read returns the suites of a log. A failed test may have run again: its last run counts.
func read(log io.Reader, revision string) (map[string]*suite, error) {
	found := map[string]*suite{}
	lines := json.NewDecoder(log)
	for {
		var line json.RawMessage
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		var e evidence.Event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return nil, err
		}
		name := path.Base(e.Package)
		if found[name] == nil {
			found[name] = &suite{
				Date: e.Time.UTC().Format(time.DateOnly), Revision: revision,
				last: map[string]*testRun{},
			}
		}
		found[name].add(e, line)
	}
	for _, s := range found {
		if err := s.end(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// add adds an event to the last run of its test.
func (s *suite) add(e evidence.Event, line []byte) {
	name, part, isPart := strings.Cut(e.Test, "/")
	if name == "" {
		name = thePackage
	}
	if s.last[name] == nil || !isPart && (e.Action == "run" || e.Action == "start") {
		s.last[name] = &testRun{test: test{Name: name}, seen: map[string]string{}}
	}
	last := s.last[name]
	last.events.Write(append(line, '\n'))
	switch e.Action {
	case "attr":
		if e.Key == seenKey {
			last.seen[part] = e.Value
		}
	case "pass", "fail", "skip":
		// A test's own time leaves out its parallel parts.
		last.Seconds = max(last.Seconds, e.Elapsed)
		if name == thePackage {
			s.Seconds += e.Elapsed
		}
	}
}

// end counts the results of the last runs.
func (s *suite) end() error {
	var all evidence.Result
	for _, name := range slices.Sorted(maps.Keys(s.last)) {
		last := s.last[name]
		result, err := evidence.Read(&last.events, io.Discard, func(*evidence.Result) {})
		if err != nil {
			return err
		}
		// A package also fails with its tests.
		if name == thePackage && (result.Failed == 0 || all.Failed > 0) {
			continue
		}
		all.Passed += result.Passed
		all.Failed += result.Failed
		all.Skipped += result.Skipped
		var seen []string
		for _, part := range slices.Sorted(maps.Keys(last.seen)) {
			seen = append(seen, strings.TrimPrefix(part+": "+last.seen[part], ": "))
		}
		last.Seen = strings.Join(seen, "; ")
		last.passed = result.Passed
		last.judge(result)
		s.Tests = append(s.Tests, last.test)
	}
	s.Result = all.String()
	return nil
}

// unnoted are the tests of which more parts passed than noted what was seen.
func (s *suite) unnoted() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.last)) {
		if last := s.last[name]; len(last.seen) < last.passed {
			names = append(names, name)
		}
	}
	return names
}

func (t *test) judge(r *evidence.Result) {
	switch t.Result = r.String(); {
	case r.Passed+r.Failed+r.Skipped > 1:
	case r.Failed > 0:
		t.Result = "**failed**"
	case r.Skipped > 0:
		t.Result = "skipped"
	case r.Passed > 0:
		t.Result = "passed"
	}
	var reasons []string
	for _, p := range r.Problems {
		part := strings.TrimPrefix(p.Test, t.Name)
		reasons = append(reasons, strings.TrimPrefix(part+": "+p.Reason, ": "))
	}
	if len(reasons) > 0 {
		t.Seen = evidence.Code(strings.Join(reasons, "; "))
	}
}
