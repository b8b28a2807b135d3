package main

import (
	"fmt"
	"os"
	"path/filepath"

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
	defaults := ccm.DefaultConfig()
	return []candidate{
		{name: upstream, program: "upstream"},
		{name: tuned, program: "upstream", backlogOnly: true, flags: []string{
			fmt.Sprintf("--concurrent-node-syncs=%d", defaults.Node.ConcurrentSyncs),
			fmt.Sprintf("--concurrent-node-lifecycle-syncs=%d",
				defaults.NodeLifecycle.ConcurrentSyncs),
			fmt.Sprintf("--concurrent-service-syncs=%d", defaults.Service.ConcurrentSyncs),
			"--kube-api-qps=-1", // upstream's word for no limit
		}},
		{name: ours, program: "fxccm"},
	}
}

func checkPrograms(dir string) error {
	needed := []string{fleetProgram}
	for _, c := range candidates() {
		needed = append(needed, c.program)
	}
	for _, program := range needed {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return fmt.Errorf("find the programs to measure: %w; `make bench` builds them", err)
		}
	}
	return nil
}
