package main

import (
	"fmt"

	"github.com/fxccm/fxccm/ccm"
)

// A candidate is a program under test with its flags.
type candidate struct {
	// name is the column in the tables.
	name    string
	program string
	// flags are those beside the ones that every candidate has.
	flags []string
	// backlogOnly leaves the candidate out where its flags make no difference.
	backlogOnly bool
}

// The names of the candidates. Ratios are ours to upstream.
const (
	upstream = "upstream"
	tuned    = "upstream, tuned"
	ours     = "fxccm"
)

// candidates are the columns of the tables. Upstream has its default flags, and so has fxccm. The
// tuned one shows what upstream's program does with fxccm's defaults for concurrency and
// client-side throttling: it is there for honesty, and has no target.
func candidates() []candidate {
	return []candidate{
		{name: upstream, program: "upstream"},
		{name: tuned, program: "upstream", backlogOnly: true, flags: tunedFlags()},
		{name: ours, program: "fxccm"},
	}
}

func tunedFlags() []string {
	defaults := ccm.DefaultConfig()
	return []string{
		fmt.Sprintf("--concurrent-node-syncs=%d", defaults.Node.ConcurrentSyncs),
		fmt.Sprintf("--concurrent-node-lifecycle-syncs=%d", defaults.NodeLifecycle.ConcurrentSyncs),
		fmt.Sprintf("--concurrent-service-syncs=%d", defaults.Service.ConcurrentSyncs),
		"--kube-api-qps=-1", // upstream's word for no limit
	}
}
