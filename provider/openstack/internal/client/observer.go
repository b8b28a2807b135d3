package client

import "time"

// An Observer is told what requests cost. It is called from several goroutines at once, and must not block.
type Observer interface {
	// RequestStarted and RequestEnded are called for each attempt. code is the status of the answer, or one of the codes below.
	RequestStarted(service string)
	RequestEnded(service, operation, code string, duration time.Duration)
	// RequestRetried is called before a request is made again. reason is a status, or one of the codes below.
	RequestRetried(reason string)
	// LoggedIn is called after each attempt to log in, with ok, refused or failed.
	LoggedIn(result string)
	// RateLimitWaited is called after a request has waited for the rate limit.
	RateLimitWaited(duration time.Duration)
}

// What may take the place of a status.
const (
	codeTimeout    = "timeout"
	codeCancelled  = "cancelled"
	codeRefused    = "refused"
	codeError      = "error"
	codeConnection = "connection"
)

// What comes of a login.
const (
	loginOK      = "ok"
	loginRefused = "refused"
	loginFailed  = "failed"
)

type nobody struct{}

func (nobody) RequestStarted(string)                              {}
func (nobody) RequestEnded(string, string, string, time.Duration) {}
func (nobody) RequestRetried(string)                              {}
func (nobody) LoggedIn(string)                                    {}
func (nobody) RateLimitWaited(time.Duration)                      {}
