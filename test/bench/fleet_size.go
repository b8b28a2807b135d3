package main

import (
	"fmt"
	"time"
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
func (t *trial) measureSize() {
	n := t.smallClusters
	subject := fmt.Sprintf("%d clusters of %d nodes and %d Services", n, smallNodes, smallServices)
	parts, awaitSetUp := t.openParts("small", n, smallNodes, smallServices)
	replica := t.startReplica("size", parts, 1)
	awaitSetUp()
	t.noteFleet(subject+", new: from the start of the process until all are set up",
		time.Since(replica.Started).Seconds(), seconds, noTarget)
	t.end(replica)
	replica = t.startReplica("size", parts, 1)
	t.awaitServed(replica)
	t.noteFleet(subject+", started again: until all are served",
		time.Since(replica.Started).Seconds(), seconds, sizeReadyTarget)
	t.measureIdle(subject, replica, t.startReplica("size", parts, 0))
}

// measureIdle measures, at rest, what a replica needs that serves clusters, and one that waits.
func (t *trial) measureIdle(subject string, replica, waiting *process) {
	t.pause(restless)
	before, begun := t.counted(replica, waiting), time.Now()
	t.awaitRest()
	spent := t.counted(replica, waiting).minus(before).over(time.Since(begun).Seconds())
	n := float64(len(replica.parts))
	used := t.usage(replica)
	each := used.over(n)
	for _, f := range []struct {
		title  string
		value  float64
		unit   unit
		target float64
	}{
		{"memory", used[resident], mebibytes, sizeMemoryTarget},
		{"peak memory", used[peak], mebibytes, sizeMemoryTarget},
		{"memory for each cluster", each[resident], mebibytes, noTarget},
		{"goroutines for each cluster", each[goroutines], perCluster, noTarget},
		{
			"connections to its API server for each cluster", each[connections], perCluster,
			furtherConnectionTarget,
		},
		{"CPU time", spent["replica"], coresInUse, noTarget},
		{"memory of a replica that waits", t.usage(waiting)[resident], mebibytes, noTarget},
		{"CPU time of a replica that waits", spent["waiting"], coresInUse, noTarget},
		{"CPU time of kube-apiserver and etcd", spent["plane"], coresInUse, noTarget},
		{"writes of Leases", spent["leases"], perSecond, noTarget},
		{
			"requests of each cluster to its API server, except watches",
			spent["requests"] * 60 / n, perMinute, noTarget,
		},
		{"calls of each cluster to the cloud", spent["calls"] * 60 / n, perMinute, noTarget},
	} {
		t.noteFleet(subject+", at rest: "+f.title, f.value, f.unit, f.target)
	}
}

// counted is what has been counted until now: CPU time in seconds, and requests.
func (t *trial) counted(replica, waiting *process) amounts {
	all := amounts{
		"replica": t.cpuTime(replica.PID()), "waiting": t.cpuTime(waiting.PID()),
		"plane": t.planeCPU(),
	}
	// The API server's metrics.
	body, err := t.client.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(t.Context())
	t.Check(err)
	defer func() { _ = body.Close() }()
	metrics, err := parseMetrics(body)
	t.Check(err)
	for _, s := range metrics["apiserver_request_total"] {
		if verb := s.Metric["verb"]; s.Metric["resource"] == "leases" &&
			(verb == "PUT" || verb == "POST") {
			all["leases"] += float64(s.Value)
		}
	}
	for _, p := range replica.parts {
		all["requests"] += float64(p.requests.Load())
		all["calls"] += float64(p.cloud.requests.Load())
	}
	return all
}
