package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
)

// ccmLease is the lease, in kube-system, that all candidates campaign for by default.
const ccmLease = "cloud-controller-manager"

// A sight is what a watch on the API server shows.
type sight struct {
	trial *trial
	what  string
	// done is closed when the watch has ended. After that times are the moments at which one of the
	// objects was seen, and err is why not all of them were: the cause that the trial's context
	// ended with.
	done  chan struct{}
	times []time.Time
	err   error
}

// wait returns when all was seen, and when that was.
func (s *sight) wait() time.Time {
	<-s.done
	if s.err != nil {
		s.trial.Check(fmt.Errorf("wait for %s: %w", s.what, s.err))
	}
	return s.times[len(s.times)-1]
}

// object is one of Kubernetes.
type object interface {
	runtime.Object
	metav1.Object
}

// watchFor looks at all objects of a source, now and whenever one changes, until isSo has been true
// for want different ones. It returns when the watch has begun.
func watchFor[O object](
	t *trial, what string, want int, source *cache.ListWatch, isSo func(O) bool,
) *sight {
	s := &sight{trial: t, what: what, done: make(chan struct{})}
	seen := map[string]bool{}
	look := func(o O) (done bool) {
		if len(seen) < want && isSo(o) && !seen[o.GetName()] {
			seen[o.GetName()] = true
			s.times = append(s.times, time.Now())
			t.update("%d of %d %s", len(seen), want, what)
		}
		return len(seen) == want
	}
	list, err := source.ListWithContext(t.Context(), metav1.ListOptions{})
	t.Check(err)
	accessor, err := meta.ListAccessor(list)
	t.Check(err)
	t.Check(meta.EachListItem(list, func(o runtime.Object) error {
		look(o.(O))
		return nil
	}))
	if len(seen) == want {
		close(s.done)
		return s
	}
	go func() {
		defer close(s.done)
		_, s.err = watchtools.Until(t.Context(), accessor.GetResourceVersion(), source,
			func(event watch.Event) (bool, error) {
				o, ok := event.Object.(O)
				return ok && event.Type != watch.Deleted && look(o), nil
			})
		if s.err != nil && t.Context().Err() != nil {
			s.err = context.Cause(t.Context())
		}
	}()
	return s
}

// source is all objects of a kind of the core group.
func (t *trial) source(resource string, where fields.Selector) *cache.ListWatch {
	return cache.NewListWatchFromClient(t.client.CoreV1().RESTClient(), resource,
		metav1.NamespaceAll, where)
}

// watchLease waits for a state of the lease.
func (t *trial) watchLease(what string, isSo func(*coordinationv1.Lease) bool) *sight {
	return watchFor(t, what, 1, cache.NewListWatchFromClient(
		t.client.CoordinationV1().RESTClient(), "leases", metav1.NamespaceSystem,
		fields.OneTermEqualSelector(metav1.ObjectNameField, ccmLease)), isSo)
}

func isHeld(lease *coordinationv1.Lease) bool { return holderOf(lease) != "" }

func holderOf(lease *coordinationv1.Lease) string {
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// watchNodes waits until want nodes are so.
func (t *trial) watchNodes(want int, isSo func(*corev1.Node) bool) *sight {
	return watchFor(t, "nodes", want, t.source("nodes", fields.Everything()), isSo)
}

// watchNode waits until one node is initialized.
func (t *trial) watchNode(name string) *sight {
	return watchFor(t, "node "+name, 1,
		t.source("nodes", fields.OneTermEqualSelector(metav1.ObjectNameField, name)), isInitialized)
}

// watchServed waits until all of the Services, whose names are different, have an address.
func (t *trial) watchServed(services []*corev1.Service) *sight {
	wanted := map[string]bool{}
	for _, service := range services {
		wanted[service.Name] = true
	}
	return watchFor(t, "Services are served", len(services),
		t.source("services", fields.Everything()), func(service *corev1.Service) bool {
			return wanted[service.Name] && len(service.Status.LoadBalancer.Ingress) > 0
		})
}

// ensuredReason is of upstream's event for each time that a Service was ensured with success.
const ensuredReason = "EnsuredLoadBalancer"

// watchEnsured waits until so many Services have been ensured from now on.
func (t *trial) watchEnsured(services int) *sight {
	t.Check(t.client.CoreV1().Events(serviceNamespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{}, metav1.ListOptions{}))
	ensured := map[string]bool{}
	return watchFor(t, "Services are ensured", services,
		t.source("events", fields.OneTermEqualSelector("reason", ensuredReason)),
		func(event *corev1.Event) bool {
			isFirst := !ensured[event.InvolvedObject.Name]
			ensured[event.InvolvedObject.Name] = true
			return isFirst
		})
}
