package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Each page of the documentation is rendered from a report of its scenario.
func TestReport_OfEachScenario_RendersItsPage(t *testing.T) {
	for name, test := range map[string]struct {
		report func(*bench)
		want   []string
	}{
		"beside upstream": {measuredBeside, []string{"not in 900 s (17 of 1000)"}},
		"nodes and routes": {measuredNodes, []string{
			"| 500 routes created: writes of the router | 3 | ≤ 2 | missed | 500 | 1 × N = 1 × 500 (`pkg/openstack/routes.go`) |",
			"| 500 routes created: writes of the router | 3 | router_update 2, router_route_delete 1 |",
			"| 1000 nodes initialized: time | 4.00 s | ≤ 20 s | passed | ≥ 200 s | 4000 calls, one after the other, of 50 ms (`pkg/openstack/instances.go`) |",
			"| 500 routes created: time | 27.00 s |  |  |  |  |",
			"after\n50 ms, lists 1000 items on a page",
			"40s apart instead of 5m0s, which is longer than fxccm caches servers (30s).",
			"after the first 50 requests fxccm limits\n  itself to 20 a second",
			"all calls in 3m0s,",
			"Then it sends 3000 calls to initialize or refresh the\nnodes, and 12000 a minute",
			"waits 50 ms for each answer makes at most 1200 calls a minute, and needs 1m40s to check\n500 such nodes instead of 5s.",
			"A process that has served 200 Services ends, in a cluster of 10 nodes.",
			"every 5th request with 429 and\n  `Retry-After: 1`.",
			"The first pause is 1s, and each pause is 1.2 times as long as the previous one.",
			"Where Octavia needs 30s, W is 12 and the pauses are 32.2 s",
		}},
		"real OpenStack": {measuredLab, []string{
			"50 nodes and 200 Services of 3 ports",
			"| A node added | 3.00 s | 2.00 s | 1.50 s | 9 | ≤ 10 | passed | 0.389 s | 34 | (2 + P (3 + W) + M) × L = (2 + 3 × (3 + 2) + 0) × 2 | ≥ 6.00 s | 6 × 1.0 s |",
			"| A node added | load-balancer | loadbalancer_members_update | 202 | 6 | 0.500 s |",
			"|  | load-balancer | loadbalancer_members_update | 409 | 1 | 0.400 s |",
			"| A node added | 0 / 0 | 1 / 1 | 0 / 0 | 7 / 7 |",
			"python3-octavia 11.0.0",
		}},
		"one more cluster": {measuredFurther, []string{
			"memory at rest | 80 MiB | 82 MiB | 4.00 MiB | 0.050 |  |  |",
			"memory at rest | 4.00 MiB | ≤ 2.5 MiB | missed |",
			"memory at rest that is its own | 20 MiB | 21 MiB | 4.00 MiB | 0.200 |",
			"goroutines | 120 | 140 | 95 | 0.792 |",
			"connections to the API server | 2 | 2 | 1 | 0.500 |",
			"a fleet of 21 clusters and a fleet of one, divided by 20.",
			"rest for 2m30s",
			"| at rest | 250 clusters | 500 clusters | each further cluster | 10,000 clusters |",
			"| memory of the replica | 450 MiB | 800 MiB | 1.40 MiB | 14100 MiB |",
			"| 0.200 cores | 0.350 cores | 0.60 millicores | 6.050 cores |",
			"| 50 a second | 100 a second | 0.20 a second | 2000 a second |",
		}},
		"provider in a process of its own": {measuredProcess, []string{
			"| A call, in process: median | 2.00 ms |  |  |",
			"| A call, in a process of its own: median | 2.15 ms |  |  |",
			"| A call: difference | 0.15 ms | ≤ 0.2 ms | passed |",
			"| A term: difference | 101 ms | ≤ 100 ms | missed |",
			"200 in each of 20 terms", "gives 5000 nodes a range",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{results: &results{}, progress: newProgress(os.Stdout)}
			test.report(b)
			r := report{results: b.results, begun: time.Now(), settings: settings{
				nodes: 1000, notReady: 500, routes: 500, services: 200, idle: 3 * time.Minute,
				clusters: 21, rest: 150 * time.Second, rounds: 5, rangeNodes: 5000,
				labNodes: 50, labServices: 200,
			}}
			pages := r.pages()
			if len(pages) != 1 {
				t.Fatalf("there are %d pages, want the one of the scenario", len(pages))
			}
			text, err := r.markdown(pages[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("the page lacks %q:\n%s", want, text)
				}
			}
			if !strings.Contains(r.terminal(), pages[0].title) {
				t.Errorf("the terminal does not show the page:\n%s", r.terminal())
			}
		})
	}
}

func measuredBeside(b *bench) {
	at := row{title: "something", unit: seconds, target: 0.1}
	b.results.add(at, upstream, sample{value: 900, unfinished: true, done: 17, of: 1000})
	b.results.add(at, ours, sample{value: 6.5})
}

func measuredNodes(b *bench) {
	all := calls{
		{Method: http.MethodPost, Operation: "token_create"},
		{Method: http.MethodGet, Operation: "router_get"},
		{Method: http.MethodPut, Operation: "router_update"},
		{Method: http.MethodPut, Operation: "router_update"},
		{Method: http.MethodPut, Operation: "port_update"},
		{Method: http.MethodDelete, Operation: "router_route_delete", Service: openstacktest.ServiceNetwork},
	}
	b.results.chapters = []chapter{{"Nodes and routes", []figure{
		countOf("500 routes created: writes of the router", all.writesOf("router"), 2,
			occmPerRoute(1, 500)),
		timeOf("1000 nodes initialized: time", 4*time.Second, 20,
			occmNodesTime(1000, targetLatency)),
		timeOf("500 routes created: time", 27*time.Second, noTarget, cost{}),
	}}}
}

func measuredLab(b *bench) {
	changed := requestKind{balancerService, "loadbalancer_members_update", "202"}
	refused := requestKind{balancerService, "loadbalancer_members_update", "409"}
	calls, pauses := occmMembers(2, 3, time.Second)
	b.results.lab = labResult{
		packages: []string{"python3-octavia 11.0.0"},
		figures: []labFigure{{
			title: "A node added", took: 3 * time.Second, pending: 2 * time.Second,
			pendingEach: 1500 * time.Millisecond,
			requests: tallies{
				changed: {6, 3 * time.Second}, refused: {1, 400 * time.Millisecond},
				{computeService, "server_list", "200"}:          {1, 100 * time.Millisecond},
				{balancerService, "loadbalancer_list", "error"}: {1, 0},
			},
			logged: map[string]int{computeService: 1, balancerService: 7},
			target: 2 * nodeCalls, occm: calls, occmTime: pauses,
		}},
	}
}

func measuredFurther(b *bench) {
	process := amounts{
		resident: 80, private: 20, peak: 81, heap: 10, goroutines: 120, connections: 2,
	}
	tunedProcess := amounts{
		resident: 82, private: 21, peak: 83, heap: 11, goroutines: 140, connections: 2,
	}
	many := amounts{
		resident: 125, private: 95, peak: 150, heap: 50, goroutines: 2000, connections: 21,
	}
	one := amounts{resident: 45, private: 15, peak: 50, heap: 10, goroutines: 100, connections: 1}
	b.addFurther(startedAgain, process, tunedProcess, one, many.minus(one).over(20))
	b.results.fleet.slopes = slopeTable(
		250, amounts{"memory": 450, "plane": 0.2, "leases": 50},
		500, amounts{"memory": 800, "plane": 0.35, "leases": 100})
}

func measuredProcess(b *bench) {
	t := &trial{bench: b}
	ms := time.Millisecond
	t.noteDifference("A call", []time.Duration{3 * ms, 1 * ms, 2 * ms},
		[]time.Duration{5 * ms, 2150 * time.Microsecond, ms}, callTarget)
	t.noteDifference("A term", []time.Duration{10 * ms}, []time.Duration{111 * ms}, readyTarget)
}
