// Package pagetest keeps generated pages up to date.
package pagetest

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Check compares a page with want, or writes it if UPDATE_DOCS is set, as go generate does in the
// folder of the test.
func Check(t testing.TB, path, want string) {
	t.Helper()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if line := firstDifference(string(got), want); line > 0 {
		t.Errorf("%s:%d does not say what the code does; run go generate in this test's folder",
			path, line)
	}
}

// Behavior returns a row of a table: what a controller of fxccm does, and what is reported of
// upstream's, or "" if that does the same.
func Behavior(does, upstreams string) string {
	words := strings.Fields(cmp.Or(upstreams, "the same"))
	for i, word := range words {
		report := strings.TrimRight(word, ",;")
		if repository, number, ok := strings.Cut(report, "#"); ok {
			words[i] = fmt.Sprintf("[%s](https://github.com/%s/issues/%s)%s", report, repository,
				number, strings.TrimPrefix(word, report))
		}
	}
	return fmt.Sprintf("| %s | %s |\n", does, strings.Join(words, " "))
}

// firstDifference is the number of the first line in which two texts differ; 0 if they are the
// same.
func firstDifference(a, b string) int {
	if a == b {
		return 0
	}
	these, those := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(these), len(those)) {
		if these[i] != those[i] {
			return i + 1
		}
	}
	return min(len(these), len(those)) + 1
}
