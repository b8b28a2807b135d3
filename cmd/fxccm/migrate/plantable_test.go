package migrate

import (
	"strings"
	"testing"
)

func TestWriteTable_ServiceWithoutChange_ShowsItsNoticesAlone(t *testing.T) {
	var out strings.Builder
	err := ServicePlans{
		{Service: "shop/plain", Outcome: NoChange},
		{
			Service: "shop/open", Outcome: NoChange,
			Notices: []string{"LoadBalancerSourceRangesIgnored: every client may connect"},
		},
		{Service: "shop/tags", Outcome: TagsOnly, Steps: []string{"set tags"}},
		{Service: "shop/more", Outcome: Changes, Steps: []string{"update member"}},
	}.WriteTable(&out)
	_, details, _ := strings.Cut(out.String(), "\n\n")
	const want = `shop/open: no change
  - LoadBalancerSourceRangesIgnored: every client may connect

shop/more: changes
  - update member

4 Services: 2 no change, 1 tags only, 1 changes.
`
	if err != nil || details != want {
		t.Errorf("below the table is %q, %v; want %q", details, err, want)
	}
}

func TestPrintPlans_PlanThatBlocks_PrintsItAndExitsAsBlocked(t *testing.T) {
	for name, c := range map[string]struct {
		outcome      Outcome
		allowChanges bool
		code         int
	}{
		"tags only":        {TagsOnly, false, 0},
		"changes":          {Changes, false, ExitBlocked},
		"refused":          {Refused, false, ExitBlocked},
		"changes, allowed": {Changes, true, 0},
		"failed, allowed":  {Failed, true, ExitBlocked},
	} {
		var out strings.Builder
		m := &migration{
			line: &line{allowChanges: c.allowChanges}, out: &out,
			plans: ServicePlans{{Service: "shop/web", Outcome: c.outcome}},
		}
		m.checkServices()
		if err := m.printPlans(); codeOf(err) != c.code ||
			!strings.Contains(out.String(), "shop/web") {
			t.Errorf("%s: %v, want exit code %d, printed:\n%s", name, err, c.code, &out)
		}
	}
}
