package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
)

func TestFleetPage_Slopes_AreThoseThatTheBenchmarkMeasured(t *testing.T) {
	const page = "docs/explanation/fleet.md"
	measured := tableBelow(t, read(t, "docs/evidence/benchmarks-fleet.md"),
		"## What more clusters cost a replica")
	text := read(t, page)
	shown := tableBelow(t, text, "## Beyond one management cluster")
	pagetest.Check(t, filepath.Join(root, page), strings.Replace(text, shown, measured, 1))
}

// tableBelow returns the first table below a heading.
func tableBelow(t *testing.T, text, heading string) string {
	t.Helper()
	_, below, ok := strings.Cut(text, heading+"\n")
	begin := strings.Index(below, "\n| ")
	if !ok || begin < 0 {
		t.Fatalf("there is no table below %q", heading)
	}
	table, _, _ := strings.Cut(below[begin+1:], "\n\n")
	return table
}
