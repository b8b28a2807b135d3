package loadbalancer

import (
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// newKube is an API server without field management. [fake.NewClientset] builds a REST mapper of
// all kinds for every call, which takes most of the time and memory of these tests.
func newKube() *fake.Clientset {
	kube, _ := newWatchableKube()
	return kube
}

// newWatchableKube also reports each watch: an object that is created between the list of an
// informer and its watch is never seen.
func newWatchableKube() (*fake.Clientset, <-chan struct{}) {
	watching := make(chan struct{}, 100)
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	kube := &fake.Clientset{}
	kube.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	kube.AddWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := tracker.Watch(action.GetResource(), action.GetNamespace())
		watching <- struct{}{}
		return true, watcher, err
	})
	return kube, watching
}
