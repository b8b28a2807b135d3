//go:build linux

package replica

import (
	"fmt"
	"testing"
	"time"
)

const (
	// WaitLimit is for conditions that never hold: a wait usually takes seconds, and up to a minute
	// if other tests keep the machine busy.
	WaitLimit = 3 * time.Minute

	// pollInterval is long enough that the probes do not load the machine.
	pollInterval = 150 * time.Millisecond
)

// Eventually calls probe until it returns nil. what completes the sentence "waited without success
// until …".
func Eventually(t testing.TB, what string, probe func() error) {
	t.Helper()
	deadline := time.Now().Add(WaitLimit)
	for {
		err := probe()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited without success until %s; last seen: %v", what, err)
		}
		time.Sleep(pollInterval)
	}
}

// Steadily is Eventually, but probe must hold for a while: the value that it returns must not
// change in that time.
func Steadily[T comparable](
	t testing.TB, what string, during time.Duration, probe func() (T, error),
) T {
	t.Helper()
	var last T
	var since time.Time
	Eventually(t, what, func() error {
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

// notYet is the error of a value that has not been steady for long enough.
type notYet struct {
	seen  any
	quiet time.Duration
}

func (n notYet) Error() string { return fmt.Sprintf("%+v for only %s", n.seen, n.quiet) }
