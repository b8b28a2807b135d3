package main

import "time"

// A scenario is what is measured together.
type scenario struct {
	name    string
	measure func(*bench)
}

func scenarios() []scenario {
	return []scenario{
		{"start", measureStart},
		{"nodes", func(b *bench) { b.measureBacklog(nodeBacklog(b.nodes)) }},
		{"services", func(b *bench) { b.measureBacklog(serviceBacklog(b.services)) }},
		{"handover", measureHandover},
		{fleetProgram, measureFleet},
		{requestsScenario, measureRequests},
		{processScenario, measureProcess},
		{"openstack", measureOpenStack},
		{labScenario, measureLab},
	}
}

func scenarioNames() (names []string) {
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// What fxccm is to reach: ratios to upstream with its defaults.
const (
	// targetLatency is how long a call to the cloud takes where there is a target for the time.
	targetLatency  = 50 * time.Millisecond
	backlogTarget  = 0.1
	handoverTarget = 0.2
	noWorseTarget  = 1.0
	noTarget       = 0.0
	// zeroTarget is of a figure that must be 0.
	zeroTarget = -1.0
)
