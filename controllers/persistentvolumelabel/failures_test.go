package persistentvolumelabel

import (
	"errors"
	"fmt"
	"testing"
)

func TestFailures_RepeatedReasons_AreReportedOnceUpToALimit(t *testing.T) {
	f := newFailures()
	report := func() string {
		message, isNew := f.unreported("pv")
		if !isNew {
			return "-"
		}
		return message
	}
	var got []string
	got = append(got, report())
	for _, reason := range []string{"a", "a", "b", "a"} {
		f.record("pv", errors.New(reason))
		got = append(got, report())
	}
	if want := "[- a - b -]"; fmt.Sprint(got) != want {
		t.Errorf("reported %v, want %s", got, want)
	}

	reported := 0
	for i := range 100 {
		f.record("pv", fmt.Errorf("request %d failed", i))
		if report() != "-" {
			reported++
		}
	}
	if want := maxReported - 2; reported != want {
		t.Errorf("reported %d of 100 further reasons, want %d", reported, want)
	}

	f.forget("pv")
	f.record("pv", errors.New("a"))
	if got := report(); got != "a" {
		t.Errorf("a failure after a success was reported as %q", got)
	}
}
