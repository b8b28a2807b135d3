package loadbalancer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// explain makes the service controller retry a refused Service without a Warning, and later each
// time: what refuses it may be the cloud, which changes without an event.
func (r *reconciler) explain(err error) error {
	var refused *events.Notice
	if errors.As(err, &refused) {
		pause := min(max(r.notReadyFor(), minRefusalRecheck), maxRefusalRecheck)
		r.state.refusal = refusal{
			service: r.service, annotated: r.annotated,
			until: r.of.config.Clock.Now().Add(pause), message: refused.Message,
		}
		return retryAfter(pause, "%s", refused.Message)
	}
	return err
}

// stillRefused returns the last refusal if the reconcile has annotated the Service, and the Service
// has not changed otherwise: the service controller calls again at once after such a change, and
// may do so again after the change of the condition.
func (r *reconciler) stillRefused() error {
	last := r.state.refusal
	pause := last.until.Sub(r.of.config.Clock.Now())
	if r.repair || r.mode.nodes || last.annotated == nil || pause <= 0 ||
		!r.requestsSame(last.service) ||
		*last.annotated != digestOf(r.service.Annotations) {
		r.state.refusal = refusal{}
		return nil
	}
	return retryAfter(pause, "%s", last.message)
}

// A digest is equal for equal annotations.
type digest [sha256.Size]byte

func digestOf(annotations map[string]string) digest {
	return sha256.Sum256(fmt.Appendf(nil, "%q", annotations))
}

// notReadyFor is how long the Service has not been served; 0 if it was served until now.
func (r *reconciler) notReadyFor() time.Duration {
	now, report := r.of.config.Clock.Now(), r.of.reports.get(r.service.UID)
	switch report.State {
	case Ready:
		return 0
	case "":
		return now.Sub(waitsSince(r.service, now))
	}
	return now.Sub(report.Since)
}

// errBusy ends a reconcile while that of another Service holds a lock. A request of that one may
// hang for a minute, and a wait in the call would take a worker of the service controller.
var errBusy = api.NewRetryError(
	"another Service that shares the load balancer is being reconciled", minRetryDelay)

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
	// The ID of a load balancer that is created again and again would differ each time.
	return r.pause(pause, "the load balancer "+fmt.Sprintf(format, arguments...))
}

func (r *reconciler) pause(pause time.Duration, message string) error {
	r.notes.notify(aboutWaiting, events.Notice{Reason: events.Waiting, Message: message})
	return retryAfter(pause, "%s", message)
}

// retry turns an error into a wait if Octavia is still at work on the load balancer, or if the load
// balancer has changed.
func (r *reconciler) retry(err error, since time.Time) error {
	var pending *plan.PendingError
	switch {
	case errors.As(err, &pending) && pending.Status.Pending():
		return r.waitFor(r.found.balancer, "is %s", pending.Status)
	case errors.As(err, &pending):
		return r.wait(since, "the load balancer is %s", pending.Status)
	case errors.Is(err, plan.ErrQueued):
		return r.wait(since, "the load balancer is %v", plan.ErrQueued)
	case errors.Is(err, plan.ErrGone):
		cause := plan.ErrGone.Error()
		if f := failure.Of(err); f != nil {
			cause = f.Cause()
			if cause == r.state.missing {
				return err
			}
			r.state.missing = cause
		}
		return retryAfter(minRetryDelay, "%s; reading the load balancer again", cause)
	case errors.Is(err, plan.ErrChanged):
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
	// aboutSharing is for load balancers that Services share by name.
	aboutSharing
	// aboutPlaces is for networks, subnets and addresses.
	aboutPlaces
	// aboutDesired is for requests that the cloud does not support.
	aboutDesired
	// aboutMembers is for nodes whose servers are unknown.
	aboutMembers
	// aboutPlan is for differences that cannot be changed.
	aboutPlan
	// aboutRefusal is for requests that the cloud refuses.
	aboutRefusal
	// aboutWaiting is for work of Octavia in progress.
	aboutWaiting
)

// repeatWarning is the pause between two events about a warning that lasts. The API server deletes
// events after an hour.
const repeatWarning = 30 * time.Minute

// writtenNotices are the notices of a Service that last, by topic, and when their events were
// written.
type writtenNotices map[topic]map[events.Notice]time.Time

// update replaces the notices of a topic, and returns those that are new, and the warnings whose
// last event is old.
func (w writtenNotices) update(
	about topic, notices []events.Notice, now time.Time,
) (due []events.Notice) {
	before := w[about]
	w[about] = map[events.Notice]time.Time{}
	for _, each := range notices {
		if _, isTwice := w[about][each]; isTwice {
			continue
		}
		at, isKnown := before[each]
		if !isKnown || each.Warning && now.Sub(at) >= repeatWarning {
			due, at = append(due, each), now
		}
		w[about][each] = at
	}
	return due
}

// graveReasons are the reasons of warnings that come first among those of a Service.
var graveReasons = []events.Reason{
	events.SourceRangesIgnored, events.ForcedInternal, events.WithoutMembers,
}

// defects returns the warnings, the gravest first. Those about a Service that is served are about
// what it requests and does not get.
func (w writtenNotices) defects() []events.Notice {
	var all []events.Notice
	for _, notices := range w {
		for each := range notices {
			if each.Warning {
				all = append(all, each)
			}
		}
	}
	place := func(n events.Notice) int {
		at := slices.Index(graveReasons, n.Reason)
		if at < 0 {
			return len(graveReasons)
		}
		return at
	}
	slices.SortFunc(all, func(a, b events.Notice) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Message, b.Message))
	})
	return all
}

// notifier writes the notices of a Service as events. It is used under the lock of the Service.
type notifier struct {
	service *v1.Service
	// recorder is nil if no events are written.
	recorder record.EventRecorder
	written  writtenNotices
	clock    clock.PassiveClock
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

// notify writes an event for each notice that is new, or a warning whose last event is old.
func (n *notifier) notify(about topic, notices ...events.Notice) {
	for _, each := range n.written.update(about, notices, n.clock.Now()) {
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
