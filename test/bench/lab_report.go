package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func secondsText(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// kindsText is how many requests there were of each kind. That one succeeded is not told.
func (f labFigure) kindsText() string {
	var texts []string
	for _, kind := range f.requests.kinds() {
		text := fmt.Sprintf("%s %d", kind.operation, f.requests[kind].count)
		if !strings.HasPrefix(kind.code, "2") {
			text += " (" + kind.code + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// labTable has a line for each figure.
func (r labResult) labTable() (header []string, lines [][]string) {
	for _, f := range r.figures {
		all := f.requests.sum()
		pending, each := "", ""
		if f.pending > 0 {
			pending, each = secondsText(f.pending)+" s", secondsText(f.pendingEach)+" s"
		}
		lines = append(lines, []string{
			f.title, secondsText(f.took) + " s", pending, each, strconv.Itoa(all.count),
			fmt.Sprintf("%.3f s", all.mean().Seconds()),
			f.occm.text(count), f.occm.formula, f.occmTime.text(seconds), f.occmTime.formula,
		})
	}
	return []string{
		"", "fxccm: time", "Octavia at work", "on each", "fxccm: calls", "each takes",
		"OCCM, computed: calls", "by", "OCCM, computed: time", "by",
	}, lines
}

// kindTable has a line for each kind of request of each figure.
func (r labResult) kindTable() (header []string, lines [][]string) {
	for _, f := range r.figures {
		title := f.title
		for _, kind := range f.requests.kinds() {
			t := f.requests[kind]
			lines = append(lines,
				[]string{
					title, kind.service, kind.operation, kind.code, strconv.Itoa(t.count),
					fmt.Sprintf("%.3f s", t.mean().Seconds()),
				})
			title = ""
		}
	}
	return []string{"", "service", "operation", "result", "calls", "each takes"}, lines
}

// logTable shows what fxccm has counted beside what the services have noted.
func (r labResult) logTable() (header []string, lines [][]string) {
	header = []string{""}
	for _, l := range serviceLogs() {
		header = append(header, fmt.Sprintf("%s (`%s`)", l.service, l.file))
	}
	for _, f := range r.figures {
		cells := []string{f.title}
		for _, l := range serviceLogs() {
			counted := f.requests.only(func(k requestKind) bool {
				return k.service == l.service && k.isAnswered()
			}).sum().count
			cells = append(cells, fmt.Sprintf("%d / %d", counted, f.logged[l.service]))
		}
		lines = append(lines, cells)
	}
	return header, lines
}

func (r labResult) terminal() string {
	return terminalTable(r.labTable()) + "\n" + terminalTable(r.kindTable()) +
		"\nfxccm's count / lines in the services' logs\n" + terminalTable(r.logTable())
}

// labMarkdown is the page on the real OpenStack.
func (r report) labMarkdown() string {
	var text strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	lab := r.results.lab

	write("# Calls and seconds on a real OpenStack\n")
	write("<!-- Written by `make bench SCENARIOS=lab`. Do not edit. -->\n")
	write(
		"Whole fxccm on a real kube-apiserver and a real OpenStack, a [lab](how-to/test-on-a-real-openstack.md) of Debian's packages: how often it asks, and how")
	write(
		"long all takes, with %d nodes and %d Services of %d ports. OpenStack is real, its amphorae are not: **what Octavia needs here is not what a",
		r.settings.labNodes, r.settings.labServices, balancerPorts)
	write(
		"cloud needs in which virtual machines boot.** openstack-cloud-controller-manager (OCCM) is not measured: its numbers are computed, as told below.\n")
	text.WriteString(markdownTable(lab.labTable()))
	write("\n## The calls, by operation\n")
	text.WriteString(markdownTable(lab.kindTable()))
	write("\n## What the services have noted\n")
	text.WriteString(howLogsAreCounted + "\n")
	text.WriteString(markdownTable(lab.logTable()))
	write("\n## How it is measured\n")
	fmt.Fprintf(&text, howTheLabIsMeasured, settleTime, lookInterval, statusPeriod)
	write("\n## How OCCM's calls are computed\n")
	fmt.Fprintf(&text, howOCCMIsComputedOnTheLab, occmRevision, balancerPorts,
		r.settings.labServices, occmMonitors, occmFirstPause, occmPauseFactor)
	write("\n## Where it was measured\n")
	text.WriteString(r.measuredOn())
	write("\nThe OpenStack is Zed, of Debian 12: %s.\n", strings.Join(lab.packages, ", "))
	write(
		"`make openstack-lab bench SCENARIOS=lab` writes this page again, in a quarter of an hour.")
	return text.String()
}

const howLogsAreCounted = `What fxccm has counted itself, and after the stroke how many requests the services have in their logs. Neutron and Nova note of each request
whose project it is for. Keystone and Octavia do not: there it is the requests of all, but for the benchmark's own and, with Keystone, for
what is no login; so it is the same only while nobody else uses the lab.
`

const howTheLabIsMeasured = `A project is made, with a network, a router, and a server for each node and one more. All controllers of fxccm run but for routes. Its flags and
all of cloud.conf are its defaults, but for the subnet, the network of floating IPs, and what it does by the clock, which would be counted with
whatever is measured meanwhile: addresses are refreshed, and load balancers compared with what they should be, when it says so here.

**Calls** are those that fxccm tells of in its metrics (` + "`fxccm_openstack_request_duration_seconds`" + `), by operation and by the status of the answer: each
page of a list is one, and so are logins, questions for versions, and what is asked again. They are counted until all is done and fxccm
has asked nothing for %[1]s after that, so that work that is done twice is counted twice. How long each takes is fxccm's to measure, too: until the whole answer is there. **Time** is
what a watch on the API server shows, and where Octavia is at work longer than that, until it is not. **Octavia at work** is how long at least
one load balancer was PENDING, and how long each was, as the benchmark sees by a look at the list every %[2]s, which is how exact it is. Several are at work at once.

Nor is anything done before each pool has exactly the nodes that it should. What is measured is one story:

* **Nodes initialised.** From when the Lease names a holder until the last node has lost its taint. All calls from the start of the process.
* **Addresses refreshed.** One pass over all nodes, of a process that makes one every %[3]s. Each server got another address before, and the time is
  from when the first node shows its own until the last does.
* **1 Service made, and deleted.** While there is no other.
* **Services made.** All are created at once. Until each has an address.
* **Nothing to do.** Each gets an annotation that means nothing, and is ensured once more. And: the process is started again. Nothing may be changed, or the
  benchmark fails.
* **A port added** to one of them.
* **A node added.** From when it registers, with the taint, until each pool has it as a member: it is initialised, too.
* **A node's server gone.** The server is deleted in Nova; from when its node is not ready until the node is deleted and no pool has the member.
* **Services deleted.** All at once, until none is there. Nothing may be left in Octavia, and no floating IP.
`

const howOCCMIsComputedOnTheLab = `By the formulas of [the other page](benchmarks-openstack.md#how-occms-calls-are-computed), which were read in kubernetes/cloud-provider-openstack
at revision %[1]s, in ` + "`pkg/openstack`" + `, and agree with the calls of its unmodified provider. N is the number of nodes, P that of a Service's ports: %[2]d; S
that of Services, L that of load balancers: %[3]d; M that of health monitors: %[4]d. W and Wd are how often it asks for a load balancer until it is ready,
or gone: at once, and then after pauses, the first of %[5]s and each %[6]g times as long as the one before. How often that is follows from how
long Octavia was seen to need when there was nothing else to do: for the creation and the deletion of one Service's load balancer, and for a change,
the port that was added, divided by the changes that fxccm made for it. It has one worker by default, which does nothing else in those
pauses. The time is that of the pauses alone, and of no call.
`
