//go:build linux

package invariants_test

import (
	"fmt"
	"testing"
	"time"
)

const (
	// waitLimit is for what never comes: what is waited for takes seconds, and a minute if other tests keep the machine busy.
	waitLimit = 3 * time.Minute

	// pollInterval is such that looking is little work beside what is looked at.
	pollInterval = 150 * time.Millisecond
)

// eventually asks probe again and again until it returns nil. what completes the sentence "waited in vain until …".
func eventually(t *testing.T, what string, probe func() error) {
	t.Helper()
	deadline := time.Now().Add(waitLimit)
	for {
		err := probe()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s; last seen: %v", what, err)
		}
		time.Sleep(pollInterval)
	}
}

// steadily is eventually, but probe must hold for a while: it answers with what must not change in that time.
func steadily[T comparable](t *testing.T, what string, during time.Duration, probe func() (T, error)) T {
	t.Helper()
	var last T
	var since time.Time
	eventually(t, what, func() error {
		seen, err := probe()
		switch {
		case err != nil:
			since = time.Time{}
			return err
		case since.IsZero() || seen != last:
			last, since = seen, time.Now()
		}
		if quiet := time.Since(since); quiet < during {
			return notYet{seen, quiet}
		}
		return nil
	})
	return last
}

// notYet is the error of what has not been steady for long enough.
type notYet struct {
	seen  any
	quiet time.Duration
}

func (n notYet) Error() string { return fmt.Sprintf("%+v for only %s", n.seen, n.quiet) }
