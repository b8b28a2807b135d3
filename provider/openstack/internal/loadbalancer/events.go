package loadbalancer

import (
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
)

// notice is something that whoever made a Service should know.
type notice struct {
	reason, message string
	warning         bool
}

// topic is what notices are about. Each reconcile comes to some of the topics, and says again all
// that there is to say of them.
type topic int

const (
	// aboutSettings: the Service's annotations.
	aboutSettings topic = iota
	// aboutIdentity: which load balancer it is.
	aboutIdentity
	// aboutPlaces: where things are.
	aboutPlaces
	// aboutDesired: what cannot be had.
	aboutDesired
	// aboutPlan: what cannot be changed.
	aboutPlan
	// aboutWaiting: what Octavia is at work on.
	aboutWaiting
)

// events are the notices that were last written for a Service, by topic.
type events map[topic]map[notice]bool

// update replaces the notices of a topic, and returns the new ones.
func (e events) update(about topic, now []notice) (added []notice) {
	before := e[about]
	e[about] = map[notice]bool{}
	for _, each := range now {
		if !before[each] && !e[about][each] {
			added = append(added, each)
		}
		e[about][each] = true
	}
	return added
}

// tell writes all that there is to say on a topic. A silent reconcile collects it.
func (r *reconciler) tell(about topic, now ...notice) {
	if r.silent {
		r.notices = append(r.notices, now...)
		return
	}
	r.notify(about, now...)
}

// notify writes an event for each notice that is new.
func (r *reconciler) notify(about topic, now ...notice) {
	for _, each := range r.state.events.update(about, now) {
		kind := v1.EventTypeNormal
		if each.warning {
			kind = v1.EventTypeWarning
		}
		if r.config.Recorder != nil {
			r.config.Recorder.Event(r.service, kind, each.reason, each.message)
		}
	}
}

func noticesOf(notes []desired.Notice) []notice {
	list := make([]notice, 0, len(notes))
	for _, n := range notes {
		list = append(list, notice{reason: n.Reason, message: n.Message, warning: n.Warning})
	}
	return list
}
