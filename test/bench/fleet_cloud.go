package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

const (
	// sharingClusters is how many clusters have one OpenStack project.
	sharingClusters = 10
	// idleCloudTarget is how many requests an idle cluster may send to its cloud.
	idleCloudTarget = 0.5 // a minute
)

// measureCloudRequests counts the requests to OpenStack of clusters at rest: one that has a project
// of its own, and some that share one. The first check of a load balancer compares all of its
// fields, and is counted apart.
func (t *trial) measureCloudRequests() {
	alone, shared := newOpenStack(0), newOpenStack(0)
	t.Cleanup(alone.Close)
	t.Cleanup(shared.Close)
	clouds := append([]*openStack{alone}, slices.Repeat([]*openStack{shared}, sharingClusters)...)
	parts, awaitSetUp := t.openParts("cloud", len(clouds), smallNodes, smallServices, clouds...)
	replica := t.startReplica("cloud", parts, 1)
	awaitSetUp()
	t.awaitServed(replica)
	subject := fmt.Sprintf("Cluster of %d nodes and %d Services on OpenStack, ", smallNodes,
		smallServices)
	measure := func(d time.Duration, when string, u unit, over, target float64) {
		alone.ForgetCalls()
		shared.ForgetCalls()
		t.letPass(d, "is idle")
		for _, of := range []struct {
			cloud    *openStack
			title    string
			clusters float64
		}{
			{alone, "a project of its own", 1},
			{
				shared,
				fmt.Sprintf("a project of %d clusters, for each of these", sharingClusters),
				sharingClusters,
			},
		} {
			sent := of.cloud.recorded()
			t.noteFleet(subject+when+": requests to "+of.title,
				float64(len(sent))/over/of.clusters, u, target)
			t.progress.say("  " + sent.byOperation())
		}
	}
	measure(t.cloudSettle, fmt.Sprintf("in %s after it is set up", t.cloudSettle), count, 1,
		noTarget)
	measure(t.cloudIdle, "at rest", perMinute, t.cloudIdle.Minutes(), idleCloudTarget)
}

// addNode adds the server of a node.
func (o *openStack) addNode(name string) {
	id := o.AddServer(openstacktest.Server{Name: name})
	o.AddPort(openstacktest.Port{
		NetworkID: o.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
	})
}
