package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

// The states of a cluster in one replica are those of its Manager, and these.
const (
	// StateWaiting: another replica serves the cluster, or is preferred.
	StateWaiting status.State = "waiting"
	// StateFailed: the cluster cannot be read, its Manager cannot be made, or it exceeds one of the
	// [Limits]; Reason has the error.
	StateFailed status.State = "failed"
)

// States are all states of a cluster, sorted by the attention that they need.
func States() []status.State {
	return []status.State{
		StateFailed, status.Degraded, status.Draining, status.Standby, status.Leading,
		StateWaiting,
	}
}

// Status is a snapshot of a fleet, as one replica sees it. It contains no secrets.
type Status struct {
	// Identity is the identity of this replica.
	Identity string `json:"identity"`

	// Replicas are the replicas that announce themselves.
	Replicas []ReplicaStatus `json:"replicas"`

	// Problems are the problems of the fleet itself: the source, the announcement.
	Problems []string `json:"problems,omitempty"`

	// Clusters are all clusters of the fleet, sorted by name.
	Clusters []ClusterStatus `json:"clusters"`
}

// ReplicaStatus is a snapshot of a live replica.
type ReplicaStatus struct {
	Identity string `json:"identity"`
	Weight   int    `json:"weight"`
	// Leads counts the clusters whose Lease the replica holds.
	Leads int `json:"leads"`
}

// ClusterStatus is a snapshot of a cluster.
type ClusterStatus struct {
	Name string `json:"name"`

	// State is the cluster's state in this replica.
	State status.State `json:"state"`
	// Reason explains a failure, an error of the source, a problem of the cloud, or a limit that
	// slows the cluster down.
	Reason string `json:"reason,omitempty"`
	// RetryAt is when this replica tries again to serve a cluster that has failed.
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Ready reports whether this replica's Manager has an open and ready term.
	Ready bool `json:"ready,omitempty"`

	// Leader is the replica that holds the cluster's Lease, and Preferred the one that should. They
	// are empty if no replica holds it, or if no replica is live. With [LockWorkload], Leader is
	// the holder that this replica's Manager has seen, and Preferred if it runs no Manager.
	Leader    string `json:"leader,omitempty"`
	Preferred string `json:"preferred,omitempty"`
}

// Status returns a snapshot of the fleet. It has no clusters before Run and after it.
func (f *Fleet) Status() Status {
	current, running := f.snapshot()
	leads := map[string]int{}
	// The lock is released, because a Manager's Status calls its provider.
	for i, r := range running {
		c := &current.Clusters[i]
		if r.manager == nil {
			leads[c.Leader]++
			continue
		}
		of := r.manager.Status()
		if f.params.Lock == LockWorkload {
			c.Leader = of.Election.Leader
		}
		leads[c.Leader]++
		if c.State != status.Draining {
			c.State = of.State
		}
		c.Ready = of.Ready
		c.Reason = cmp.Or(c.Reason, of.Reason, troubleText(of.Troubles))
		if c.Reason == "" && r.meter != nil && r.meter.slowed() {
			c.Reason = slowedReason
		}
	}
	for i := range current.Replicas {
		current.Replicas[i].Leads = leads[current.Replicas[i].Identity]
	}
	return current
}

// troubleText lists the problems of the cloud that a cluster's provider reports.
func troubleText(troubles []status.Trouble) string {
	var all []string
	for _, t := range troubles {
		all = append(all, fmt.Sprintf("%s: %s (since %s)", t.Subject, t.Reason,
			t.Since.UTC().Format(time.RFC3339)))
	}
	return shortText(strings.Join(all, "; "))
}

// snapshot returns the status without the reports of the Managers, and each cluster's Manager.
func (f *Fleet) snapshot() (Status, []made) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := Status{Identity: shortText(f.self.identity)}
	names := slices.Collect(maps.Keys(f.clusters))
	for name := range f.members {
		if _, ok := f.clusters[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	running := make([]made, 0, len(names))
	for _, name := range names {
		cluster := f.clusterStatus(name)
		current.Clusters = append(current.Clusters, cluster)
		r := made{}
		if m := f.members[name]; m != nil {
			r = m.made
		}
		running = append(running, r)
	}
	for _, r := range f.replicas {
		current.Replicas = append(current.Replicas,
			ReplicaStatus{Identity: shortText(r.identity), Weight: r.weight})
	}
	for _, subject := range slices.Sorted(maps.Keys(f.problems)) {
		if !strings.HasPrefix(subject, clusterSubject("")) {
			current.Problems = append(current.Problems, subject+": "+f.problems[subject].Error())
		}
	}
	return current, running
}

// clusterStatus returns the status of a cluster. The caller holds the lock.
func (f *Fleet) clusterStatus(name string) ClusterStatus {
	current := ClusterStatus{Name: name, State: StateWaiting}
	// Any client that may write Leases chooses the names of holders.
	holder, _, _ := f.view.cluster(f.leaseOf(name))
	current.Leader = shortText(holder)
	if order := rank(name, f.replicas); len(order) > 0 {
		current.Preferred = shortText(order[0])
	}
	if f.params.Lock == LockWorkload {
		current.Leader = current.Preferred
	}
	err := cmp.Or(f.clusters[name].Err, f.problems[clusterSubject(name)])
	m := f.members[name]
	switch {
	case m == nil:
		if err != nil {
			current.State = StateFailed
		}
	case m.failure != nil:
		current.State, current.RetryAt = StateFailed, m.retryAt
		if f.params.Lock == LockWorkload {
			current.Leader = ""
		}
		err = cmp.Or(err, m.failure)
	case m.phase == over:
		current.State = status.Draining
	default:
		current.State = status.Standby
	}
	switch {
	case m != nil && m.failure == nil && m.note != "":
		current.Reason = m.note
	case err != nil:
		current.Reason = shortText(err.Error())
	}
	return current
}

// Manager returns the Manager that this replica runs for a cluster, and nil if it runs none. The
// Manager's methods report its state; only the fleet may run it.
func (f *Fleet) Manager(cluster string) *ccm.Manager {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[cluster]; m != nil {
		return m.manager
	}
	return nil
}
