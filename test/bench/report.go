package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// report is everything that the tables are made of.
type report struct {
	settings settings
	machine  machine
	versions versions
	begun    time.Time
	took     time.Duration
	results  *results
}

// terminal is the table for people who wait for it.
func (r report) terminal() string {
	var text strings.Builder
	if len(r.results.rows) > 0 {
		text.WriteString(terminalTable(header(), r.table()) + "\n")
	}
	for _, c := range r.results.chapters {
		text.WriteString("On a simulated OpenStack: " + c.title + "\n" + c.terminal() + "\n")
	}
	if r.results.lab != nil {
		text.WriteString("On a real OpenStack\n" + r.results.lab.terminal() + "\n")
	}
	return text.String()
}

func terminalTable(header []string, lines [][]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range append([][]string{header}, lines...) {
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush()
	return text.String()
}

func header() []string {
	cells := []string{""}
	for _, c := range candidates() {
		cells = append(cells, c.name)
	}
	return append(cells, "fxccm / upstream", "target", "")
}

func (r report) table() (lines [][]string) {
	for _, at := range r.results.rows {
		cells := []string{at.title}
		for _, c := range candidates() {
			text := ""
			if median, ok := r.results.median(at, c.name); ok {
				text = median.text(at.unit)
			}
			cells = append(cells, text)
		}
		v := r.results.judge(at)
		lines = append(lines, append(cells, v.ratio, v.target, v.text))
	}
	return lines
}

// samples shows every measurement.
func (r report) samples() (lines [][]string) {
	for _, at := range r.results.rows {
		cells := []string{at.title}
		for _, c := range candidates() {
			var texts []string
			for _, s := range r.results.samples[at][c.name] {
				texts = append(texts, s.text(at.unit))
			}
			cells = append(cells, strings.Join(texts, ", "))
		}
		lines = append(lines, cells)
	}
	return lines
}

// markdown is the page on upstream's command beside fxccm.
func (r report) markdown() string {
	var page strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }

	write("# Benchmarks\n")
	write("<!-- Written by `make bench`. Do not edit. -->\n")
	write(
		"fxccm beside upstream's own cloud controller manager: on one machine, in one run, on the same real API server and the same")
	write("fake cloud, each in a process of its own. Values are medians; less is better.\n")
	page.WriteString(markdownTable(header(), r.table()))
	write(
		"\n**upstream** is the command of `k8s.io/cloud-provider/app` %s as its sample wires it, with its default flags. **fxccm** has its", r.versions.upstream)
	write(
		"default flags, too. **upstream, tuned** is upstream's command with fxccm's defaults for concurrency and no limit on the client's")
	write("requests (`%s`);", strings.Join(tunedFlags(), " "))
	write("it has no target, and is left out where these flags make no difference.\n")

	page.WriteString(r.measuredOn() + "\n")
	fmt.Fprintf(&page, howItIsMeasured, r.settings.managers, r.settings.managers-1, r.settings.rest)
	page.WriteString("\n" + howToReproduce)

	write("\n## All measurements\n")
	page.WriteString(
		markdownTable(append([]string{""}, header()[1:len(candidates())+1]...), r.samples()))
	return page.String()
}

// measuredOn tells where, when and of what the numbers of a page are.
func (r report) measuredOn() string {
	var text strings.Builder
	write := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	write("| measured on | |\n|---|---|")
	write("| date | %s, in %s |", r.begun.UTC().Format(time.DateOnly), r.took.Round(time.Second))
	write("| machine | %s, %d cores, %s of memory |", r.machine.processor, r.machine.cores,
		r.machine.memory)
	write("| system | %s; load average before: %s |", r.machine.kernel, r.machine.load)
	write("| versions | fxccm %s; %s; kube-apiserver %s; etcd %s |", r.versions.fxccm,
		r.versions.golang, r.versions.kubernetes, r.versions.etcd)
	write("")
	write(
		"Everything runs on these cores at once: the process under test, kube-apiserver, etcd, the cloud and the one who watches. What is")
	write(
		"fast is limited by that, and would be faster in a cluster; what is slow waits, and would not.")
	return text.String()
}

func tunedFlags() []string {
	for _, c := range candidates() {
		if c.name == tuned {
			return c.flags
		}
	}
	return nil
}

func markdownTable(header []string, lines [][]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|---|%s\n", strings.Join(header, " | "),
		strings.Repeat("---:|", len(header)-1))
	for _, cells := range lines {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	return text.String()
}

const howItIsMeasured = `## What is measured

Each measurement begins with an empty cluster without a lease and an empty cloud, when etcd and kube-apiserver have come to rest; the
candidates take turns. All times are taken by what a watch on the API server shows to a third process: nobody reports on himself.

* **Start.** One new node waits. From the start of the process until the Lease names a holder, and until the node has lost the
  taint ` + "`node.cloudprovider.kubernetes.io/uninitialized`" + `.
* **Nodes.** New nodes, tainted and as large as a kubelet makes them, wait when the process is started. From when the Lease names a
  holder until the last node has lost its taint.
* **Services.** Services of type LoadBalancer wait, in a cluster of 10 initialised nodes. From when the Lease names a holder until
  the last Service has an address in ` + "`status.loadBalancer.ingress`" + `.
* **Peak memory.** The most memory the process has had resident (` + "`VmHWM`" + `) when it has done that.
* **Hand-over.** Two replicas; the leader gets SIGTERM, in each round at another moment between two renewals of the lease. From then
  until the Lease names the other replica, and until that one has initialised a node that registers when the old process has ended.
  Upstream's command does not react to SIGTERM but dies of it, and leaves its lease to expire.
* **One more cluster**, of 100 nodes and 20 Services, as a host of many control planes has it: for upstream a process more, for
  fxccm a Manager more in the same process, which is the difference between a process with %[1]d Managers and a process with one, divided by
  %[2]d. Each cluster has an API endpoint with a port, a certificate authority and a token of its own, a cloud of its own and its own election;
  behind the endpoints is one API server, of which each shows a part. The Managers start a second apart. It is measured twice: when the
  clusters have been **newly set up**, and when the processes have been **started again** after that, as they run for most of their
  lives. When all nodes are
  initialised and all Services have an address, the processes are left alone for %[3]s, in which Go collects garbage by itself at least
  once and nobody asks it to. **Memory at rest** is what is resident then (` + "`VmRSS`" + `). Most of that of a small process is the program itself
  (` + "`RssFile`" + `), of which processes that run the same file on one machine share one copy; what is **its own** (` + "`RssAnon`" + `) is shown,
  too, for those who count so. **Go heap** is with the garbage of the moment. **First cluster** is the process with one Manager.

Nodes and Services are measured at most three times, and once by whoever takes longer than 30 seconds; more clusters at most three
times. The cloud is
[provider/fake](../provider/fake) over HTTP; each of its calls takes as long as the table says. The candidates act as a ServiceAccount
with the RBAC rules that they need, so that the API server's priority and fairness applies to them as in a cluster. Its audit log is
off, and etcd does not wait for the disk. Routes are off for all. All serve their secure port, but for
the processes of several Managers, which serve their metrics once, on a loopback port.

No worse, for start and memory, is a ratio of at most 1 as it is shown. There is no target for time where the cloud answers at once:
what is measured then is the API server.
`

const howToReproduce = `## How to reproduce

` + "```" + `
make bench                       # all of it; writes this page, benchmarks-openstack.md and, if there is a lab, benchmarks-lab.md
make bench SCENARIOS=openstack   # some of it; writes a page that is measured in part, too
make bench QUICK=1               # 100 nodes, 20 Services, one round, 6 Managers, 50 routes; writes nothing
` + "```" + `

It takes Linux and an hour. ` + "`bin/bench/bench --help`" + ` lists what can be changed.
`
