package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
)

// A replica is a process that runs a part of the fleet, as its announcement describes it.
type replica struct {
	identity string
	// weight is its share in relation to the others. A replica of weight 0 is the last choice.
	weight int
}

// rank orders the replicas by preference for a cluster: weighted rendezvous hashing. The score of a
// replica for a cluster does not depend on other replicas. When a replica comes or goes, only the
// clusters that it wins or loses move. Replicas of all versions must compute the same order, so the
// hash must never change.
func rank(cluster string, replicas []replica) []string {
	type scored struct {
		identity string
		score    float64
	}
	all := make([]scored, 0, len(replicas))
	for _, r := range replicas {
		all = append(all, scored{r.identity, score(cluster, r)})
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.identity, b.identity))
	})
	order := make([]string, len(all))
	for i := range all {
		order[i] = all[i].identity
	}
	return order
}

// score is -weight / ln(u), with u in (0, 1) from the hash of both names: the replica with the
// highest score wins a cluster with a probability in proportion to its weight. See C. Schindelhauer
// and G. Schomaker, "Weighted distributed hash tables", 2005.
func score(cluster string, r replica) float64 {
	sum := sha256.Sum256([]byte(cluster + "\x00" + r.identity))
	u := (float64(binary.BigEndian.Uint64(sum[:8])>>11) + 0.5) / (1 << 53)
	if r.weight <= 0 {
		return u - 2 // below all scores of replicas with a weight, which are positive
	}
	return -float64(r.weight) / math.Log(u)
}
