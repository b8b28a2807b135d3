package ccm

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// Run campaigns and leads, term after term, until ctx ends; it returns when the last term has
// drained. It can be called again after it has returned, but not while it runs.
//
// The error is nil when ctx ended and all has ended in time. Otherwise it is a *[DrainTimeoutError], also if something of an
// earlier Run still runs, or says that Run is running already. Trouble that may pass is not an error: the API server, the cloud or RBAC fails, or a
// term does not end within its drain timeout. Run keeps trying, and [Manager.Status] says why.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stood := make(chan error, 1)
	go func() { stood <- m.stand(ctx) }()
	err := m.campaign(ctx)
	select {
	case standing := <-stood:
		if err == nil {
			err = standing
		}
	case <-afterDrainTimeout(err):
		// Something may act while another process leads: that cannot wait for what else has to end.
	}
	m.finish(err)
	return err
}

// afterDrainTimeout fires soon if err is a drain timeout, and never otherwise.
func afterDrainTimeout(err error) <-chan time.Time {
	if _, ok := errors.AsType[*DrainTimeoutError](err); ok {
		return time.After(drainTimeoutReserve / 2)
	}
	return nil
}

func (m *Manager) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running {
		return errors.New("ccm: Run is already running")
	}
	if left := m.leftBehind(); len(left) > 0 {
		return left[len(left)-1].timedOut()
	}
	select {
	case <-m.done:
		m.done = make(chan struct{})
	default:
	}
	m.running, m.err, m.leading, m.standing = true, nil, course{}, course{}
	m.observed = m.measures.Begin()
	return nil
}

func (m *Manager) finish(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.err = false, err
	// They hold what was in the informers.
	m.leading, m.standing = course{}, course{}
	m.observed.End()
	m.connections.reset()
	close(m.done)
}

// retryBackoff paces terms and controllers that fail: 1 s, doubling to 30 s, with jitter so that replicas do not
// move together. One that has lasted two minutes starts it over.
func retryBackoff(clock clock.Clock) wait.DelayFunc {
	return wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}.
		DelayWithReset(clock, 2*time.Minute)
}

// shortestTerm is the least time between the beginnings of two terms of which the first was lost.
const shortestTerm = time.Second

func (m *Manager) campaign(ctx context.Context) error {
	delay := retryBackoff(m.clock)
	for ctx.Err() == nil {
		var began time.Time
		err := m.elector.Elect(ctx, func(led context.Context, g Grant) error {
			began = time.Now()
			return m.newLeadingTerm(g).run(ctx, led)
		})
		timedOut, isDrainTimeout := errors.AsType[*DrainTimeoutError](err)
		switch {
		case isDrainTimeout:
			if err := m.recover(ctx, &m.leading, timedOut, delay()); err != nil {
				return err
			}
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrLeadershipLost):
			m.log.Info("Leadership lost, back to standby", "reason", err.Error())
			m.setCourse(&m.leading, course{})
			// An elector that grants what it has lost must not keep the process busy.
			select {
			case <-time.After(time.Until(began.Add(shortestTerm))):
			case <-ctx.Done():
			}
			continue
		case err == nil:
			err = errors.New("the elector gave up without a reason")
		}
		m.pauseAfter(ctx, &m.leading, "Term failed", err, delay())
	}
	return nil
}

// stand runs the controllers that do not need the lease, until ctx ends.
func (m *Manager) stand(ctx context.Context) error {
	if len(m.enabled(false)) == 0 {
		return nil
	}
	delay := retryBackoff(m.clock)
	for ctx.Err() == nil {
		err := m.newStandingTerm().run(ctx, context.WithoutCancel(ctx))
		if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok {
			if err := m.recover(ctx, &m.standing, timedOut, delay()); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		m.pauseAfter(ctx, &m.standing, "Controllers that run without the lease failed", err, delay())
	}
	return nil
}

const (
	// maxLeftBehind is how many ended terms may have goroutines that hang before no new term begins:
	// each may hold memory, and a restart of the process is what helps then.
	maxLeftBehind = 3

	// minLeftBehindPause and recoveryCheck pace the recovery from a drain timeout.
	minLeftBehindPause = 30 * time.Second
	recoveryCheck      = 250 * time.Millisecond
)

// recover waits until a new term may follow one that did not end within its drain timeout: nothing
// of the old term can act, and all of it has ended. What hangs without being able to act is left
// behind after a pause, in which another replica can take the lease; but not from too many terms.
// The error is timedOut when ctx ends before.
func (m *Manager) recover(ctx context.Context, of *course, timedOut *DrainTimeoutError, pause time.Duration) error {
	term := timedOut.term
	m.mu.Lock()
	*of = course{failure: &failure{err: timedOut}}
	m.left = append(m.leftBehind(), term)
	m.mu.Unlock()
	m.log.Error(timedOut, "Term did not end within its drain timeout; the lease is left to expire", "mayAct", timedOut.MayAct())
	if ctx.Err() != nil {
		return timedOut
	}
	if m.onDrainTimeout != nil && term.provider != nil {
		m.onDrainTimeout(timedOut)
	}
	begun := time.Now()
	leaveAfter := max(minLeftBehindPause, 2*m.config.LeaderElection.LeaseDuration.Duration)
	err := wait.PollUntilContextCancel(ctx, recoveryCheck, true, func(context.Context) (bool, error) {
		waited := time.Since(begun)
		switch {
		case term.hasEnded():
			return waited >= pause, nil
		case term.mayAct():
			return false, nil
		}
		return waited >= leaveAfter && m.countLeftBehind() < maxLeftBehind, nil
	})
	if err != nil {
		return timedOut
	}
	m.log.Info("Campaigning again after a drain timeout", "term", term.number, "leftBehind", describe(term.activities(), time.Now()))
	m.mu.Lock()
	defer m.mu.Unlock()
	*of, m.left = course{}, m.leftBehind() // an ended term holds what was in the informers
	return nil
}

// leftBehind returns the terms that did not end within their drain timeout and have not ended since.
// The lock is held.
func (m *Manager) leftBehind() []*Term {
	return slices.DeleteFunc(slices.Clone(m.left), (*Term).hasEnded)
}

func (m *Manager) countLeftBehind() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.leftBehind())
}

// pauseAfter makes a failure known, and waits before the next try.
func (m *Manager) pauseAfter(ctx context.Context, of *course, what string, err error, pause time.Duration) {
	m.log.Error(err, what, "retryIn", pause)
	m.setCourse(of, course{failure: &failure{err: err, retry: m.clock.Now().Add(pause)}})
	select {
	case <-m.clock.After(pause):
	case <-ctx.Done():
	}
}

func (m *Manager) setCourse(of *course, to course) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*of = to
}
