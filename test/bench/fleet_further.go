package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

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

// measureFurther measures what one more cluster costs: a process of upstream's, or a cluster more
// in a fleet of one replica. The latter is the difference between a fleet with many clusters and a
// fleet with one, by the number of clusters that it has more. The three processes run side by side:
// memory does not depend on what else the machine computes.
func (t *trial) measureFurther(ctx context.Context) error {
	t.title = "one more cluster"
	many := t.bench.settings.clusters
	parts, err := t.openParts(ctx, "part", many+2, furtherNodes, furtherServices)
	if err != nil {
		return err
	}
	setUp, err := t.watchSetUp(ctx, parts, furtherNodes, furtherServices)
	if err != nil {
		return err
	}
	run := &furtherRun{trial: t, alone: parts[0], parts: parts[1:]}
	if err := run.start(ctx); err != nil {
		return err
	}
	if err := setUp(); err != nil {
		return err
	}
	if err := run.measure(ctx, "newly set up"); err != nil {
		return err
	}
	// What setting a cluster up has left behind is not what a process needs that runs it.
	for _, p := range []*process{run.upstream, run.one.process, run.all.process} {
		if err := p.stop(stopGrace); err != nil {
			return fmt.Errorf("stop %s: %w", p.name, err)
		}
	}
	if err := run.start(ctx); err != nil {
		return err
	}
	if err := run.measure(ctx, startedAgain); err != nil {
		return err
	}
	return run.measureOwners(ctx)
}

const startedAgain = "started again"

// furtherRun has the processes that are compared.
type furtherRun struct {
	*trial
	alone           *part
	parts           []*part
	upstream        *process
	upstreamAddress string
	one, all        *fleetReplica
}

// start returns when both fleets serve their clusters. Upstream's process waits for its lease if it
// was started again.
func (r *furtherRun) start(ctx context.Context) (err error) {
	if r.upstream, r.upstreamAddress, err = r.startUpstream(r.alone); err != nil {
		return err
	}
	if r.one, err = r.startReplica("one", r.parts[:1], 1); err != nil {
		return err
	}
	if r.all, err = r.startReplica("all", r.parts[1:], 1); err != nil {
		return err
	}
	if err := r.awaitServed(ctx, r.one); err != nil {
		return err
	}
	return r.awaitServed(ctx, r.all)
}

func (r *furtherRun) further() float64 { return float64(len(r.all.parts) - len(r.one.parts)) }

// measure measures the three processes at rest.
func (r *furtherRun) measure(ctx context.Context, when string) error {
	if err := r.rest(ctx); err != nil {
		return err
	}
	admin := r.bench.cluster.plane.RESTConfig()
	alone, err := r.upstream.measure(ctx, r.upstreamAddress, admin, []*part{r.alone})
	if err != nil {
		return err
	}
	one, err := r.one.measure(ctx, r.one.address, admin, r.one.parts)
	if err != nil {
		return err
	}
	all, err := r.all.measure(ctx, r.all.address, admin, r.all.parts)
	if err != nil {
		return err
	}
	r.bench.results.fleet.addFurther(when, alone, one, all.minus(one).over(r.further()))
	return nil
}

// startUpstream starts upstream's process for one part.
func (t *trial) startUpstream(p *part) (*process, string, error) {
	cloudConfig := filepath.Join(t.bench.dir, p.name+".cloud")
	if err := os.WriteFile(cloudConfig, []byte(p.cloud.address+"\n"), 0o600); err != nil {
		return nil, "", fmt.Errorf("write the address of the cloud: %w", err)
	}
	// Of flags that are given twice the last one counts.
	r, err := t.start(candidate{name: upstream, program: "upstream", flags: []string{
		"--kubeconfig=" + p.kubeconfig,
		"--authentication-kubeconfig=" + p.kubeconfig,
		"--authorization-kubeconfig=" + p.kubeconfig,
		"--cloud-config=" + cloudConfig,
		"--cluster-name=" + p.name,
		"--leader-elect-resource-namespace=" + p.name,
	}})
	if err != nil {
		return nil, "", err
	}
	return r.process, fmt.Sprintf("https://127.0.0.1:%d", r.port), nil
}

// addFurther records what upstream's process has, a fleet of one cluster, and one more cluster.
func (r *fleetResult) addFurther(when string, alone, one, further usage) {
	subject := fmt.Sprintf("cluster of %d nodes and %d Services, %s", furtherNodes,
		furtherServices, when)
	for _, what := range []struct {
		title  string
		unit   unit
		target float64 // of a cluster that was started again
		of     func(usage) float64
	}{
		{
			"memory at rest", mebibytes, furtherMemoryTarget,
			func(u usage) float64 { return u.resident / (1 << 20) },
		},
		{
			"memory at rest that is its own", mebibytes, noTarget,
			func(u usage) float64 { return u.private / (1 << 20) },
		},
		{"peak memory", mebibytes, noTarget, func(u usage) float64 { return u.peak / (1 << 20) }},
		{
			"Go heap at rest", mebibytes, noTarget,
			func(u usage) float64 { return u.heap / (1 << 20) },
		},
		{
			"goroutines", count, furtherGoroutinesTarget,
			func(u usage) float64 { return u.goroutines },
		},
		{
			"connections to the API server", count, furtherConnectionTarget,
			func(u usage) float64 { return u.connections },
		},
	} {
		title := fmt.Sprintf("One more %s: %s", subject, what.title)
		at := row{title: title, unit: what.unit}
		r.beside.add(at, upstream, sample{value: what.of(alone)})
		r.beside.add(at, ours, sample{value: what.of(further)})
		if what.target != noTarget && when == startedAgain {
			r.note(title, what.of(further), what.unit, what.target)
		}
	}
	first := row{title: fmt.Sprintf("First %s: memory at rest", subject), unit: mebibytes}
	r.beside.add(first, upstream, sample{value: alone.resident / (1 << 20)})
	r.beside.add(first, ours, sample{value: one.resident / (1 << 20)})
}
