package main

import (
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
	// create returns a function that watches until all is done.
	create func(*trial) (watch func() *sight)
}

// nodeBacklog is nodes that have just registered.
func nodeBacklog(size int) backlog {
	return backlog{"nodes", size, func(t *trial) func() *sight {
		var nodes []*corev1.Node
		for i := range size {
			nodes = append(nodes, newNode(fmt.Sprintf("node-%04d", i)))
		}
		t.addNodes(nodes)
		return func() *sight { return t.watchNodes(size, isInitialized) }
	}}
}

// serviceBacklog is Services of type LoadBalancer that have just been made, in a cluster of a few
// nodes that are long initialized.
func serviceBacklog(size int) backlog {
	return backlog{"Services", size, func(t *trial) func() *sight {
		var nodes []*corev1.Node
		for i := range backends {
			node := newNode(fmt.Sprintf("backend-%02d", i))
			node.Spec.Taints = nil
			node.Spec.ProviderID = "fake://region-1/" + node.Name
			nodes = append(nodes, node)
		}
		t.addNodes(nodes)
		services := newServices(size, 2)
		t.createServices(services...)
		return func() *sight { return t.watchServed(services) }
	}}
}

// addNodes adds nodes, and their instances.
func (t *trial) addNodes(nodes []*corev1.Node) {
	for _, node := range nodes {
		t.Check(t.cloud.AddInstances(fake.Instance{Name: node.Name}))
	}
	t.createNodes(nodes...)
}

// measureBacklog measures how long the candidates take, from when they lead, to do all that waits,
// and how much memory they have used by then.
func (b *bench) measureBacklog(work backlog) {
	for _, latency := range b.latencies {
		took := row{title: fmt.Sprintf("%d %s, cloud calls of %s", work.size, work.things,
			latencyText(latency)), unit: seconds}
		if latency == targetLatency {
			took.target = backlogTarget
		}
		memory := row{title: "Peak memory: " + took.title, target: noWorseTarget, unit: mebibytes}
		slow := map[string]bool{}
		for round := range min(b.rounds, backlogRounds) {
			for _, c := range candidates() {
				if slow[c.name] {
					continue
				}
				title := fmt.Sprintf("%s, round %d: %s", took.title, round+1, c.name)
				b.trial(title, latency, func(t *trial) {
					done, peak := t.clearBacklog(c, work)
					b.results.add(took, c.name, done)
					b.results.add(memory, c.name, peak)
					b.progress.say(fmt.Sprintf("%s takes %s and %s", title, done.text(seconds),
						peak.text(mebibytes)))
					slow[c.name] = done.value > slowTrial.Seconds()
				})
			}
		}
	}
}

// clearBacklog is one trial. Not to finish within the limit is a result and no error.
func (t *trial) clearBacklog(c candidate, work backlog) (took, peak sample) {
	watch := work.create(t)
	t.settle()
	all := watch()
	p, from := t.lead(c)
	<-all.done
	peak = sample{value: float64(t.memory(p).VmHWM) / (1 << 20)}
	if errors.Is(all.err, errLimit) {
		return sample{
			value: t.limit.Seconds(), unfinished: true, done: len(all.times), of: work.size,
		}, peak
	}
	return sample{value: all.wait().Sub(from).Seconds()}, peak
}

func latencyText(d time.Duration) string {
	if d == 0 {
		return "0 ms"
	}
	return fmt.Sprintf("%g ms", float64(d)/float64(time.Millisecond))
}
