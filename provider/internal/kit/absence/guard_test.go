package absence

import (
	"errors"
	"fmt"
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

func TestIsLeaving_EachMark(t *testing.T) {
	tainted := func(key string) *v1.Node {
		return &v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: key}}}}
	}
	now := metav1.Now()
	for name, test := range map[string]struct {
		node *v1.Node
		want bool
	}{
		"no mark":            {&v1.Node{}, false},
		"cluster autoscaler": {tainted("ToBeDeletedByClusterAutoscaler"), true},
		"a candidate of it":  {tainted("DeletionCandidateOfClusterAutoscaler"), false},
		"Karpenter":          {tainted("karpenter.sh/disrupted"), true},
		"Karpenter, before":  {tainted("karpenter.sh/disruption"), true},
		"a given key":        {tainted("example.com/leaving"), true},
		"another key":        {tainted("example.com/other"), false},
		"cordoned":           {&v1.Node{Spec: v1.NodeSpec{Unschedulable: true}}, false},
		"deleted": {
			&v1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, true,
		},
	} {
		if got := IsLeaving(test.node, []string{"example.com/leaving"}); got != test.want {
			t.Errorf("%s: leaving = %t, want %t", name, got, test.want)
		}
	}
}
