package docs_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/metrics"
)

func TestMetricsPage_IsUpToDate(t *testing.T) {
	keep(t, "docs/reference/metrics.md", metricsPage())
}

func metricsPage() string {
	var page strings.Builder
	page.WriteString(`# Metrics

<!-- Generated from internal/metrics; change it there and run: go generate ./docs -->

What a Manager counts and times. It does so where the host says: ` + "`Params.Registerer`" + `, in an fx app a
` + "`prometheus.Registerer`" + `. Without one nothing is registered. Series are there while ` + "`Run`" + ` runs, and gone when it has returned.

The four controllers of upstream have metrics of their own, in component-base's ` + "`legacyregistry`" + `, which is the process's.
[The endpoints](../how-to/embed-in-fx.md#what-you-can-hand-in) serve that registry at ` + "`/metrics`" + `, and others that they are given.

| metric | type | |
|---|---|---|
`)
	table := metrics.Table()
	for _, m := range table {
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s | %s |\n", m.Name, m.Name, m.Type, m.Help)
	}
	for _, m := range table {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| label | values | |\n|---|---|---|\n", m.Name, m.Help)
		for _, l := range m.Labels {
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", l.Name, codes(l.Values), l.Help)
		}
		if len(m.Buckets) > 0 {
			fmt.Fprintf(&page, "\nBuckets, in seconds: %s.\n", strings.Join(numbers(m.Buckets), ", "))
		}
	}
	return page.String()
}

func codes(values []string) string {
	values = slices.Clone(values)
	for i, v := range values {
		values[i] = "`" + v + "`"
	}
	return strings.Join(values, " ")
}

func numbers(values []float64) []string {
	var all []string
	for _, v := range values {
		all = append(all, strconv.FormatFloat(v, 'g', -1, 64))
	}
	return all
}
