package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
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
func (t *trial) measureLoss(ctx context.Context) error {
	b := t.bench
	t.title = "loss of a replica"
	parts, err := t.openParts(ctx, "loss", b.settings.lossClusters, lossNodes, lossServices)
	if err != nil {
		return err
	}
	setUp, err := t.watchSetUp(ctx, parts, lossNodes, lossServices)
	if err != nil {
		return err
	}
	var replicas []*fleetReplica
	for range lossReplicas {
		r, err := t.startReplica("loss", parts, 1)
		if err != nil {
			return err
		}
		replicas = append(replicas, r)
	}
	if err := setUp(); err != nil {
		return err
	}
	// Clusters move while replicas come.
	if err := t.pause(ctx, restless); err != nil {
		return err
	}
	if err := t.awaitServed(ctx, replicas...); err != nil {
		return err
	}
	lost, err := replicas[0].served(ctx)
	if err != nil {
		return err
	}
	if len(lost) == 0 {
		return fmt.Errorf("%s serves no cluster, so its loss shows nothing", replicas[0].name)
	}
	var registered []*corev1.Node
	for _, p := range parts {
		if !slices.Contains(lost, p.name) {
			continue
		}
		node, err := p.newNode("late")
		if err != nil {
			return err
		}
		registered = append(registered, node)
	}
	times, err := t.watchEach(ctx, registered)
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := replicas[0].kill(); err != nil {
		return err
	}
	if err := b.cluster.createNodes(ctx, registered...); err != nil {
		return err
	}
	took, err := times()
	if err != nil {
		return fmt.Errorf("wait until the clusters of the killed replica are served: %w", err)
	}
	title := fmt.Sprintf("1 of %d replicas is killed, which serves %d of %d clusters: "+
		"until a new node is initialised in ", lossReplicas, len(lost), len(parts))
	since := func(share float64) float64 {
		nth := int(math.Ceil(share * float64(len(took))))
		return took[nth-1].Sub(killed).Seconds()
	}
	b.results.fleet.note(title+"half of these", since(0.5), seconds, noTarget)
	b.results.fleet.note(title+"95 % of these", since(0.95), seconds, lossMostTarget)
	b.results.fleet.note(title+"all of these", since(1), seconds, lossAllTarget)
	return nil
}

// watchEach returns when each of the nodes was initialised, in order.
func (t *trial) watchEach(
	ctx context.Context, nodes []*corev1.Node,
) (wait func() ([]time.Time, error), _ error) {
	wanted := map[string]bool{}
	for _, node := range nodes {
		wanted[node.Name] = true
	}
	var times []time.Time
	source := cache.NewListWatchFromClient(t.bench.cluster.client.CoreV1().RESTClient(), "nodes",
		metav1.NamespaceAll, fields.Everything())
	sight, err := watchFor(ctx, source, countUntil(len(nodes), func(done int) {
		times = append(times, time.Now())
		t.bench.progress.update(fmt.Sprintf("%s: %d of %d nodes", t.title, done, len(nodes)))
	}, func(node *corev1.Node) bool { return wanted[node.Name] && isInitialised(node) }))
	if err != nil {
		return nil, err
	}
	return func() ([]time.Time, error) {
		_, err := sight.wait()
		return times, err
	}, nil
}
