package conformance

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Outcome is the outcome of a check.
type Outcome string

// The outcomes of a check.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "FAILED"
	Skipped Outcome = "skipped"
)

// Result is the result of one check.
type Result struct {
	Check   string
	Outcome Outcome

	// Detail is a sentence: a measurement, or why the check failed or was skipped.
	Detail string

	// Isolation reports whether a process of its own protects the host from such a failure.
	Isolation bool

	// Output is the end of the output of a check that failed.
	Output string

	Duration time.Duration
}

// Report is the result of all checks of a provider.
type Report struct {
	Provider string
	Results  []Result
}

// Result returns the result of the named check, if it has run.
func (r Report) Result(check string) (Result, bool) {
	for _, result := range r.Results {
		if result.Check == check {
			return result, true
		}
	}
	return Result{}, false
}

// Verdict says how a host should run the provider.
func (r Report) Verdict() string {
	var isolate, repair []string
	ran := false
	for _, result := range r.Results {
		ran = ran || result.Outcome == Passed
		switch {
		case result.Outcome != Failed:
		case result.Isolation:
			isolate = append(isolate, result.Check+": "+result.Detail)
		default:
			repair = append(repair, result.Check+": "+result.Detail)
		}
	}
	var verdict []string
	if len(repair) > 0 {
		verdict = append(verdict, "repair it first, because "+strings.Join(repair, "; "))
	}
	if len(isolate) > 0 {
		verdict = append(verdict,
			"run it in a process of its own, because "+strings.Join(isolate, "; "))
	}
	switch {
	case len(verdict) > 0:
		return strings.Join(verdict, "\n")
	case !ran:
		return "unknown: no check has run"
	}
	return "safe in process"
}

// String is a table of the results, and the verdict.
func (r Report) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "check\toutcome\ttime\tdetail")
	for _, result := range r.Results {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", result.Check, result.Outcome,
			result.Duration.Round(100*time.Millisecond), result.Detail)
	}
	_ = table.Flush()
	return fmt.Sprintf("provider %s\n%s%s", r.Provider, &text, r.Verdict())
}
