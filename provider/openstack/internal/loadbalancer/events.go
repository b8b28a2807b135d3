package loadbalancer

import (
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
)

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

// writtenNotices are the notices that were last written for a Service, by topic.
type writtenNotices map[topic]map[desired.Notice]bool

// update replaces the notices of a topic, and returns the new ones.
func (w writtenNotices) update(about topic, now []desired.Notice) (added []desired.Notice) {
	before := w[about]
	w[about] = map[desired.Notice]bool{}
	for _, each := range now {
		if !before[each] && !w[about][each] {
			added = append(added, each)
		}
		w[about][each] = true
	}
	return added
}

// tell writes all that there is to say on a topic. A silent reconcile collects it.
func (r *reconciler) tell(about topic, now ...desired.Notice) {
	if r.silent {
		r.notices = append(r.notices, now...)
		return
	}
	r.notify(about, now...)
}

// notify writes an event for each notice that is new.
func (r *reconciler) notify(about topic, now ...desired.Notice) {
	for _, each := range r.state.events.update(about, now) {
		kind := v1.EventTypeNormal
		if each.Warning {
			kind = v1.EventTypeWarning
		}
		if r.config.Recorder != nil {
			r.config.Recorder.Event(r.service, kind, string(each.Reason), each.Message)
		}
	}
}
