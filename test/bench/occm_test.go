package main

import (
	"math"
	"testing"
	"time"
)

// The numbers are those that were counted with OCCM's unmodified provider, where there are such.
func TestOCCM_EachFormula_MatchesItsProvider(t *testing.T) {
	const latency = 50 * time.Millisecond
	calls := func(calls, _ cost) cost { return calls }
	pauses := func(_, pauses cost) cost { return pauses }
	for name, test := range map[string]struct {
		cost    cost
		want    float64
		formula string
	}{
		"1000 nodes":                       {occmNodes(1000), 4000, "(4 + 2 S) × N = (4 + 2 × 0) × 1000"},
		"time of 1000 nodes":               {occmNodesTime(1000, latency), 200, "4000 calls, one after the other, of 50 ms"},
		"500 nodes not ready, a minute":    {occmNotReady(500), 24000, "4 × N every 5s = 4 × 500 × 12 a minute"},
		"idle routes, a minute":            {occmIdleRoutes(), 12, "2 every 10s = 2 × 6 a minute"},
		"500 routes":                       {occmPerRoute(occmRouteCalls, 500), 1500, "3 × N = 3 × 500"},
		"500 routes, writes of the router": {occmPerRoute(1, 500), 500, "1 × N = 1 × 500"},
		"nothing to do, 1 port":            {occmNothingToDo(1), 6, "4 + 2 P + M = 4 + 2 × 1 + 0"},
		"nothing to do, 3 ports":           {occmNothingToDo(3), 10, "4 + 2 P + M = 4 + 2 × 3 + 0"},
		"restart, 200 Services":            {occmRestart(200, 3), 2000, "(4 + 2 P + M) × S = (4 + 2 × 3 + 0) × 200"},
		"time of the restart":              {occmRestartTime(200, 3, latency), 100, "2000 calls, one after the other, of 50 ms"},
		"node added, ready at once": {
			occmNodeAdded(1, 5, 0, latency), 22,
			"(2 + P (3 + W) + M) × L = (2 + 5 × (3 + 1) + 0) × 1",
		},
		"node added, 100 load balancers": {
			occmNodeAdded(100, 3, time.Second, latency), 1700,
			"(2 + P (3 + W) + M) × L = (2 + 3 × (3 + 2) + 0) × 100",
		},
		"time of the node": {
			occmNodeAddedTime(100, 3, time.Second, latency), 385,
			"1700 calls of 50 ms and 300 waits of 1.0 s, one after the other",
		},
		"100 Services, 30 s each": {
			occmServed(100, 30*time.Second, latency), 3310.04,
			"(7 + W) × S = (7 + 12) × 100 calls of 50 ms and 100 waits of 32.2 s, one after the other",
		},
		"1 made, ready at once": {
			calls(occmMade(1, 3, 0)), 18,
			"(7 + W + 4 + 2 P + M) × S = (7 + 1 + 4 + 2 × 3 + 0) × 1",
		},
		"20 made, ready after 2 s": {
			calls(occmMade(20, 3, 2*time.Second)), 400,
			"(7 + W + 4 + 2 P + M) × S = (7 + 3 + 4 + 2 × 3 + 0) × 20",
		},
		"pauses of 20 made, ready after 2 s": {pauses(occmMade(20, 3, 2*time.Second)), 44, "20 × 2.2 s"},
		"a port more, ready after 1 s": {
			calls(occmPortAdded(3, time.Second)), 21,
			"4 + 2 (P + 1) + M + 3 (1 + W) = 4 + 2 × 4 + 0 + 3 × (1 + 2)",
		},
		"pauses of a port more":   {pauses(occmPortAdded(3, time.Second)), 3, "3 × 1.0 s"},
		"pauses of members of 20": {pauses(occmMembers(20, 3, time.Second)), 60, "60 × 1.0 s"},
		"20 deleted, gone after 1 s": {
			calls(occmDeleted(20, time.Second)), 180, "(7 + Wd) × S = (7 + 2) × 20",
		},
		"1 deleted, gone at once": {calls(occmDeleted(1, 0)), 8, "(7 + Wd) × S = (7 + 1) × 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.cost
			if math.Abs(got.value-test.want) > 0.01 || got.formula != test.formula ||
				got.source == "" {
				t.Errorf("OCCM needs %v by %q (%s), want %v by %q", got.value, got.formula,
					got.source, test.want, test.formula)
			}
		})
	}
}
