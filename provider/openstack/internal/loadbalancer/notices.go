package loadbalancer

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// notice is something that whoever made a Service should know.
type notice struct {
	reason, message string
	warning         bool
}

// topic is what notices are about. Each pass comes to some of the topics, and says again all that there is to say of them.
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

// notices writes events on Services: one for each thing to say when it becomes so, and not again while it stays so. It is safe for
// concurrent use.
type notices struct {
	// recorder may be nil.
	recorder record.EventRecorder

	mu   sync.Mutex
	said map[types.UID]map[topic]map[notice]bool
}

// say tells what there is to say of a topic now.
func (n *notices) say(service *v1.Service, about topic, now ...notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said == nil {
		n.said = map[types.UID]map[topic]map[notice]bool{}
	}
	topics := n.said[service.UID]
	if topics == nil {
		topics = map[topic]map[notice]bool{}
		n.said[service.UID] = topics
	}
	before := topics[about]
	topics[about] = map[notice]bool{}
	for _, what := range now {
		if !before[what] && !topics[about][what] {
			n.write(service, what)
		}
		topics[about][what] = true
	}
}

func (n *notices) write(service *v1.Service, what notice) {
	if n.recorder == nil {
		return
	}
	kind := v1.EventTypeNormal
	if what.warning {
		kind = v1.EventTypeWarning
	}
	n.recorder.Event(service, kind, what.reason, what.message)
}

// forget drops what was said of a Service.
func (n *notices) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.said, uid)
}
