package ccm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/internal/fence"
)

// ErrLeadershipLost is the cause of a term context that ended because the lease could not be
// renewed, or another process took it.
var ErrLeadershipLost = errors.New("leadership lost")

// ErrStopped is the cause of a term context that ended because the Manager was asked to stop.
var ErrStopped = errors.New("asked to stop")

// ErrTermOver is wrapped by the error of a call to the API server or the cloud that was refused, or cancelled, because its term is over.
// It says nothing about the called object, so a controller should not report it as a failure. It comes a moment before the term's
// context ends.
var ErrTermOver = fence.ErrClosed

// ConfigError says which fields of a [Config] are wrong. It does not go away by trying again.
type ConfigError struct {
	Fields field.ErrorList
}

// Error names every field at fault.
func (e *ConfigError) Error() string {
	return "ccm: configuration: " + e.Fields.ToAggregate().Error()
}

// DrainTimeoutError says that a term did not end within its drain timeout. The lease is then not
// released but left to expire.
//
// While the Manager runs, the error is handed to [Params].OnDrainTimeout, and the Manager recovers
// by itself: it campaigns again when nothing of the term can act any more. [Manager.Run] returns the
// error only if the Manager was asked to stop.
type DrainTimeoutError struct {
	// Term is the number of the term.
	Term uint64

	// Running is what had not ended, the oldest first.
	Running []Activity

	// term is the term that goes on; nil in an error that was not made by a Manager.
	term *Term
	made time.Time
}

// Error names what was running, and for how long.
func (e *DrainTimeoutError) Error() string {
	made := e.made
	if made.IsZero() {
		made = time.Now()
	}
	return fmt.Sprintf("ccm: term %d did not end within its drain timeout; still running: %s", e.Term, describe(e.Running, made))
}

// MayAct tells whether something of the term could still change the cluster or the cloud when the
// timeout passed: a call to the cloud or a request to the API server that goes on although it was
// cancelled. What only reads, and a controller that does not return, cannot act: all of its requests
// are refused.
func (e *DrainTimeoutError) MayAct() bool {
	return slices.ContainsFunc(e.Running, func(a Activity) bool { return a.MayAct })
}

// Ended is closed when all of the term has ended. It is nil in an error that was not made by a
// Manager.
func (e *DrainTimeoutError) Ended() <-chan struct{} {
	if e.term == nil {
		return nil
	}
	return e.term.ended
}

// hasEnded tells whether all of the term has ended. It is false for an error that was not made by a
// Manager.
func (e *DrainTimeoutError) hasEnded() bool { return e.term != nil && e.term.hasEnded() }
