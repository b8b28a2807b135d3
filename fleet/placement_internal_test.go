package fleet

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

const manyClusters = 3000

func preferred(replicas []replica) map[string]string {
	by := map[string]string{}
	for i := range manyClusters {
		name := fmt.Sprintf("cluster-%d", i)
		by[name] = rank(name, replicas)[0]
	}
	return by
}

func count(by map[string]string) map[string]int {
	counts := map[string]int{}
	for _, r := range by {
		counts[r]++
	}
	return counts
}

func TestRank_Shares_AreInProportionToTheWeights(t *testing.T) {
	counts := count(preferred([]replica{{"a", 1}, {"b", 1}, {"c", 2}, {"spare", 0}}))
	for name, share := range map[string]float64{"a": 0.25, "b": 0.25, "c": 0.5, "spare": 0} {
		if got := float64(counts[name]) / manyClusters; math.Abs(got-share) > 0.03 {
			t.Errorf("replica %s has a share of %.3f, want %.2f", name, got, share)
		}
	}
}

func TestRank_ReplicaComesOrGoes_OnlyItsOwnClustersMove(t *testing.T) {
	three := []replica{{"a", 1}, {"b", 1}, {"c", 1}}
	before, after := preferred(three), preferred(append(slices.Clone(three), replica{"d", 1}))
	moved := 0
	for name, r := range after {
		if r == before[name] {
			continue
		}
		moved++
		if r != "d" {
			t.Errorf("%s moved from %s to %s when d came", name, before[name], r)
		}
	}
	if limit := manyClusters/4 + manyClusters/10; moved == 0 || moved > limit {
		t.Errorf("%d of %d clusters moved, want at most %d", moved, manyClusters, limit)
	}
}

// All replicas must agree, whatever their version: these are the orders of the first release.
func TestRank_Order_IsThatOfAllVersions(t *testing.T) {
	replicas := []replica{{"a", 1}, {"b", 3}, {"c", 1}, {"spare", 0}}
	for name, want := range map[string][]string{
		"cluster-1": {"b", "c", "a", "spare"},
		"cluster-2": {"b", "a", "c", "spare"},
	} {
		if got := rank(name, replicas); !slices.Equal(got, want) {
			t.Errorf("%s prefers %q, want %q", name, got, want)
		}
	}
}

func TestRank_NoReplicas_IsEmpty(t *testing.T) {
	if got := rank("cluster", nil); len(got) != 0 {
		t.Errorf("rank is %q", got)
	}
}
