package instances

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestStates_AreDocumented .

func TestStates_AreDocumented(t *testing.T) {
	const path, begin, end = "../../../../docs/explanation/openstack.md",
		"| status | the node | |\n|---|---|---|\n", "\nA status that is not listed"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table of states", path)
	}
	var rows strings.Builder
	for _, s := range States() {
		node := "stays"
		switch {
		case !s.Exists:
			node = "is deleted, as after a 404"
		case s.Shutdown:
			node = "stays, and is tainted as shut down while it is not ready"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", s.Status, node, s.Why)
	}
	want := before + begin + rows.String() + end + after
	if want == string(page) {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s does not say what the code does; run: go generate "+
			"./provider/openstack/internal/instances", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
