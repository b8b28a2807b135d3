package main

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/fxccm/fxccm/tools/internal/evidence"
)

// A server is the API server of a row, with what else was the same for its suites.
type server struct {
	version, golang, etcd, date, revision string
}

const notRun = "not run"

// columns are those of the first table before the suites.
var columns = []string{"kube-apiserver", "built with", "etcd", "fxccm", "date"}

var problemColumns = []string{"kube-apiserver", "suite", "test", "result", "reason"}

// record writes the result of a suite to the page. It keeps the results of other minor versions,
// and of the same server those of the same revision and day: a row never mixes two.
func record(path string, s server, suiteName string, r *evidence.Result) error {
	text, written, err := evidence.ReadPage(path)
	if err != nil {
		return err
	}
	results, problems := rows(written, columns), rows(written, problemColumns)
	id := []string{s.version, s.golang, s.etcd, s.revision, s.date}
	row := map[string]string{}
	for i, column := range columns {
		row[column] = id[i]
	}
	isSame := false
	for i, old := range results {
		if minor(old[columns[0]]) != minor(s.version) {
			continue
		}
		results = slices.Delete(results, i, i+1)
		if isSame = !slices.ContainsFunc(columns, func(c string) bool {
			return old[c] != row[c]
		}); isSame {
			row = old
		}
		break
	}
	row[suiteName] = r.String()
	results = append(results, row)
	problems = slices.DeleteFunc(problems, func(old map[string]string) bool {
		return minor(old[columns[0]]) == minor(s.version) && (!isSame || old["suite"] == suiteName)
	})
	for _, p := range r.Problems {
		problems = append(problems, map[string]string{
			"kube-apiserver": s.version, "suite": suiteName, "test": evidence.Code(p.Test),
			"result": p.Verdict, "reason": evidence.Code(p.Reason),
		})
	}
	return os.WriteFile(path, []byte(text+"\n"+tables(results, problems)), 0o644)
}

func tables(results, problems []map[string]string) string {
	byVersion := func(a, b map[string]string) int {
		return cmp.Or(cmp.Compare(minor(a[columns[0]]), minor(b[columns[0]])),
			cmp.Compare(a["suite"], b["suite"]), cmp.Compare(a["test"], b["test"]))
	}
	slices.SortFunc(results, byVersion)
	slices.SortFunc(problems, byVersion)
	all := slices.Clone(columns)
	for _, s := range suites {
		all = append(all, s.name)
		for _, row := range results {
			row[s.name] = cmp.Or(row[s.name], notRun)
		}
	}
	text := evidence.Table(all, results)
	if len(problems) == 0 {
		return text + "\nNo test was skipped, and no test failed.\n"
	}
	return text + "\nThese tests did not pass:\n\n" + evidence.Table(problemColumns, problems)
}

// rows reads the table whose header begins with the columns.
func rows(text string, columns []string) (found []map[string]string) {
	var header []string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 3 {
			header = nil
			continue
		}
		cells = cells[1 : len(cells)-1]
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case header == nil:
			if header = cells; len(cells) < len(columns) ||
				!slices.Equal(cells[:len(columns)], columns) {
				header = []string{}
			}
		case len(cells) != len(header) || strings.HasPrefix(cells[0], "---"):
		default:
			row := map[string]string{}
			for i, cell := range cells {
				row[header[i]] = cell
			}
			found = append(found, row)
		}
	}
	return found
}

func minor(v string) uint {
	parsed, err := version.ParseSemantic(v)
	if err != nil {
		return 0
	}
	return parsed.Major()*1000 + parsed.Minor()
}
