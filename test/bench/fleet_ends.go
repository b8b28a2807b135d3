package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// lossReplicas is how many replicas the fleet has of which one is killed.
	lossReplicas = 3
	// Each cluster has few nodes: the size of a cluster was measured before.
	lossNodes, lossServices = 2, 1
	// The loss of a replica may cost so many seconds, for most clusters and for all.
	lossMostTarget, lossAllTarget = 20, 30
)

// measureLoss kills one of three replicas, and measures when its clusters are served again: when a
// node that registers then has been initialised.
func (t *trial) measureLoss() {
	parts, awaitSetUp := t.openParts("loss", t.lossClusters, lossNodes, lossServices)
	var replicas []*process
	for range lossReplicas {
		replicas = append(replicas, t.startReplica("loss", parts, 1))
	}
	awaitSetUp()
	t.pause(restless) // clusters move while replicas come
	t.awaitServed(replicas...)
	lost, err := t.served(replicas[0])
	t.Check(err)
	if len(lost) == 0 {
		t.Fatalf("%s serves no cluster, so its loss shows nothing", replicas[0].name)
	}
	wanted := map[string]bool{}
	var registered []*corev1.Node
	for _, p := range parts {
		if slices.Contains(lost, p.name) {
			node := t.newPartNode(p, "late")
			registered, wanted[node.Name] = append(registered, node), true
		}
	}
	all := t.watchNodes(len(registered),
		func(node *corev1.Node) bool { return wanted[node.Name] && isInitialised(node) })
	killed := time.Now()
	t.Check(replicas[0].Kill())
	t.createNodes(registered...)
	all.wait()
	for _, share := range []struct {
		title  string
		of     float64
		target float64
	}{{"half", 0.5, noTarget}, {"95 %", 0.95, lossMostTarget}, {"all", 1, lossAllTarget}} {
		nth := int(math.Ceil(share.of * float64(len(all.times))))
		t.noteFleet(fmt.Sprintf("1 of %d replicas is killed, which serves %d of %d clusters: until "+
			"a new node is initialised in %s of these", lossReplicas, len(lost), len(parts),
			share.title), all.times[nth-1].Sub(killed).Seconds(), seconds, share.target)
	}
}
