package main

import (
	"fmt"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// figureTable has a line for each figure.
func (c chapter) figureTable() table {
	t := table{header: []string{"", ours, "target", "", "OCCM, computed", "by"}}
	for _, f := range c.figures {
		by := ""
		if f.occm.formula != "" {
			by = fmt.Sprintf("%s (`%s`)", f.occm.formula, f.occm.source)
		}
		t.lines = append(t.lines, []string{
			f.title, f.text(), f.targetText(), f.verdict(), f.occm.text(f.unit), by,
		})
	}
	return t
}

// operationTable has the calls by operation, of figures of calls.
func (c chapter) operationTable() table {
	t := table{header: []string{"", "calls", "by operation"}}
	for _, f := range c.figures {
		if operations := f.operations(); operations != "" {
			t.lines = append(t.lines, []string{f.title, fmt.Sprint(len(f.calls)), operations})
		}
	}
	return t
}

// openStackPage is the page on the calls to OpenStack.
func (r report) openStackPage() page {
	var tables []table
	var chapters []map[string]any
	for _, c := range r.results.chapters {
		figures, operations := c.figureTable(), c.operationTable()
		tables = append(tables, figures, operations)
		chapters = append(chapters, map[string]any{
			"Title": c.title, "Figures": figures, "Operations": operations,
		})
	}
	nodes, notReady := r.settings.nodes, r.settings.notReady
	defaults := cloudconf.Default()
	polls, pauses := occmWait(slowCreationTime, targetLatency)
	values := map[string]any{
		"Chapters": chapters,
		"Latency":  latencyText(targetLatency), "Page": openStackPage,
		"StatusPeriod":  statusPeriod,
		"StatusDefault": ccm.DefaultConfig().Node.StatusUpdateFrequency.Duration,
		"MetadataAge":   defaults.Instances.MetadataMaxAge, "Idle": r.settings.idle,
		"Rate": defaults.Client.RequestRate, "Burst": defaults.Client.RequestBurst,

		"SettleTime": settleTime, "CreationTime": creationTime, "ChangeTime": changeTime,
		"Services": r.settings.services, "FewNodes": fewNodes,
		"RefusedOneOf": refusedOneOf, "TooMany": tooMany, "RefusedFor": refusedFor.Seconds(),
		"BusyWindow": busyWindow,

		"PodsOfService": podsOfService, "PodsAtOnce": podsAtOnce, "RolloutPause": rolloutPause,
		"PodRest": r.settings.rest,

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
	}
	return page{
		"On a simulated OpenStack", tables, "benchmarks-openstack", values,
	}
}
