package main

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// smallNodes and smallServices are what each cluster has in a fleet of many.
	smallNodes    = 20
	smallServices = 5
	// A replica may need so much for all of them.
	sizeMemoryTarget = 2048 // MiB
	sizeReadyTarget  = 180  // seconds
)

// measureSize measures one replica that serves many small clusters, and another one that waits.
func (t *trial) measureSize(ctx context.Context) error {
	b := t.bench
	n := b.settings.smallClusters
	t.title = fmt.Sprintf("%d clusters", n)
	subject := fmt.Sprintf("%d clusters of %d nodes and %d Services", n, smallNodes, smallServices)
	parts, err := t.openParts(ctx, "small", n, smallNodes, smallServices)
	if err != nil {
		return err
	}
	setUp, err := t.watchSetUp(ctx, parts, smallNodes, smallServices)
	if err != nil {
		return err
	}
	replica, err := t.startReplica("size", parts, 1)
	if err != nil {
		return err
	}
	if err := setUp(); err != nil {
		return err
	}
	result := b.results.fleet
	result.note(subject+", new: from the start of the process until all are set up",
		time.Since(replica.started).Seconds(), seconds, noTarget)
	if err := replica.stop(stopGrace); err != nil {
		return fmt.Errorf("stop %s: %w", replica.name, err)
	}
	if replica, err = t.startReplica("size", parts, 1); err != nil {
		return err
	}
	if err := t.awaitServed(ctx, replica); err != nil {
		return err
	}
	result.note(subject+", started again: until all are served",
		time.Since(replica.started).Seconds(), seconds, sizeReadyTarget)
	waiting, err := t.startReplica("size", parts, 0)
	if err != nil {
		return err
	}
	return t.measureIdle(ctx, subject, replica, waiting)
}

// measureIdle measures, at rest, what a replica needs that serves clusters, and one that waits.
func (t *trial) measureIdle(
	ctx context.Context, subject string, replica, waiting *fleetReplica,
) error {
	if err := t.pause(ctx, restless); err != nil {
		return err
	}
	before, err := t.snapshot(ctx, replica, waiting)
	if err != nil {
		return err
	}
	if err := t.rest(ctx); err != nil {
		return err
	}
	after, err := t.snapshot(ctx, replica, waiting)
	if err != nil {
		return err
	}
	usage, err := replica.measure(ctx, replica.address, t.bench.cluster.plane.RESTConfig(),
		replica.parts)
	if err != nil {
		return err
	}
	waited, err := waiting.memory()
	if err != nil {
		return err
	}
	spent, n := after.since(before), float64(len(replica.parts))
	for _, f := range []figure{
		{
			title: "memory", value: usage.resident / (1 << 20), unit: mebibytes,
			target: sizeMemoryTarget,
		},
		{
			title: "peak memory", value: usage.peak / (1 << 20), unit: mebibytes,
			target: sizeMemoryTarget,
		},
		{title: "memory for each cluster", value: usage.resident / n / (1 << 20), unit: mebibytes},
		{title: "goroutines for each cluster", value: usage.goroutines / n, unit: perCluster},
		{
			title: "connections to its API server for each cluster", value: usage.connections / n,
			unit: perCluster, target: furtherConnectionTarget,
		},
		{title: "CPU time", value: spent.replica, unit: coresInUse},
		{
			title: "memory of a replica that waits", value: waited["VmRSS"] / (1 << 20),
			unit: mebibytes,
		},
		{title: "CPU time of a replica that waits", value: spent.waiting, unit: coresInUse},
		{title: "CPU time of kube-apiserver and etcd", value: spent.plane, unit: coresInUse},
		{title: "writes of Leases", value: spent.leases, unit: perSecond},
		{
			title: "requests of each cluster to its API server, except watches",
			value: spent.requests * 60 / n, unit: perMinute,
		},
		{
			title: "calls of each cluster to the cloud",
			value: spent.calls * 60 / n, unit: perMinute,
		},
	} {
		t.bench.results.fleet.note(subject+", at rest: "+f.title, f.value, f.unit, f.target)
	}
	return nil
}

// A snapshot is what has been counted until a moment: CPU time in seconds, and requests.
type snapshot struct {
	at                      time.Time
	replica, waiting, plane float64
	leases, requests, calls float64
}

// since is what was counted a second since an earlier snapshot.
func (s snapshot) since(before snapshot) snapshot {
	took := s.at.Sub(before.at).Seconds()
	return snapshot{
		replica: (s.replica - before.replica) / took, waiting: (s.waiting - before.waiting) / took,
		plane: (s.plane - before.plane) / took, leases: (s.leases - before.leases) / took,
		requests: (s.requests - before.requests) / took, calls: (s.calls - before.calls) / took,
	}
}

func (t *trial) snapshot(
	ctx context.Context, replica, waiting *fleetReplica,
) (s snapshot, err error) {
	s.at = time.Now()
	for into, of := range map[*float64]func() (time.Duration, error){
		&s.replica: replica.cpuTime, &s.waiting: waiting.cpuTime, &s.plane: t.bench.cluster.cpuTime,
	} {
		computed, err := of()
		if err != nil {
			return s, err
		}
		*into = computed.Seconds()
	}
	if s.leases, err = t.bench.cluster.leaseWrites(ctx); err != nil {
		return s, err
	}
	for _, p := range replica.parts {
		s.requests += float64(p.requests.Load())
		s.calls += float64(p.cloud.requests.Load())
	}
	return s, nil
}

// leaseWrites is how many writes of Leases the API server has answered.
func (c *cluster) leaseWrites(ctx context.Context) (total float64, _ error) {
	body, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	defer func() { _ = body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["resource"] == "leases" && (labels["verb"] == "PUT" || labels["verb"] == "POST") {
			total += m.GetCounter().GetValue()
		}
	}
	return total, nil
}
