package main

import (
	"embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
)

// report is everything that the tables are made of.
type report struct {
	settings settings
	machine  machine
	versions versions
	begun    time.Time
	took     time.Duration
	results  *results
}

// A page is a part of the report, which the terminal shows and a file may.
type page struct {
	title string
	// tables are those that the terminal shows.
	tables []table
	// name is that of the file and its template, without the ending. values are for the template.
	name   string
	values map[string]any
}

// pages are those of what was measured.
func (r report) pages() (all []page) {
	if len(r.results.rows) > 0 {
		all = append(all, r.comparisonPage())
	}
	if len(r.results.chapters) > 0 {
		all = append(all, r.openStackPage())
	}
	if len(r.results.fleet.figures) > 0 {
		all = append(all, r.fleetPage())
	}
	if len(r.results.requests) > 0 {
		all = append(all, r.requestsPage())
	}
	if len(r.results.process) > 0 {
		all = append(all, r.processPage())
	}
	if len(r.results.lab.figures) > 0 {
		all = append(all, r.labPage())
	}
	return all
}

// comparisonPage is on upstream's command beside fxccm.
func (r report) comparisonPage() page {
	medians := r.results.table()
	return page{
		"fxccm beside upstream",
		[]table{medians},
		"benchmarks",
		map[string]any{
			"Table": medians, "Samples": r.results.sampleTable(),
			"Upstream": r.versions.upstream, "TunedFlags": strings.Join(tunedFlags(), " "),
		},
	}
}

// A table has a header, which may be empty, for each of its columns.
type table struct {
	header []string
	lines  [][]string
}

// figureTable has a line for each figure, with its target.
func figureTable(figures []figure) table {
	t := table{header: []string{"", ours, "target", ""}}
	for _, f := range figures {
		t.lines = append(t.lines, []string{f.title, f.text(), f.targetText(), f.verdict()})
	}
	return t
}

// String is the table as Markdown.
func (t table) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|---|%s\n", strings.Join(t.header, " | "),
		strings.Repeat("---:|", len(t.header)-1))
	for _, cells := range t.lines {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	return text.String()
}

// terminal is the report for people who wait for it.
func (r report) terminal() string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, p := range r.pages() {
		_, _ = fmt.Fprintln(columns, p.title)
		for _, t := range p.tables {
			for _, cells := range append([][]string{t.header}, t.lines...) {
				_, _ = fmt.Fprintln(columns, strings.Join(cells, "\t"))
			}
			_, _ = fmt.Fprintln(columns)
		}
	}
	_ = columns.Flush()
	return text.String()
}

//go:embed pages
var pages embed.FS

// markdown fills in the template of a page.
func (r report) markdown(p page) (string, error) {
	templates, err := template.ParseFS(pages, "pages/*.tmpl")
	if err != nil {
		return "", err
	}
	maps.Copy(p.values, map[string]any{
		"Date": r.begun.UTC().Format(time.DateOnly), "Took": r.took.Round(time.Second),
		"Machine": r.machine.hardware, "System": r.machine.system, "Versions": r.versions.all,
	})
	var text strings.Builder
	err = templates.Option("missingkey=error").ExecuteTemplate(&text, p.name+".tmpl", p.values)
	return text.String(), err
}

// write writes a page if there is a folder for it.
func (r report) write(p page) error {
	if r.settings.out == "" {
		return nil
	}
	path := filepath.Join(r.settings.out, p.name+".md")
	text, err := r.markdown(p)
	if err != nil {
		return fmt.Errorf("write the page %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
