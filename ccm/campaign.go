package ccm

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// Run campaigns and leads, term after term, until ctx ends; it returns when the last term has
// drained. It can be called again after it has returned, but not while it runs.
//
// The error is nil when ctx ended and all has ended in time. Otherwise it is an *[DrainTimeoutError], or says that
// Run is running already. Trouble that may pass (API server, cloud, RBAC) is not an error: Run
// goes on trying, and [Manager.Status] tells.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stood := make(chan error, 1)
	go func() {
		err := m.stand(ctx)
		if err != nil {
			cancel(err)
		}
		stood <- err
	}()
	err := m.campaign(ctx)
	if err != nil {
		cancel(err)
	}
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

// afterDrainTimeout fires soon if err tells of an undrained term, and never otherwise.
func afterDrainTimeout(err error) <-chan time.Time {
	if timedOut := (*DrainTimeoutError)(nil); errors.As(err, &timedOut) {
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
	for _, c := range []course{m.leading, m.standing} {
		if c.term == nil {
			continue
		}
		if left := c.term.running(); len(left) > 0 {
			return &DrainTimeoutError{Term: c.term.number, Running: left}
		}
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
	if err == nil {
		// They hold what was in the informers.
		m.leading, m.standing = course{}, course{}
	}
	m.observed.End()
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
		var timedOut *DrainTimeoutError
		switch {
		case errors.As(err, &timedOut):
			m.log.Error(err, "Term could not be drained; the lease is left to expire")
			return timedOut
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
	if len(m.enabled(true)) == 0 {
		return nil
	}
	delay := retryBackoff(m.clock)
	for ctx.Err() == nil {
		err := m.newStandingTerm().run(ctx, context.WithoutCancel(ctx))
		var timedOut *DrainTimeoutError
		switch {
		case errors.As(err, &timedOut):
			m.log.Error(err, "Controllers that run without the lease could not be drained")
			return timedOut
		case ctx.Err() != nil:
			return nil
		}
		m.pauseAfter(ctx, &m.standing, "Controllers that run without the lease failed", err, delay())
	}
	return nil
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
