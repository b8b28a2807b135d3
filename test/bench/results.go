package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// unit is what a row's values are in.
type unit string

const (
	seconds      unit = "s"
	milliseconds unit = "ms"
	mebibytes    unit = "MiB"
	kibibytes    unit = "KiB"
	// count is of things; it has no name.
	count unit = ""
	// perMinute and perSecond are of things, too.
	perMinute unit = "a minute"
	perSecond unit = "a second"
	// coresInUse is CPU time by time.
	coresInUse unit = "cores"
	// perCluster is of things that one more cluster has.
	perCluster unit = "each"
)

// A row is one thing that is measured of all candidates. Less is better.
type row struct {
	title string
	unit  unit
	// target is the most that the ratio of fxccm to upstream may be, or 0.
	target float64
}

// A sample is one measurement.
type sample struct {
	value float64
	// unfinished is set when the limit was reached; value is the limit then, and done of all were
	// finished.
	unfinished bool
	done, of   int
}

func (s sample) text(u unit) string {
	switch {
	case s.unfinished:
		return fmt.Sprintf("not in %.0f %s (%d of %d)", s.value, u, s.done, s.of)
	case u == count:
		return fmt.Sprintf("%.0f", s.value)
	case u == perCluster:
		return fmt.Sprintf("%.1f", s.value)
	case u == coresInUse:
		return fmt.Sprintf("%.3f %s", s.value, u)
	case (u == perMinute || u == perSecond) && s.value < 1:
		return fmt.Sprintf("%.2g %s", s.value, u)
	case u == perMinute, u == perSecond:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s.value), ".0") + " " + string(u)
	case u == mebibytes && s.value >= 10 || s.value >= 100:
		return fmt.Sprintf("%.0f %s", s.value, u)
	default:
		return fmt.Sprintf("%.2f %s", s.value, u)
	}
}

// results are all that was measured. Each part is empty if its scenario did not run.
type results struct {
	comparison
	// chapters are of fxccm on the simulated OpenStack, lab is of the real one.
	chapters []chapter
	lab      labResult
	fleet    fleetResult
	// requests are those of a fleet to OpenStack.
	requests []figure
	// process is of a provider in a process of its own, and of pod ranges.
	process []figure
}

// A chapter is figures that are shown together.
type chapter struct {
	title   string
	figures []figure
}

// A comparison has all samples, by row and candidate.
type comparison struct {
	rows    []row
	samples map[row]map[string][]sample
}

func (r *comparison) add(at row, candidate string, s sample) {
	if r.samples == nil {
		r.samples = map[row]map[string][]sample{}
	}
	if r.samples[at] == nil {
		r.rows = append(r.rows, at)
		r.samples[at] = map[string][]sample{}
	}
	r.samples[at][candidate] = append(r.samples[at][candidate], s)
}

// median is the middle sample, the lower of two. ok is false without samples.
func (r comparison) median(at row, candidate string) (_ sample, ok bool) {
	sorted := slices.SortedFunc(slices.Values(r.samples[at][candidate]),
		func(a, b sample) int { return cmp.Compare(a.value, b.value) })
	if len(sorted) == 0 {
		return sample{}, false
	}
	return sorted[(len(sorted)-1)/2], true
}

// judge compares fxccm with upstream: the ratio, the target and a verdict, each of which may be "".
func (r comparison) judge(at row) (ratio, target, verdict string) {
	target = targetText(at.target)
	mine, ok := r.median(at, ours)
	theirs, also := r.median(at, upstream)
	if !ok || !also || theirs.value == 0 {
		return "", target, ""
	}
	value := mine.value / theirs.value
	switch ratio = fmt.Sprintf("%.3f", value); {
	case mine.unfinished:
		ratio = "–"
	case theirs.unfinished:
		ratio = "< " + ratio
	}
	// As it is shown, to the third digit: what cannot be seen is no difference.
	isWithin := !mine.unfinished && value < at.target+0.0005
	switch {
	case at.target == noTarget:
		return ratio, target, ""
	case isWithin:
		return ratio, target, "passed"
	case theirs.unfinished && !mine.unfinished:
		return ratio, target, "not known" // the ratio is less than what is shown
	}
	return ratio, target, "missed"
}

// table has a line for each row, and the medians.
func (r comparison) table() table {
	t := table{header: append(candidateNames(), "fxccm / upstream", "target", "")}
	for _, at := range r.rows {
		cells := []string{at.title}
		for _, c := range candidates() {
			text := ""
			if median, ok := r.median(at, c.name); ok {
				text = median.text(at.unit)
			}
			cells = append(cells, text)
		}
		ratio, target, verdict := r.judge(at)
		t.lines = append(t.lines, append(cells, ratio, target, verdict))
	}
	return t
}

// sampleTable shows every measurement.
func (r comparison) sampleTable() table {
	t := table{header: candidateNames()}
	for _, at := range r.rows {
		cells := []string{at.title}
		for _, c := range candidates() {
			var texts []string
			for _, s := range r.samples[at][c.name] {
				texts = append(texts, s.text(at.unit))
			}
			cells = append(cells, strings.Join(texts, ", "))
		}
		t.lines = append(t.lines, cells)
	}
	return t
}

// candidateNames are the headers of columns, after the one of the titles.
func candidateNames() []string {
	names := []string{""}
	for _, c := range candidates() {
		names = append(names, c.name)
	}
	return names
}

func targetText(target float64) string {
	if target == noTarget {
		return ""
	}
	return "≤ " + strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", target), "0"), ".")
}
