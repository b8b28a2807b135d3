package informerview_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

// ownView is a view of a term's own factory, which resyncs with the period.
func ownView(resync time.Duration) (*fake.Clientset, *informerview.View) {
	client := fake.NewClientset()
	return client, informerview.New(informers.NewSharedInformerFactory(client, resync))
}

func TestOwnView_TermEnds_InformersAndHandlersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, view := ownView(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		informer := view.Core().V1().Nodes().Informer()
		plain, slow := &recorder{}, &recorder{}
		add(t, informer, plain)
		add(t, informer, slow, 3*time.Minute)
		view.StartWithContext(ctx)
		if err := view.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		createNode(t, client, "a")
		time.Sleep(3*time.Minute + time.Second)
		plain.expect(t, "in the term", append(eventsOf("resync", "a", "a", "a"), "add a")...)
		slow.expect(t, "in the term", "add a", "resync a")
		cancel()
		view.Shutdown()
		view.Shutdown()
		expectGoroutines(t, "after the term", listening, 0)
		if !informer.IsStopped() {
			t.Error("the term's informer has not stopped with the term")
		}
		if _, err := informer.AddEventHandler(plain); !errors.Is(err, informerview.ErrTermOver) {
			t.Errorf("AddEventHandler after the term: error %v, expected %v", err,
				informerview.ErrTermOver)
		}
	})
}

// flakyNodes lets the API server refuse lists, watches or both of nodes.
type flakyNodes struct {
	noList, noWatch atomic.Bool
	// watching is the last watch.
	watching atomic.Pointer[watch.FakeWatcher]
}

func (f *flakyNodes) serve(client *fake.Clientset) {
	forbidden := apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no rule"))
	client.PrependReactor("list", "nodes",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return f.noList.Load(), nil, forbidden
		})
	client.PrependWatchReactor("nodes",
		func(clienttesting.Action) (bool, watch.Interface, error) {
			if f.noWatch.Load() {
				return true, nil, forbidden
			}
			watcher := watch.NewFake()
			f.watching.Store(watcher)
			return true, watcher, nil
		})
}

// refuse refuses lists or watches from now on, and ends the current watch.
func (f *flakyNodes) refuse(noList, noWatch bool) {
	f.noList.Store(noList)
	f.noWatch.Store(noWatch)
	if noWatch {
		f.watching.Load().Stop()
	}
}

// failures are the informers that a view reports as failing.
type failures struct {
	mu sync.Mutex
	of map[string]string
}

func (f *failures) note(resource string, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]string{}
	}
	delete(f.of, resource)
	if cause != nil {
		f.of[resource] = cause.Error()
	}
}

func (f *failures) expect(t *testing.T, when, want string) {
	t.Helper()
	settle(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.of["nodes"]; (got == "") != (want == "") || !strings.Contains(got, want) {
		t.Errorf("%s: the reported failure is %q, expected %q", when, got, want)
	}
}

func TestView_InformerFailsAfterItsSync_IsReportedUntilItWorks(t *testing.T) {
	for name, test := range map[string]struct {
		noList, noWatch bool
	}{
		"lists and watches": {true, true},
		"watches":           {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server, reported := fake.NewClientset(), &flakyNodes{}, &failures{}
				server.serve(client)
				view := informerview.New(informers.NewSharedInformerFactory(client, 0),
					informerview.WithFailureHandler(reported.note))
				ctx, cancel := context.WithCancel(t.Context())
				view.Scope().Core().V1().Nodes().Informer()
				view.StartWithContext(ctx)
				if err := view.WaitForSync(ctx); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					time.Sleep(5 * time.Minute)
					server.refuse(test.noList, test.noWatch)
					time.Sleep(10 * time.Second)
					server.refuse(false, false)
					reported.expect(t, "after ten seconds", "")
				}
				time.Sleep(5 * time.Minute)
				reported.expect(t, "before the failure", "")
				server.refuse(test.noList, test.noWatch)
				for range 10 {
					time.Sleep(3 * time.Minute)
					reported.expect(t, "during the failure", "no rule")
				}
				server.refuse(false, false)
				time.Sleep(4 * time.Minute)
				reported.expect(t, "after the failure", "")
				cancel()
				view.Shutdown()
			})
		})
	}
}

func TestSharedView_InformerFails_IsReportedToTheTermOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, server := newHost(t, 0), &flakyNodes{}
		server.serve(h.client)
		var all [2]failures
		view := h.shared.View(informerview.WithFailureHandler(all[0].note))
		view.Core().V1().Nodes().Informer()
		view.StartWithContext(t.Context())
		if err := view.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		server.refuse(true, true)
		time.Sleep(5 * time.Minute)
		all[0].expect(t, "in the first term", "no rule")
		view.Shutdown()
		next := h.shared.View(informerview.WithFailureHandler(all[1].note))
		next.Core().V1().Nodes().Informer()
		time.Sleep(time.Minute)
		all[1].expect(t, "in the second term", "no rule")
		server.refuse(false, false)
		time.Sleep(4 * time.Minute)
		all[0].expect(t, "after the first term", "no rule")
		all[1].expect(t, "after the failure", "")
		next.Shutdown()
		h.end()
	})
}

func TestOwnView_NeverStarted_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, view := ownView(0)
		add(t, view.Core().V1().Nodes().Informer(), &recorder{}, time.Minute)
		add(t, view.Scope().Core().V1().Nodes().Informer(), &recorder{})
		view.Shutdown()
	})
}

func TestOwnView_StartedAgain_StartsTheNewInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, view := ownView(0)
		ctx, cancel := context.WithCancel(t.Context())
		view.Core().V1().Nodes().Informer()
		view.StartWithContext(ctx)
		if err := view.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		client.PrependReactor("list", "services",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("forbidden")
			})
		view.Core().V1().Services().Informer()
		expectError(t, "an informer that has not been started", view.Problem(),
			"informer of services has not synced yet")
		view.StartWithContext(ctx)
		limited, stop := context.WithTimeout(ctx, 5*time.Second)
		defer stop()
		expectError(t, "WaitForSync", view.WaitForSync(limited),
			"informer of services has not synced: ", "forbidden")
		cancel()
		view.Shutdown()
	})
}

// A controller that is rebuilt in a term has new handlers. Its old handlers get no more
// notifications, and other handlers continue.
func TestScope_Ends_OtherHandlersContinue(t *testing.T) {
	for name, make := range map[string]func(t *testing.T) (client *fake.Clientset,
		view *informerview.View, end func()){
		"own factory": func(t *testing.T) (*fake.Clientset, *informerview.View, func()) {
			client, view := ownView(12 * time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			add(t, view.Core().V1().Nodes().Informer(), &recorder{})
			view.StartWithContext(ctx)
			return client, view, func() {
				cancel()
				view.Shutdown()
			}
		},
		"host's factory": func(t *testing.T) (*fake.Clientset, *informerview.View, func()) {
			h := runningHost(t, 0)
			view := h.shared.View()
			return h.client, view, func() {
				view.Shutdown()
				h.end()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, view, end := make(t)
				defer end()
				others := &recorder{}
				add(t, view.Scope().Core().V1().Nodes().Informer(), others)
				createNode(t, client, "a")
				others.expect(t, "at first", "add a")
				before := goroutines(listening)
				var names []string
				for _, name := range []string{"b", "c", "d"} {
					scope := view.Scope()
					r := &recorder{}
					add(t, scope.Core().V1().Nodes().Informer(), r)
					nested := scope.Scope()
					inner := &recorder{}
					add(t, nested.Core().V1().Nodes().Informer(), inner)
					scope.Start(nil)
					known := append(slices.Clone(names), "a")
					r.expect(t, "when it is built", eventsOf("add", known...)...)
					inner.expect(t, "when it is built", eventsOf("add", known...)...)
					scope.Close()
					expectGoroutines(t, "after the scope", listening, before)
					createNode(t, client, name)
					time.Sleep(time.Hour)
					r.expect(t, "after its scope")
					inner.expect(t, "after the scope around its own")
					others.expect(t, "after another scope", "add "+name)
					for _, over := range []*informerview.View{scope, nested, scope.Scope()} {
						if _, err := over.Core().V1().Nodes().Informer().AddEventHandler(
							r); !errors.Is(err, informerview.ErrScopeOver) {
							t.Errorf("AddEventHandler after the scope: error %v, expected %v", err,
								informerview.ErrScopeOver)
						}
					}
					names = append(names, name)
				}
			})
		})
	}
}

func TestScope_StartsInformers_TheyEndWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, view := ownView(0)
		early := view.Scope()
		nodes := early.Core().V1().Nodes().Informer()
		ofController, endController := context.WithCancel(t.Context())
		early.StartWithContext(ofController)
		settle(t)
		if nodes.SetTransform(nil) != nil {
			t.Error("a scope started an informer before the term did")
		}
		ofTerm, endTerm := context.WithCancel(t.Context())
		view.StartWithContext(ofTerm)
		late := view.Scope()
		services := late.Core().V1().Services().Informer()
		late.StartWithContext(ofController)
		if err := late.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		pods := late.Core().V1().Pods().Informer()
		go pods.RunWithContext(ofController)
		settle(t)
		if !pods.HasSynced() {
			t.Error("the informer does not run although a controller called its Run")
		}
		endController()
		late.Shutdown()
		settle(t)
		for _, informer := range []cache.SharedIndexInformer{nodes, services, pods} {
			if informer.IsStopped() {
				t.Error("an informer of the term ended with a controller")
			}
		}
		endTerm()
		early.Shutdown()
		view.Shutdown()
		if !nodes.IsStopped() || !services.IsStopped() || !pods.IsStopped() {
			t.Error("an informer did not end with the term")
		}
	})
}
