package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
)

// watchServed waits until all of the Services have an address.
func (t *trial) watchServed(ctx context.Context, services []*corev1.Service) (*sight, error) {
	wanted := map[string]bool{}
	for _, service := range services {
		wanted[service.Name] = true
	}
	source := cache.NewListWatchFromClient(t.bench.cluster.client.CoreV1().RESTClient(), "services",
		serviceNamespace, fields.Everything())
	return watchFor(ctx, source, countUntil(len(services), func(done int) {
		t.bench.progress.update(
			fmt.Sprintf("%s: %d of %d Services are served", t.title, done, len(services)))
	}, func(service *corev1.Service) bool { return wanted[service.Name] && hasAddress(service) }))
}

// ensuredReason is of upstream's event for each time that a Service was ensured with success.
const ensuredReason = "EnsuredLoadBalancer"

// watchEnsured waits until so many Services have been ensured from now on.
func (t *trial) watchEnsured(ctx context.Context, services int) (*sight, error) {
	return t.watchEvents(ctx, ensuredReason, services)
}

// watchEvents waits until there has been such an event on so many Services from now on.
func (t *trial) watchEvents(ctx context.Context, reason string, services int) (*sight, error) {
	client := t.bench.cluster.client.CoreV1()
	err := client.Events(serviceNamespace).DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("delete the events: %w", err)
	}
	done := map[string]bool{}
	source := cache.NewListWatchFromClient(client.RESTClient(), "events", serviceNamespace,
		fields.OneTermEqualSelector("reason", reason))
	return watchFor(ctx, source, func(event *corev1.Event) bool {
		done[event.InvolvedObject.Name] = true
		t.bench.progress.update(
			fmt.Sprintf("%s: %s on %d of %d Services", t.title, reason, len(done), services))
		return len(done) == services
	})
}

// watchNodes waits until n nodes are so.
func (t *trial) watchNodes(
	ctx context.Context, n int, isSo func(*corev1.Node) bool,
) (*sight, error) {
	source := cache.NewListWatchFromClient(t.bench.cluster.client.CoreV1().RESTClient(), "nodes",
		metav1.NamespaceAll, fields.Everything())
	return watchFor(ctx, source, countUntil(n, func(done int) {
		t.bench.progress.update(fmt.Sprintf("%s: %d of %d", t.title, done, n))
	}, isSo))
}

func (t *trial) checkNodes(ctx context.Context, wanted map[string]bool) error {
	nodes, err := t.bench.cluster.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	return checkNodes(nodes.Items, wanted)
}

func (t *trial) letPass(ctx context.Context, d time.Duration) error {
	for ; d > 0; d -= time.Second {
		t.bench.progress.update(fmt.Sprintf("%s: calls are counted for another %s", t.title, d))
		if err := t.pause(ctx, min(d, time.Second)); err != nil {
			return fmt.Errorf("count calls: %w", err)
		}
	}
	return nil
}

func (t *trial) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
