package instances

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
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
	pagetest.Check(t, path, before+begin+rows.String()+end+after)
}
