package loadbalancer

import v1 "k8s.io/api/core/v1"

// notice is something that whoever made a Service should know.
type notice struct {
	reason, message string
	warning         bool
}

// topic is what notices are about. Each pass comes to some of the topics, and says again all that
// there is to say of them.
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

// notices are what was last said to a Service, by topic. They are part of its memory.
type notices map[topic]map[notice]bool

// update replaces what was said of a topic, and returns what is new: what stays so is not said
// again.
func (n notices) update(about topic, now []notice) (added []notice) {
	before := n[about]
	n[about] = map[notice]bool{}
	for _, each := range now {
		if !before[each] && !n[about][each] {
			added = append(added, each)
		}
		n[about][each] = true
	}
	return added
}

// notify writes an event on the Service for each thing to say of a topic when it becomes so.
func (p *pass) notify(about topic, now ...notice) {
	for _, each := range p.memory.said.update(about, now) {
		kind := v1.EventTypeNormal
		if each.warning {
			kind = v1.EventTypeWarning
		}
		if p.config.Recorder != nil {
			p.config.Recorder.Event(p.service, kind, each.reason, each.message)
		}
	}
}
