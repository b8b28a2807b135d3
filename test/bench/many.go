package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// managerNodes and managerServices are what each Manager has in its cluster.
	managerNodes    = 100
	managerServices = 20
	// apart is the pause between the starts of two Managers: clusters come one after the other.
	apart = time.Second
	// manyProgram is ours with many Managers.
	manyProgram = "many"
	// manyRounds is how often it is measured at most.
	manyRounds = 3
)

// measureMany measures what one more cluster costs: a process of upstream's, or a Manager more in a
// process of ours. The latter is the difference between a process with many and a process with one,
// by the number of those that it has more.
func measureMany(ctx context.Context, b *bench) error {
	for round := range min(b.settings.rounds, manyRounds) {
		err := b.trial(ctx, 0,
			func(ctx context.Context, t *trial) error { return t.runMany(ctx, round+1) })
		if err != nil {
			return err
		}
	}
	return nil
}

// runMany runs three processes side by side: memory does not depend on who else computes.
func (t *trial) runMany(ctx context.Context, round int) (err error) {
	b, many := t.bench, t.bench.settings.managers
	var parts []*part
	// The processes end before what they talk to.
	t.after = func() (err error) {
		for _, p := range parts {
			err = errors.Join(err, p.close())
		}
		return err
	}
	total := many + 2
	for i := range total {
		b.progress.update(
			fmt.Sprintf("many Managers, round %d: cluster %d of %d is made", round, i+1, total))
		p, err := b.openPart(ctx, fmt.Sprintf("part-%02d", i), managerNodes, managerServices)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	if err := b.cluster.settle(ctx); err != nil {
		return err
	}
	nodes, err := b.cluster.watchNodes(ctx, total*managerNodes, func(done int) {
		b.progress.update(
			fmt.Sprintf("many Managers, round %d: %d of %d nodes", round, done, total*managerNodes))
	})
	if err != nil {
		return err
	}
	services, err := b.cluster.watchAllServices(ctx, total*managerServices)
	if err != nil {
		return err
	}
	runs := []*manyRun{
		{parts: parts[:1], start: t.startUpstream},
		{parts: parts[1:2], start: t.startManagers},
		{parts: parts[2:], start: t.startManagers},
	}
	for _, r := range runs {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if _, err := nodes.wait(); err != nil {
		return fmt.Errorf("wait for the nodes: %w", err)
	}
	if _, err := services.wait(); err != nil {
		return fmt.Errorf("wait for the Services: %w", err)
	}
	if err := t.measureRuns(ctx, round, "newly set up", runs); err != nil {
		return err
	}
	// What setting a cluster up has left behind is not what a process needs that runs it.
	if err := b.restart(ctx, runs); err != nil {
		return err
	}
	return t.measureRuns(ctx, round, "started again", runs)
}

// manyRun is a process and the parts that it works for.
type manyRun struct {
	parts   []*part
	start   func(context.Context, []*part) (*process, string, error)
	process *process
	address string
}

func (r *manyRun) begin(ctx context.Context) (err error) {
	r.process, r.address, err = r.start(ctx, r.parts)
	return err
}

// measureRuns measures the three processes at rest: upstream's, ours with one Manager, and ours
// with many.
func (t *trial) measureRuns(ctx context.Context, round int, when string, runs []*manyRun) error {
	if err := t.rest(ctx, round); err != nil {
		return err
	}
	var usages []usage
	for _, r := range runs {
		u, err := r.process.measure(ctx, r.address, t.bench.cluster.plane.RESTConfig(), r.parts)
		if err != nil {
			return err
		}
		usages = append(usages, u)
	}
	alone, one, all := usages[0], usages[1], usages[2]
	t.bench.addMany(round, when, alone, one, all.minus(one).over(float64(len(runs[2].parts)-1)))
	return nil
}

// restart ends the processes, starts them again, and waits until they lead.
func (b *bench) restart(ctx context.Context, runs []*manyRun) error {
	before := map[*part]string{}
	for _, r := range runs {
		for _, p := range r.parts {
			lease, err := b.cluster.partLease(ctx, p)
			if err != nil {
				return err
			}
			before[p] = holderOf(lease)
		}
		if err := r.process.stop(stopGrace); err != nil {
			return fmt.Errorf("stop %s: %w", r.process.name, err)
		}
	}
	for _, r := range runs {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	for p, holder := range before {
		b.progress.update("many Managers: who was started again waits for the lease of " + p.name)
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true,
			func(ctx context.Context) (bool, error) {
				lease, err := b.cluster.partLease(ctx, p)
				if err != nil {
					return false, err
				}
				return isHeld(lease) && holderOf(lease) != holder, nil
			})
		if err != nil {
			return fmt.Errorf("wait for the lease of %s: %w", p.name, err)
		}
	}
	return nil
}

func (c *cluster) partLease(ctx context.Context, p *part) (*coordinationv1.Lease, error) {
	lease, err := c.client.CoordinationV1().Leases(p.name).Get(ctx, ccmLease().Name,
		metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the lease of %s: %w", p.name, err)
	}
	return lease, nil
}

// rest waits until the processes have come to rest, without a forced garbage collection.
func (t *trial) rest(ctx context.Context, round int) error {
	left := t.bench.settings.rest
	for ; left > 0; left -= time.Second {
		t.bench.progress.update(
			fmt.Sprintf("many Managers, round %d: all is done; measured in %s", round, left))
		select {
		case <-time.After(min(left, time.Second)):
		case <-ctx.Done():
			return fmt.Errorf("let the processes rest: %w", context.Cause(ctx))
		}
	}
	return nil
}

// startUpstream starts upstream's process for one part.
func (t *trial) startUpstream(_ context.Context, parts []*part) (*process, string, error) {
	p := parts[0]
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

// startManagers starts a process of ours with a Manager for each part.
func (t *trial) startManagers(_ context.Context, parts []*part) (*process, string, error) {
	type cluster struct {
		Name       string `json:"name"`
		Kubeconfig string `json:"kubeconfig"`
		Cloud      string `json:"cloud"`
	}
	var clusters []cluster
	for _, p := range parts {
		clusters = append(clusters,
			cluster{Name: p.name, Kubeconfig: p.kubeconfig, Cloud: p.cloud.address})
	}
	data, err := json.Marshal(clusters)
	if err != nil {
		return nil, "", fmt.Errorf("list the clusters: %w", err)
	}
	list := filepath.Join(t.bench.dir, fmt.Sprintf("clusters-%d.json", len(parts)))
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return nil, "", fmt.Errorf("list the clusters: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := t.startProgram(fmt.Sprintf("%s with %d Managers", ours, len(parts)), manyProgram,
		"--clusters="+list, "--address="+address, "--apart="+apart.String())
	return p, "http://" + address, err
}

func (b *bench) addMany(round int, when string, alone, one, further usage) {
	subject := fmt.Sprintf("cluster of %d nodes and %d Services, %s", managerNodes, managerServices,
		when)
	for _, what := range []struct {
		title  string
		unit   unit
		target float64
		of     func(usage) float64
	}{
		{
			"memory at rest", mebibytes, furtherTarget,
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
		{"goroutines", count, noTarget, func(u usage) float64 { return u.goroutines }},
		{
			"connections to the API server", count, noTarget,
			func(u usage) float64 { return u.connections },
		},
	} {
		at := row{
			title: fmt.Sprintf("One more %s: %s", subject, what.title), unit: what.unit,
			target: what.target,
		}
		b.results.add(at, upstream, sample{value: what.of(alone)})
		b.results.add(at, ours, sample{value: what.of(further)})
	}
	first := row{title: fmt.Sprintf("First %s: memory at rest", subject), unit: mebibytes}
	b.results.add(first, upstream, sample{value: alone.resident / (1 << 20)})
	b.results.add(first, ours, sample{value: one.resident / (1 << 20)})
	b.progress.say(
		fmt.Sprintf(
			"many Managers, round %d, %s: one more cluster takes %s %.1f MiB, and %s %.2f MiB, %.0f goroutines, %.0f connections",
			round, when, upstream, alone.resident/(1<<20), ours, further.resident/(1<<20),
			further.goroutines, further.connections))
}
