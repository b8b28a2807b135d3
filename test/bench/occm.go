package main

import (
	"fmt"
	"time"
)

// A cost is what openstack-cloud-controller-manager (OCCM) needs for what is measured of fxccm. It
// is computed: the formulas were read in its source, and those of calls agree with the requests of
// its unmodified provider, which were counted.
type cost struct {
	// value is in the unit of the figure; 0 is not known.
	value float64
	// atLeast: it is a lower bound.
	atLeast bool
	// formula is with its numbers, source the file that it is read from.
	formula, source string
}

func (c cost) text(u unit) string {
	switch {
	case c.value == 0:
		return ""
	case c.atLeast:
		return "≥ " + sample{value: c.value}.text(u)
	}
	return sample{value: c.value}.text(u)
}

// The source of the formulas, in kubernetes/cloud-provider-openstack: the main branch two months
// after v1.36.0.
const (
	occmRevision  = "c453fb7c9"
	occmInstances = "pkg/openstack/instances.go"
	occmRoutes    = "pkg/openstack/routes.go"
)

const (
	// occmNodeCalls are those for the metadata of one node: Neutron's versions, the server, its
	// flavor and its ports; and for each port of a trunk that port and its network.
	occmNodeCalls    = 4
	occmSubportCalls = 2
	// subports is how many a node has here.
	subports = 0
	// occmStatusCalls are those for one node that is not ready: Neutron's versions and the server,
	// for its existence and again for whether it runs.
	occmStatusCalls = 4
	// occmDiscovery is how many of each of these are for Neutron's versions: none if the catalog
	// names the version.
	occmNodeDiscovery, occmStatusDiscovery = 1, 2
	// occmListCalls are those to list routes: the router and its ports; occmRouteCalls those to
	// create one: the route, the port of the next hop, and its address pairs.
	occmListCalls, occmRouteCalls = 2, 3
	// The periods of its controllers are upstream's defaults, and so is one worker for the nodes.
	occmMonitorPeriod = 5 * time.Second
	occmRoutePeriod   = 10 * time.Second
)

func aMinute(period time.Duration) float64 { return float64(time.Minute) / float64(period) }

// occmNodes is for the metadata of nodes, be it to initialize or to refresh them.
func occmNodes(nodes int) cost {
	return cost{
		value: float64((occmNodeCalls + occmSubportCalls*subports) * nodes),
		formula: fmt.Sprintf("(%d + %d S) × N = (%d + %d × %d) × %d", occmNodeCalls,
			occmSubportCalls, occmNodeCalls, occmSubportCalls, subports, nodes),
		source: occmInstances,
	}
}

// occmNodesTime is the time in which its one worker does nothing but wait for answers.
func occmNodesTime(nodes int, latency time.Duration) cost {
	all := occmNodes(nodes)
	return cost{
		value: all.value * latency.Seconds(), atLeast: true,
		formula: fmt.Sprintf("%.0f calls, one after the other, of %s", all.value,
			latencyText(latency)),
		source: occmInstances,
	}
}

// occmNotReady is for nodes that are not ready, if it keeps its period.
func occmNotReady(nodes int) cost {
	return cost{
		value: occmStatusCalls * float64(nodes) * aMinute(occmMonitorPeriod),
		formula: fmt.Sprintf("%d × N every %s = %d × %d × %.0f a minute", occmStatusCalls,
			occmMonitorPeriod, occmStatusCalls, nodes, aMinute(occmMonitorPeriod)),
		source: occmInstances,
	}
}

// occmRoundTime is how long its one worker takes to ask for all nodes that are not ready once.
func occmRoundTime(nodes int, latency time.Duration) time.Duration {
	return time.Duration(occmStatusCalls*nodes) * latency
}

func occmIdleRoutes() cost {
	return cost{
		value: occmListCalls * aMinute(occmRoutePeriod),
		formula: fmt.Sprintf("%d every %s = %d × %.0f a minute", occmListCalls, occmRoutePeriod,
			occmListCalls, aMinute(occmRoutePeriod)),
		source: occmRoutes,
	}
}

// occmPerRoute is for new routes, of so many calls each, where Neutron adds single routes to a
// router (extension extraroute-atomic).
func occmPerRoute(each, routes int) cost {
	return cost{
		value:   float64(each * routes),
		formula: fmt.Sprintf("%d × N = %d × %d", each, each, routes), source: occmRoutes,
	}
}
