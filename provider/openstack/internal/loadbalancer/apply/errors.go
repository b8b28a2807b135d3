package apply

import (
	"errors"
	"fmt"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

var (
	// ErrFailed is of a step on a load balancer that is in ERROR.
	ErrFailed = errors.New("in ERROR")
	// ErrGone is of a step for what no longer exists.
	ErrGone = errors.New("it no longer exists")
	// ErrChanged is of a step that would replace the load balancer's tags, or delete it, when they
	// are not what the plan was made for.
	ErrChanged = errors.New("its tags were changed concurrently")
	// ErrNotDeleted is of what is there after Octavia has deleted it.
	ErrNotDeleted = errors.New("is not deleted")
	// ErrQueued is of a load balancer that is not begun yet, because others are being made. No
	// request was made for it.
	ErrQueued = errors.New("queued: Octavia creates the load balancers of a project one at a time")
)

// StepError tells which step of a plan could not be taken. Those after it have not been tried.
type StepError struct {
	Step plan.Step
	// Number counts from 1.
	Number, Of int
	err        error
}

// Error names the step.
func (e *StepError) Error() string {
	return fmt.Sprintf("step %d of %d (%s): %v", e.Number, e.Of, e.Step, e.err)
}

// Unwrap is why.
func (e *StepError) Unwrap() error { return e.err }

// PendingError is of a step that would have to wait longer for Octavia than the run may. It is
// [octavia.ErrPending], too.
type PendingError struct {
	// LoadBalancerID is what is waited for.
	LoadBalancerID string
	// Status is the last one that was seen. It is ACTIVE if Octavia refuses the step all the same,
	// which it does while a pool is in ERROR, or is being changed.
	Status octavia.Status
	// Waits is the step that waits.
	Waits plan.Step
	err   error
}

// Error tells what is waited for.
func (e *PendingError) Error() string {
	return fmt.Sprintf("load balancer %s is %s: %v", e.LoadBalancerID, e.Status, e.err)
}

// Is makes it octavia.ErrPending, also when it was the answer to a change that told.
func (e *PendingError) Is(target error) bool { return target == octavia.ErrPending }

// Unwrap is what Octavia has said last.
func (e *PendingError) Unwrap() error { return e.err }
