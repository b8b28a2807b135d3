package ccm

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/internal/fence"
)

// ErrLeadershipLost is the cause of a term context that ended because the lease could not be
// renewed, or another process took it.
var ErrLeadershipLost = errors.New("leadership lost")

// ErrStopped is the cause of a term context that ended because the Manager was asked to stop.
var ErrStopped = errors.New("asked to stop")

// ErrTermOver is wrapped by the error of a call to the API server or the cloud that was refused, or cancelled, because its term is over.
// It says nothing of what was called, so a controller should not tell anybody of it as of a failure. It comes a moment before the term's
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

// DrainTimeoutError is returned by [Manager.Run] when a term could not be ended within its drain
// timeout: something that belongs to it still runs and may still act. The lease is then not
// released but left to expire, and the Manager does not campaign again until all of it has ended.
type DrainTimeoutError struct {
	Term uint64
	// Running names what had not ended: "controller x", "call LoadBalancer.EnsureLoadBalancer", ….
	Running []string
}

// Error names what is still running.
func (e *DrainTimeoutError) Error() string {
	return fmt.Sprintf("ccm: term %d did not end within its drain timeout; still running: %s", e.Term, strings.Join(e.Running, ", "))
}
