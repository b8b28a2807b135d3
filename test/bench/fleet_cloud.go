package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

const (
	// requestsScenario counts the requests of a fleet to OpenStack.
	requestsScenario = "fleet-requests"
	// sharingClusters is how many clusters have one OpenStack project.
	sharingClusters = 10
	// idleCloudTarget is how many requests an idle cluster may send to its cloud.
	idleCloudTarget = 0.5 // a minute
)

func measureRequests(b *bench) {
	b.run.Check(b.trialWithin(b.limit+b.cloudSettle+b.cloudIdle, "requests to OpenStack", 0,
		(*trial).measureRequests))
}

// measureRequests counts the requests to OpenStack of clusters at rest: one that has a project
// of its own, and some that share one. The first check of a load balancer compares all of its
// fields, and is counted apart.
func (t *trial) measureRequests() {
	alone, shared := newOpenStack(0), newOpenStack(0)
	t.Cleanup(alone.Close)
	t.Cleanup(shared.Close)
	clouds := append([]*openStack{alone}, slices.Repeat([]*openStack{shared}, sharingClusters)...)
	parts, awaitSetUp := t.openParts("cloud", len(clouds), smallNodes, smallServices, clouds...)
	replica := t.startReplica("cloud", parts, 1)
	awaitSetUp()
	t.awaitServed(replica)
	measure := func(d time.Duration, when string, u unit, over, target float64) {
		alone.ForgetCalls()
		shared.ForgetCalls()
		t.letPass(d, "is idle")
		for _, of := range []struct {
			cloud    *openStack
			title    string
			clusters float64
		}{
			{alone, "a cluster with a project of its own", 1},
			{
				shared, fmt.Sprintf("each of %d clusters that share a project", sharingClusters),
				sharingClusters,
			},
		} {
			sent := of.cloud.recorded()
			f := figure{
				title: when + ": requests of " + of.title, unit: u, target: target, calls: sent,
				value: float64(len(sent)) / over / of.clusters,
			}
			t.note(&t.results.requests, f)
		}
	}
	measure(t.cloudSettle, fmt.Sprintf("in the first %s", t.cloudSettle), perCluster, 1, noTarget)
	measure(t.cloudIdle, "at rest", perMinute, t.cloudIdle.Minutes(), idleCloudTarget)
}

// requestsPage is the page on requests of a fleet to OpenStack.
func (r report) requestsPage() page {
	figures := table{header: []string{"", ours, "target", "", "requests of the project"}}
	for _, f := range r.results.requests {
		figures.lines = append(figures.lines,
			[]string{f.title, f.text(), f.targetText(), f.verdict(), f.operations()})
	}
	return page{
		"Requests of a fleet to OpenStack",
		[]table{figures},
		"benchmarks-fleet-requests",
		map[string]any{
			"Figures": figures, "Settle": r.settings.cloudSettle, "Idle": r.settings.cloudIdle,
			"Nodes": smallNodes, "Services": smallServices, "Sharing": sharingClusters,
		},
	}
}

// addNode adds the server of a node.
func (o *openStack) addNode(name string) {
	id := o.AddServer(openstacktest.Server{Name: name})
	o.AddPort(openstacktest.Port{
		NetworkID: o.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
	})
}
