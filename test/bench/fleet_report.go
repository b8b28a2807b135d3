package main

import (
	"fmt"
	"strings"
)

// table has a line for each figure.
func (r *fleetResult) table() (header []string, lines [][]string) {
	for _, f := range r.figures {
		lines = append(lines, []string{f.title, f.text(), f.targetText(), f.verdict()})
	}
	return []string{"", ours, "target", ""}, lines
}

func (r *fleetResult) terminal() string {
	var text strings.Builder
	text.WriteString(terminalTable(r.table()) + "\n" + terminalTable(header(), r.beside.table()))
	for _, o := range r.owners {
		text.WriteString("\n" + terminalTable(o.table()))
	}
	return text.String()
}

// table leaves out owners that one more cluster does not add to.
func (o ownerTable) table() (header []string, lines [][]string) {
	for _, line := range o.lines {
		text := sample{value: line.value}.text(o.unit)
		if line.value < 0.05 {
			continue
		}
		lines = append(lines, []string{strings.ReplaceAll(line.owner, "|", `\|`), text})
	}
	return []string{o.title, ""}, lines
}

// fleetMarkdown is the page on fleets.
func (r report) fleetMarkdown() (string, error) {
	result := r.results.fleet
	var owners strings.Builder
	for _, o := range result.owners {
		owners.WriteString(markdownTable(o.table()) + "\n")
	}
	return r.page("benchmarks-fleet", map[string]any{
		"Figures":  markdownTable(result.table()),
		"Beside":   markdownTable(header(), result.beside.table()),
		"Owners":   strings.TrimSuffix(owners.String(), "\n"),
		"Upstream": r.versions.upstream, "Rest": r.settings.rest,
		"FurtherNodes": furtherNodes, "FurtherServices": furtherServices,
		"Clusters": r.settings.clusters, "Further": r.settings.clusters - 1,
		"SmallClusters": r.settings.smallClusters, "SmallNodes": smallNodes,
		"SmallServices": smallServices, "LossClusters": r.settings.lossClusters,
		"LossReplicas": lossReplicas, "LossNodes": lossNodes, "LossServices": lossServices,
		"Load": fmt.Sprint(r.machine.load),
	})
}
