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
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

const (
	// After a failed login, the next one waits for half to all of firstLoginPause * 2^n, and at
	// most maxLoginPause.
	firstLoginPause = time.Second
	maxLoginPause   = 30 * time.Second
	// A service that rejects valid tokens must not cause a login for each request: fxccm renews
	// renewalBurst times in a row, then once in renewalEvery.
	renewalBurst = 5
	renewalEvery = 10 * time.Second
)

var (
	errSessionEnded = errors.New("the login was canceled")
	errRenewalLimit = errors.New("the token was renewed too often")
)

// session holds a valid token. It logs in for the first caller, and again when a service rejects
// the token. Concurrent callers share one login and wait for it only as long as their contexts
// allow; the login continues without them. A failure is remembered for a while, so a failing
// Keystone does not get a request from every caller. session is safe for concurrent use.
type session struct {
	clock    clock.Clock
	random   func() float64
	renewals *rate.Limiter

	// answers receives the results of logins.
	answers *trouble.Answers

	mu       sync.Mutex
	current  *identity
	attempt  *loginAttempt
	failures int
	failure  error
	notUntil time.Time
	ended    bool
}

// signer is the caller that logs in, if a login is needed.
type signer struct {
	login    func(context.Context) (*identity, error)
	observer Observer
	logger   logr.Logger
}

type loginAttempt struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	// The result, valid once done is closed.
	identity *identity
	err      error
}

func newSession(c clock.Clock, random func() float64, answers *trouble.Answers) *session {
	return &session{
		clock: c, random: random, answers: answers,
		renewals: rate.NewLimiter(rate.Every(renewalEvery), renewalBurst),
	}
}

// known returns an identity other than stale if there is one.
func (s *session) known(stale *identity) *identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.current == stale {
		return nil
	}
	return s.current
}

// identity returns an identity other than stale, which a service has rejected. stale may be nil.
func (s *session) identity(ctx context.Context, stale *identity, by signer) (*identity, error) {
	known, attempt, err := s.join(ctx, stale, by)
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

// join returns the known identity, or the login to wait for.
func (s *session) join(
	ctx context.Context, stale *identity, by signer,
) (*identity, *loginAttempt, error) {
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
		return nil, nil, s.failure
	case s.current != nil && !s.renewals.AllowN(now, 1):
		return nil, nil, errRenewalLimit
	}
	renewal := s.current != nil
	s.current = nil
	s.attempt = &loginAttempt{done: make(chan struct{})}
	// All callers share the login, so it does not end with the first caller's context.
	shared, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s.attempt.cancel = cancel
	go s.carryOut(shared, s.attempt, by, renewal)
	return nil, s.attempt, nil
}

func (s *session) carryOut(
	ctx context.Context, attempt *loginAttempt, by signer, renewal bool,
) {
	defer close(attempt.done)
	defer attempt.cancel(nil)
	attempt.err = rescue.Panic(func() (err error) {
		attempt.identity, err = by.login(ctx)
		return err
	})
	by.observer.LoggedIn(loginResult(attempt.err))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = nil
	if s.ended || errors.Is(attempt.err, fence.ErrClosed) {
		return
	}
	if attempt.err == nil {
		s.succeeded(attempt.identity, by.logger, renewal)
	} else {
		s.failed(attempt.err, by.logger)
	}
}

// succeeded is called with the lock held.
func (s *session) succeeded(i *identity, logger logr.Logger, renewal bool) {
	s.current, s.failure, s.failures = i, nil, 0
	s.answers.Note(trouble.Keystone, nil)
	if renewal {
		logger.V(2).Info("Renewed the token of OpenStack", "project", i.project,
			"expires", i.expires)
	} else {
		logger.Info("Logged in to OpenStack", "project", i.project, "expires", i.expires)
	}
}

// failed is called with the lock held.
func (s *session) failed(err error, logger logr.Logger) {
	wait := backoff(firstLoginPause, maxLoginPause, s.failures, 0.5+s.random()/2)
	isNew := s.failure == nil || s.failure.Error() != err.Error()
	s.failures++
	s.failure, s.notUntil = err, s.clock.Now().Add(wait)
	s.answers.Note(trouble.Keystone, err)
	if isNew {
		logger.Error(err, "Login to OpenStack failed; retrying")
	} else {
		logger.V(2).Info("Login to OpenStack failed again", "error", err.Error(), "failures",
			s.failures, "retryAfter", wait.String())
	}
}

func loginResult(err error) string {
	var e *failure.LoginError
	switch {
	case err == nil:
		return loginOK
	case errors.As(err, &e) && e.Refused():
		return loginRefused
	}
	return loginFailed
}

// loggedIn reports whether there is a token that no service has rejected.
func (s *session) loggedIn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// end cancels a running login and waits for its end. No login starts afterwards.
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
