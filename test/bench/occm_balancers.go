package main

import (
	"fmt"
	"time"
)

// Where OCCM's formulas for load balancers were read.
const (
	occmBalancers = "pkg/openstack/loadbalancer.go"
	occmWaits     = "pkg/util/openstack/loadbalancer.go"
	occmClient    = "pkg/client/client.go"
)

const (
	// occmCreationCalls are those for a new external Service whose subnet and external network are
	// named, beside the polls of the wait: two lists by name, the creation, the listeners, the
	// floating IPs of the port, a new one, and the security groups of a name.
	occmCreationCalls = 7
	// occmEnsureCalls are those to ensure a load balancer that is as it should be: the load
	// balancer, its listeners, the floating IPs of its port, the security groups of a name; and for
	// each port a list of all pools and one of a pool's members.
	occmEnsureCalls, occmEnsurePortCalls = 4, 2
	// occmUpdateCalls are those when nodes have changed: the load balancer and its listeners; and
	// for each port, beside the polls, a list of all pools, one of a pool's members, and the
	// change.
	occmUpdateCalls, occmUpdatePortCalls = 2, 3
	// occmMonitors is how many pools have a health monitor, each of which costs a call more to
	// ensure: none by default.
	occmMonitors = 0

	// It requests a load balancer at once, and then after growing pauses, until it is ready.
	occmFirstPause  = time.Second
	occmPauseFactor = 1.2
)

// occmWait is how often it asks for a load balancer that is ready after a time, and how long its
// pauses are in all.
func occmWait(ready, latency time.Duration) (polls int, pauses time.Duration) {
	pause := occmFirstPause
	for {
		polls++
		if pauses+time.Duration(polls)*latency >= ready {
			return polls, pauses
		}
		pauses += pause
		pause = time.Duration(float64(pause) * occmPauseFactor)
	}
}

func occmEnsure(ports int) int { return occmEnsureCalls + occmEnsurePortCalls*ports + occmMonitors }

func occmEnsureFormula(ports int) (letters, numbers string) {
	return fmt.Sprintf("%d + %d P + M", occmEnsureCalls, occmEnsurePortCalls),
		fmt.Sprintf("%d + %d × %d + %d", occmEnsureCalls, occmEnsurePortCalls, ports, occmMonitors)
}

func occmNothingToDo(ports int) cost {
	letters, numbers := occmEnsureFormula(ports)
	return cost{
		value: float64(occmEnsure(ports)), formula: letters + " = " + numbers,
		source: occmBalancers,
	}
}

// occmRestart is for the first look at Services that are served already.
func occmRestart(services, ports int) cost {
	letters, numbers := occmEnsureFormula(ports)
	return cost{
		value:   float64(services * occmEnsure(ports)),
		formula: fmt.Sprintf("(%s) × S = (%s) × %d", letters, numbers, services),
		source:  occmBalancers,
	}
}

// occmRestartTime is the time in which its one worker does nothing but wait for answers.
func occmRestartTime(services, ports int, latency time.Duration) cost {
	calls := occmRestart(services, ports).value
	return cost{
		value: calls * latency.Seconds(), atLeast: true,
		formula: fmt.Sprintf("%.0f calls, one after the other, of %s", calls, latencyText(latency)),
		source:  occmBalancers,
	}
}

func occmUpdate(ports, polls int) int {
	return occmUpdateCalls + (occmUpdatePortCalls+polls)*ports + occmMonitors
}

// occmNodeAdded is for load balancers each of whose pools gets a member, which takes Octavia as
// long as it says.
func occmNodeAdded(balancers, ports int, change, latency time.Duration) cost {
	polls, _ := occmWait(change, latency)
	return cost{
		value: float64(balancers * occmUpdate(ports, polls)),
		formula: fmt.Sprintf("(%d + P (%d + W) + M) × L = (%d + %d × (%d + %d) + %d) × %d",
			occmUpdateCalls, occmUpdatePortCalls, occmUpdateCalls, ports, occmUpdatePortCalls,
			polls, occmMonitors, balancers),
		source: occmBalancers,
	}
}

// occmNodeAddedTime is what its one worker needs for the calls and for the pauses of its waits.
func occmNodeAddedTime(balancers, ports int, change, latency time.Duration) cost {
	calls := occmNodeAdded(balancers, ports, change, latency).value
	_, pauses := occmWait(change, latency)
	return cost{
		value: calls*latency.Seconds() + float64(balancers*ports)*pauses.Seconds(), atLeast: true,
		formula: fmt.Sprintf("%.0f calls of %s and %d waits of %.1f s, one after the other", calls,
			latencyText(latency), balancers*ports, pauses.Seconds()),
		source: occmWaits,
	}
}

// occmServed is until its one worker has served all of many new Services: the second look at each
// comes after that.
func occmServed(services int, creation, latency time.Duration) cost {
	polls, pauses := occmWait(creation, latency)
	calls := services * (occmCreationCalls + polls)
	return cost{
		value: float64(calls)*latency.Seconds() + float64(services)*pauses.Seconds(), atLeast: true,
		formula: fmt.Sprintf(
			"(%d + W) × S = (%d + %d) × %d calls of %s and %d waits of %.1f s, one after the other",
			occmCreationCalls, occmCreationCalls, polls, services, latencyText(latency), services,
			pauses.Seconds()),
		source: occmWaits,
	}
}
