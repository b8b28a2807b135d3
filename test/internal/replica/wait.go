//go:build linux

package replica

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/waittest"
)

// Eventually is [waittest.Eventually] for a probe without a value.
func Eventually(t testing.TB, what string, probe func() error) {
	t.Helper()
	waittest.Eventually(t, what, func(context.Context) (struct{}, error) {
		return struct{}{}, probe()
	})
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
