package loadbalancer

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// refusal is a configuration that a user must change before the Service can be served.
type refusal struct {
	reason  events.Reason
	message string
}

func (r *refusal) Error() string { return r.message }

func newRefusal(reason events.Reason, format string, arguments ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, arguments...)}
}

func (r *refusal) notice() desired.Notice {
	return desired.Notice{Reason: r.reason, Message: r.message, Warning: true}
}

// explain makes the service controller retry a refused Service late and without a Warning.
func explain(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return retryAfter(refusalRecheck, "%s", refused.message)
	}
	return err
}

func retryAfter(pause time.Duration, format string, arguments ...any) error {
	return api.NewRetryError(fmt.Sprintf(format, arguments...), pause)
}

// wait pauses for a tenth of the time since the last progress.
func (r *reconciler) wait(since time.Time, format string, arguments ...any) error {
	pause := min(max(r.of.config.Clock.Since(since)/10, minRetryDelay), maxRetryDelay)
	return r.pause(pause, fmt.Sprintf(format, arguments...))
}

// waitFor pauses until Octavia's work on a load balancer is expected to end.
func (r *reconciler) waitFor(lb *octavia.LoadBalancer, format string, arguments ...any) error {
	pause := max(r.of.config.Octavia.NextLook(lb.ID, lb.Status), minRetryDelay)
	if c := &r.state.creation; c.loadBalancer != nil && c.loadBalancer.ID == lb.ID {
		now := r.of.config.Clock.Now()
		if now.Before(c.nextLook) {
			// A reconcile that comes earlier does not delay the next look.
			pause = c.nextLook.Sub(now)
		} else {
			c.nextLook = now.Add(pause)
		}
	}
	return r.pause(pause,
		fmt.Sprintf("load balancer %s %s", lb.ID, fmt.Sprintf(format, arguments...)))
}

func (r *reconciler) pause(pause time.Duration, message string) error {
	r.notes.notify(aboutWaiting, desired.Notice{Reason: events.Waiting, Message: message})
	return retryAfter(pause, "%s", message)
}

// retry turns an error into a wait if Octavia is still at work on the load balancer, or if the load
// balancer has changed.
func (r *reconciler) retry(err error, since time.Time) error {
	var pending *pendingError
	switch {
	case errors.As(err, &pending) && pending.status.Pending():
		return r.waitFor(r.found.balancer, "is %s", pending.status)
	case errors.As(err, &pending):
		return r.wait(since, "load balancer %s is %s", pending.loadBalancerID, pending.status)
	case errors.Is(err, errQueued):
		return r.wait(since, "the load balancer is %v", errQueued)
	case errors.Is(err, errGone), errors.Is(err, errChanged):
		return retryAfter(minRetryDelay, "%v", err)
	}
	return err
}
