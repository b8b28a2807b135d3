package absence

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGuard_ManyAbsent_RefusesUntilTheyAreBackAndDeniedAgain(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var known []Instance
	for i := range 9 {
		known = append(known, Instance{Key: fmt.Sprint(i)})
	}
	var last Count
	g := New(Limits{Confirmation: 10 * time.Second, Number: 3, Share: 1.0 / 3},
		func() []Instance { return known }, func(c Count) { last = c })
	deny := func(key string, after time.Duration) error {
		now = now.Add(after)
		return g.Deny(key, now, now, false)
	}
	if err := deny("0", 0); !errors.Is(err, ErrUnconfirmed) {
		t.Fatalf("the first denial: %v", err)
	}
	if err := deny("0", 10*time.Second); err != nil {
		t.Fatalf("the second denial: %v", err)
	}
	for _, key := range []string{"1", "2", "3"} {
		known[1].IsUnlisted = true // counts once, although it is denied, too
		_ = deny(key, 0)
	}
	if want := (Count{Known: 9, Absent: 4, IsRefused: true, HasChanged: true}); last != want {
		t.Errorf("count %+v, want %+v", last, want)
	}
	if err := deny("0", time.Minute); !errors.Is(err, ErrMassDeletion) || !g.IsRefusing() {
		t.Errorf("while 4 of 9 are absent: %v, refusing %t", err, g.IsRefusing())
	}
	g.Found("3", now)
	if want := (Count{Known: 9, Absent: 3, HasChanged: true}); last != want {
		t.Errorf("count %+v, want %+v", last, want)
	}
	if err := deny("0", time.Minute); !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("the first denial after the guard was lifted: %v", err)
	}
	if err := deny("0", 10*time.Second); err != nil {
		t.Errorf("the second denial after the guard was lifted: %v", err)
	}
}

func TestGuard_KubeletIsAlive_DenialsConfirmNothing(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g := New(Limits{Confirmation: 10 * time.Second, Number: 3, Share: 1},
		func() []Instance { return []Instance{{Key: "x"}} }, func(Count) {})
	for _, isAlive := range []bool{true, true, false} {
		if err := g.Deny("x", now, now, isAlive); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("alive %t: %v", isAlive, err)
		}
		now = now.Add(10 * time.Second)
	}
	if err := g.Deny("x", now, now, false); err != nil {
		t.Errorf("after two denials of a silent node: %v", err)
	}
}

func TestGuard_MarkedForRemoval_NeitherCountsNorWaits(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var known []Instance
	for i := range 10 {
		known = append(known, Instance{Key: fmt.Sprint(i), IsLeaving: i < 6})
	}
	var last Count
	g := New(Limits{Confirmation: 10 * time.Second, Number: 3, Share: 1.0 / 3},
		func() []Instance { return known }, func(c Count) { last = c })
	denyAll := func() (gone int) {
		for i := range known {
			known[i].IsUnlisted = true
			if g.Deny(known[i].Key, now, now, i == 0) == nil {
				gone++
			}
		}
		now = now.Add(10 * time.Second)
		return gone
	}
	if gone := denyAll(); gone != 0 || last.Known != 4 || last.Absent != 4 {
		t.Errorf("after one denial %d are gone, counted is %+v", gone, last)
	}
	// The kubelet of the first one reports.
	if gone := denyAll(); gone != 5 || !g.IsRefusing() {
		t.Errorf("after two denials %d of 6 are gone, refusing %t", gone, g.IsRefusing())
	}
	if g.Holds("1", now) || !g.Holds("9", now) {
		t.Error("the guard holds a node that is leaving, or none of the others")
	}
}

// A markRow is a row of the table of marks in docs/explanation/openstack.md.
type markRow struct {
	mark, setBy string
	nodes       []*v1.Node
}

func tainted(key string) *v1.Node {
	return &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: key}}}}
}

func markRows() []markRow {
	now := metav1.Now()
	return []markRow{
		{
			"the taint `ToBeDeletedByClusterAutoscaler`",
			"the cluster autoscaler, before it deletes the server; the Node is left to the cloud " +
				"controller manager",
			[]*v1.Node{tainted("ToBeDeletedByClusterAutoscaler")},
		},
		{
			"the taint `karpenter.sh/disrupted`, before Karpenter v1 `karpenter.sh/disruption`",
			"Karpenter, before it drains the node",
			[]*v1.Node{tainted("karpenter.sh/disrupted"), tainted("karpenter.sh/disruption")},
		},
		{
			"`metadata.deletionTimestamp`",
			"a client that has deleted the Node, while a finalizer keeps it",
			[]*v1.Node{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}},
		},
		{
			"a taint with a key of `removal-taints` in cloud.conf", "any other tool",
			[]*v1.Node{tainted("example.com/leaving")},
		},
	}
}

func TestIsLeaving_EachMark(t *testing.T) {
	keys := []string{"example.com/leaving"}
	for _, row := range markRows() {
		for _, node := range row.nodes {
			if !IsLeaving(node, keys) {
				t.Errorf("%s: a node is not leaving: %+v", row.mark, node)
			}
		}
	}
	for name, node := range map[string]*v1.Node{
		"no mark":                               {},
		"a candidate of the cluster autoscaler": tainted("DeletionCandidateOfClusterAutoscaler"),
		"another key":                           tainted("example.com/other"),
		"cordoned":                              {Spec: v1.NodeSpec{Unschedulable: true}},
		// All nodes of an old MachineSet have it from the beginning of a rollout.
		"outdated for Cluster API": tainted("node.cluster.x-k8s.io/outdated-revision"),
		"drained by Cluster API, which deletes the Node itself": {
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"cluster.x-k8s.io/machine": "shop-1",
			}},
			Spec: v1.NodeSpec{Unschedulable: true, Taints: []v1.Taint{{
				Key: "node.kubernetes.io/unschedulable", Effect: v1.TaintEffectNoSchedule,
			}}},
		},
	} {
		if IsLeaving(node, keys) {
			t.Errorf("%s: the node is leaving", name)
		}
	}
}

func TestPage_MarksForRemoval_AreThoseOfTheTests(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/explanation/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("\n  | mark | set by |\n  |---|---|\n")
	for _, row := range markRows() {
		fmt.Fprintf(&table, "  | %s | %s |\n", row.mark, row.setBy)
	}
	table.WriteString("\n")
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("the page lacks this table:\n%s", table.String())
	}
}
