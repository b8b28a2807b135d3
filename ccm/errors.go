package ccm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/fence"
)

// ErrStopped is the cause of a term context that ended because the Manager was asked to stop.
var ErrStopped = errors.New("asked to stop")

// ErrTermOver is wrapped by the error of a call to the API server or the cloud that was refused or
// canceled because its term is over. The error is unrelated to the called object, so a controller
// should not report it as a failure. It can occur shortly before the term's context ends.
var ErrTermOver = fence.ErrClosed

// ConfigError lists the invalid fields of a [Config]. Retrying does not help.
type ConfigError struct {
	Fields field.ErrorList
}

func configError(fields ...*field.Error) error { return &ConfigError{Fields: fields} }

// Error names every invalid field.
func (e *ConfigError) Error() string {
	return "ccm: configuration: " + e.Fields.ToAggregate().Error()
}

// DrainTimeoutError reports a term that exceeded its drain timeout. Its lease is not released, but
// expires.
//
// While the Manager runs, [Params].OnDrainTimeout gets the error, and the Manager recovers by
// itself: it campaigns again when no activity of the term can act any more. [Manager.Run] returns
// the error only if the Manager was asked to stop.
type DrainTimeoutError struct {
	// Term is the number of the term.
	Term uint64

	// Running are the activities that had not ended, oldest first.
	Running []status.Activity

	// term is nil in an error that was not made by a Manager.
	term *termRun
	made time.Time
}

// Error names the running activities and their ages.
func (e *DrainTimeoutError) Error() string {
	made := e.made
	if made.IsZero() {
		made = time.Now()
	}
	return fmt.Sprintf("ccm: term %d did not end within its drain timeout; still running: %s",
		e.Term, describe(e.Running, made))
}

// MayAct reports whether the term could still change the cluster or the cloud when the timeout
// expired: a call to the cloud or a request to the API server continued although it was canceled.
// Reads, and a controller that does not return, cannot act, because the fence refuses all their
// requests.
func (e *DrainTimeoutError) MayAct() bool {
	return slices.ContainsFunc(e.Running, func(a status.Activity) bool { return a.MayAct })
}

// Ended is closed when all of the term has ended. It is nil in an error that was not made by a
// Manager.
func (e *DrainTimeoutError) Ended() <-chan struct{} {
	if e.term == nil {
		return nil
	}
	return e.term.ended
}
