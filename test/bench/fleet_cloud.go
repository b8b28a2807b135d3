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
// of its own, and some that share one.
func (t *trial) measureCloudRequests() {
	alone, shared := newOpenStack(0), newOpenStack(0)
	t.Cleanup(alone.Close)
	t.Cleanup(shared.Close)
	clouds := append([]*openStack{alone}, slices.Repeat([]*openStack{shared}, sharingClusters)...)
	parts, awaitSetUp := t.openParts("cloud", len(clouds), smallNodes, smallServices, clouds...)
	replica := t.startReplica("cloud", parts, 1)
	awaitSetUp()
	t.awaitServed(replica)
	t.pause(restless)
	alone.ForgetCalls()
	shared.ForgetCalls()
	begun := time.Now()
	t.letPass(t.cloudIdle, "is idle")
	minutes := time.Since(begun).Minutes()
	subject := fmt.Sprintf("Cluster of %d nodes and %d Services on OpenStack, at rest: requests",
		smallNodes, smallServices)
	t.noteFleet(subject+" to a project of its own",
		float64(len(alone.recorded()))/minutes, perMinute, idleCloudTarget)
	t.noteFleet(fmt.Sprintf("%s to a project of %d clusters, for each of these", subject,
		sharingClusters),
		float64(len(shared.recorded()))/minutes/sharingClusters, perMinute, idleCloudTarget)
}

// addNode adds the server of a node.
func (o *openStack) addNode(name string) {
	id := o.AddServer(openstacktest.Server{Name: name})
	o.AddPort(openstacktest.Port{
		NetworkID: o.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
	})
}
