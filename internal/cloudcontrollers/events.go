package cloudcontrollers

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// silencer ends the broadcaster of upstream's route controller, whose events [routePasses] writes.
// Upstream's Run creates a broadcaster of client-go, which takes 4 goroutines and 100 KiB for as
// long as it runs, and accepts no other.
//
// Upstream's Run starts its broadcaster first. Then it waits for the informer, and only then starts
// goroutines that record events. So the broadcaster ends at the first use of the nodes.
type silencer struct {
	// silence ends the broadcaster once. It is set when Run begins.
	silence func()
}

// silence gives upstream's controller a recorder that does nothing, and ends its broadcaster. A
// queue of 32 KiB remains. The fields are not exported, so they are found by their types. A
// controller of another version without these fields keeps its own recorder.
func silence(controller any) {
	fields := reflect.ValueOf(controller).Elem()
	for i := range fields.NumField() {
		field := fields.Field(i)
		switch f := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Interface().(type) {
		case *record.EventRecorder:
			*f = noEvents{}
		case *record.EventBroadcaster:
			(*f).Shutdown()
		}
	}
}

// used is called whenever upstream uses the nodes.
func (s *silencer) used() {
	if s.silence != nil {
		s.silence()
	}
}

// silencedNodes is the informer of nodes for upstream.
type silencedNodes struct {
	coreinformers.NodeInformer
	silencer *silencer
}

// Informer implements coreinformers.NodeInformer.
func (n silencedNodes) Informer() cache.SharedIndexInformer {
	return silencedInformer{n.NodeInformer.Informer(), n.silencer}
}

// Lister implements coreinformers.NodeInformer.
func (n silencedNodes) Lister() corelisters.NodeLister {
	return silencedLister{n.NodeInformer.Lister(), n.silencer}
}

type silencedInformer struct {
	cache.SharedIndexInformer
	silencer *silencer
}

// HasSynced implements cache.SharedInformer.
func (i silencedInformer) HasSynced() bool {
	i.silencer.used()
	return i.SharedIndexInformer.HasSynced()
}

type silencedLister struct {
	corelisters.NodeLister
	silencer *silencer
}

// List implements corelisters.NodeLister.
func (l silencedLister) List(selector labels.Selector) ([]*v1.Node, error) {
	l.silencer.used()
	return l.NodeLister.List(selector)
}
