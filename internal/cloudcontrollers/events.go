package cloudcontrollers

import (
	"context"
	"reflect"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/events"
)

// recording gives one of upstream's controllers a recorder that costs nothing at rest. Upstream's
// Run creates a broadcaster of client-go, which takes 4 goroutines and 100 KiB for as long as it
// runs. Upstream accepts no other broadcaster.
//
// Upstream's Run starts its broadcaster first. Then it waits for the informers or lists the nodes,
// and only then starts goroutines that record events. So the recorder is replaced at the first use
// of the nodes.
type recording struct {
	client    kubernetes.Interface
	component string
	// replace replaces the recorder once. It is set when Run begins.
	replace func()
}

// record runs upstream's Run of the controller. Like upstream, it drops events that are not sent
// before Run returns.
func (r *recording) record(ctx context.Context, controller any, run func()) {
	broadcaster := events.NewLogging(r.client.CoreV1(), klog.FromContext(ctx))
	defer broadcaster.Shutdown()
	r.replace = sync.OnceFunc(func() {
		replaceRecorder(controller, broadcaster.Recorder(r.component))
	})
	run()
}

// used is called whenever upstream uses the nodes.
func (r *recording) used() {
	if r.replace != nil {
		r.replace()
	}
}

// replaceRecorder gives one of upstream's controllers another recorder and ends its broadcaster. A
// queue of 32 KiB remains. The fields are not exported, so they are found by their types. A
// controller of another version without these fields keeps its own recorder.
func replaceRecorder(controller any, recorder record.EventRecorder) {
	fields := reflect.ValueOf(controller).Elem()
	for i := range fields.NumField() {
		field := fields.Field(i)
		switch f := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Interface().(type) {
		case *record.EventRecorder:
			*f = recorder
		case *record.EventBroadcaster:
			(*f).Shutdown()
		}
	}
}

// nodes returns the informer of nodes for upstream. It replaces the recorder at its first use.
func (r *recording) nodes(nodes coreinformers.NodeInformer) coreinformers.NodeInformer {
	return recordedNodes{nodes, r}
}

type recordedNodes struct {
	coreinformers.NodeInformer
	recording *recording
}

// Informer implements coreinformers.NodeInformer.
func (n recordedNodes) Informer() cache.SharedIndexInformer {
	return recordedInformer{n.NodeInformer.Informer(), n.recording}
}

// Lister implements coreinformers.NodeInformer.
func (n recordedNodes) Lister() corelisters.NodeLister {
	return recordedLister{n.NodeInformer.Lister(), n.recording}
}

type recordedInformer struct {
	cache.SharedIndexInformer
	recording *recording
}

// HasSynced implements cache.SharedInformer.
func (i recordedInformer) HasSynced() bool {
	i.recording.used()
	return i.SharedIndexInformer.HasSynced()
}

type recordedLister struct {
	corelisters.NodeLister
	recording *recording
}

// List implements corelisters.NodeLister.
func (l recordedLister) List(selector labels.Selector) ([]*v1.Node, error) {
	l.recording.used()
	return l.NodeLister.List(selector)
}
