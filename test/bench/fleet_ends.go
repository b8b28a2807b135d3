package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
)

const (
	// lossReplicas is how many replicas the fleet has of which one ends.
	lossReplicas = 3
	lossFleet    = "loss" // its name
	// Each cluster has few nodes: the size of a cluster was measured before.
	lossNodes, lossServices = 2, 1
	// The loss of a replica may cost so many seconds, for most clusters and for all.
	lossMostTarget, lossAllTarget = 20, 30
	// releaseTarget is how long a Lease that a replica releases may be free.
	releaseTarget = 1 // second
)

// measureEnds stops one of three replicas, replaces it, and kills another one.
func (t *trial) measureEnds() {
	parts, awaitSetUp := t.openParts(lossFleet, t.lossClusters, lossNodes, lossServices)
	var replicas []*process
	for range lossReplicas {
		replicas = append(replicas, t.startReplica(lossFleet, parts, 1))
	}
	awaitSetUp()
	t.pause(restless) // clusters move while replicas come
	t.awaitServed(replicas...)
	t.measureStop(replicas[0])
	replicas[0] = t.startReplica(lossFleet, parts, 1)
	t.pause(restless)
	t.awaitServed(replicas...)
	t.measureKill(replicas[1])
}

// measureStop stops a replica as a rolling update does, and measures how long the Lease of each of
// its clusters is free.
func (t *trial) measureStop(replica *process) {
	clusters := t.servedBy(replica)
	of := map[string]string{} // the holders of the Leases of these clusters
	leases := cache.NewListWatchFromClient(t.client.CoordinationV1().RESTClient(), "leases",
		fleetNamespace, fields.Everything())
	for _, cluster := range clusters {
		lease, err := t.client.CoordinationV1().Leases(fleetNamespace).Get(t.Context(),
			lossFleet+"."+cluster, metav1.GetOptions{})
		t.Check(err)
		of[lease.Name] = holderOf(lease)
	}
	released, free := map[string]time.Time{}, map[string]time.Duration{}
	taken := watchFor(t, "Leases are taken", len(of), leases,
		func(lease *coordinationv1.Lease) bool {
			before, isOne := of[lease.Name]
			_, isTaken := free[lease.Name]
			holder := holderOf(lease)
			switch {
			case !isOne || isTaken || holder == before:
				return false
			case holder == "":
				released[lease.Name] = time.Now()
				return false
			}
			if at, ok := released[lease.Name]; ok {
				free[lease.Name] = time.Since(at)
			} else {
				free[lease.Name] = 0
			}
			return true
		})
	stopped := time.Now()
	replica.Stop()
	all := taken.wait().Sub(stopped)
	t.until(replica.HasExited)
	title := fmt.Sprintf("1 of %d replicas is stopped, which serves %d of %d clusters: ",
		lossReplicas, len(clusters), len(replica.parts))
	var times []float64
	for _, d := range free {
		times = append(times, d.Seconds())
	}
	slices.Sort(times)
	t.noteFleet(title+"the Lease of half of these is free for at most", nth(times, 0.5), seconds,
		noTarget)
	t.noteFleet(title+"the Lease of each of these is free for at most", nth(times, 1), seconds,
		releaseTarget)
	t.noteFleet(title+"until other replicas hold all of these Leases", all.Seconds(), seconds,
		noTarget)
}

// measureKill kills a replica, and measures when its clusters are served again: when a node that
// registers then has been initialized.
func (t *trial) measureKill(replica *process) {
	lost := t.servedBy(replica)
	wanted := map[string]bool{}
	var registered []*corev1.Node
	for _, p := range replica.parts {
		if slices.Contains(lost, p.name) {
			node := t.newPartNode(p, "late")
			registered, wanted[node.Name] = append(registered, node), true
		}
	}
	all := t.watchNodes(len(registered),
		func(node *corev1.Node) bool { return wanted[node.Name] && isInitialized(node) })
	killed := time.Now()
	t.Check(replica.Kill())
	t.createNodes(registered...)
	all.wait()
	var times []float64
	for _, at := range all.times {
		times = append(times, at.Sub(killed).Seconds())
	}
	for _, share := range []struct {
		title  string
		of     float64
		target float64
	}{{"half", 0.5, noTarget}, {"95 %", 0.95, lossMostTarget}, {"all", 1, lossAllTarget}} {
		t.noteFleet(fmt.Sprintf("1 of %d replicas is killed, which serves %d of %d clusters: until "+
			"a new node is initialized in %s of these", lossReplicas, len(lost),
			len(replica.parts), share.title), nth(times, share.of), seconds, share.target)
	}
}

// servedBy are the clusters that a replica serves. There is one at least.
func (t *trial) servedBy(replica *process) []string {
	clusters, err := t.served(replica)
	t.Check(err)
	if len(clusters) == 0 {
		t.Fatalf("%s serves no cluster, so its end shows nothing", replica.name)
	}
	return clusters
}

// nth is the least value that a share of the sorted values does not exceed.
func nth(sorted []float64, share float64) float64 {
	return sorted[int(math.Ceil(share*float64(len(sorted))))-1]
}
