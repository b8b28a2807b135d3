package main

import (
	"fmt"
	"slices"
	"strings"
)

// unit is what a row's values are in.
type unit string

const (
	seconds   unit = "s"
	mebibytes unit = "MiB"
	kibibytes unit = "KiB"
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
	case u == perMinute, u == perSecond:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", s.value), ".0") + " " + string(u)
	case u == mebibytes && s.value >= 10 || s.value >= 100:
		return fmt.Sprintf("%.0f %s", s.value, u)
	default:
		return fmt.Sprintf("%.2f %s", s.value, u)
	}
}

// results holds all samples, by row and candidate.
type results struct {
	rows    []row
	samples map[row]map[string][]sample
	// chapters are of fxccm on the simulated OpenStack, lab is of the real one; nil if it was not
	// measured.
	chapters []chapter
	lab      *labResult
	// fleet is of fleets; nil if they were not measured.
	fleet *fleetResult
}

// A chapter is figures that are shown together.
type chapter struct {
	title   string
	figures []figure
}

// begin begins a chapter.
func (r *results) begin(title string) { r.chapters = append(r.chapters, chapter{title: title}) }

// note adds a figure to the last chapter.
func (r *results) note(f figure) {
	last := &r.chapters[len(r.chapters)-1]
	last.figures = append(last.figures, f)
}

func newResults() *results { return &results{samples: map[row]map[string][]sample{}} }

func (r *results) add(at row, candidate string, s sample) {
	if r.samples[at] == nil {
		r.rows = append(r.rows, at)
		r.samples[at] = map[string][]sample{}
	}
	r.samples[at][candidate] = append(r.samples[at][candidate], s)
}

// median is the middle sample, the lower of two. ok is false without samples.
func (r *results) median(at row, candidate string) (_ sample, ok bool) {
	sorted := slices.SortedFunc(slices.Values(r.samples[at][candidate]), func(a, b sample) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	if len(sorted) == 0 {
		return sample{}, false
	}
	return sorted[(len(sorted)-1)/2], true
}

// verdict compares fxccm with upstream.
type verdict struct {
	// ratio may be "".
	ratio, target, text string
}

func (r *results) judge(at row) verdict {
	v := verdict{target: targetText(at.target)}
	mine, ok := r.median(at, ours)
	theirs, also := r.median(at, upstream)
	if !ok || !also || theirs.value == 0 {
		return v
	}
	ratio := mine.value / theirs.value
	switch {
	case mine.unfinished:
		v.ratio = "–"
	case theirs.unfinished:
		v.ratio = fmt.Sprintf("< %.3f", ratio)
	default:
		v.ratio = fmt.Sprintf("%.3f", ratio)
	}
	// As it is shown, to the third digit: what cannot be seen is no difference.
	within := !mine.unfinished && ratio < at.target+0.0005
	switch {
	case at.target == noTarget:
	case within:
		v.text = "passed"
	case theirs.unfinished && !mine.unfinished:
		v.text = "not known" // the ratio is less than what is shown
	default:
		v.text = "missed"
	}
	return v
}

func targetText(target float64) string {
	if target == noTarget {
		return ""
	}
	return "≤ " + strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", target), "0"), ".")
}
