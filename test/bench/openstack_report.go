package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/config"
)

// openStackTerminal is, for each figure, a line in a table, and below the table what it was counted from.
func (r report) openStackTerminal() string {
	var lines [][]string
	for _, f := range r.results.figures {
		lines = append(lines, []string{f.title, f.text(), f.targetText(), f.verdict(), f.occm.text(f.unit), f.occm.formula, f.occm.source})
	}
	var text strings.Builder
	text.WriteString(terminalTable([]string{"", ours, "target", "", "OCCM, computed", "", ""}, lines))
	for _, f := range r.results.figures {
		if len(f.calls) > 0 {
			fmt.Fprintf(&text, "%s: %s\n", f.title, f.calls.byOperation())
		}
	}
	return text.String()
}

// openStackMarkdown is the page on the calls to OpenStack.
func (r report) openStackMarkdown() string {
	var text strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }

	write("# Calls to OpenStack\n")
	write("<!-- Written by `make bench`. Do not edit. -->\n")
	write("How often fxccm asks OpenStack, beside openstack-cloud-controller-manager (OCCM). fxccm is measured. OCCM is not: its numbers are")
	write("computed, as told below.\n")
	var lines [][]string
	for _, f := range r.results.figures {
		lines = append(lines, []string{f.title, f.text(), f.targetText(), f.verdict(), f.occm.text(f.unit), f.occm.formulaMarkdown()})
	}
	text.WriteString(markdownTable([]string{"", ours, "target", "", "OCCM, computed", "by"}, lines))
	write("\nThe calls of fxccm by operation, as the cloud has recorded them:\n")
	lines = nil
	for _, f := range r.results.figures {
		if len(f.calls) > 0 {
			lines = append(lines, []string{f.title, fmt.Sprint(len(f.calls)), f.calls.byOperation()})
		}
	}
	text.WriteString(markdownTable([]string{"", "calls", "by operation"}, lines))
	write("")
	text.WriteString(r.callsMarkdown())
	text.WriteString("\n" + r.occmMarkdown() + "\n" + r.measuredOn() + "\n`make bench SCENARIOS=openstack` writes this page again, in six minutes.\n")
	return text.String()
}

// callsMarkdown tells how fxccm's calls are counted.
func (r report) callsMarkdown() string {
	defaults := config.Default()
	return fmt.Sprintf(howCallsAreCounted,
		latencyText(targetLatency), openStackPage,
		statusPeriod, ccm.DefaultConfig().Node.StatusUpdateFrequency.Duration, defaults.Instances.MetadataMaxAge,
		r.settings.idle, defaults.Client.RequestRate, defaults.Client.RequestBurst,
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
		latencyText(targetLatency), time.Minute/targetLatency, notReady, occmRoundTime(notReady, targetLatency), occmMonitorPeriod,
	)
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

const howOCCMIsComputed = `OCCM's formulas were read in the files that are named, of kubernetes/cloud-provider-openstack at revision %[1]s (after v1.36.0), and agree
with the calls of its unmodified provider, which were counted elsewhere. N is the number of nodes or routes, and S that of each node's
subports of trunks: %[2]d here. The periods and the one worker for nodes are its defaults. Routes are of a Neutron that can add single ones
(` + "`extraroute-atomic`" + `). Not counted are its logins. Among these calls are some for Neutron's versions, which it does not make where the
catalog names the version: that leaves %.0[3]f to initialise or refresh the nodes, and %.0[4]f a minute for those that are not ready. The
latter is what OCCM asks if it is answered at once. One worker that waits %[5]s for each answer makes %[6]d calls a minute at most, and
takes %[8]s to look after %[7]d such nodes instead of %[9]s.
`
