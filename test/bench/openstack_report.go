package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// terminal has a line for each figure, and below them the calls by operation.
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
func (r report) openStackMarkdown() (string, error) {
	var chapters []string
	for _, c := range r.results.chapters {
		chapters = append(chapters, c.markdown())
	}
	nodes, notReady := r.settings.nodes, r.settings.notReady
	defaults := cloudconf.Default()
	polls, pauses := occmWait(slowCreationTime, targetLatency)
	return r.page("benchmarks-openstack", map[string]any{
		"Chapters": strings.Join(chapters, "\n"),
		"Latency":  latencyText(targetLatency), "Page": openStackPage,
		"StatusPeriod":  statusPeriod,
		"StatusDefault": ccm.DefaultConfig().Node.StatusUpdateFrequency.Duration,
		"MetadataAge":   defaults.Instances.MetadataMaxAge, "Idle": r.settings.idle,
		"Rate": defaults.Client.RequestRate, "Burst": defaults.Client.RequestBurst,

		"SettleTime": settleTime, "CreationTime": creationTime, "ChangeTime": changeTime,
		"Services": r.settings.services, "FewNodes": fewNodes,
		"RefusedOneOf": refusedOneOf, "TooMany": tooMany, "RefusedFor": refusedFor.Seconds(),
		"BusyWindow": busyWindow,

		"OCCMRevision": occmRevision, "Subports": subports,
		"NodesWithout": occmNodes(nodes).value *
			(occmNodeCalls - occmNodeDiscovery) / occmNodeCalls,
		"StatusWithout": occmNotReady(notReady).value *
			(occmStatusCalls - occmStatusDiscovery) / occmStatusCalls,
		"WorkerCalls": int(time.Minute / targetLatency), "NotReady": notReady,
		"RoundTime": occmRoundTime(notReady, targetLatency), "MonitorPeriod": occmMonitorPeriod,
		"Monitors": occmMonitors, "FirstPause": occmFirstPause, "PauseFactor": occmPauseFactor,
		"SlowTime": slowCreationTime, "Polls": polls,
		"Pauses": fmt.Sprintf("%.1f", pauses.Seconds()),
	})
}

func (c cost) formulaMarkdown() string {
	if c.formula == "" {
		return ""
	}
	return fmt.Sprintf("%s (`%s`)", c.formula, c.source)
}
