package fleet

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/metrics"
)

// LivenessChecks fail if a restart of the process would help: "leaderElection" fails if this
// process acts for a cluster although its Lease ended long ago. No other failure of one cluster
// justifies the restart of all others; the Status shows it.
func (f *Fleet) LivenessChecks() []ccm.Check {
	return []ccm.Check{{Name: "leaderElection", Check: func(r *http.Request) error {
		for name, manager := range f.managers() {
			for _, check := range manager.LivenessChecks() {
				if check.Name != "leaderElection" {
					continue
				}
				if err := check.Check(r); err != nil {
					return fmt.Errorf("cluster %s: %w", name, err)
				}
			}
		}
		return nil
	}}}
}

// ReadinessChecks report whether the replica takes clusters: "fleet" fails until the replica has
// read the fleet's Leases and clusters, and while it stops.
func (f *Fleet) ReadinessChecks() []ccm.Check {
	return []ccm.Check{{Name: "fleet", Check: func(*http.Request) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case !f.running:
			return errors.New("the fleet is stopped")
		case f.stopping != nil:
			return errors.New("the fleet stops")
		case !f.settled:
			return errors.New("the fleet's Leases and clusters are being read")
		}
		return nil
	}}}
}

// managers returns the Managers of this replica by cluster.
func (f *Fleet) managers() map[string]*ccm.Manager {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]*ccm.Manager, len(f.members))
	for name, m := range f.members {
		if m.manager != nil {
			all[name] = m.manager
		}
	}
	return all
}

// measure returns what the metrics show.
func (f *Fleet) measure() metrics.FleetState {
	status := f.Status()
	state := metrics.FleetState{
		Clusters: map[string]int{}, Replicas: len(status.Replicas), Problems: len(status.Problems),
	}
	for _, c := range status.Clusters {
		state.Clusters[string(c.State)]++
		switch c.Leader {
		case "":
			state.Unled++
		case status.Identity:
			state.Led++
		}
	}
	return state
}
