package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fxccm/fxccm/fleet"
)

const (
	// fleetProgram is a replica of a fleet.
	fleetProgram = "fleet"
	// fleetNamespace has the Leases of the fleets, in the management cluster, which is the API
	// server behind all endpoints.
	fleetNamespace = "fxccm-system"
	// restless is for how long replicas that have just started are not counted.
	restless = 30 * time.Second
)

// fleetResult is what was measured of fleets.
type fleetResult struct {
	// beside has one more cluster beside a process of upstream's.
	beside *results
	// figures have targets of their own.
	figures []figure
	// owners show what one more cluster has, by owner.
	owners []ownerTable
	// say shows a figure while the benchmark runs. It may be nil.
	say func(string)
}

func (r *fleetResult) note(title string, value float64, u unit, target float64) {
	f := figure{title: title, value: value, unit: u, target: target}
	r.figures = append(r.figures, f)
	if r.say != nil {
		r.say(title + ": " + f.text())
	}
}

// measureFleet measures what one more cluster costs, a replica with many clusters, and the loss of
// a replica.
func measureFleet(ctx context.Context, b *bench) error {
	b.results.fleet = &fleetResult{beside: newResults(), say: b.progress.say}
	for _, measure := range []func(*trial, context.Context) error{
		(*trial).measureFurther, (*trial).measureSize, (*trial).measureLoss,
	} {
		err := b.trial(ctx, 0, func(ctx context.Context, t *trial) error { return measure(t, ctx) })
		if err != nil {
			return err
		}
	}
	return nil
}

// openParts opens n parts of one size, which are closed when the trial's processes have ended.
func (t *trial) openParts(
	ctx context.Context, prefix string, n, nodes, services int,
) ([]*part, error) {
	b := t.bench
	parts := make([]*part, n)
	t.after = func() (err error) {
		for _, p := range parts {
			if p != nil {
				err = errors.Join(err, p.close())
			}
		}
		return err
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for i := range parts {
		group.Go(func() (err error) {
			b.progress.update(fmt.Sprintf("%s: cluster %d of %d is created", t.title, i+1, n))
			parts[i], err = b.openPart(within, fmt.Sprintf("%s-%03d", prefix, i), nodes, services)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return parts, b.cluster.settle(ctx)
}

// watchSetUp waits until all nodes and Services of parts are set up.
func (t *trial) watchSetUp(
	ctx context.Context, parts []*part, nodes, services int,
) (wait func() error, _ error) {
	b := t.bench
	allNodes, err := b.cluster.watchNodes(ctx, len(parts)*nodes, func(done int) {
		b.progress.update(
			fmt.Sprintf("%s: %d of %d nodes", t.title, done, len(parts)*nodes))
	})
	if err != nil {
		return nil, err
	}
	allServices, err := b.cluster.watchAllServices(ctx, len(parts)*services)
	if err != nil {
		return nil, err
	}
	return func() error {
		if _, err := allNodes.wait(); err != nil {
			return fmt.Errorf("wait for the nodes: %w", err)
		}
		if _, err := allServices.wait(); err != nil {
			return fmt.Errorf("wait for the Services: %w", err)
		}
		return nil
	}, nil
}

// A fleetReplica is a process of a fleet and the parts that the fleet has.
type fleetReplica struct {
	*process
	address string
	parts   []*part
}

// startReplica starts a replica of the named fleet for the parts. One of weight 0 takes clusters
// only if no other replica does.
func (t *trial) startReplica(name string, parts []*part, weight int) (*fleetReplica, error) {
	b := t.bench
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
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	list := filepath.Join(b.dir, fmt.Sprintf("clusters-%d.json", len(t.processes)))
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := t.startProgram(fmt.Sprintf("fleet %s of %d clusters", name, len(parts)), fleetProgram,
		"--clusters="+list, "--address="+address, "--name="+name, "--namespace="+fleetNamespace,
		"--kubeconfig="+b.kubeconfig, fmt.Sprintf("--weight=%d", weight))
	if err != nil {
		return nil, err
	}
	return &fleetReplica{process: p, address: "http://" + address, parts: parts}, nil
}

// status asks the replica for its view of the fleet.
func (r *fleetReplica) status(ctx context.Context) (status fleet.Status, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+"/statusz", nil)
	if err != nil {
		return status, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return status, err
	}
	defer func() { _ = resp.Body.Close() }()
	return status, json.NewDecoder(resp.Body).Decode(&status)
}

// served are the clusters that the replica leads, with informers that have synced and controllers
// that run.
func (r *fleetReplica) served(ctx context.Context) (names []string, err error) {
	status, err := r.status(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its status: %w", r.name, err)
	}
	for _, c := range status.Clusters {
		if c.State == fleet.StateLeading && c.Ready {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// awaitServed waits until the replicas serve all of their clusters together.
func (t *trial) awaitServed(ctx context.Context, replicas ...*fleetReplica) error {
	all := len(replicas[0].parts)
	err := wait.PollUntilContextCancel(ctx, 250*time.Millisecond, true,
		func(ctx context.Context) (bool, error) {
			var names []string
			for _, r := range replicas {
				served, err := r.served(ctx)
				if err != nil {
					return false, nil // it does not listen yet
				}
				names = append(names, served...)
			}
			slices.Sort(names)
			served := len(slices.Compact(names))
			t.bench.progress.update(
				fmt.Sprintf("%s: %d of %d clusters are served", t.title, served, all))
			return served == all, nil
		})
	if err != nil {
		return fmt.Errorf("wait until all clusters are served: %w", context.Cause(ctx))
	}
	return nil
}

// rest waits until the processes have come to rest, without a forced garbage collection.
func (t *trial) rest(ctx context.Context) error {
	for left := t.bench.settings.rest; left > 0; left -= time.Second {
		t.bench.progress.update(fmt.Sprintf("%s: measured in %s", t.title, left))
		if err := t.pause(ctx, min(left, time.Second)); err != nil {
			return fmt.Errorf("let the processes rest: %w", err)
		}
	}
	return nil
}
