package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	providerprocess "github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// settings are what the command line says.
type settings struct {
	nodes, services int
	latencies       []time.Duration
	rounds          int
	rest            time.Duration
	// clusters are in the fleet whose size shows what one more costs, smallClusters in the one that
	// is large, lossClusters in the one that loses a replica.
	clusters, smallClusters, lossClusters int
	// rangeNodes get a pod range each.
	rangeNodes int
	// cloudIdle is how long requests of a fleet at rest to OpenStack are counted. It is at rest
	// after cloudSettle.
	cloudSettle, cloudIdle time.Duration
	// notReady and routes are for OpenStack, and idle is how long calls for routes are counted.
	notReady, routes int
	idle             time.Duration
	// balancers and podServices are for OpenStack, too.
	balancers, podServices int
	// labNodes and labServices are for the real OpenStack.
	labNodes, labServices int
	limit                 time.Duration
	scenarios             []string
	programs              string
	// out is the folder for the pages; "" if none are written.
	out string
	// asked: the scenarios were named, so none of them may be left out.
	asked bool
}

func main() {
	providerprocess.Main(hostedProvider())
	s, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = attempt.Run(ctx, func(t *attempt.T) { run(t, s) })
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	var quick bool
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	flags.IntVar(&s.nodes, "nodes", 1000, "nodes that wait to be initialized")
	flags.IntVar(&s.services, "services", 200, "Services that wait for a load balancer")
	flags.DurationSliceVar(&s.latencies, "latencies", []time.Duration{0, targetLatency},
		"how long a call to the cloud takes, one set of trials each")
	flags.IntVar(&s.rounds, "rounds", 5,
		"trials of each start and hand-over; nodes and services have at most 3")
	flags.IntVar(&s.clusters, "clusters", 21,
		"fleet: clusters of one replica, to measure what each after the first costs")
	flags.IntVar(&s.smallClusters, "small-clusters", 500, "fleet: small clusters of one replica")
	flags.IntVar(&s.lossClusters, "loss-clusters", 99,
		"fleet: clusters of three replicas, of which one is killed")
	flags.IntVar(&s.rangeNodes, "range-nodes", 5000, "process: nodes that get a pod range")
	flags.DurationVar(&s.cloudSettle, "cloud-settle", 6*time.Minute,
		requestsScenario+": wait before requests to OpenStack at rest are counted; load balancers are checked "+
			"first after 5 minutes")
	flags.DurationVar(&s.cloudIdle, "cloud-idle", 20*time.Minute,
		requestsScenario+": how long they are counted; lists are read again every 20 minutes")
	flags.DurationVar(&s.rest, "rest", 150*time.Second,
		"wait before memory at rest is measured; Go collects garbage at least every two minutes")
	flags.IntVar(&s.notReady, "not-ready", 500, "OpenStack: nodes that are not ready")
	flags.IntVar(&s.routes, "routes", 500, "OpenStack: routes to create, and to watch over")
	flags.IntVar(&s.balancers, "balancers", 100,
		"OpenStack: Services that wait while Octavia is slow or refuses, and that get a new node")
	flags.IntVar(&s.podServices, "pod-services", mostPodServices,
		"OpenStack: Services whose pods are restarted")
	flags.IntVar(&s.labNodes, "lab-nodes", 50, "real OpenStack: nodes, each with a server")
	flags.IntVar(&s.labServices, "lab-services", 10,
		"real OpenStack: Services, each with a load balancer")
	flags.DurationVar(&s.idle, "idle", 3*time.Minute,
		"OpenStack: how long calls are counted while routes are as they should be")
	flags.DurationVar(&s.limit, "limit", 15*time.Minute,
		"give a trial up after this time, and report that")
	flags.StringSliceVar(&s.scenarios, "scenarios", scenarioNames(),
		"what to measure; "+labScenario+" is left out by default where there is no lab")
	flags.BoolVar(&quick, "quick", false,
		"100 nodes, 20 services, one round, fleets of 6, 20 and 9 clusters and a rest of 10 seconds, pod ranges of 100 nodes, 50 nodes not ready, 50 routes that are idle for a minute, 10 load balancers, 5 Services of pods; on a real OpenStack 5 nodes and 2 Services: "+
			"to try the benchmark itself")
	flags.StringVar(&s.programs, "programs", "",
		"folder of the programs fxccm and upstream (default: where this program is)")
	flags.StringVar(&s.out, "out", "",
		"also write the page of each measured scenario into this folder, as Markdown")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	s.asked = flags.Changed("scenarios")
	if quick {
		for name, value := range map[string]string{
			"nodes": "100", "services": "20", "rounds": "1", "rest": "10s",
			"clusters": "6", "small-clusters": "20", "loss-clusters": "9",
			"range-nodes": "100", "cloud-settle": "30s", "cloud-idle": "1m",
			"not-ready": "50", "routes": "50", "idle": "1m", "balancers": "10", "pod-services": "5",
			"lab-nodes": "5", "lab-services": "2",
		} {
			if !flags.Changed(name) {
				if err := flags.Set(name, value); err != nil {
					return s, err
				}
			}
		}
	}
	return s, s.validate(flags.Args())
}

func (s *settings) validate(extra []string) error {
	if len(extra) > 0 {
		return fmt.Errorf("unexpected argument %q", extra[0])
	}
	for name, n := range map[string]int{
		"--nodes": s.nodes, "--services": s.services, "--rounds": s.rounds,
		"--not-ready": s.notReady, "--routes": s.routes, "--balancers": s.balancers,
		"--range-nodes":    s.rangeNodes,
		"--small-clusters": s.smallClusters, "--loss-clusters": s.lossClusters,
		"--lab-nodes": s.labNodes, "--lab-services": s.labServices,
	} {
		if n < 1 {
			return fmt.Errorf("%s=%d: there must be at least 1", name, n)
		}
	}
	if s.podServices < 1 || s.podServices > mostPodServices {
		return fmt.Errorf("--pod-services=%d: there is room for the pods of 1 to %d Services",
			s.podServices, mostPodServices)
	}
	if s.clusters < 2 {
		return fmt.Errorf(
			"--clusters=%d: to measure what each after the first costs there must be at least 2",
			s.clusters)
	}
	if s.rest < 0 {
		return fmt.Errorf("--rest=%s: it is negative", s.rest)
	}
	if s.routes > mostRoutes {
		return fmt.Errorf("--routes=%d: there is room for the pods of %d nodes", s.routes,
			mostRoutes)
	}
	if s.rangeNodes > mostRangeNodes {
		return fmt.Errorf("--range-nodes=%d: there are ranges for %d nodes", s.rangeNodes,
			mostRangeNodes)
	}
	if s.idle < time.Minute {
		return fmt.Errorf("--idle=%s: calls a minute are counted for a minute at least", s.idle)
	}
	if s.limit <= 0 {
		return fmt.Errorf("--limit=%s: it must be longer than 0", s.limit)
	}
	for _, d := range s.latencies {
		if d < 0 {
			return fmt.Errorf("--latencies: %s is negative", d)
		}
	}
	for _, name := range s.scenarios {
		if !slices.Contains(scenarioNames(), name) {
			return fmt.Errorf("--scenarios: there is no %q; there are %s", name,
				strings.Join(scenarioNames(), ", "))
		}
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf(
			"the benchmark reads peak memory and load from /proc, so it runs on Linux, not on %s",
			runtime.GOOS)
	}
	if s.programs == "" {
		own, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the programs to measure: %w", err)
		}
		s.programs = filepath.Dir(own)
	}
	return nil
}

// run measures, prints and writes.
func run(t *attempt.T, s settings) {
	var err error
	s.scenarios, err = withoutLab(t.Context(), s)
	t.Check(err)
	for _, program := range []string{fleetProgram, "upstream", "fxccm"} {
		if _, err := os.Stat(filepath.Join(s.programs, program)); err != nil {
			t.Fatalf("find the programs to measure: %w; `make bench` builds them", err)
		}
	}
	r := report{settings: s, machine: describeMachine(t)}
	b := open(t, s)
	r.versions, r.begun, r.results = b.describeVersions(), time.Now(), b.results
	for _, sc := range scenarios() {
		if slices.Contains(s.scenarios, sc.name) {
			sc.measure(b)
		}
	}
	r.took = time.Since(r.begun)
	fmt.Printf("\n%s", r.terminal())
	for _, p := range r.pages() {
		t.Check(r.write(p))
	}
}

// withoutLab leaves the lab's scenario out if no lab is up. That is an error if the command line
// names the scenario.
func withoutLab(ctx context.Context, s settings) ([]string, error) {
	if !slices.Contains(s.scenarios, labScenario) {
		return s.scenarios, nil
	}
	err := findLab(ctx)
	switch {
	case err == nil:
		return s.scenarios, nil
	case s.asked:
		return nil, err
	}
	fmt.Printf("The scenario %s is left out: %s\n", labScenario, err)
	return slices.DeleteFunc(slices.Clone(s.scenarios),
		func(name string) bool { return name == labScenario }), nil
}
