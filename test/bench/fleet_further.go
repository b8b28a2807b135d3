package main

import "fmt"

const (
	// furtherNodes and furtherServices are what each cluster has that is compared with a process of
	// upstream's.
	furtherNodes    = 100
	furtherServices = 20
	// What one more cluster may cost at rest.
	furtherMemoryTarget     = 2.5 // MiB
	furtherGoroutinesTarget = 40
	furtherConnectionTarget = 1
)

const (
	newlySetUp   = "newly set up"
	startedAgain = "started again"
)

// measureFurther measures what one more cluster costs: a process of upstream's, or a cluster more
// in a fleet of one replica. The latter is the difference between a fleet with many clusters and a
// fleet with one, by the number of clusters that it has more. The processes run side by side:
// memory does not depend on what else the machine computes.
func (t *trial) measureFurther() {
	parts, awaitSetUp := t.openParts("part", t.clusters+3, furtherNodes, furtherServices)
	run := t.startFurther(parts)
	awaitSetUp()
	run.measure(newlySetUp)
	run.measureHeap(newlySetUp)
	// What setting a cluster up has left behind is not what a process needs that runs it.
	t.end(run.upstream)
	t.end(run.tuned)
	t.end(run.one)
	t.end(run.all)
	run = t.startFurther(parts)
	run.measure(startedAgain)
	run.measureGoroutines()
	run.measureHeap(startedAgain)
}

// furtherRun has the processes that are compared: upstream's for one cluster, with default flags
// and tuned, a fleet of one cluster, and one of all others.
type furtherRun struct {
	*trial
	upstream, tuned, one, all *process
}

// startFurther returns when both fleets serve their clusters. Upstream's processes wait for their
// leases if they were started again.
func (t *trial) startFurther(parts []*part) *furtherRun {
	r := &furtherRun{
		t, t.startUpstream(parts[0], upstream), t.startUpstream(parts[1], tuned, tunedFlags()...),
		t.startReplica("one", parts[2:3], 1), t.startReplica("all", parts[3:], 1),
	}
	t.awaitServed(r.one)
	t.awaitServed(r.all)
	return r
}

// startUpstream starts upstream's process for one part.
func (t *trial) startUpstream(p *part, name string, flags ...string) *process {
	started := t.start(candidate{name: name, program: "upstream", flags: append([]string{
		"--kubeconfig=" + p.kubeconfig,
		"--authentication-kubeconfig=" + p.kubeconfig,
		"--authorization-kubeconfig=" + p.kubeconfig,
		"--cloud-config=" + t.writeFile(p.name+".cloud", p.cloud.address+"\n"),
		"--cluster-name=" + p.name,
		"--leader-elect-resource-namespace=" + p.name,
	}, flags...)})
	started.parts = []*part{p}
	return started
}

// further is how many clusters the larger fleet has more.
func (r *furtherRun) further() float64 { return float64(len(r.all.parts) - len(r.one.parts)) }

// measure measures the processes at rest.
func (r *furtherRun) measure(when string) {
	r.awaitRest()
	one, all := r.usage(r.one), r.usage(r.all)
	r.addFurther(when, r.usage(r.upstream), r.usage(r.tuned), one, all.minus(one).over(r.further()))
}

// addFurther records what upstream's processes have, a fleet of one cluster, and one more cluster.
func (b *bench) addFurther(when string, alone, aloneTuned, one, further amounts) {
	beside := &b.results.fleet.beside
	subject := fmt.Sprintf("cluster of %d nodes and %d Services, %s: ", furtherNodes,
		furtherServices, when)
	for _, what := range []struct {
		title, amount string
		unit          unit
		target        float64
	}{
		{"memory at rest", resident, mebibytes, furtherMemoryTarget},
		{"memory at rest that is its own", private, mebibytes, noTarget},
		{"peak memory", peak, mebibytes, noTarget},
		{"Go heap at rest", heap, mebibytes, noTarget},
		{"goroutines", goroutines, count, furtherGoroutinesTarget},
		{"connections to the API server", connections, count, furtherConnectionTarget},
	} {
		at := row{title: "One more " + subject + what.title, unit: what.unit}
		beside.add(at, upstream, sample{value: alone[what.amount]})
		beside.add(at, tuned, sample{value: aloneTuned[what.amount]})
		beside.add(at, ours, sample{value: further[what.amount]})
		if what.target != noTarget {
			b.noteFleet(at.title, further[what.amount], what.unit, what.target)
		}
	}
	first := row{title: "First " + subject + "memory at rest", unit: mebibytes}
	beside.add(first, upstream, sample{value: alone[resident]})
	beside.add(first, tuned, sample{value: aloneTuned[resident]})
	beside.add(first, ours, sample{value: one[resident]})
}
