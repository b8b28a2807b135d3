// Package pagetest keeps generated pages up to date.
package pagetest

import (
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
