package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// outputLines is how much of the end of a test's output the summary shows.
const outputLines = 12

// A result is how a test ended, or a package when test is "".
type result struct {
	name, test string
	// runs has whether each run failed, and its output.
	runs []testRun
}

type testRun struct {
	failed bool
	// notEnded: the events end before it does, because something ended the run.
	notEnded bool
	output   []string
}

// summary prints, for the files with the events of test runs, each test that failed or did not end,
// once with the end of its output, and each that failed and passed when it ran again.
func summary(files []string) error {
	tests, failed := 0, 0
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		results, err := readResults(file)
		_ = file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t, f := printResults(os.Stdout, results)
		tests, failed = tests+t, failed+f
	}
	fmt.Printf("%d passed, %d failed\n", tests-failed, failed)
	if failed > 0 {
		return errFailed
	}
	return nil
}

// readResults reads events and returns the results in the order in which tests ended.
func readResults(from io.Reader) ([]*result, error) {
	type key struct{ name, test string }
	results := map[key]*result{}
	output := map[key][]string{}
	var order []*result
	add := func(k key, run testRun) {
		r := results[k]
		if r == nil {
			r = &result{name: k.name, test: k.test}
			results[k] = r
			order = append(order, r)
		}
		run.output = output[k]
		r.runs = append(r.runs, run)
	}
	var open []key
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			for _, k := range open {
				add(k, testRun{failed: true, notEnded: true})
			}
			return order, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("a line is no event: %w", err)
		}
		k := key{e.Package, e.Test}
		if e.Action == "run" || e.Action == "start" {
			output[k] = nil
		}
		if e.Action == "output" {
			output[k] = append(output[k], strings.TrimSuffix(e.Output, "\n"))
			continue
		}
		open = slices.DeleteFunc(open, func(other key) bool { return other == k })
		if e.begins() || e.Action == "start" {
			open = append(open, k)
		}
		if e.Action == "pass" || e.Action == "fail" {
			add(k, testRun{failed: e.Action == "fail"})
		}
	}
}

// printResults prints what failed, and returns the numbers of tests, and of those that failed.
func printResults(to io.Writer, results []*result) (tests, failed int) {
	var flaky []*result
	for _, r := range results {
		if r.test != "" {
			tests++
		}
		last := r.runs[len(r.runs)-1]
		switch {
		case last.failed:
			if isParent(r, results) {
				if r.test != "" {
					failed++
				}
				continue
			}
			failed++
			if r.test == "" {
				tests++
			}
			how := "FAILED"
			if last.notEnded {
				how = "NOT ENDED"
			}
			fmt.Fprintf(to, "%s: %s %s\n%s", how, short(r.name), r.test, end(last.output))
		case r.runs[0].failed && !isParent(r, results):
			flaky = append(flaky, r)
		}
	}
	for _, r := range flaky {
		fmt.Fprintf(to, "FLAKY: %s %s failed, and passed when it ran again alone\n", short(r.name),
			cmp.Or(r.test, "(the package)"))
		for i, one := range r.runs {
			fmt.Fprintf(to, "  run %d\n%s", i+1, end(one.output))
		}
	}
	return tests, failed
}

// isParent: a test failed because a part of it did, or a package because a test did.
func isParent(r *result, results []*result) bool {
	return slices.ContainsFunc(results, func(child *result) bool {
		return child != r && child.name == r.name && child.runs[0].failed && child.test != "" &&
			(r.test == "" || strings.HasPrefix(child.test, r.test+"/"))
	})
}

// end is the end of a test's output, without the lines that say only that it ran.
func end(lines []string) string {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		text := strings.TrimSpace(line)
		return text == "" || text == "FAIL" || strings.HasPrefix(text, "=== ") ||
			strings.HasPrefix(text, "--- PASS")
	})
	var b strings.Builder
	for _, line := range lines[max(0, len(lines)-outputLines):] {
		if len(line) > 300 {
			line = line[:300] + "…"
		}
		fmt.Fprintf(&b, "    %s\n", line)
	}
	return b.String()
}
