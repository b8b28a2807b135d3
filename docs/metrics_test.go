package docs_test

import (
	"testing"

	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/pagetest"
)

func TestMetricsPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "reference/metrics.md", metricsPage())
}

func TestFleetMetricsPage_IsUpToDate(t *testing.T) {
	states := make([]string, 0, len(fleet.States()))
	for _, s := range fleet.States() {
		states = append(states, string(s))
	}
	pagetest.Check(t, "reference/metrics-fleet.md", `# Metrics of a fleet

<!-- Generated from internal/metrics; change it there and run: go generate ./docs -->

A fleet registers these metrics with `+"`fleet.Params.Registerer`"+` while `+"`Run`"+` runs. They do not grow with the number of clusters. The Managers
of the clusters have [theirs](metrics.md), with the cluster as the label `+"`manager`"+`, if `+"`fleet.Params.Manager`"+` gives them a registerer.

`+metrics.Page(metrics.FleetTable(states)))
}

func metricsPage() string {
	return `# Metrics

<!-- Generated from internal/metrics; change it there and run: go generate ./docs -->

A Manager registers these metrics with ` + "`Params.Registerer`" + `, or in an fx app with a ` + "`prometheus.Registerer`" + `. Without one it registers
no metrics, and ` + "`Status().Warnings`" + ` reports it. The series exist while ` + "`Run`" + ` runs.

The OpenStack provider has [more](metrics-openstack.md). The controllers of nodes and Services register the metrics of upstream's with the same
registerer, without the label ` + "`manager`" + `. The route controller registers its metric in component-base's
` + "`legacyregistry`" + `, which is global to the process. [The endpoints](../how-to/embed-in-fx.md#what-you-can-hand-in) serve both registries at
` + "`/metrics`" + `, with those that the host adds.

` + metrics.Page(append(metrics.Table(), metrics.ProcessMemory())) + `
# Metrics of node-ipam-controller

[node-ipam-controller](../how-to/allocate-pod-ranges.md) registers these with the same registerer.

` + metrics.Page(metrics.NewNodeIPAM().Table())
}
