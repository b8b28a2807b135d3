package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/fleet"
)

const fleetStatusAbout = `Print the state of a fleet: its replicas, and all clusters with their leaders.

The replicas are asked as by "fxccm status". A cluster's state is that in the replica that holds its Lease.`

const fleetStatusExample = `  fxccm fleet status --context=management
  fxccm fleet status --context=management --sort=leader --watch`

// stateUnknown is the state of a cluster whose leader did not answer.
const stateUnknown status.State = "unknown"

// fleetStatusLine is the command line of "fxccm fleet status".
type fleetStatusLine struct {
	replicasLine
	sort, state string
}

// newFleetStatusCommand is "fxccm fleet status".
func newFleetStatusCommand() *cobra.Command {
	line := &fleetStatusLine{}
	cmd := &cobra.Command{
		Use: "status", Short: "Print the state of a fleet", Long: fleetStatusAbout,
		Example: fleetStatusExample, Args: cli.NoArgs,
		RunE: cli.UntilSignal(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			return line.run(ctx, cmd.OutOrStdout())
		}),
	}
	line.addFlags(cmd.Flags(), fleet.DefaultParams().Namespace,
		"app.kubernetes.io/name=fxccm-fleet")
	cmd.Flags().StringVar(&line.sort, "sort", "state",
		"The column by which the clusters are sorted: "+strings.Join(clusterColumns(), ", ")+".")
	cmd.Flags().StringVar(&line.state, "state", "",
		"Only the clusters in this state: "+strings.Join(clusterStates(), ", ")+".")
	return cmd
}

// refuseOthers makes the answer of a process that is not a fleet an error, or, if a fleet is not
// wanted, of one that is not the CCM of a cluster.
func refuseOthers[S any](answers []replica[S], wantFleet bool) {
	for i := range answers {
		a := &answers[i]
		var keys struct {
			Clusters json.RawMessage `json:"clusters"`
			State    json.RawMessage `json:"state"`
		}
		if a.Error != "" || json.Unmarshal(a.Raw, &keys) != nil {
			continue
		}
		isFleet, isCCM, reason := keys.Clusters != nil, keys.State != nil, ""
		switch {
		case isFleet && !wantFleet:
			reason = "a fleet, not the CCM of one cluster; see fxccm fleet status"
		case isCCM && !isFleet && wantFleet:
			reason = "not a fleet, but the CCM of one cluster; see fxccm status"
		case !isFleet && !isCCM:
			reason = "not fxccm: its /statusz has no status"
		}
		if reason != "" {
			*a = replica[S]{Name: a.Name, Error: reason}
		}
	}
}

func clusterStates() []string {
	var all []string
	for _, state := range append(fleet.States(), stateUnknown) {
		all = append(all, string(state))
	}
	return all
}

func clusterColumns() []string { return []string{"state", "cluster", "leader", "reason"} }

func (l *fleetStatusLine) check() error {
	if !slices.Contains(clusterColumns(), l.sort) {
		return cli.Usagef("--sort=%s is not supported: want %s", l.sort,
			strings.Join(clusterColumns(), ", "))
	}
	if l.state != "" && !slices.Contains(clusterStates(), l.state) {
		return cli.Usagef("--state=%s is not supported: want %s", l.state,
			strings.Join(clusterStates(), ", "))
	}
	return l.replicasLine.check()
}

func (l *fleetStatusLine) run(ctx context.Context, stdout io.Writer) error {
	if err := l.check(); err != nil {
		return err
	}
	cluster, err := l.Connect()
	if err != nil {
		return err
	}
	return l.print(ctx, stdout, func(ctx context.Context) (snapshot, error) {
		answers, err := askReplicas[fleet.Status](ctx, &l.replicasLine, cluster)
		refuseOthers(answers, true)
		return mergeFleet(answers, l.sort).in(status.State(l.state)), err
	})
}

// fleetStatus is the state of a fleet, merged from all replicas.
type fleetStatus struct {
	Replicas []fleetReplica        `json:"replicas"`
	Clusters []fleet.ClusterStatus `json:"clusters"`
	// counts are the numbers of clusters by state.
	counts map[status.State]int
}

// fleetReplica is a replica's report about itself.
type fleetReplica struct {
	Name string `json:"name"`
	// Error is why the replica did not report its state.
	Error string `json:"error,omitempty"`
	fleet.ReplicaStatus
	Problems []string `json:"problems,omitempty"`
}

// mergeFleet lists each cluster once: as reported by the replica that leads it, or otherwise by the
// replica in which it needs the most attention.
func mergeFleet(answers []replica[fleet.Status], by string) fleetStatus {
	current := fleetStatus{Clusters: []fleet.ClusterStatus{}, counts: map[status.State]int{}}
	reported := map[string][]fleet.ClusterStatus{}
	led := map[string]bool{}
	for _, a := range answers {
		r := fleetReplica{Name: a.Name, Error: a.Error, Problems: a.Status.Problems}
		r.Identity = a.Status.Identity
		for _, of := range a.Status.Replicas {
			if of.Identity == r.Identity {
				r.ReplicaStatus = of
			}
		}
		current.Replicas = append(current.Replicas, r)
		for _, c := range a.Status.Clusters {
			if led[c.Name] {
				continue
			}
			if c.Leader != "" && c.Leader == r.Identity {
				led[c.Name], reported[c.Name] = true, nil
			}
			reported[c.Name] = append(reported[c.Name], c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		c := slices.MinFunc(reported[name], func(a, b fleet.ClusterStatus) int {
			return cmp.Compare(attention(a), attention(b))
		})
		if c.Leader != "" && !led[name] && c.State == fleet.StateWaiting {
			c.State = stateUnknown
		}
		current.Clusters = append(current.Clusters, c)
		current.counts[c.State]++
	}
	slices.SortStableFunc(current.Clusters, func(a, b fleet.ClusterStatus) int {
		switch by {
		case "state":
			return cmp.Compare(attention(a), attention(b))
		case "leader":
			return strings.Compare(a.Leader, b.Leader)
		case "reason":
			if (a.Reason == "") != (b.Reason == "") {
				return strings.Compare(b.Reason, a.Reason) // without a reason it comes last
			}
			return strings.Compare(a.Reason, b.Reason)
		}
		return 0
	})
	return current
}

// in keeps only the clusters in a state; "" keeps all.
func (s fleetStatus) in(state status.State) fleetStatus {
	s.Clusters = slices.DeleteFunc(s.Clusters, func(c fleet.ClusterStatus) bool {
		return state != "" && c.State != state
	})
	return s
}

// attention is lower for a cluster that needs more attention. A cluster that waits without a leader
// needs more attention than one that is served.
func attention(c fleet.ClusterStatus) int {
	place := 2 * slices.Index(fleet.States(), c.State)
	if c.Leader == "" || c.Reason != "" {
		place--
	}
	return place
}

func (s fleetStatus) answered() bool {
	return slices.ContainsFunc(s.Replicas, func(r fleetReplica) bool { return r.Error == "" })
}

func (s fleetStatus) tables(time.Time) *cli.Tables {
	t := cli.NewTables()
	t.Row("REPLICA", "IDENTITY", "WEIGHT", "LEADS", "PROBLEM")
	for _, r := range s.Replicas {
		if r.Error != "" {
			t.ColoredRow(cli.Red, r.Name, "-", "-", "-", r.Error)
			continue
		}
		color := cli.Plain
		if len(r.Problems) > 0 {
			color = cli.Yellow
		}
		t.ColoredRow(color, r.Name, r.Identity, fmt.Sprint(r.Weight), fmt.Sprint(r.Leads),
			strings.Join(r.Problems, "; "))
	}
	total := 0
	var tallies []string
	for _, state := range append(fleet.States(), stateUnknown) {
		if count := s.counts[state]; count > 0 {
			total += count
			tallies = append(tallies, fmt.Sprintf("%d %s", count, state))
		}
	}
	t.Section(strings.TrimSuffix(fmt.Sprintf("Clusters: %d: %s", total,
		strings.Join(tallies, ", ")), ": "))
	if len(s.Clusters) == 0 {
		return t
	}
	t.Section("CLUSTER", "STATE", "READY", "LEADER", "REASON")
	for _, c := range s.Clusters {
		color := cli.Plain
		switch {
		case c.State == fleet.StateFailed:
			color = cli.Red
		case c.Reason != "" || c.State == stateUnknown:
			color = cli.Yellow
		}
		t.ColoredRow(color, c.Name, string(c.State), fmt.Sprint(c.Ready), cmp.Or(c.Leader, "-"),
			c.Reason)
	}
	return t
}
