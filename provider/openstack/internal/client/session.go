package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

const (
	// After a failed login the next one is not tried before half to all of firstLoginPause * 2^n has passed, at most longestLoginPause.
	firstLoginPause   = time.Second
	longestLoginPause = 30 * time.Second
	// A service that refuses valid tokens must not cost a login for each request: so many in a row, then one in the time.
	renewalBurst = 5
	renewalEvery = 10 * time.Second
)

var (
	errSessionEnded  = errors.New("the login was given up")
	errRenewedEnough = errors.New("the token has been renewed often enough")
)

// session has a valid token. It logs in when the first one asks, and again when one who used the token finds that it is not valid
// any more. All who ask at the same time share one login, and wait for it no longer than their contexts allow; it goes on without
// them. A failure is remembered for a while, so that a Keystone in trouble is not asked by everybody in turn. It is safe for
// concurrent use.
type session struct {
	login    func(context.Context) (*identity, error)
	clock    clock.Clock
	random   func() float64
	observer Observer
	logger   logr.Logger
	trouble  *trouble.Report
	renewals *rate.Limiter

	mu       sync.Mutex
	current  *identity
	attempt  *loginAttempt
	failures int
	failure  error
	notUntil time.Time
	ended    bool
}

type loginAttempt struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	// What came of it, once done is closed.
	identity *identity
	err      error
}

func newSession(login func(context.Context) (*identity, error), o Options) *session {
	return &session{
		login: login, clock: o.Clock, random: o.random, observer: o.Observer, logger: o.Logger, trouble: o.Trouble,
		renewals: rate.NewLimiter(rate.Every(renewalEvery), renewalBurst),
	}
}

// identity is one that is not stale, which is one that a service has refused; nil: any.
func (s *session) identity(ctx context.Context, stale *identity) (*identity, error) {
	known, attempt, err := s.join(ctx, stale)
	if attempt == nil {
		return known, err
	}
	select {
	case <-attempt.done:
		return attempt.identity, attempt.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the login to OpenStack: %w", context.Cause(ctx))
	}
}

// join returns what is known, or the login to wait for.
func (s *session) join(ctx context.Context, stale *identity) (*identity, *loginAttempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	switch {
	case s.ended:
		return nil, nil, errSessionEnded
	case s.current != nil && s.current != stale:
		return s.current, nil, nil
	case s.attempt != nil:
		return nil, s.attempt, nil
	case s.failure != nil && now.Before(s.notUntil):
		return nil, nil, fmt.Errorf("%w (not tried again for another %s)", s.failure, s.notUntil.Sub(now).Round(100*time.Millisecond))
	case s.current != nil && !s.renewals.AllowN(now, 1):
		return nil, nil, errRenewedEnough
	}
	renewal := s.current != nil
	s.current = nil
	s.attempt = &loginAttempt{done: make(chan struct{})}
	// The login is not the first caller's alone: it does not end with that one.
	shared, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.attempt.cancel = cancel
	go s.carryOut(shared, s.attempt, renewal)
	return nil, s.attempt, nil
}

func (s *session) carryOut(ctx context.Context, attempt *loginAttempt, renewal bool) {
	defer close(attempt.done)
	defer attempt.cancel(nil)
	attempt.err = rescue.Panic(func() (err error) {
		attempt.identity, err = s.login(ctx)
		return err
	})
	s.observer.LoggedIn(loginResult(attempt.err))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = nil
	if s.ended || errors.Is(attempt.err, fence.ErrClosed) {
		return
	}
	if attempt.err == nil {
		s.succeeded(attempt.identity, renewal)
	} else {
		s.failed(attempt.err)
	}
}

// succeeded is called with the lock held.
func (s *session) succeeded(i *identity, renewal bool) {
	s.current, s.failure, s.failures = i, nil, 0
	s.trouble.Login(nil)
	if renewal {
		s.logger.V(2).Info("logged in to OpenStack again", "project", i.project, "expires", i.expires)
	} else {
		s.logger.Info("logged in to OpenStack", "project", i.project, "expires", i.expires)
	}
}

// failed is called with the lock held.
func (s *session) failed(err error) {
	wait := backoff(firstLoginPause, longestLoginPause, s.failures, 0.5+s.random()/2)
	s.failures++
	s.failure, s.notUntil = err, s.clock.Now().Add(wait)
	s.trouble.Login(err)
	s.logger.Error(err, "login to OpenStack failed", "failures", s.failures, "notTriedAgainFor", wait)
}

func loginResult(err error) string {
	var e *LoginError
	switch {
	case err == nil:
		return loginOK
	case errors.As(err, &e) && e.Refused():
		return loginRefused
	}
	return loginFailed
}

// loggedIn tells whether there is a token that is good for all that is known.
func (s *session) loggedIn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// end gives up a login that is going on, and waits for it. There is none afterwards.
func (s *session) end() {
	s.mu.Lock()
	s.ended = true
	attempt := s.attempt
	s.mu.Unlock()
	if attempt != nil {
		attempt.cancel(errSessionEnded)
		<-attempt.done
	}
}
