package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Page is the part of a reference page that lists the metrics of a table, as Markdown.
func Page(table []Metric) string {
	var page strings.Builder
	page.WriteString("| metric | type | |\n|---|---|---|\n")
	for _, m := range table {
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s | %s |\n", m.Name, m.Name, m.Type, m.Help)
	}
	for _, m := range table {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| label | values | |\n|---|---|---|\n", m.Name, m.Help)
		for _, l := range m.Labels {
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", l.Name, codes(l.Values), l.Help)
		}
		if len(m.Buckets) > 0 {
			fmt.Fprintf(&page, "\nBuckets, in seconds: %s.\n",
				strings.Join(numbers(m.Buckets), ", "))
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
