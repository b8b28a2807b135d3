package waittest

import (
	"time"

	"k8s.io/utils/clock"
)

// hasty is a clock that is several times as fast as the real one.
type hasty struct {
	began time.Time
	times time.Duration
}

var _ clock.Clock = hasty{}

// Hasty returns a clock that is several times as fast as the real one, so that a minute of what is
// tested passes in a few seconds of the test.
func Hasty(times int) clock.Clock { return hasty{time.Now(), time.Duration(times)} }

func (h hasty) Now() time.Time {
	return h.began.Add(time.Since(h.began) * h.times)
}

func (h hasty) Since(t time.Time) time.Duration        { return h.Now().Sub(t) }
func (h hasty) After(d time.Duration) <-chan time.Time { return time.After(d / h.times) }
func (h hasty) Sleep(d time.Duration)                  { time.Sleep(d / h.times) }
func (h hasty) Tick(d time.Duration) <-chan time.Time  { return time.Tick(d / h.times) }
func (h hasty) NewTimer(d time.Duration) clock.Timer {
	return hastyTimer{time.NewTimer(d / h.times), h.times}
}

type hastyTimer struct {
	timer *time.Timer
	times time.Duration
}

func (t hastyTimer) C() <-chan time.Time        { return t.timer.C }
func (t hastyTimer) Stop() bool                 { return t.timer.Stop() }
func (t hastyTimer) Reset(d time.Duration) bool { return t.timer.Reset(d / t.times) }
