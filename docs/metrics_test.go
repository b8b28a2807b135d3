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

What a Manager counts and times. It does so where the host says: ` + "`Params.Registerer`" + `, in an fx app a
` + "`prometheus.Registerer`" + `. Without one nothing is registered. Series are there while ` + "`Run`" + ` runs, and gone when it has returned.

The OpenStack provider has [more](metrics-openstack.md). The four controllers of upstream have metrics of their own, in component-base's
` + "`legacyregistry`" + `, which is the process's. [The endpoints](../how-to/embed-in-fx.md#what-you-can-hand-in) serve that registry at
` + "`/metrics`" + `, and others that they are given.

` + metrics.Page(metrics.Table())
}
