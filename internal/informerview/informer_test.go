package informerview_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

func byName(obj any) ([]string, error) { return []string{obj.(*corev1.Node).Name}, nil }

func TestRemoveEventHandler_ByTheCaller_EndsItsNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		view := h.shared.View()
		informer := view.Core().V1().Nodes().Informer()
		var removing cache.ResourceEventHandlerRegistration
		removed, shut, byItself := &recorder{}, &recorder{}, &recorder{}
		byItself.hold = func(string) {
			if err := informer.RemoveEventHandler(removing); err != nil {
				t.Error(err)
			}
		}
		handle := add(t, informer, removed)
		shutting := add(t, informer, shut)
		removing = add(t, informer, byItself)
		settle(t)
		if !handle.HasSynced() || !cache.IsDone(handle.HasSyncedChecker()) {
			t.Error("the handler has received all objects, but has not synced")
		}
		// Another scope's informer and the typed informer remove it, too.
		if err := view.Scope().Core().V1().Nodes().TypedInformer().RemoveEventHandler(
			handle); err != nil {
			t.Fatal(err)
		}
		if err := cache.ShutDownEventHandler(informer, shutting); err != nil {
			t.Fatal(err)
		}
		h.createNode("a")
		h.createNode("b")
		time.Sleep(time.Hour)
		removed.expect(t, "after its removal")
		shut.expect(t, "after its removal")
		byItself.expect(t, "after its removal", "add a")
		expectGoroutines(t, "after the removals", listening, 0)
		for range 2 { // a second call has no effect
			if err := informer.RemoveEventHandler(handle); err != nil {
				t.Error(err)
			}
		}
		if err := view.Core().V1().Services().Informer().RemoveEventHandler(handle); err != nil {
			t.Errorf("the handler of another informer: %v", err)
		}
		ofHost := add(t, h.factory.Core().V1().Nodes().Informer(), &recorder{})
		if err := informer.RemoveEventHandler(ofHost); err != nil {
			t.Errorf("the host's handler: %v", err)
		}
		view.Shutdown()
	})
}

func TestAddIndexers_OfAnEarlierTerm_IsAcceptedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		if err := h.factory.Core().V1().Nodes().Informer().AddIndexers(
			cache.Indexers{"host": byName}); err != nil {
			t.Fatal(err)
		}
		h.createNode("a")
		for range 3 {
			view := h.shared.View()
			informer := view.Core().V1().Nodes().Informer()
			if err := informer.AddIndexers(cache.Indexers{"term": byName}); err != nil {
				t.Errorf("an indexer of the term: %v", err)
			}
			if err := informer.GetIndexer().AddIndexers(
				cache.Indexers{"direct": byName}); err != nil {
				t.Errorf("an indexer of the term, added to the index itself: %v", err)
			}
			for _, name := range []string{"term", "direct"} {
				if found, err := informer.GetIndexer().ByIndex(name, "a"); err != nil ||
					len(found) != 1 {
					t.Errorf("index %q finds %d nodes (error %v), expected 1", name, len(found),
						err)
				}
			}
			expectError(t, "the host's indexer",
				informer.AddIndexers(
					cache.Indexers{"host": byName}), "informer of nodes", "indexer conflict")
			expectError(t, "twice in a term", informer.AddIndexers(cache.Indexers{
				"term": byName,
				"new":  byName,
			}), "indexer conflict")
			if _, ok := informer.GetIndexer().GetIndexers()["new"]; ok {
				t.Error("one of the refused indexers was added")
			}
			view.Shutdown()
		}
	})
}

func TestAddIndexers_ScopeHasEnded_AreAcceptedAgain(t *testing.T) {
	view := informerview.New(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	for range 2 {
		scope := view.Scope()
		if err := scope.Core().V1().Nodes().Informer().AddIndexers(
			cache.Indexers{"x": byName}); err != nil {
			t.Error(err)
		}
		expectError(t, "before the scope ends",
			view.Core().V1().Nodes().Informer().AddIndexers(
				cache.Indexers{"x": byName}), "indexer conflict")
		scope.Close()
	}
	view.Shutdown()
}

func TestStartedInformer_TransformOrWatchErrorHandler_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		view := h.shared.View()
		informer := view.Core().V1().Nodes().Informer()
		expectError(t, "SetTransform", informer.SetTransform(nil), "already started")
		expectError(t, "SetWatchErrorHandler",
			informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}), "already started")
		view.Shutdown()
	})
}

func TestSetWatchErrorHandler_WatchFails_IsCalledAndTheViewHasTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		h.client.PrependReactor("list", "nodes",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("etcd is away")
			})
		view := h.shared.View()
		called := make(chan error, 1000)
		if err := view.Core().V1().Nodes().Informer().SetWatchErrorHandler(
			func(_ *cache.Reflector, err error) { called <- err }); err != nil {
			t.Fatal(err)
		}
		view.Start(nil)
		settle(t)
		if len(called) == 0 {
			t.Error("the handler was not called")
		}
		expectError(t, "Failure", view.Failure(), "etcd is away")
		view.Shutdown()
		before := len(called)
		time.Sleep(time.Hour)
		if len(called) != before {
			t.Error("the handler was called after the term")
		}
	})
}

func TestRun_SharedInformer_ContinuesAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		view := h.shared.View()
		informer := view.Core().V1().Nodes().Informer()
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan struct{})
		go func() {
			informer.RunWithContext(ctx)
			close(returned)
		}()
		settle(t)
		if !informer.HasSynced() {
			t.Error("the informer does not run")
		}
		cancel()
		<-returned
		settle(t)
		if informer.IsStopped() {
			t.Error("the host's informer has been stopped by a term")
		}
		ended := make(chan struct{})
		go func() {
			informer.Run(nil)
			close(ended)
		}()
		view.Shutdown()
		<-ended
		informer.Run(nil) // returns, because the term is over
	})
}

func TestPanicHandler_HandlerPanics_IsCalledAndTheHandlerContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		panics := make(chan error, 10)
		view := h.shared.View(informerview.WithPanicHandler(func(err error) { panics <- err }))
		r := &recorder{hold: func(event string) {
			if strings.HasSuffix(event, " bad") {
				panic("cannot bear it")
			}
		}}
		add(t, view.Scope().Core().V1().Nodes().Informer(), r)
		h.createNode("bad")
		expectError(t, "panic", <-panics, "panic in an event handler of nodes", "cannot bear it")
		h.createNode("good")
		r.expect(t, "after a panic", "add bad", "add good")
		view.Shutdown()
	})
}
