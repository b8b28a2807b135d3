package informerview_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

func TestSharedView_TermEnds_OnlyItsHandlersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		hosts := &recorder{}
		add(t, h.factory.Core().V1().Nodes().Informer(), hosts)
		h.createNode("a")
		hosts.take()
		for range 5 {
			view := h.shared.View()
			informer := view.Core().V1().Nodes().Informer()
			plain, periodic, optional := &recorder{}, &recorder{}, &recorder{}
			add(t, informer, plain)
			add(t, informer, periodic, 30*time.Second)
			if _, err := informer.AddEventHandlerWithOptions(optional,
				cache.HandlerOptions{ResyncPeriod: new(time.Minute)}); err != nil {
				t.Fatal(err)
			}
			view.Start(nil)
			if err := view.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
			settle(t)
			expectGoroutines(t, "in the term", listening, 4)
			view.Shutdown()
			expectGoroutines(t, "after the term", listening, 1)
			for _, r := range []*recorder{plain, periodic, optional} {
				r.expect(t, "in the term", "add a")
			}
			h.createNode("b")
			h.deleteNode("b")
			time.Sleep(3 * time.Hour)
			for _, r := range []*recorder{plain, periodic, optional} {
				r.expect(t, "after the term")
			}
			hosts.expect(t, "after the term", "add b", "delete b")
			if informer.IsStopped() || !informer.HasSynced() {
				t.Error("the host's informer does not continue after the term")
			}
			if _, err := informer.AddEventHandler(plain); !errors.Is(err,
				informerview.ErrTermOver) {
				t.Errorf("AddEventHandler after the term: error %v, expected %v", err,
					informerview.ErrTermOver)
			}
			if err := informer.AddIndexers(cache.Indexers{"x": byName}); !errors.Is(err,
				informerview.ErrTermOver) {
				t.Errorf("AddIndexers after the term: error %v, expected %v", err,
					informerview.ErrTermOver)
			}
		}
	})
}

func TestSharedView_TermEndsDuringANotification_NoneFollowsShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		view := h.shared.View()
		hang := make(chan struct{})
		r := &recorder{hold: func(string) { <-hang }}
		add(t, view.Core().V1().Nodes().Informer(), r)
		h.createNode("a")
		h.createNode("b")
		over := make(chan struct{})
		go func() {
			view.Shutdown()
			close(over)
		}()
		settle(t)
		select {
		case <-over:
			t.Error("Shutdown returned during a notification")
		default:
		}
		close(hang)
		<-over
		r.expect(t, "after the term", "add a")
	})
}

func TestSharedView_SeveralViews_EndIndependently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		one, two := h.shared.View(), h.shared.View()
		first, second := &recorder{}, &recorder{}
		add(t, one.Core().V1().Nodes().Informer(), first)
		handle := add(t, two.Core().V1().Nodes().Informer(), second)
		h.createNode("a")
		first.expect(t, "both views", "add a")
		second.expect(t, "both views", "add a")
		one.Shutdown()
		h.createNode("b")
		first.expect(t, "after its view")
		second.expect(t, "after the other view", "add b")
		two.Shutdown()
		if err := two.Core().V1().Nodes().Informer().RemoveEventHandler(handle); err != nil {
			t.Errorf("RemoveEventHandler after the term: %v", err)
		}
	})
}

func TestSharedView_HostHasNotStarted_InformersOfTheViewOutliveTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		view := h.shared.View()
		informer := view.Core().V1().Nodes().Informer()
		term := make(chan struct{})
		view.Start(term)
		if err := view.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(term)
		view.Shutdown()
		settle(t)
		if informer.IsStopped() {
			t.Fatal("the host's informer has been stopped with the term")
		}
		// The host's own start must not start it again.
		h.factory.Start(h.stop)
		next := h.shared.View()
		r := &recorder{}
		add(t, next.Core().V1().Nodes().Informer(), r)
		// This informer is requested later, in the same term.
		services := next.Core().V1().Services().Informer()
		next.Start(nil)
		if err := next.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !services.HasSynced() {
			t.Error("an informer that the second term requested was not started")
		}
		h.createNode("a")
		r.expect(t, "second term", "add a")
		next.Shutdown()
	})
}

func TestSharedView_AllRequestedInformersRun_StartsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		pods := h.factory.Core().V1().Pods().Informer()
		view := h.shared.View()
		view.Core().V1().Nodes().Informer()
		view.Start(nil)
		settle(t)
		if pods.SetTransform(nil) != nil {
			t.Error("the view started an informer that only the host requested")
		}
		view.Shutdown()
	})
}

func TestSharedView_HostStoppedAnInformer_FailsAtOnce(t *testing.T) {
	const want = "informer of nodes has been stopped; a stopped"
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		h.end()
		view := h.shared.View()
		before := time.Now()
		_, err := view.Core().V1().Nodes().Informer().AddEventHandler(&recorder{})
		expectError(t, "AddEventHandler", err, want)
		view.Start(nil)
		expectError(t, "WaitForSync", view.WaitForSync(t.Context()), want)
		expectError(t, "Failure", view.Failure(), want)
		expectError(t, "AddIndexers",
			view.Core().V1().Nodes().Informer().AddIndexers(
				cache.Indexers{}), "informer of nodes", "stopped")
		if waited := time.Since(before); waited > 0 {
			t.Errorf("the error came after %s, want at once", waited)
		}
		view.Shutdown()
	})
}

func TestSharedView_HostStopsDuringWaitForSync_WaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		h.client.PrependReactor("list", "nodes",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("etcd is away")
			})
		h.factory.Core().V1().Nodes().Informer()
		h.factory.Start(h.stop)
		view := h.shared.View()
		view.Core().V1().Nodes().Informer()
		view.Start(nil)
		result := make(chan error)
		go func() { result <- view.WaitForSync(t.Context()) }()
		time.Sleep(10 * time.Second)
		h.end()
		expectError(t, "WaitForSync", <-result, "informer of nodes")
		view.Shutdown()

		late := h.shared.View()
		late.Core().V1().Services().Informer()
		late.Start(nil)
		expectError(t, "WaitForSync of a host that has stopped", late.WaitForSync(t.Context()),
			"informer of services has not synced, and the host ends its informers")
		late.Shutdown()
	})
}

func TestSharedView_ListsFail_EachTermHasTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		h.client.PrependReactor("list", "nodes",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("etcd is away")
			})
		for range 2 {
			view := h.shared.View()
			// Three ways of requesting it return one informer.
			view.Core().V1().Nodes().Informer()
			view.InformerFor(&corev1.Node{}, nil)
			if _, err := view.ForResource(nodesResource); err != nil {
				t.Fatal(err)
			}
			expectError(t, "before the start", view.Problem(), "informer of nodes has not synced")
			view.Start(nil)
			settle(t)
			err := view.Failure()
			expectError(t, "Failure", err, "informer of nodes has not synced: ", "etcd is away")
			if err != nil && strings.Count(err.Error(), "nodes has") != 1 {
				t.Errorf("the error names one informer several times: %v", err)
			}
			view.Shutdown()
		}
	})
}

func TestSharedView_HostsInformers_HaveWarnings(t *testing.T) {
	const (
		hosts  = "Informers are the host's"
		unseen = "The Manager cannot report failed lists and watches of nodes, services"
	)
	expect := func(t *testing.T, view *informerview.View, want ...string) {
		t.Helper()
		warnings := view.Warnings()
		if len(warnings) != len(want) || !slices.IsSorted(warnings) {
			t.Fatalf("warnings are %q, expected %q", warnings, want)
		}
		for i, w := range warnings {
			if !strings.HasPrefix(w, want[i]) {
				t.Errorf("warning %q, expected %q", w, want[i])
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		view := h.shared.View()
		expect(t, view, hosts)
		view.Core().V1().Nodes().Informer()
		view.Core().V1().Services().Informer()
		view.Core().V1().Pods().Informer()
		expect(t, view, hosts, unseen)
		expect(t, view.Scope(), hosts, unseen)
		view.Shutdown()
		if own := informerview.New(h.factory).Warnings(); len(own) > 0 {
			t.Errorf("a view of the term's own factory has warnings: %q", own)
		}
	})
}

func TestSharedView_WaitForCacheSync_WaitsOnlyForRequestedInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		h.client.PrependReactor("list", "pods",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("forbidden")
			})
		h.factory.Core().V1().Nodes().Informer()
		h.factory.Core().V1().Pods().Informer()
		h.factory.Start(h.stop)
		view := h.shared.View()
		view.Core().V1().Nodes().Informer()
		view.Core().V1().Services().Informer() // not started, so the wait skips it
		if result := view.WaitForCacheSyncWithContext(t.Context()); result.AsError() != nil ||
			len(result.Synced) != 1 {
			t.Errorf("result %+v, expected only nodes, synced", result)
		}
		view.Core().V1().Pods().Informer()
		ended := make(chan struct{})
		close(ended)
		synced := view.WaitForCacheSync(ended)
		if len(synced) != 2 {
			t.Errorf("result %v, expected nodes and pods", synced)
		}
		view.Shutdown()
	})
}

func TestSharedView_HostsFactoryHasANamespace_ListsOnlyThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0, informers.WithNamespace("apps"))
		defer h.end()
		view := h.shared.View()
		view.Core().V1().Services().Informer()
		view.Start(nil)
		if err := view.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, action := range h.client.Actions() {
			if action.GetVerb() == "list" && action.GetNamespace() != "apps" {
				t.Errorf("services are listed in namespace %q, expected that of the host's factory",
					action.GetNamespace())
			}
		}
		view.Shutdown()
	})
}
