package absence

import (
	"testing"
	"time"
)

func TestAbsences_SequenceOfDenials_ConfirmsOrNot(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type step struct {
		what     string
		at       int
		believed bool
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"once", []step{{"deny", 0, false}}},
		{"twice, too soon", []step{{"deny", 0, false}, {"deny", 9, false}}},
		{"twice, far enough apart", []step{{"deny", 0, false}, {"deny", 10, true}}},
		{"often, far enough apart in all", []step{
			{"deny", 0, false},
			{"deny", 6, false},
			{"deny", 12, true},
		}},
		{"the same answer, told again later", []step{{"deny", 0, false}, {"deny", 0, false}}},
		{
			"an older answer does not undo a newer one",
			[]step{{"deny", 0, false}, {"deny", 10, true}, {"deny", 5, true}},
		},
		{"a sign of life between", []step{
			{"deny", 0, false},
			{"live", 5, false},
			{"deny", 10, false},
			{"deny", 20, true},
		}},
		{"begun again", []step{
			{"deny", 0, false},
			{"begin", 5, false},
			{"deny", 10, false},
			{"deny", 20, true},
		}},
		{"lacking in a list is no denial", []step{
			{"suspect", 0, false},
			{"deny", 10, false},
			{"deny", 20, true},
		}},
		{
			"so far apart that much may have been between",
			[]step{{"deny", 0, false}, {"deny", 3601, false}, {"deny", 3611, true}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAbsences(10 * time.Second)
			for _, s := range c.steps {
				switch s.what {
				case "deny":
					if got := a.deny("x", at(s.at)); got != s.believed {
						t.Errorf("denied at %d s: confirmed = %t, want %t", s.at, got, s.believed)
					}
				case "live":
					a.live("x")
				case "begin":
					a.beginAll()
				case "suspect":
					a.suspect("x", at(s.at))
				}
			}
		})
	}
}

func TestAbsences_Due(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	a := newAbsences(10 * time.Second)
	check := func(now int, refused bool, want int, why string) {
		t.Helper()
		if got := a.due("x", at(now), 4*time.Second, refused); !got.Equal(at(want)) {
			t.Errorf("due at %d s = %d s, want %d s: %s", now,
				int(got.Sub(start).Seconds()), want, why)
		}
	}
	check(0, false, -4, "any answer of the usual age")
	a.deny("x", at(0))
	check(5, false, 0, "the first denial is repeated")
	check(10, false, 10, "now is the time for the second one")
	check(12, false, 10, "an answer since then will do")
	a.deny("x", at(10))
	check(13, false, 10, "the second one is young")
	check(30, false, 26, "no answer older than usual deletes a node")
	check(30, true, 20, "where it does not count, it is requested seldom")
}

func TestCount_KnownAndAbsent_TooManyAreRefused(t *testing.T) {
	for _, c := range []struct {
		known, absent int
		want          bool
	}{
		{3, 0, false},
		{3, 2, false}, // fewer than the number
		{3, 3, true},
		{9, 3, false}, // not more than the share
		{8, 3, true},
		{1000, 333, false},
		{1000, 334, true},
		{0, 0, false},
	} {
		limits := Limits{Number: 3, Share: 1.0 / 3}
		if got := (Count{Known: c.known, Absent: c.absent}).tooMany(limits); got != c.want {
			t.Errorf("%d of %d absent: too many = %t, want %t", c.absent, c.known, got, c.want)
		}
	}
}
