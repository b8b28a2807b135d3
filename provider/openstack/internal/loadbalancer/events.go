package loadbalancer

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

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

// notifier writes the notices of a Service as events. It is used under the lock of the Service.
type notifier struct {
	service *v1.Service
	// recorder is nil if no events are written.
	recorder record.EventRecorder
	written  writtenNotices
	// silent: notices are collected instead of written.
	silent    bool
	collected []desired.Notice
}

// tell reports all notices of a topic.
func (n *notifier) tell(about topic, now ...desired.Notice) {
	if n.silent {
		n.collected = append(n.collected, now...)
		return
	}
	n.notify(about, now...)
}

// notify writes an event for each notice that is new.
func (n *notifier) notify(about topic, now ...desired.Notice) {
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
func (n *notifier) refuse(about topic, refused *refusal) error {
	n.tell(about, refused.notice())
	return refused
}

// tellPlan reports the notices of a plan, and returns the first one that blocks the Service.
func (n *notifier) tellPlan(notes []plan.Notice) error {
	var blocked error
	list := make([]desired.Notice, 0, len(notes))
	for _, note := range notes {
		refused := &refusal{note.Reason, note.Message}
		if note.Blocks && blocked == nil {
			blocked = refused
		}
		list = append(list, refused.notice())
	}
	n.tell(aboutPlan, list...)
	return blocked
}
