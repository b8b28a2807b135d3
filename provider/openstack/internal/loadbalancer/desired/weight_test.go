package desired

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// A weightRow is a row of testdata/weights.yaml, which says what the fields mean.
type weightRow struct {
	State  string   `json:"state"`
	Node   *v1.Node `json:"node"`
	Weight *int     `json:"weight"`
	OVN    *int     `json:"ovn"`
	Why    string   `json:"why"`
}

func weightRows(t *testing.T) []weightRow {
	t.Helper()
	content, err := os.ReadFile("testdata/weights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []weightRow
	if err := yaml.UnmarshalStrict(content, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func ready(status v1.ConditionStatus) func(*v1.Node) {
	return func(n *v1.Node) {
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}
	}
}

// weightOf returns the weight of the member of node n1, or "no member", and the notices.
func weightOf(
	t *testing.T, row weightRow, changes ...func(*Input),
) (weight string, notices []events.Notice) {
	t.Helper()
	nodes := []*v1.Node{node("n2", "10.0.0.2")}
	ready(v1.ConditionTrue)(nodes[0])
	if row.Node != nil {
		n1, of := row.Node.DeepCopy(), node("n1", "10.0.0.1")
		n1.Name, n1.Spec.ProviderID = of.Name, of.Spec.ProviderID
		n1.Status.Addresses = of.Status.Addresses
		nodes = append(nodes, n1)
	}
	in := given(changes...)
	in.Nodes = Candidates(nodes, nil, []string{"example.com/leaving"}, nil)
	state, notices, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	pool := state.Ports[0].Pool
	at := slices.IndexFunc(pool.Members, func(m octavia.Member) bool { return m.Name == "n1" })
	if at < 0 {
		return textOf(nil), notices
	}
	return textOf(&pool.Members[at].Weight), notices
}

// textOf is a weight in the table.
func textOf(weight *int) string {
	if weight == nil {
		return "no member"
	}
	return fmt.Sprint(*weight)
}

func TestMembers_EachStateOfNodeAndInstance_HasTheWeightOfThePage(t *testing.T) {
	t.Parallel()
	for _, row := range weightRows(t) {
		t.Run(row.State, func(t *testing.T) {
			if got, _ := weightOf(t, row, withMonitor); got != textOf(row.Weight) {
				t.Errorf("with amphora the weight is %s, want %s", got, textOf(row.Weight))
			}
			if got, _ := weightOf(t, row, withMonitor, withFeatures(ovn())); got !=
				textOf(row.OVN) {
				t.Errorf("with ovn the weight is %s, want %s", got, textOf(row.OVN))
			}
		})
	}
}

func TestMembers_NodeIsNotReadyWithoutMonitor_WarningNamesTheSetting(t *testing.T) {
	t.Parallel()
	for _, row := range weightRows(t) {
		// Only a member that gets connections and is not ready is worth a warning.
		var want []string
		if textOf(row.Weight) == "1" && members.IsNotReady(row.Node) {
			want = []string{"LoadBalancerNodesNotReady!"}
		}
		_, notices := weightOf(t, row)
		wantTold(t, notices, want...)
		if len(want) > 0 && (!strings.Contains(notices[0].Message, "nodes are not ready") ||
			!strings.Contains(notices[0].Message, "enable-health-monitor") ||
			!strings.Contains(notices[0].Message, "create-monitor")) {
			t.Errorf("%s: the warning is %q", row.State, notices[0].Message)
		}
		_, notices = weightOf(t, row, withMonitor)
		wantTold(t, notices)
		_, notices = weightOf(t, row, withLocal)
		wantTold(t, notices, "LoadBalancerLocalWithoutMonitor!")
	}
}

// A rolling reboot would otherwise lead to an event for each node and Service.
func TestMembers_OtherNodesAreNotReady_WarningIsTheSame(t *testing.T) {
	t.Parallel()
	nodes := []*v1.Node{
		node("n1", "10.0.0.1"), node("n2", "10.0.0.2"), node("n3", "10.0.0.3"),
	}
	for _, n := range nodes {
		ready(v1.ConditionUnknown)(n)
	}
	texts := map[string]bool{}
	for _, of := range [][]*v1.Node{nodes[:1], nodes[1:2], nodes[:2], nodes} {
		_, notices := build(t, withNodes(of...))
		wantTold(t, notices, "LoadBalancerNodesNotReady!")
		texts[notices[0].Message] = true
	}
	if len(texts) > 1 {
		t.Errorf("the warnings are %q", slices.Collect(maps.Keys(texts)))
	}
}

func TestPage_WeightsOfMembers_AreThoseOfTheTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../../docs/explanation/openstack-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("\n| the node | weight | with ovn | why |\n|---|---|---|---|\n")
	for _, row := range weightRows(t) {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", row.State, textOf(row.Weight),
			textOf(row.OVN), row.Why)
	}
	table.WriteString("\n")
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("the page lacks this table:\n%s", table.String())
	}
}
