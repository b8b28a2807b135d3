package main

import (
	"context"
	"time"
)

// A scenario is what is measured together.
type scenario struct {
	name    string
	measure func(context.Context, *bench) error
}

func scenarios() []scenario {
	return []scenario{
		{"start", measureStart},
		{"nodes", func(ctx context.Context, b *bench) error {
			return b.measureBacklog(ctx, nodeBacklog(b.settings.nodes))
		}},
		{"services", func(ctx context.Context, b *bench) error {
			return b.measureBacklog(ctx, serviceBacklog(b.settings.services))
		}},
		{"handover", measureHandover},
		{fleetProgram, measureFleet},
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
)
