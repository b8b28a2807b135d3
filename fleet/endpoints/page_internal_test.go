package endpoints

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
)

func TestPage_Of1000ClustersInAllStates_CountsThemAndSortsByState(t *testing.T) {
	const clusters = 1000
	states := fleet.States()
	current := fleet.Status{Identity: "a", Replicas: []fleet.ReplicaStatus{{Identity: "a"}}}
	want := map[status.State][]string{}
	for i := range clusters {
		c := fleet.ClusterStatus{
			Name: fmt.Sprintf("cluster-%04d", i), State: states[i%len(states)], Leader: "a",
		}
		if c.State == fleet.StateFailed {
			c.Reason = "no kubeconfig"
		}
		want[c.State] = append(want[c.State], c.Name)
		current.Clusters = append(current.Clusters, c)
	}
	rows := regexp.MustCompile(`<th scope="row">.*(cluster-\d{4})`)
	page := func(query string) (text string, names []string) {
		t.Helper()
		w := httptest.NewRecorder()
		writePage(w, httptest.NewRequest(http.MethodGet, "/statusz?"+query, nil), current)
		body := w.Body
		if most := 400 * clusters; body.Len() > most {
			t.Errorf("the page %q has %d bytes, want %d at most", query, body.Len(), most)
		}
		for _, match := range rows.FindAllStringSubmatch(body.String(), -1) {
			names = append(names, match[1])
		}
		return body.String(), names
	}
	text, names := page("")
	var sorted []string
	for _, state := range states {
		sorted = append(sorted, want[state]...)
		if tally := fmt.Sprintf(">%d %s</a>", len(want[state]), state); !strings.Contains(text,
			tally) {
			t.Errorf("the page does not have the tally %q", tally)
		}
	}
	if !slices.Equal(names, sorted) {
		t.Errorf("%d clusters are not sorted by state and name: %q", len(names), names)
	}
	if _, names := page("state=degraded"); !slices.Equal(names, want[status.Degraded]) {
		t.Errorf("clusters that are degraded: %q", names)
	}
}
