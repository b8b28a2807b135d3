package main

import (
	"fmt"
	"time"
)

// What OCCM needs on the lab: the formulas are those of occm_balancers.go, with W and Wd from what
// Octavia was seen to need for a load balancer when it had nothing else to do. Of its time is only
// told what is sure: in the pauses between its polls it does nothing else.

const (
	// occmDeletionCalls are those to delete a load balancer, beside the polls of the wait: for the
	// controller, the load balancer and the floating IPs of its port; and then both again, the
	// deletion of the two, and the security groups of a name.
	occmDeletionCalls = 7
	// occmPartCalls is how many changes a new port is to a load balancer: a listener, a pool, and
	// the pool's members.
	occmPartCalls = 3
)

// occmMade is for new Services: it annotates each, and ensures it again because the annotations
// have changed.
func occmMade(services, ports int, creation time.Duration) (calls, pauses cost) {
	polls, pause := occmWait(creation, 0)
	letters, numbers := occmEnsureFormula(ports)
	return cost{
		value: float64(services * (occmCreationCalls + polls + occmEnsure(ports))),
		formula: fmt.Sprintf("(%d + W + %s) × S = (%d + %d + %s) × %d", occmCreationCalls, letters,
			occmCreationCalls, polls, numbers, services),
		source: occmBalancers,
	}, occmPauses(services, pause)
}

// occmPortAdded is for a port more than there were.
func occmPortAdded(ports int, change time.Duration) (calls, pauses cost) {
	polls, pause := occmWait(change, 0)
	return cost{
		value: float64(occmEnsure(ports+1) + occmPartCalls*(1+polls)),
		formula: fmt.Sprintf("%d + %d (P + 1) + M + %d (1 + W) = %d + %d × %d + %d + %d × (1 + %d)",
			occmEnsureCalls, occmEnsurePortCalls,
			occmPartCalls, occmEnsureCalls, occmEnsurePortCalls, ports+1, occmMonitors,
			occmPartCalls, polls),
		source: occmBalancers,
	}, occmPauses(occmPartCalls, pause)
}

// occmMembers is for load balancers each of whose pools gets a member more or less.
func occmMembers(balancers, ports int, change time.Duration) (calls, pauses cost) {
	_, pause := occmWait(change, 0)
	return occmNodeAdded(balancers, ports, change, 0), occmPauses(balancers*ports, pause)
}

func occmDeleted(services int, deletion time.Duration) (calls, pauses cost) {
	polls, pause := occmWait(deletion, 0)
	return cost{
		value: float64(services * (occmDeletionCalls + polls)),
		formula: fmt.Sprintf("(%d + Wd) × S = (%d + %d) × %d", occmDeletionCalls, occmDeletionCalls,
			polls, services),
		source: occmBalancers,
	}, occmPauses(services, pause)
}

// occmPauses is the time of waits, one after the other.
func occmPauses(waits int, each time.Duration) cost {
	if each == 0 {
		return cost{}
	}
	return cost{
		value: float64(waits) * each.Seconds(), atLeast: true,
		formula: fmt.Sprintf("%d × %.1f s", waits, each.Seconds()), source: occmWaits,
	}
}
