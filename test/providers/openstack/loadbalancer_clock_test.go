package openstack_test

import (
	"time"

	"k8s.io/utils/clock"
)

// haste is how many times as fast as in reality time goes on the simulator, for Octavia and for the
// provider alike: the provider looks a second after a change whether it is done.
const haste = 20

// hasty is a clock that runs fast.
type hasty struct{ begun time.Time }

var _ clock.Clock = hasty{}

func (h hasty) Now() time.Time {
	return h.begun.Add(haste * time.Since(h.begun))
}
func (h hasty) Since(t time.Time) time.Duration        { return h.Now().Sub(t) }
func (h hasty) After(d time.Duration) <-chan time.Time { return time.After(d / haste) }
func (h hasty) Sleep(d time.Duration)                  { time.Sleep(d / haste) }
func (h hasty) NewTimer(d time.Duration) clock.Timer {
	return hastyTimer{time.NewTimer(d / haste)}
}

//nolint:staticcheck // the interface has it
func (h hasty) Tick(d time.Duration) <-chan time.Time { return time.Tick(d / haste) }

type hastyTimer struct{ *time.Timer }

func (t hastyTimer) C() <-chan time.Time        { return t.Timer.C }
func (t hastyTimer) Reset(d time.Duration) bool { return t.Timer.Reset(d / haste) }
