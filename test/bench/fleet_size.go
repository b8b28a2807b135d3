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

// measureSize measures one replica that serves many small clusters, and another one that waits. It
// measures half of the clusters, too: the difference shows what more of them cost.
func (t *trial) measureSize() {
	n := t.smallClusters
	subject := sizeSubject(n)
	parts, awaitSetUp := t.openParts("small", n, smallNodes, smallServices)
	replica := t.startReplica("size", parts, 1)
	awaitSetUp()
	t.noteFleet(subject+", new: from the start of the process until all are set up",
		time.Since(replica.Started).Seconds(), seconds, noTarget)
	t.noteFleet(subject+", new: peak memory", t.usage(replica)[peak], mebibytes, sizeMemoryTarget)
	t.end(replica)
	half := t.measureServing(parts[:n/2])
	all := t.measureServing(parts)
	t.results.fleet.slopes = slopeTable(n/2, half, n, all)
}

func sizeSubject(clusters int) string {
	return fmt.Sprintf("%d clusters of %d nodes and %d Services", clusters, smallNodes,
		smallServices)
}

// measureServing measures a replica that starts when its clusters are set up, and then rests,
// beside one that waits. It returns what they need at rest.
func (t *trial) measureServing(parts []*part) amounts {
	subject := sizeSubject(len(parts))
	name := fmt.Sprintf("size-%d", len(parts))
	replica := t.startReplica(name, parts, 1)
	t.awaitServed(replica)
	ready := time.Since(replica.Started).Seconds()
	t.noteFleet(subject+", started again: until all are served", ready, seconds, sizeReadyTarget)
	waiting := t.startReplica(name, parts, 0)
	t.pause(restless)
	before, begun := t.counted(replica, waiting), time.Now()
	t.awaitRest()
	atRest := t.counted(replica, waiting).minus(before).over(time.Since(begun).Seconds())
	n := float64(len(parts))
	used := t.usage(replica)
	atRest["memory"], atRest["waiting memory"] = used[resident], t.usage(waiting)[resident]
	atRest["start"] = ready
	for _, f := range []struct {
		title  string
		value  float64
		unit   unit
		target float64
	}{
		{"memory", used[resident], mebibytes, sizeMemoryTarget},
		{"peak memory", used[peak], mebibytes, sizeMemoryTarget},
		{"memory for each cluster", used[resident] / n, mebibytes, noTarget},
		{
			"goroutines for each cluster", used[goroutines] / n, perCluster,
			furtherGoroutinesTarget,
		},
		{
			"connections to its API server for each cluster", used[connections] / n, perCluster,
			furtherConnectionTarget,
		},
		{"CPU time", atRest["replica"], coresInUse, noTarget},
		{"memory of a replica that waits", atRest["waiting memory"], mebibytes, noTarget},
		{"CPU time of a replica that waits", atRest["waiting"], coresInUse, noTarget},
		{"CPU time of kube-apiserver and etcd", atRest["plane"], coresInUse, noTarget},
		{"writes of Leases", atRest["leases"], perSecond, noTarget},
		{
			"requests of each cluster to its API server, except watches",
			atRest["requests"] * 60 / n, perMinute, zeroTarget,
		},
	} {
		t.noteFleet(subject+", at rest: "+f.title, f.value, f.unit, f.target)
	}
	t.end(waiting)
	t.end(replica)
	return atRest
}

// slopeTable shows what more clusters cost: the difference between two numbers of clusters, and the
// same for 10,000 clusters beyond the larger one.
func slopeTable(few int, atFew amounts, many int, atMany amounts) table {
	const planned = 10_000
	t := table{header: []string{
		"at rest", fmt.Sprintf("%d clusters", few), fmt.Sprintf("%d clusters", many),
		"each further cluster", "10,000 clusters",
	}}
	further := atMany.minus(atFew).over(float64(many - few))
	for _, line := range []struct {
		title, amount string
		unit          unit
	}{
		{"writes of Leases", "leases", perSecond},
		{"CPU time of kube-apiserver and etcd", "plane", coresInUse},
		{"memory of the replica", "memory", mebibytes},
		{"CPU time of the replica", "replica", coresInUse},
		{"memory of a replica that only sees the Leases", "waiting memory", mebibytes},
		{"CPU time of a replica that only sees the Leases", "waiting", coresInUse},
		{"time until a replica serves all after its start", "start", seconds},
	} {
		text := func(value float64) string { return sample{value: value}.text(line.unit) }
		each := further[line.amount]
		cells := []string{
			line.title, text(atFew[line.amount]), text(atMany[line.amount]),
			slopeText(each, line.unit), text(atMany[line.amount] + each*float64(planned-many)),
		}
		t.lines = append(t.lines, cells)
	}
	return t
}

// slopeText has the digits that a small share needs.
func slopeText(value float64, u unit) string {
	switch u {
	case coresInUse:
		return fmt.Sprintf("%.2f millicores", value*1000)
	case seconds, perSecond, mebibytes:
		return fmt.Sprintf("%.2f %s", value, u)
	}
	return sample{value: value}.text(u)
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
	}
	return all
}
