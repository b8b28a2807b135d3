package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

// The page has all of these, also those that were not run.
var (
	releases = []string{"zed", "2025.1"}
	suites   = []string{"api", "openstack", "manager", "takeover", "packets"}
)

// tables are the results on the page.
func (r runs) tables() string {
	var text strings.Builder
	for _, name := range releases {
		title := "OpenStack " + strings.ToUpper(name[:1]) + name[1:]
		of := cmp.Or(r[name], &release{})
		var rows []map[string]string
		var tests strings.Builder
		for _, name := range suites {
			row := map[string]string{
				"suite": "[" + name + "](../../test/providers/" + name + ")", "result": "not run",
			}
			if s := of.Suites[name]; s != nil {
				row["result"], row["seconds"] = s.Result, fmt.Sprintf("%.0f", s.Seconds)
				row["date"], row["fxccm"] = s.Date, s.Revision
				fmt.Fprintf(&tests, "### %s: %s\n\n%s\n", title, name, s.table())
			}
			rows = append(rows, row)
		}
		fmt.Fprintf(&text, "## %s\n\n", title)
		if len(of.Versions) > 0 {
			var versions []string
			for _, program := range slices.Sorted(maps.Keys(of.Versions)) {
				versions = append(versions, program+" "+of.Versions[program])
			}
			fmt.Fprintf(&text, "%s.\n\n", strings.Join(versions, ", "))
		}
		columns := []string{"suite", "result", "seconds", "date", "fxccm"}
		fmt.Fprintf(&text, "%s\n%s", evidence.Table(columns, rows), tests.String())
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// table has the tests of a suite.
func (s *suite) table() string {
	columns := []string{"test", "result", "seconds"}
	var rows []map[string]string
	for _, t := range s.Tests {
		rows = append(rows, map[string]string{
			"test": evidence.Code(t.Name), "result": t.Result,
			"seconds": fmt.Sprintf("%.1f", t.Seconds), "seen": t.Seen,
		})
		if t.Seen != "" && len(columns) == 3 {
			columns = append(columns, "seen")
		}
	}
	return evidence.Table(columns, rows)
}
