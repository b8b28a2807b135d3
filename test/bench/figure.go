package main

import (
	"fmt"
	"strings"
	"time"
)

// A figure is one thing that is measured of fxccm on OpenStack. Less is better.
type figure struct {
	title string
	value float64
	unit  unit
	// unfinished is set when the limit was reached, and is the limit then. There is no value.
	unfinished time.Duration
	// target is the most that the value may be, noTarget or zeroTarget.
	target float64
	// calls are what was counted; none for a time.
	calls calls
	occm  cost
}

// operations is what was called, by operation; "" for a time.
func (f figure) operations() string { return f.calls.byOperation() }

// countOf is a figure of a number of calls.
func countOf(title string, counted calls, target float64, occm cost) figure {
	return figure{
		title: title, value: float64(len(counted)), unit: count, target: target,
		calls: counted, occm: occm,
	}
}

// timeOf is a figure of a time.
func timeOf(title string, took time.Duration, target float64, occm cost) figure {
	return figure{title: title, value: took.Seconds(), unit: seconds, target: target, occm: occm}
}

func (f figure) text() string {
	if f.unfinished > 0 {
		return fmt.Sprintf("not in %s", f.unfinished)
	}
	return sample{value: f.value}.text(f.unit)
}

func (f figure) targetText() string {
	if f.target == noTarget {
		return ""
	}
	text := targetText(f.target)
	if f.target == zeroTarget {
		text = "0"
	}
	return strings.TrimSpace(text + " " + string(f.unit))
}

func (f figure) verdict() string {
	switch {
	case f.unfinished > 0:
		return "missed"
	case f.target == noTarget:
		return ""
	case f.value <= max(f.target, 0):
		return "passed"
	}
	return "missed"
}
