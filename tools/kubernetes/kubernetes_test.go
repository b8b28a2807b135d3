package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestResolve_EachArgument_IsAVersionOrAnError(t *testing.T) {
	available := strings.Fields("v1.31.0 v1.31.9 v1.31.14 v1.37.2 v1.37.3-rc.1 v1.38.0-alpha.2 " +
		"v1.38.0-beta.0")
	for wanted, want := range map[string]string{
		"1.31":          "v1.31.14",
		"v1.31":         "v1.31.14",
		"1.37":          "v1.37.2",
		"1.38":          "v1.38.0-beta.0",
		"1.34.2":        "v1.34.2",
		"v1.38.0-alpha": "v1.38.0-alpha",
		"1.39":          "the module proxy has no version of Kubernetes 1.39",
		"newest":        `version "newest": want one like 1.31 or 1.34.2`,
	} {
		got, err := resolve(wanted, available)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", wanted, got, want)
		}
	}
}

// eventsOf returns lines of go test -json for lines such as "pass TestA" or "output TestA text".
func eventsOf(lines ...string) string {
	var all strings.Builder
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		test, text, _ := strings.Cut(rest, " ")
		all.WriteString(`{"Action":"` + action + `","Package":"p","Test":"` + test +
			`","Output":"` + text + `\n"}` + "\n")
	}
	return all.String()
}

func TestRead_EachOutcome_IsCountedWithItsReason(t *testing.T) {
	for name, test := range map[string]struct {
		events []string
		want   result
		ok     bool
		text   string
	}{
		"all pass": {
			[]string{"run A", "run B", "pass A", "pass B", "pass"},
			result{passed: 2},
			true, "2 passed",
		},
		"subtests count, and their test does not": {
			[]string{"run A", "run A/x", "run A/y", "pass A/x", "pass A/y", "pass A", "pass"},
			result{passed: 2},
			true, "2 passed",
		},
		"a skipped test does not pass": {
			[]string{
				"run A", "run A/x", "run A/y", "pass A/x",
				"output A/y     a_test.go:7: kube-apiserver lacks it", "skip A/y", "pass A", "pass",
			},
			result{passed: 1, skipped: 1, problems: []problem{
				{"A/y", "skipped", "kube-apiserver lacks it"},
			}},
			true, "1 passed, 1 skipped",
		},
		"all are skipped": {
			[]string{"run A", "skip A", "pass"},
			result{skipped: 1, problems: []problem{{"A", "skipped", noMessage}}},
			false, "0 passed, 1 skipped",
		},
		"a subtest fails": {
			[]string{
				"run A", "run A/x", "run B", "output A/x     a_test.go:7: want 1", "fail A/x",
				"fail A", "pass B", "fail",
			},
			result{passed: 1, failed: 1, problems: []problem{{"A/x", "failed", "want 1"}}},
			false, "**1 failed**, 1 passed",
		},
		"a test fails after its subtests": {
			[]string{
				"run A", "run A/x", "pass A/x", "output A     a_test.go:9: left over", "fail A",
				"fail",
			},
			result{passed: 1, failed: 1, problems: []problem{{"A", "failed", "left over"}}},
			false, "**1 failed**, 1 passed",
		},
		"the package fails after its tests": {
			[]string{"run A", "pass A", "fail"},
			result{passed: 1, failed: 1, problems: []problem{
				{"(the package)", "failed", noMessage},
			}},
			false, "**1 failed**, 1 passed",
		},
		"a test has no result": {
			[]string{"run A", "pass A", "run B", "fail"},
			result{passed: 1, failed: 1, problems: []problem{{"B", "failed", "did not end"}}},
			false, "**1 failed**, 1 passed",
		},
		"nothing runs": {[]string{"pass"}, result{}, false, "no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(strings.NewReader(eventsOf(test.events...)), func(*result) {})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, test.want) {
				t.Errorf("%+v, want %+v", *got, test.want)
			}
			if got.ok() != test.ok || got.String() != test.text {
				t.Errorf("%t, %q; want %t, %q", got.ok(), got, test.ok, test.text)
			}
		})
	}
	if r, err := read(strings.NewReader("# compile error\n"), func(*result) {}); err == nil {
		t.Errorf("a line that is no event: %+v, no error", r)
	}
}

func TestRecord_SeveralRuns_ARowIsOfOneRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("Prose.\n\n"+resultsMark+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	of := func(version, revision string) server {
		return server{
			version: version, golang: "go1.26.8", etcd: "3.7.0", date: "2026-11-27",
			revision: revision,
		}
	}
	skipping := &result{passed: 3, skipped: 1, problems: []problem{
		{"TestA", "skipped", "a | b"},
	}}
	for _, run := range []struct {
		server server
		suite  string
		result *result
	}{
		{of("v1.37.2", "aaaa"), "controllers", skipping},
		{of("v1.31.13", "aaaa"), "controllers", skipping},
		{of("v1.31.13", "aaaa"), "drills", &result{passed: 7}},
		// Another patch version replaces all of the row, another result only its own.
		{of("v1.31.14", "aaaa"), "drills", &result{passed: 8}},
		{of("v1.37.2", "aaaa"), "drills", &result{passed: 9}},
	} {
		if err := record(path, run.server, run.suite, run.result); err != nil {
			t.Fatal(err)
		}
	}
	const header = "| kube-apiserver | built with | etcd | fxccm | date | controllers | openstack | " +
		"hosts | leaks | drills | takeover | program | chart |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	const same = " | go1.26.8 | 3.7.0 | aaaa | 2026-11-27 | "
	expect(t, path, header+
		"| v1.31.14"+same+"not run | not run | not run | not run | 8 passed | not run | not run | not run |\n"+
		"| v1.37.2"+same+"3 passed, 1 skipped | not run | not run | not run | 9 passed | not run | not run | not run |\n"+
		"\nThese tests did not pass:\n\n"+
		"| kube-apiserver | suite | test | result | reason |\n|---|---|---|---|---|\n"+
		"| v1.37.2 | controllers | `TestA` | skipped | `a / b` |\n")

	if err := record(path, of("v1.37.2", "bbbb"), "drills", &result{passed: 1}); err != nil {
		t.Fatal(err)
	}
	expect(t, path, header+
		"| v1.31.14"+same+"not run | not run | not run | not run | 8 passed | not run | not run | not run |\n"+
		"| v1.37.2 | go1.26.8 | 3.7.0 | bbbb | 2026-11-27 | not run | not run | not run | not run | 1 passed | not run | not run | not run |\n"+
		"\nNo test was skipped, and no test failed.\n")
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(data); got != "Prose.\n\n"+resultsMark+"\n\n"+want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}
