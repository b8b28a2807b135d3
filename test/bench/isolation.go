package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/controllers/nodeipam"
	providerprocess "github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/provider/fake"
)

const (
	// processScenario measures what a process of its own for the provider costs.
	processScenario = "process"
	// termsPerRound are opened in process and as many in a child, and callsPerTerm are measured in
	// each, one after another.
	termsPerRound = 4
	callsPerTerm  = 200
	// A process of its own may cost so many milliseconds.
	callTarget  = 0.2
	readyTarget = 100
	// podRanges has 8,192 ranges. The last one is for a node that registers late.
	podRanges      = "10.128.0.0/11"
	mostRangeNodes = 8191
)

// hostedNode is the node whose instance the hosted provider has.
const hostedNode = "first"

// hostedProvider is the provider of Managers in the process of the benchmark. The program of its
// child is the benchmark's own. Its cloud is in the memory of the provider: one at an address would
// be nearer to one of the places.
func hostedProvider() ccm.Provider {
	return ccm.Provider{
		Name: "fake",
		New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
			cloud := fake.New()
			return cloud.Provider(), cloud.AddInstances(fake.Instance{Name: hostedNode})
		},
	}
}

func (b *bench) noteProcess(title string, value float64, u unit, target float64) {
	b.note(&b.results.process, figure{title: title, value: value, unit: u, target: target})
}

// measureProcess measures a provider in process and in a child, and the allocation of pod ranges.
func measureProcess(b *bench) {
	b.trial("a provider in a process of its own", 0, (*trial).measureIsolation)
	b.trial(fmt.Sprintf("pod ranges of %d nodes", b.rangeNodes), 0, (*trial).measureRanges)
}

// timings are those of the provider in one place.
type timings struct{ ready, calls []time.Duration }

// measureIsolation alternates between the places, because the load of the machine changes.
func (t *trial) measureIsolation() {
	klog.SetLogger(logr.Discard()) // upstream's controllers would write between the progress
	node := newNode(hostedNode)
	t.createNodes(node)
	inProcess := hostedProvider()
	inChild := providerprocess.Provider(providerprocess.Options{Name: inProcess.Name})
	var here, there timings
	// The first terms initialize the node, and read the program from the disk.
	t.timeTerm(inProcess, node, &timings{})
	t.timeTerm(inChild, node, &timings{})
	terms := termsPerRound * t.rounds
	for n := range terms {
		t.update("term %d of %d", n+1, terms)
		t.timeTerm(inProcess, node, &here)
		t.timeTerm(inChild, node, &there)
	}
	t.noteDifference("A call of the provider", here.calls, there.calls, callTarget)
	t.noteDifference("A term, from its election until it is ready", here.ready, there.ready,
		readyTarget)
}

// noteDifference compares medians.
func (t *trial) noteDifference(subject string, here, there []time.Duration, target float64) {
	inProcess, inChild := medianOf(here), medianOf(there)
	t.noteProcess(subject+", in process: median", inProcess, milliseconds, noTarget)
	t.noteProcess(subject+", in a process of its own: median", inChild, milliseconds, noTarget)
	t.noteProcess(subject+": difference", inChild-inProcess, milliseconds, target)
}

// medianOf is the middle, the lower of two, in milliseconds.
func medianOf(all []time.Duration) float64 {
	slices.Sort(all)
	return all[(len(all)-1)/2].Seconds() * 1000
}

// hosted is a Manager in the process of the benchmark.
type hosted struct {
	*ccm.Manager
	// requests counts those to the API server, except watches.
	requests atomic.Int64
	stop     func()
}

// host runs a Manager, which leads at once, until it is ready.
func (t *trial) host(
	provider ccm.Provider, change func(*ccm.Config), controllers ...ccm.Controller,
) *hosted {
	h := &hosted{}
	cfg := ccm.DefaultConfig()
	change(&cfg)
	account := rest.CopyConfig(t.account)
	account.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") == "" {
				h.requests.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	log := logr.Discard()
	var err error
	h.Manager, err = ccm.New(ccm.Params{
		Config: cfg, Providers: []ccm.Provider{provider}, RESTConfig: account,
		Elector: &election.Alone{}, Logger: &log, Controllers: controllers,
	})
	t.Check(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.stop = func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Check(err)
		}
	}
	t.until(func() bool {
		current := h.Status()
		if current.State == status.Degraded {
			h.stop()
			t.Fatalf("the Manager is degraded: %s", current.Reason)
		}
		return current.Ready
	})
	return h
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// timeTerm runs one term of the four controllers, and makes calls when it is ready.
func (t *trial) timeTerm(provider ccm.Provider, node *corev1.Node, times *timings) {
	clouds := make(chan cloudprovider.Interface, 1)
	h := t.host(provider, func(cfg *ccm.Config) {
		cfg.ConfigureCloudRoutes = false
	}, ccm.Controller{
		Name: "calls",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			clouds <- term.Cloud()
			return ccm.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}), nil
		},
	})
	defer h.stop()
	opened := h.Status().Terms[0]
	times.ready = append(times.ready, opened.Opened.Sub(opened.Began))
	instances, _ := (<-clouds).InstancesV2()
	for range callsPerTerm {
		began := time.Now()
		_, err := instances.InstanceMetadata(t.Context(), node)
		t.Check(err)
		times.calls = append(times.calls, time.Since(began))
	}
}

// measureRanges measures how long the range allocator takes for many nodes, and how long the next
// term takes for one more.
func (t *trial) measureRanges() {
	var nodes []*corev1.Node
	for n := range t.rangeNodes {
		nodes = append(nodes, newNode(fmt.Sprintf("node-%04d", n)))
	}
	t.createNodes(nodes...)
	t.settle()
	allocate := func(cfg *ccm.Config) {
		cfg.Controllers = []string{nodeipam.Name}
		cfg.ClusterCIDR, cfg.AllocateNodeCIDRs = podRanges, true
	}
	subject := fmt.Sprintf("Pod ranges of %d nodes", len(nodes))
	all, began := t.watchNodes(len(nodes), hasRange), time.Now()
	h := t.host(hostedProvider(), allocate, nodeipam.Controller())
	took := all.wait().Sub(began)
	requests := float64(h.requests.Load()) / float64(len(nodes))
	h.stop()
	t.noteProcess(subject+": all have one", took.Seconds(), seconds, noTarget)
	t.noteProcess(subject+": requests for each node", requests, perCluster, noTarget)

	t.createNodes(newNode("late"))
	late := t.watchNodes(len(nodes)+1, hasRange)
	began = time.Now()
	h = t.host(hostedProvider(), allocate, nodeipam.Controller())
	t.noteProcess(subject+": the next term has given one to a new node",
		late.wait().Sub(began).Seconds(), seconds, noTarget)
	h.stop()
}

func hasRange(node *corev1.Node) bool { return len(node.Spec.PodCIDRs) > 0 }

// processPage is the page on providers in processes of their own.
func (r report) processPage() page {
	figures := figureTable(r.results.process)
	return page{
		"A provider in a process of its own",
		[]table{figures},
		"benchmarks-process",
		map[string]any{
			"Figures": figures, "Terms": termsPerRound * r.settings.rounds, "Calls": callsPerTerm,
			"Nodes": r.settings.rangeNodes, "Ranges": podRanges,
		},
	}
}
