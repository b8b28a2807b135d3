package persistentvolumelabel

import (
	"errors"
	"fmt"
	"testing"
)

func TestFailures_TellEachReasonOnceAndNotForEver(t *testing.T) {
	f := newFailures()
	tell := func() string {
		message, untold := f.untold("pv")
		if !untold {
			return "-"
		}
		return message
	}
	var got []string
	got = append(got, tell())
	for _, reason := range []string{"a", "a", "b", "a"} {
		f.note("pv", errors.New(reason))
		got = append(got, tell())
	}
	if want := "[- a - b -]"; fmt.Sprint(got) != want {
		t.Errorf("told %v, want %s", got, want)
	}

	told := 0
	for i := range 100 {
		f.note("pv", fmt.Errorf("request %d failed", i))
		if tell() != "-" {
			told++
		}
	}
	if want := maxTold - 2; told != want {
		t.Errorf("told %d of 100 further reasons, want %d", told, want)
	}

	f.forget("pv")
	f.note("pv", errors.New("a"))
	if got := tell(); got != "a" {
		t.Errorf("a failure after a success was told as %q", got)
	}
}
