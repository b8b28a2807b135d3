package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// terminal is, for each figure, a line in a table, and below the table what it was counted from.
func (c chapter) terminal() string {
	var lines [][]string
	for _, f := range c.figures {
		lines = append(lines,
			[]string{
				f.title, f.text(), f.targetText(), f.verdict(), f.occm.text(f.unit),
				f.occm.formula, f.occm.source,
			})
	}
	var text strings.Builder
	text.WriteString(
		terminalTable([]string{"", ours, "target", "", "OCCM, computed", "", ""}, lines))
	for _, f := range c.figures {
		if operations := f.operations(); operations != "" {
			fmt.Fprintf(&text, "%s: %s\n", f.title, operations)
		}
	}
	return text.String()
}

func (c chapter) markdown() string {
	var text strings.Builder
	var lines [][]string
	for _, f := range c.figures {
		lines = append(lines,
			[]string{
				f.title, f.text(), f.targetText(), f.verdict(), f.occm.text(f.unit),
				f.occm.formulaMarkdown(),
			})
	}
	fmt.Fprintf(&text, "## %s\n\n", c.title)
	text.WriteString(markdownTable([]string{"", ours, "target", "", "OCCM, computed", "by"}, lines))
	text.WriteString("\nThe calls of fxccm by operation, as the cloud has recorded them:\n\n")
	lines = nil
	for _, f := range c.figures {
		if operations := f.operations(); operations != "" {
			lines = append(lines, []string{f.title, fmt.Sprint(len(f.calls)), operations})
		}
	}
	text.WriteString(markdownTable([]string{"", "calls", "by operation"}, lines))
	return text.String()
}

// openStackMarkdown is the page on the calls to OpenStack.
func (r report) openStackMarkdown() string {
	var text strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }

	write("# Calls to OpenStack\n")
	write("<!-- Written by `make bench`. Do not edit. -->\n")
	write(
		"How often fxccm asks OpenStack, beside openstack-cloud-controller-manager (OCCM). fxccm is measured. OCCM is not: its numbers are")
	write("computed, as told below.\n")
	for _, c := range r.results.chapters {
		write("%s", c.markdown())
	}
	write("## How fxccm's calls are counted\n")
	text.WriteString(r.callsMarkdown() + r.balancersMarkdown())
	write("\n## How OCCM's calls are computed\n")
	text.WriteString(r.occmMarkdown() + "\n" + r.occmBalancersMarkdown())
	write("\n## Where it was measured\n")
	text.WriteString(r.measuredOn() +
		"\n`make bench SCENARIOS=openstack` writes this page again, in twelve minutes.\n")
	return text.String()
}

// callsMarkdown tells how fxccm's calls are counted.
func (r report) callsMarkdown() string {
	defaults := cloudconf.Default()
	return fmt.Sprintf(howCallsAreCounted,
		latencyText(targetLatency), openStackPage,
		statusPeriod, ccm.DefaultConfig().Node.StatusUpdateFrequency.Duration,
		defaults.Instances.MetadataMaxAge,
		r.settings.idle, defaults.Client.RequestRate, defaults.Client.RequestBurst,
	)
}

// balancersMarkdown tells how it is done for load balancers.
func (r report) balancersMarkdown() string {
	c := cloudconf.Default().Client
	return fmt.Sprintf(howBalancersAreCounted,
		settleTime, creationTime, r.settings.services, fewNodes, changeTime, refusedOneOf, tooMany,
		refusedFor,
		busyWindow, c.RequestRate, c.RequestBurst,
	)
}

func (c cost) formulaMarkdown() string {
	if c.formula == "" {
		return ""
	}
	return fmt.Sprintf("%s (`%s`)", c.formula, c.source)
}

// occmMarkdown tells where OCCM's numbers come from, and what they leave out.
func (r report) occmMarkdown() string {
	nodes, notReady := r.settings.nodes, r.settings.notReady
	status := occmNotReady(notReady)
	return fmt.Sprintf(howOCCMIsComputed,
		occmRevision, subports,
		occmNodes(nodes).value*(occmNodeCalls-occmNodeDiscovery)/occmNodeCalls,
		status.value*(occmStatusCalls-occmStatusDiscovery)/occmStatusCalls,
		latencyText(targetLatency), time.Minute/targetLatency, notReady,
		occmRoundTime(notReady, targetLatency), occmMonitorPeriod,
	)
}

// occmBalancersMarkdown tells where its numbers for load balancers come from.
func (r report) occmBalancersMarkdown() string {
	polls, pauses := occmWait(slowCreationTime, targetLatency)
	return fmt.Sprintf(howOCCMBalancersAreComputed, occmFirstPause, occmPauseFactor,
		slowCreationTime, polls, pauses.Seconds(), occmMonitors)
}

const howCallsAreCounted = `Each measurement is a process of fxccm's on an empty cluster and on a new cloud: [openstacktest](../provider/openstack/openstacktest), an
OpenStack in the benchmark's process, which answers each call after %[1]s, lists %[2]d items on a page, and records what it is asked.
Each page is a call, and so are logins and questions for versions. Each server has one port. In each measurement **only one controller
runs** (` + "`--controllers`" + `), so that no calls of others are among those that are counted. They are made once: counts hardly
vary from one time to the next. All flags and all of cloud.conf but for what is named here are fxccm's defaults.

* **Nodes initialised.** By the node controller. All calls from the start of the process until the last node has lost its taint, the login among
  them. The time is from when the Lease names a holder. Addresses are not refreshed meanwhile (` + "`--node-status-update-frequency=24h`" + `).
* **Addresses refreshed.** By the node controller, for nodes that are initialised. All calls of one pass over all nodes, the second one of the
  process. Before it each server gets another address, and it has ended when each node shows it: so the pass is known to be whole. Passes are
  %[3]s apart instead of %[4]s, which is longer than fxccm remembers what it was told (%[5]s).
* **Nodes not ready.** By the lifecycle controller. All calls in the minute from the first one on, the login among them. All servers are
  there: if any node were deleted the benchmark would fail. Then one server is deleted, and its node must be, too.
* **Routes, nothing to do.** By the route controller, when the process has seen that all routes are there: all calls in %[6]s, by the
  minute. Then one route is removed by somebody else, and must come back.
* **Routes created.** By the route controller. All calls from the start of the process until it has said of the last node that its route is
  there (` + "`NetworkUnavailable`" + ` is false). The router must have exactly the routes of the nodes then, and each port must allow the pods of
  its node. The time is from when the Lease names a holder; after the first %[8]d requests fxccm
  limits itself to %.0[7]f a second (` + "`request-rate`" + `).
`

const howBalancersAreCounted = `
Load balancers are served by the service controller. The nodes' subnet and the network of floating IPs are named in cloud.conf; nodes do
not change but where it is said. The cloud is in the state that it should be in at the end, or the benchmark fails: each Service has one
load balancer, ready, with a listener and a pool of all nodes for each port, and one floating IP. Calls are counted until %[1]s after
that, so that work that is done twice is counted twice.

* **New Service.** From when it is created, in a process that has served another one before; Octavia takes %[2]s to make a load balancer. Lists
  of the project's load balancers are not counted, since all who wait share them; they are told beside. How often the Service was ensured
  with success is told by events (` + "`EnsuredLoadBalancer`" + `): the second time would be for fxccm's own annotation.
* **Nothing to do.** An annotation that means nothing is added to that Service, so that it is ensured once more. All calls.
* **Restart.** %[3]d Services are served by a process that ends, in a cluster of %[4]d nodes. All calls of the next one, logins and lists among them, of which
  none may change anything. The time is from when the Lease names a holder until there is an event ` + "`EnsuredLoadBalancer`" + ` on each Service.
* **Node added.** A node joins a cluster of %[4]d; Octavia takes %[5]s for each change. All calls, and the time until it is a member of each pool.
* **Octavia takes its time.** All Services wait when the process starts. The time is from when the Lease names a holder until
  each Service has an address. All calls, the login among them.
* **Requests refused.** The same; Octavia answers every %[6]dth request with %[7]d and asks to come back after %[8]s. Counted are the requests in those
  %[9]s in which there were the most: by its settings fxccm limits itself to %.0[10]f a second (` + "`request-rate`" + `), and %[11]d more when it has
  been idle (` + "`request-burst`" + `).
`

const howOCCMBalancersAreComputed = `For load balancers P is the number of a Service's ports, S that of Services, L that of load balancers, M that of health monitors of one:
%[6]d here. W is how often a load balancer is asked for until it is ready: at once, and then after pauses, the first of %[1]s and each %[2]g times as
long as the one before, in which nothing else is done; so where Octavia takes %[3]s, W is %[4]d and the pauses are %.1[5]f s. The subnet and the network of
floating IPs are named, and no security groups are managed; else there are more. There is one worker by default. Each Service is ensured a second
time because of the annotations that OCCM gives it.
`

const howOCCMIsComputed = `OCCM's formulas were read in the files that are named, of kubernetes/cloud-provider-openstack at revision %[1]s (after v1.36.0), and agree
with the calls of its unmodified provider, which were counted elsewhere. N is the number of nodes or routes, and S that of each node's
subports of trunks: %[2]d here. The periods and the one worker for nodes are its defaults. Routes are of a Neutron that can add single ones
(` + "`extraroute-atomic`" + `). Not counted are its logins. Among these calls are some for Neutron's versions, which it does not make where the
catalog names the version: that leaves %.0[3]f to initialise or refresh the nodes, and %.0[4]f a minute for those that are not ready. The
latter is what OCCM asks if it is answered at once. One worker that waits %[5]s for each answer makes %[6]d calls a minute at most, and
takes %[8]s to look after %[7]d such nodes instead of %[9]s.
`
