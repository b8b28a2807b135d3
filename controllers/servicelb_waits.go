package controllers

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/api"
)

// waits are the Services whose load balancer the cloud has not finished: its last answer was an api.RetryError. They are told apart from
// the others so that waiting costs no events.
//
// Upstream tells events while it deals with a Service, and they are sent a moment later by a goroutine of client-go's, when the Service
// may wait no longer. So what an event is about has to be seen from the event itself:
//
//   - The text of an answer that only asks to be asked again begins with notReady, and so the failure that upstream makes of it holds it.
//   - A Service that waits is given to upstream with a mark where its API version is, from where it gets into the reference of each
//     event of the pass. Each pass has a mark of its own, since client-go's correlator would else take the events of all
//     passes, which nobody sees, for a flood: it lets 25 events about an object through, and then one in five minutes
//     (tools/record/events_cache.go).
//
// Nothing is kept of a Service that is gone. waits are safe for concurrent use.
type waits struct {
	mu sync.Mutex
	// services are by namespace and name, as in upstream's queue.
	services map[types.NamespacedName]wait
	// empty are the marks of those whose nodes have all gone since.
	empty  map[types.NamespacedName]string
	marked int
}

// wait is what is waited for.
type wait struct {
	uid      types.UID
	deletion bool
}

func newWaits() *waits {
	return &waits{services: map[types.NamespacedName]wait{}, empty: map[types.NamespacedName]string{}}
}

// notReady is what the text of an answer begins with after which the cloud is to be asked again.
const notReady = "the cloud is not ready and will be asked again: "

// unfinished is an error around an api.RetryError.
type unfinished struct{ error }

func (e unfinished) Error() string { return notReady + e.error.Error() }

func (e unfinished) Unwrap() error { return e.error }

// asksAgain tells whether the cloud only wants to be asked again.
func asksAgain(err error) bool {
	_, ok := errors.AsType[*api.RetryError](err)
	return ok
}

// answered remembers what the cloud has answered about a Service, and returns the error for upstream.
func (w *waits) answered(service *v1.Service, deletion bool, err error) error {
	if !asksAgain(err) {
		w.forget(keyOf(service))
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services[keyOf(service)] = wait{service.UID, deletion}
	return unfinished{err}
}

func (w *waits) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.services, key)
	delete(w.empty, key)
}

// emptied remembers that a load balancer was left without nodes. Upstream tells that of the Service as it was in its last pass: with the
// mark that it had then.
func (w *waits) emptied(service *v1.Service) {
	if !isMark(service.APIVersion) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.empty[keyOf(service)] = service.APIVersion
}

func (w *waits) isEmpty(key types.NamespacedName, mark string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.empty[key] == mark
}

func keyOf(service *v1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// The marks begin with these, and end with the number of the pass.
const (
	ensureMark = "waits-for-creation-"
	deleteMark = "waits-for-deletion-"
)

// mark returns the Service for the next pass, with a mark if it waits.
func (w *waits) mark(service *v1.Service) *v1.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.services[keyOf(service)]
	if !ok || found.uid != service.UID {
		return service
	}
	w.marked++
	begin := ensureMark
	if found.deletion {
		begin = deleteMark
	}
	marked := *service // upstream copies the rest, and does not change it before
	marked.TypeMeta = metav1.TypeMeta{Kind: "Service", APIVersion: fmt.Sprint(begin, w.marked)}
	return &marked
}

// unmarked is the Service as it is given to the cloud.
func unmarked(service *v1.Service) *v1.Service {
	if service == nil || !isMark(service.APIVersion) {
		return service
	}
	plain := *service
	plain.TypeMeta = metav1.TypeMeta{}
	return &plain
}

func isMark(apiVersion string) bool {
	return strings.HasPrefix(apiVersion, ensureMark) || strings.HasPrefix(apiVersion, deleteMark)
}
