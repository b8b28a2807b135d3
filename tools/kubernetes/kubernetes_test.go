package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/tools/internal/evidence"
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

func TestRecord_SeveralRuns_ARowIsOfOneRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	empty := []byte("Prose.\n\n" + evidence.ResultsMark + "\n")
	if err := os.WriteFile(path, empty, 0o644); err != nil {
		t.Fatal(err)
	}
	of := func(version, revision string) server {
		return server{
			version: version, golang: "go1.26.8", etcd: "3.7.0", date: "2026-11-27",
			revision: revision,
		}
	}
	skipping := &evidence.Result{Passed: 3, Skipped: 1, Problems: []evidence.Problem{
		{Test: "TestA", Verdict: "skipped", Reason: "a | b"},
	}}
	for _, run := range []struct {
		server server
		suite  string
		result *evidence.Result
	}{
		{of("v1.37.2", "aaaa"), "controllers", skipping},
		{of("v1.31.13", "aaaa"), "controllers", skipping},
		{of("v1.31.13", "aaaa"), "drills", &evidence.Result{Passed: 7}},
		// Another patch version replaces all of the row, another result only its own.
		{of("v1.31.14", "aaaa"), "drills", &evidence.Result{Passed: 8}},
		{of("v1.37.2", "aaaa"), "drills", &evidence.Result{Passed: 9}},
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

	if err := record(path, of("v1.37.2", "bbbb"), "drills",
		&evidence.Result{Passed: 1}); err != nil {
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
	if got := string(data); got != "Prose.\n\n"+evidence.ResultsMark+"\n\n"+want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
}
