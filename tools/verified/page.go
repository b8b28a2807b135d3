package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

// The page has all of these, also those without a recorded run.
var (
	releases = []string{zed, "2025.1", "2026.2"}
	suites   = []string{"api", "openstack", "manager", "takeover", packets}
)

const (
	// zed has no data plane, and so no suite packets.
	zed     = "zed"
	packets = "packets"
)

// tables are the results on the page.
func (r runs) tables() string {
	var text strings.Builder
	for _, name := range releases {
		title := "OpenStack " + strings.ToUpper(name[:1]) + name[1:]
		fmt.Fprintf(&text, "## %s\n\n", title)
		of := r[name]
		if of == nil {
			text.WriteString("No run is recorded yet.\n\n")
			continue
		}
		if len(of.Versions) > 0 {
			fmt.Fprintf(&text, "%s.\n\n", of.programs())
		}
		if of.Seconds > 0 {
			fmt.Fprintf(&text, "The lab was up after %d s.\n\n", of.Seconds)
		}
		var rows []map[string]string
		var tests strings.Builder
		for _, suite := range suites {
			if name == zed && suite == packets {
				continue
			}
			row := map[string]string{
				"suite":  "[" + suite + "](../../test/providers/" + suite + ")",
				"result": "not recorded yet",
			}
			if s := of.Suites[suite]; s != nil {
				row["result"], row["seconds"] = s.Result, fmt.Sprintf("%.0f", s.Seconds)
				row["date"], row["fxccm"] = s.Date, s.Revision
				fmt.Fprintf(&tests, "### %s: %s\n\n%s\n", title, suite, s.table())
			}
			rows = append(rows, row)
		}
		columns := []string{"suite", "result", "seconds", "date", "fxccm"}
		fmt.Fprintf(&text, "%s\n%s", evidence.Table(columns, rows), tests.String())
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// programs are the programs of the release with their versions, and where they are from.
func (r *release) programs() string {
	var all []string
	for _, program := range slices.Sorted(maps.Keys(r.Versions)) {
		all = append(all, program+" "+r.Versions[program])
	}
	if r.Archive != "" {
		all = append(all, "of Debian's archive of "+r.Archive)
	}
	return strings.Join(all, ", ")
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
