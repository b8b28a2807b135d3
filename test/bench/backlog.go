package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/fake"
)

const (
	// backlogRounds is how often a backlog is cleared at most, and slowTrial how long one may take
	// to be repeated: what takes minutes does not get more certain by it.
	backlogRounds = 3
	slowTrial     = 30 * time.Second
	// backends is how many nodes there are behind a load balancer.
	backends = 10
)

// A backlog is work that waits in the cluster when a candidate is started.
type backlog struct {
	things string
	size   int
	create func(context.Context, *trial) error
	watch  func(ctx context.Context, c *cluster, progress func(int)) (*sight, error)
}

// nodeBacklog is nodes that have just registered.
func nodeBacklog(size int) backlog {
	return backlog{
		things: "nodes", size: size,
		create: func(ctx context.Context, t *trial) error {
			var nodes []*corev1.Node
			for i := range size {
				nodes = append(nodes, newNode(fmt.Sprintf("node-%04d", i)))
			}
			return t.addNodes(ctx, nodes)
		},
		watch: func(ctx context.Context, c *cluster, progress func(int)) (*sight, error) {
			return c.watchNodes(ctx, size, progress)
		},
	}
}

// serviceBacklog is Services of type LoadBalancer that have just been made, in a cluster of a few
// nodes that are long initialised.
func serviceBacklog(size int) backlog {
	return backlog{
		things: "Services", size: size,
		create: func(ctx context.Context, t *trial) error {
			var nodes []*corev1.Node
			for i := range backends {
				node := newNode(fmt.Sprintf("backend-%02d", i))
				node.Spec.Taints = nil
				node.Spec.ProviderID = "fake://region-1/" + node.Name
				nodes = append(nodes, node)
			}
			if err := t.addNodes(ctx, nodes); err != nil {
				return err
			}
			var services []*corev1.Service
			for i := range size {
				services = append(services, newService(fmt.Sprintf("service-%04d", i)))
			}
			return t.bench.cluster.createServices(ctx, services...)
		},
		watch: func(ctx context.Context, c *cluster, progress func(int)) (*sight, error) {
			return c.watchServices(ctx, size, progress)
		},
	}
}

// addNodes adds nodes, and their instances.
func (t *trial) addNodes(ctx context.Context, nodes []*corev1.Node) error {
	for _, node := range nodes {
		if err := t.cloud.AddInstances(fake.Instance{Name: node.Name}); err != nil {
			return err
		}
	}
	return t.bench.cluster.createNodes(ctx, nodes...)
}

// measureBacklog measures how long the candidates take, from when they lead, to do all that waits,
// and how much memory they have used by then.
func (b *bench) measureBacklog(ctx context.Context, work backlog) error {
	for _, latency := range b.settings.latencies {
		took := row{title: fmt.Sprintf("%d %s, cloud calls of %s", work.size, work.things,
			latencyText(latency)), unit: seconds}
		if latency == targetLatency {
			took.target = backlogTarget
		}
		memory := row{title: "Peak memory: " + took.title, target: noWorseTarget, unit: mebibytes}
		slow := map[string]bool{}
		for round := range min(b.settings.rounds, backlogRounds) {
			for _, c := range candidates() {
				if slow[c.name] {
					continue
				}
				title := fmt.Sprintf("%s, round %d: %s", took.title, round+1, c.name)
				done, peak, err := b.clearBacklog(ctx, c, work, latency, title)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				b.results.add(took, c.name, done)
				b.results.add(memory, c.name, sample{value: float64(peak) / (1 << 20)})
				b.progress.say(fmt.Sprintf("%s takes %s and %.0f MiB", title, done.text(seconds),
					float64(peak)/(1<<20)))
				slow[c.name] = done.value > slowTrial.Seconds()
			}
		}
	}
	return nil
}

// clearBacklog is one trial. Not to finish within the limit is a result and no error.
func (b *bench) clearBacklog(
	ctx context.Context, c candidate, work backlog, latency time.Duration, title string,
) (took sample, peak int64, _ error) {
	err := b.trial(ctx, latency, func(ctx context.Context, t *trial) error {
		if err := work.create(ctx, t); err != nil {
			return fmt.Errorf("create %d %s: %w", work.size, work.things, err)
		}
		if err := b.cluster.settle(ctx); err != nil {
			return err
		}
		finished := 0
		all, err := work.watch(ctx, b.cluster, func(done int) {
			finished = done
			b.progress.update(fmt.Sprintf("%s: %d of %d", title, done, work.size))
		})
		if err != nil {
			return err
		}
		var p *replica
		from, err := t.lead(ctx, func() (err error) {
			p, err = t.start(c)
			return err
		})
		if err != nil {
			return err
		}
		to, waitErr := all.wait()
		if waitErr != nil && !errors.Is(waitErr, errLimit) {
			return fmt.Errorf("wait for %d %s, of which %d are done: %w", work.size, work.things,
				finished, waitErr)
		}
		if peak, err = p.peakMemory(); err != nil {
			return err
		}
		took = sample{value: to.Sub(from).Seconds()}
		if waitErr != nil {
			took = sample{
				value: b.settings.limit.Seconds(), unfinished: true, done: finished,
				of: work.size,
			}
		}
		return nil
	})
	return took, peak, err
}

func latencyText(d time.Duration) string {
	if d == 0 {
		return "0 ms"
	}
	return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
}
