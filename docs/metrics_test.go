package docs_test

import (
	"testing"

	"github.com/fxccm/fxccm/internal/metrics"
)

func TestMetricsPage_IsUpToDate(t *testing.T) {
	keep(t, "docs/reference/metrics.md", metricsPage())
}

func metricsPage() string {
	return `# Metrics

<!-- Generated from internal/metrics; change it there and run: go generate ./docs -->

A Manager registers these metrics with ` + "`Params.Registerer`" + `, or in an fx app with a ` + "`prometheus.Registerer`" + `. Without one it registers
no metrics. The series exist while ` + "`Run`" + ` runs.

The OpenStack provider has [more](metrics-openstack.md). Upstream's four controllers register theirs in component-base's
` + "`legacyregistry`" + `, which is global to the process. [The endpoints](../how-to/embed-in-fx.md#what-you-can-hand-in) serve that registry at
` + "`/metrics`" + `, with those that the host adds.

` + metrics.Page(metrics.Table())
}
