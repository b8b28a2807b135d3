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
func (r report) labMarkdown() (string, error) {
	lab := r.results.lab
	return r.page("benchmarks-lab", map[string]any{
		"Table": markdownTable(lab.labTable()), "Kinds": markdownTable(lab.kindTable()),
		"Logs":     markdownTable(lab.logTable()),
		"LabNodes": r.settings.labNodes, "LabServices": r.settings.labServices,
		"Ports": balancerPorts, "SettleTime": settleTime, "LookInterval": lookInterval,
		"StatusPeriod": statusPeriod, "OCCMRevision": occmRevision, "Monitors": occmMonitors,
		"FirstPause": occmFirstPause, "PauseFactor": occmPauseFactor,
		"Packages": strings.Join(lab.packages, ", "),
	})
}
