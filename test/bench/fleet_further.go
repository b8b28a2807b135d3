package main

import "fmt"

const (
	// furtherNodes and furtherServices are what each cluster has that is compared with a process of
	// upstream's.
	furtherNodes    = 100
	furtherServices = 20
	// What one more cluster may cost, at rest, after the process has started again.
	furtherMemoryTarget     = 2.5 // MiB
	furtherGoroutinesTarget = 40
	furtherConnectionTarget = 1
)

const startedAgain = "started again"

// measureFurther measures what one more cluster costs: a process of upstream's, or a cluster more
// in a fleet of one replica. The latter is the difference between a fleet with many clusters and a
// fleet with one, by the number of clusters that it has more. The three processes run side by side:
// memory does not depend on what else the machine computes.
func (t *trial) measureFurther() {
	parts, awaitSetUp := t.openParts("part", t.clusters+2, furtherNodes, furtherServices)
	run := t.startFurther(parts)
	awaitSetUp()
	run.measure("newly set up")
	// What setting a cluster up has left behind is not what a process needs that runs it.
	t.end(run.upstream)
	t.end(run.one)
	t.end(run.all)
	run = t.startFurther(parts)
	run.measure(startedAgain)
	run.measureOwners()
}

// furtherRun has the processes that are compared: upstream's for one cluster, a fleet of one
// cluster, and one of all others.
type furtherRun struct {
	*trial
	upstream, one, all *process
}

// startFurther returns when both fleets serve their clusters. Upstream's process waits for its
// lease if it was started again.
func (t *trial) startFurther(parts []*part) *furtherRun {
	r := &furtherRun{
		t, t.startUpstream(parts[0]), t.startReplica("one", parts[1:2], 1),
		t.startReplica("all", parts[2:], 1),
	}
	t.awaitServed(r.one)
	t.awaitServed(r.all)
	return r
}

// startUpstream starts upstream's process for one part.
func (t *trial) startUpstream(p *part) *process {
	started := t.start(candidate{name: upstream, program: "upstream", flags: []string{
		"--kubeconfig=" + p.kubeconfig,
		"--authentication-kubeconfig=" + p.kubeconfig,
		"--authorization-kubeconfig=" + p.kubeconfig,
		"--cloud-config=" + t.writeFile(p.name+".cloud", p.cloud.address+"\n"),
		"--cluster-name=" + p.name,
		"--leader-elect-resource-namespace=" + p.name,
	}})
	started.parts = []*part{p}
	return started
}

// further is how many clusters the larger fleet has more.
func (r *furtherRun) further() float64 { return float64(len(r.all.parts) - len(r.one.parts)) }

// measure measures the three processes at rest.
func (r *furtherRun) measure(when string) {
	r.awaitRest()
	alone, one, all := r.usage(r.upstream), r.usage(r.one), r.usage(r.all)
	r.addFurther(when, alone, one, all.minus(one).over(r.further()))
}

// addFurther records what upstream's process has, a fleet of one cluster, and one more cluster.
func (b *bench) addFurther(when string, alone, one, further amounts) {
	beside := &b.results.fleet.beside
	subject := fmt.Sprintf("cluster of %d nodes and %d Services, %s: ", furtherNodes,
		furtherServices, when)
	for _, what := range []struct {
		title, amount string
		unit          unit
		target        float64 // of a cluster that was started again
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
		beside.add(at, ours, sample{value: further[what.amount]})
		if what.target != noTarget && when == startedAgain {
			b.noteFleet(at.title, further[what.amount], what.unit, what.target)
		}
	}
	first := row{title: "First " + subject + "memory at rest", unit: mebibytes}
	beside.add(first, upstream, sample{value: alone[resident]})
	beside.add(first, ours, sample{value: one[resident]})
}
