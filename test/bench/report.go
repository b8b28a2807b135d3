package main

import (
	"embed"
	"fmt"
	"maps"
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

// terminal is the table for people who wait for it.
func (r report) terminal() string {
	var text strings.Builder
	if len(r.results.rows) > 0 {
		text.WriteString(terminalTable(header(), r.results.table()) + "\n")
	}
	for _, c := range r.results.chapters {
		text.WriteString("On a simulated OpenStack: " + c.title + "\n" + c.terminal() + "\n")
	}
	if r.results.fleet != nil {
		text.WriteString("Fleets\n" + r.results.fleet.terminal() + "\n")
	}
	if r.results.lab != nil {
		text.WriteString("On a real OpenStack\n" + r.results.lab.terminal() + "\n")
	}
	return text.String()
}

func terminalTable(header []string, lines [][]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range append([][]string{header}, lines...) {
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush()
	return text.String()
}

func header() []string {
	cells := []string{""}
	for _, c := range candidates() {
		cells = append(cells, c.name)
	}
	return append(cells, "fxccm / upstream", "target", "")
}

func (r *results) table() (lines [][]string) {
	for _, at := range r.rows {
		cells := []string{at.title}
		for _, c := range candidates() {
			text := ""
			if median, ok := r.median(at, c.name); ok {
				text = median.text(at.unit)
			}
			cells = append(cells, text)
		}
		v := r.judge(at)
		lines = append(lines, append(cells, v.ratio, v.target, v.text))
	}
	return lines
}

// samples shows every measurement.
func (r report) samples() (lines [][]string) {
	for _, at := range r.results.rows {
		cells := []string{at.title}
		for _, c := range candidates() {
			var texts []string
			for _, s := range r.results.samples[at][c.name] {
				texts = append(texts, s.text(at.unit))
			}
			cells = append(cells, strings.Join(texts, ", "))
		}
		lines = append(lines, cells)
	}
	return lines
}

//go:embed pages
var pages embed.FS

// page fills in one of the pages.
func (r report) page(name string, values map[string]any) (string, error) {
	templates, err := template.ParseFS(pages, "pages/*.tmpl")
	if err != nil {
		return "", err
	}
	maps.Copy(values, map[string]any{
		"Date": r.begun.UTC().Format(time.DateOnly), "Took": r.took.Round(time.Second),
		"Machine": fmt.Sprintf("%s, %d cores, %s of memory", r.machine.processor, r.machine.cores,
			r.machine.memory),
		"System": r.machine.kernel + "; load average before: " + r.machine.load,
		"Versions": fmt.Sprintf("fxccm %s; %s; kube-apiserver %s; etcd %s", r.versions.fxccm,
			r.versions.golang, r.versions.kubernetes, r.versions.etcd),
	})
	var text strings.Builder
	err = templates.Option("missingkey=error").ExecuteTemplate(&text, name+".tmpl", values)
	return text.String(), err
}

// markdown is the page on upstream's command beside fxccm.
func (r report) markdown() (string, error) {
	return r.page("benchmarks", map[string]any{
		"Table": markdownTable(header(), r.results.table()),
		"Samples": markdownTable(append([]string{""}, header()[1:len(candidates())+1]...),
			r.samples()),
		"Upstream": r.versions.upstream, "TunedFlags": strings.Join(tunedFlags(), " "),
	})
}

func tunedFlags() []string {
	for _, c := range candidates() {
		if c.name == tuned {
			return c.flags
		}
	}
	return nil
}

func markdownTable(header []string, lines [][]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|---|%s\n", strings.Join(header, " | "),
		strings.Repeat("---:|", len(header)-1))
	for _, cells := range lines {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	return text.String()
}
