package client

import "time"

// Observer measures requests. Its methods are called concurrently and must not block.
type Observer interface {
	// RequestStarted and RequestEnded are called for each attempt. code is the status of the
	// response, or one of the codes below.
	RequestStarted(service string)
	RequestEnded(service, operation, code string, duration time.Duration)
	// RequestRetried is called before a retry. reason is a status, or one of the codes below.
	RequestRetried(reason string)
	// LoggedIn is called after each login with ok, refused or failed.
	LoggedIn(result string)
	// RateLimitWaited is called after a request waited for the rate limit.
	RateLimitWaited(duration time.Duration)
}

// Codes of attempts that have no status.
const (
	codeTimeout    = "timeout"
	codeCanceled   = "canceled"
	codeRefused    = "refused"
	codeError      = "error"
	codeConnection = "connection"
)

// Results of a login.
const (
	loginOK      = "ok"
	loginRefused = "refused"
	loginFailed  = "failed"
)

type noObserver struct{}

func (noObserver) RequestStarted(string)                              {}
func (noObserver) RequestEnded(string, string, string, time.Duration) {}
func (noObserver) RequestRetried(string)                              {}
func (noObserver) LoggedIn(string)                                    {}
func (noObserver) RateLimitWaited(time.Duration)                      {}
