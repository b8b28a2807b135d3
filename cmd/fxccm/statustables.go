package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// statusTables formats the state of a cluster as text, worst first. Load balancers that are ready
// without drift or defect are only counted. Ages are omitted if now is the zero time.
func statusTables(current clusterStatus, now time.Time) *cli.Tables {
	t := cli.NewTables()
	row, section := t.Row, t.Section
	age := func(t time.Time) string { return ageOf(t, now) }
	lease := current.Lease
	switch {
	case lease.Error != "":
		row(fmt.Sprintf("Lease %s/%s: %s", lease.Namespace, lease.Name, lease.Error))
	case lease.Holder == "":
		row(fmt.Sprintf("Lease %s/%s: no leader", lease.Namespace, lease.Name))
	default:
		row(fmt.Sprintf("Lease %s/%s: held by %s, renewed %s ago", lease.Namespace, lease.Name,
			lease.Holder, age(lease.Renewed)))
	}
	section("REPLICA", "STATE", "TERM", "READY", "SINCE", "PROBLEM")
	var leader *status.Manager
	for i, r := range current.Replicas {
		if r.Error != "" {
			t.ColoredRow(cli.Red, r.Name, "unknown", "-", "-", "-", r.Error)
			continue
		}
		s := &current.Replicas[i].Status
		since := time.Time{}
		if len(s.Terms) > 0 && s.Terms[0].Ended.IsZero() {
			since = s.Terms[0].Began
		}
		problems := replicaProblems(s, age)
		color := cli.Plain
		if len(problems) > 0 {
			color = cli.Yellow
		}
		t.ColoredRow(color, r.Name, string(s.State), fmt.Sprint(s.Term), fmt.Sprint(s.Ready),
			age(since), strings.Join(problems, "; "))
		if s.State == status.Leading {
			leader = s
		}
	}
	if leader != nil {
		leaderTables(t, leader, now)
	}
	return t
}

// leaderTables adds the tables of the replica that leads.
func leaderTables(t *cli.Tables, leader *status.Manager, now time.Time) {
	row, section := t.Row, t.Section
	age := func(t time.Time) string { return ageOf(t, now) }
	var ready, others []status.LoadBalancer
	for _, lb := range leader.LoadBalancers {
		if lb.State == status.LoadBalancerReady && lb.Message == "" && len(lb.Drift) == 0 {
			ready = append(ready, lb)
		} else {
			others = append(others, lb)
		}
	}
	section(fmt.Sprintf("Load balancers: %d, %d of them ready without drift or defect",
		len(leader.LoadBalancers), len(ready)))
	if len(others) > 0 {
		row("SERVICE", "STATE", "SINCE", "ADDRESS", "REASON")
	}
	for _, lb := range others {
		why := lb.Reason
		if lb.Message != "" {
			why += ": " + lb.Message
		}
		if len(lb.Drift) > 0 {
			drift := fmt.Sprintf("drift %s ago: %s", age(lb.DriftedAt),
				strings.Join(lb.Drift, "; "))
			why = strings.TrimPrefix(why+"; "+drift, "; ")
		}
		color := cli.Yellow
		if lb.State == status.LoadBalancerRefused || lb.State == status.LoadBalancerDegraded {
			color = cli.Red
		}
		t.ColoredRow(color, lb.Namespace+"/"+lb.Service, string(lb.State), age(lb.Since),
			strings.Join(lb.Addresses, ","), why)
	}
	if len(leader.Nodes) > 0 {
		section("NODE", "AGE", "REASON")
		for _, n := range leader.Nodes {
			t.ColoredRow(cli.Yellow, n.Name, age(n.Since), n.Reason+": "+n.Message)
		}
	}
	section("CONTROLLER", "STATE", "RESTARTS", "REASON")
	for _, c := range leader.Controllers {
		row(c.Name, string(c.State), fmt.Sprint(c.Restarts), c.Reason)
	}
	calls := 0
	for _, a := range leader.Running {
		// The other activities are the goroutines of the controllers.
		if name, isCall := strings.CutPrefix(a.Name, "call "); isCall {
			if calls++; calls == 1 {
				section("CALL IN FLIGHT", "OBJECT", "AGE")
			}
			row(name, a.Object, age(a.Since))
		}
	}
	section("TERM", "BEGAN", "LASTED", "END", "REASON")
	for _, t := range leader.Terms {
		lasted := now
		if !t.DrainBegan.IsZero() {
			lasted = t.DrainBegan
		}
		row(fmt.Sprint(t.Number), age(t.Began)+" ago", ageOf(t.Began, lasted), t.End, t.Reason)
	}
}

// ageOf is "-" if one of the times is unknown.
func ageOf(t, now time.Time) string {
	if t.IsZero() || now.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(t))
}

func replicaProblems(s *status.Manager, age func(time.Time) string) []string {
	var all []string
	if s.Reason != "" {
		all = append(all, s.Reason)
	}
	for _, t := range s.Troubles {
		all = append(all, fmt.Sprintf("%s: %s (for %s)", t.Subject, t.Reason, age(t.Since)))
	}
	return append(all, s.Warnings...)
}
