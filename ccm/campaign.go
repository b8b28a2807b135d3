package ccm

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Run campaigns and leads, term after term, until ctx ends. It returns when the last term has
// drained. It can be called again after it has returned, but not while it runs.
//
// The error is nil if ctx ended and everything drained in time. It is a *[DrainTimeoutError] if a
// term of this Run or of an earlier one has not ended. A second concurrent Run is an error, too.
// Temporary failures are not errors: a failure of the API server, the cloud or RBAC, or a term that
// exceeds its drain timeout. Run retries, and [Manager.Status] has the reason.
func (m *Manager) Run(ctx context.Context) error {
	if err := m.begin(); err != nil {
		return err
	}
	for _, warning := range m.setupWarnings {
		m.log.Info("Setup has a warning", "warning", warning)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	replicaDone := make(chan error, 1)
	go func() { replicaDone <- m.runReplicaControllers(ctx) }()
	err := m.campaign(ctx)
	select {
	case replicaErr := <-replicaDone:
		if err == nil {
			err = replicaErr
		}
	case <-afterDrainTimeout(err):
		// Calls may act while another process leads, so the timeout is reported at once.
	}
	m.finish(err)
	return err
}

// afterDrainTimeout returns a channel that fires soon if err is a drain timeout, and nil otherwise.
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
	m.running, m.err, m.leader, m.replica = true, nil, termSlot{}, termSlot{}
	m.connections.open()
	m.series = m.metricSet.Begin()
	m.series.State(func() string {
		status, _ := m.snapshot()
		return string(status.State)
	})
	return nil
}

func (m *Manager) finish(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running, m.err = false, err
	// The references to ended terms would keep the informers' caches in memory.
	m.leader, m.replica = termSlot{}, termSlot{}
	m.series.End()
	m.connections.close()
	close(m.done)
}

// retryBackoff paces retries of terms and controllers: 1 s, doubling to 30 s, with jitter so that
// replicas do not retry together. It starts over after two minutes without a failure.
func retryBackoff(clock clock.Clock) wait.DelayFunc {
	backoff := wait.Backoff{
		Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second,
	}
	return backoff.DelayWithReset(clock, 2*time.Minute)
}

// lossesAtOnce is the number of terms that may lose leadership without a pause before the next.
// For each term after them, a second must pass.
const lossesAtOnce = 5

func (m *Manager) campaign(ctx context.Context) error {
	delay := retryBackoff(m.clock)
	losses := rate.NewLimiter(rate.Every(time.Second), lossesAtOnce)
	for ctx.Err() == nil {
		err := rescue.Panic(func() error {
			return m.elector.Elect(ctx, func(led context.Context, g election.Grant) error {
				return m.newLeaderTerm(g).run(ctx, led)
			})
		})
		timedOut, isDrainTimeout := errors.AsType[*DrainTimeoutError](err)
		switch {
		case isDrainTimeout:
			if err := m.recoverFromDrainTimeout(ctx, &m.leader, timedOut, delay()); err != nil {
				return err
			}
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, election.ErrLost):
			m.log.Info("Leadership lost, back to standby", "reason", err.Error())
			m.setSlot(&m.leader, termSlot{})
			// An elector that grants lost leadership again and again must not keep the process
			// busy.
			select {
			case <-time.After(losses.Reserve().Delay()):
			case <-ctx.Done():
			}
			continue
		case err == nil:
			err = errors.New("the elector returned without an error")
		}
		m.pauseAfter(ctx, &m.leader, "Term failed", err, delay())
	}
	return nil
}

// runReplicaControllers runs the controllers without leader election until ctx ends.
func (m *Manager) runReplicaControllers(ctx context.Context) error {
	if len(m.enabled(false)) == 0 {
		return nil
	}
	delay := retryBackoff(m.clock)
	for ctx.Err() == nil {
		err := m.newReplicaTerm().run(ctx, context.WithoutCancel(ctx))
		if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok {
			if err := m.recoverFromDrainTimeout(ctx, &m.replica, timedOut, delay()); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		m.pauseAfter(ctx, &m.replica, "Controllers without leader election failed", err, delay())
	}
	return nil
}

const (
	// minLeftBehindPause is the pause before a new term may follow one that only hangs. It doubles
	// with each timed-out term whose goroutines are stuck, up to maxLeftBehindPause, because each
	// of them may hold memory.
	minLeftBehindPause = 30 * time.Second
	maxLeftBehindPause = time.Hour

	// recoveryCheck paces the recovery from a drain timeout.
	recoveryCheck = 250 * time.Millisecond
)

// recoverFromDrainTimeout waits until a new term may follow one that exceeded its drain timeout.
// Normally the whole old term has ended by then. Activities that hang but cannot act are left
// behind after a pause in which another replica can take the lease. The error is timedOut if ctx
// ends first.
func (m *Manager) recoverFromDrainTimeout(
	ctx context.Context, slot *termSlot, timedOut *DrainTimeoutError, pause time.Duration,
) error {
	term := timedOut.term
	m.mu.Lock()
	m.timedOutTerms = append(m.leftBehind(), term)
	retry := m.clock.Now().Add(m.leftBehindPause(len(m.timedOutTerms)))
	*slot = termSlot{failure: &failure{err: timedOut, retry: retry}}
	m.mu.Unlock()
	m.log.Error(timedOut, "Term did not end within its drain timeout; the lease is left to expire",
		"mayAct", timedOut.MayAct())
	if ctx.Err() != nil {
		return timedOut
	}
	if m.onDrainTimeout != nil && term.provider != nil {
		m.onDrainTimeout(timedOut)
	}
	begun := time.Now()
	mayFollow := func(context.Context) (bool, error) {
		waited := time.Since(begun)
		switch {
		case term.hasEnded():
			return waited >= pause, nil
		case term.mayAct():
			return false, nil
		}
		return !m.clock.Now().Before(retry), nil
	}
	if err := wait.PollUntilContextCancel(ctx, recoveryCheck, true, mayFollow); err != nil {
		return timedOut
	}
	m.log.Info("Campaigning again after a drain timeout", "term", term.number, "leftBehind",
		describe(term.activities(), time.Now()))
	m.mu.Lock()
	defer m.mu.Unlock()
	// The references to ended terms would keep the informers' caches in memory.
	*slot, m.timedOutTerms = termSlot{}, m.leftBehind()
	return nil
}

// leftBehind returns the terms that exceeded their drain timeout and have not ended since. The
// Manager's lock is held.
func (m *Manager) leftBehind() []*termRun {
	return slices.DeleteFunc(slices.Clone(m.timedOutTerms), (*termRun).hasEnded)
}

// leftBehindPause returns the pause before a new term when some terms are left behind.
func (m *Manager) leftBehindPause(terms int) time.Duration {
	pause := max(minLeftBehindPause, 2*m.config.LeaderElection.LeaseDuration.Duration)
	for range terms - 1 {
		pause = min(2*pause, max(pause, maxLeftBehindPause))
	}
	return pause
}

func (m *Manager) countLeftBehind() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.leftBehind())
}

// pauseAfter publishes a failure, and waits for the next retry.
func (m *Manager) pauseAfter(
	ctx context.Context, slot *termSlot, what string, err error, pause time.Duration,
) {
	m.log.Error(err, what, "retryIn", pause.Round(time.Millisecond).String())
	m.setSlot(slot, termSlot{failure: &failure{err: err, retry: m.clock.Now().Add(pause)}})
	select {
	case <-m.clock.After(pause):
	case <-ctx.Done():
	}
}

func (m *Manager) setSlot(slot *termSlot, to termSlot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*slot = to
}
