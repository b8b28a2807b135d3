package desired

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// A weightRow is a row of the table in the page.
type weightRow struct {
	// state says in which state the node and its instance are.
	state string
	// change brings a node that is ready into the state. Nil: the Node is gone.
	change func(*v1.Node)
	// weight is that of the node's member with amphora, and ovn is that with ovn. -1: no member.
	weight, ovn int
	// why has the reason for the decision.
	why string
}

func ready(status v1.ConditionStatus) func(*v1.Node) {
	return func(n *v1.Node) {
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}
	}
}

// all applies several changes.
func all(changes ...func(*v1.Node)) func(*v1.Node) {
	return func(n *v1.Node) {
		for _, change := range changes {
			change(n)
		}
	}
}

func tainted(keys ...string) func(*v1.Node) {
	return func(n *v1.Node) {
		for _, key := range keys {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key})
		}
	}
}

func cordoned(n *v1.Node) {
	n.Spec.Unschedulable = true
	tainted(v1.TaintNodeUnschedulable)(n)
}

func weightRows() []weightRow {
	unknown := all(ready(v1.ConditionUnknown), tainted(v1.TaintNodeUnreachable))
	return []weightRow{
		{
			"Ready", func(*v1.Node) {}, 1, 1,
			"It serves.",
		},
		{
			"NotReady, or its kubelet has ended its reports", unknown, 1, 1,
			"The kubelet may restart or be cut off while the pods serve (KEP-3458). The health monitor of Octavia decides; without one, the Warning `LoadBalancerNodesNotReady` names the setting.",
		},
		{
			"NotReady, and its network is not available yet", all(ready(v1.ConditionFalse),
				func(n *v1.Node) {
					n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{
						Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue,
					})
				}), -1, -1,
			"No pod has served there, so no connection has to drain.",
		},
		{
			"NotReady since it registered", all(ready(v1.ConditionFalse), func(n *v1.Node) {
				n.CreationTimestamp = metav1.Now()
				n.Status.Conditions[0].LastTransitionTime = metav1.Now()
			}), -1, -1,
			"The same. Most network plugins report a network that is not available by this only. " +
				"A Pod with `hostNetwork` gets no connections there yet, either.",
		},
		{
			"the instance is shut down (taint `node.cloudprovider.kubernetes.io/shutdown`)",
			all(unknown, tainted(api.TaintNodeShutdown)), 0, -1,
			"The cloud reports that the instance does not run, so no pod answers there.",
		},
		{
			"the instance runs again, and the node is NotReady", unknown, 1, 1,
			"The taint is gone; the same as another node that is NotReady.",
		},
		{
			"the instance does not exist, and the Node still does", unknown, 1, 1,
			"The absence is not confirmed yet, or the mass deletion guard holds the Node: the cloud may be wrong.",
		},
		{
			"the Node is deleted", nil, -1, -1,
			"The lifecycle controller deletes the Node when the absence of the instance is confirmed.",
		},
		{
			"the Node is being deleted, and a finalizer keeps it",
			func(n *v1.Node) { n.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} }, 0, -1,
			"Connections drain until it is gone.",
		},
		{
			"the cluster autoscaler removes it (taint `ToBeDeletedByClusterAutoscaler`)",
			tainted("ToBeDeletedByClusterAutoscaler"), 0, -1,
			"Connections drain until it is gone.",
		},
		{
			"Karpenter removes it (taint `karpenter.sh/disrupted`)",
			tainted("karpenter.sh/disrupted"), 0, -1,
			"Connections drain. When Karpenter also sets the label below, the member goes.",
		},
		{
			"another tool removes it (a taint of `removal-taints` in cloud.conf)",
			tainted("example.com/leaving"), 0, -1,
			"Connections drain until it is gone.",
		},
		{
			"Cluster API deletes its Machine", cordoned, 1, 1,
			"Cluster API cordons and drains the node, which looks like maintenance, and deletes the Node itself.",
		},
		{
			"cordoned", cordoned, 1, 1,
			"A cordon concerns new pods. The pods on the node, and kube-proxy, still serve.",
		},
		{
			"excluded (label `node.kubernetes.io/exclude-from-external-load-balancers`)",
			func(n *v1.Node) { n.Labels = map[string]string{v1.LabelNodeExcludeBalancers: ""} },
			-1, -1,
			"The operator, or Karpenter, wants no member.",
		},
	}
}

// weightOf returns the weight of the member of node n1, or -1 for none, and the notices.
func weightOf(
	t *testing.T, row weightRow, changes ...func(*Input),
) (weight int, notices []events.Notice) {
	t.Helper()
	nodes := []*v1.Node{node("n2", "10.0.0.2")}
	ready(v1.ConditionTrue)(nodes[0])
	if row.change != nil {
		n1 := node("n1", "10.0.0.1")
		ready(v1.ConditionTrue)(n1)
		row.change(n1)
		nodes = append(nodes, n1)
	}
	in := given(changes...)
	in.Nodes = Candidates(nodes, []string{"example.com/leaving"})
	state, notices, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	pool := state.Ports[0].Pool
	at := slices.IndexFunc(pool.Members, func(m octavia.Member) bool { return m.Name == "n1" })
	if at < 0 {
		return -1, notices
	}
	return pool.Members[at].Weight, notices
}

func TestMembers_EachStateOfNodeAndInstance_HasTheWeightOfThePage(t *testing.T) {
	for _, row := range weightRows() {
		t.Run(row.state, func(t *testing.T) {
			if got, _ := weightOf(t, row, withMonitor); got != row.weight {
				t.Errorf("with amphora the weight is %d, want %d", got, row.weight)
			}
			if got, _ := weightOf(t, row, withMonitor, withFeatures(ovn())); got != row.ovn {
				t.Errorf("with ovn the weight is %d, want %d", got, row.ovn)
			}
		})
	}
}

func TestMembers_NodeIsNotReadyWithoutMonitor_WarningNamesTheSetting(t *testing.T) {
	for _, row := range weightRows() {
		// Only a member that gets connections and is not ready is worth a warning.
		var want []string
		if row.change != nil && row.weight == 1 {
			n := node("n1")
			if row.change(n); members.IsNotReady(n) {
				want = []string{"LoadBalancerNodesNotReady!"}
			}
		}
		_, notices := weightOf(t, row)
		wantTold(t, notices, want...)
		if len(want) > 0 && (!strings.Contains(notices[0].Message, "node n1 is not ready") ||
			!strings.Contains(notices[0].Message, "enable-health-monitor") ||
			!strings.Contains(notices[0].Message, "create-monitor")) {
			t.Errorf("%s: the warning is %q", row.state, notices[0].Message)
		}
		_, notices = weightOf(t, row, withMonitor)
		wantTold(t, notices)
		_, notices = weightOf(t, row, withLocal)
		wantTold(t, notices, "LoadBalancerLocalWithoutMonitor!")
	}
	nodes := []*v1.Node{node("n2", "10.0.0.2"), node("n1", "10.0.0.1")}
	for _, n := range nodes {
		ready(v1.ConditionUnknown)(n)
	}
	_, notices := build(t, withNodes(nodes...))
	wantTold(t, notices, "LoadBalancerNodesNotReady!")
	if !strings.HasPrefix(notices[0].Message, "node n1 and 1 more are not ready") {
		t.Errorf("the warning of two nodes is %q", notices[0].Message)
	}
}

func TestPage_WeightsOfMembers_AreThoseOfTheTests(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/explanation/openstack-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	weight := func(n int) string {
		if n < 0 {
			return "no member"
		}
		return fmt.Sprint(n)
	}
	var table strings.Builder
	table.WriteString("\n| the node | weight | with ovn | why |\n|---|---|---|---|\n")
	for _, row := range weightRows() {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", row.state, weight(row.weight),
			weight(row.ovn), row.why)
	}
	table.WriteString("\n")
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("the page lacks this table:\n%s", table.String())
	}
}
