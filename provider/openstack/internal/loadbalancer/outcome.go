package loadbalancer

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// explain makes the service controller retry a refused Service late and without a Warning.
func explain(err error) error {
	var refused *events.Notice
	if errors.As(err, &refused) {
		return retryAfter(refusalRecheck, "%s", refused.Message)
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
	r.notes.notify(aboutWaiting, events.Notice{Reason: events.Waiting, Message: message})
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

// topic groups the notices. A reconcile reports some of the topics, and for each of them all of its
// notices.
type topic int

const (
	// aboutSettings is for the Service's annotations.
	aboutSettings topic = iota
	// aboutIdentity is for the choice of the load balancer.
	aboutIdentity
	// aboutPlaces is for networks, subnets and addresses.
	aboutPlaces
	// aboutDesired is for requests that the cloud does not support.
	aboutDesired
	// aboutPlan is for differences that cannot be changed.
	aboutPlan
	// aboutWaiting is for work of Octavia in progress.
	aboutWaiting
)

// writtenNotices are the notices that were last written for a Service, by topic.
type writtenNotices map[topic]map[events.Notice]bool

// update replaces the notices of a topic, and returns the new ones.
func (w writtenNotices) update(about topic, now []events.Notice) (added []events.Notice) {
	before := w[about]
	w[about] = map[events.Notice]bool{}
	for _, each := range now {
		if !before[each] && !w[about][each] {
			added = append(added, each)
		}
		w[about][each] = true
	}
	return added
}

// notifier writes the notices of a Service as events. It is used under the lock of the Service.
type notifier struct {
	service *v1.Service
	// recorder is nil if no events are written.
	recorder record.EventRecorder
	written  writtenNotices
	// silent: notices are collected instead of written.
	silent    bool
	collected []events.Notice
}

// tell reports all notices of a topic.
func (n *notifier) tell(about topic, now ...events.Notice) {
	if n.silent {
		n.collected = append(n.collected, now...)
		return
	}
	n.notify(about, now...)
}

// notify writes an event for each notice that is new.
func (n *notifier) notify(about topic, now ...events.Notice) {
	for _, each := range n.written.update(about, now) {
		kind := v1.EventTypeNormal
		if each.Warning {
			kind = v1.EventTypeWarning
		}
		if n.recorder != nil {
			n.recorder.Event(n.service, kind, string(each.Reason), each.Message)
		}
	}
}

// refuse reports a refusal, and returns it.
func (n *notifier) refuse(about topic, refused *events.Notice) error {
	n.tell(about, *refused)
	return refused
}

// tellPlan reports the notices of a plan, and returns the first one that blocks the Service.
func (n *notifier) tellPlan(notes []events.Notice) error {
	n.tell(aboutPlan, notes...)
	for _, note := range notes {
		if note.Blocks {
			return &note
		}
	}
	return nil
}
