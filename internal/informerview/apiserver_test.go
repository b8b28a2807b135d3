package informerview_test

import (
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/waittest"
)

// Several terms use the host's informers, which never resync, one after the other, on a real API
// server.
func TestSharedView_RealAPIServer_TermsGetAddsAndResyncs_AndLeaveNothing(t *testing.T) {
	defer ccmtest.VerifyNoLeaks(t, goleak.IgnoreCurrent())
	cp := controlplane.ForTest(t)
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := waittest.Context(t)
	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	hosts := &recorder{}
	ofHost := add(t, factory.Core().V1().Nodes().Informer(), hosts)
	factory.Start(stop)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	if !cache.WaitFor(ctx, "", ofHost.HasSyncedChecker()) {
		t.Fatal("the host's handler has received no notification of the nodes")
	}
	shared := informerview.NewShared(factory, stop)

	var services cache.SharedIndexInformer
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		view := shared.View()
		r, never := &recorder{}, &recorder{}
		add(t, view.Core().V1().Nodes().Informer(), r)
		add(t, view.Core().V1().Nodes().Informer(), never, 0)
		// The host has not requested services. The first term starts their informer, which all
		// terms share.
		ofServices := &recorder{}
		services = view.Core().V1().Services().Informer()
		add(t, services, ofServices)
		view.StartWithContext(ctx)
		if err := view.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitReceived(t, r, "add "+name)
		waitReceived(t, ofServices, "add default/kubernetes")
		waitReceived(t, hosts, "add "+name)
		waitReceived(t, never, "add "+name)
		view.Shutdown()
		// A goroutine may still be listed for a moment after it has reported its end.
		waittest.Until(t, "only the host's handler is left", func() error {
			if left := goroutines(listening); left != 1 {
				return fmt.Errorf("%d handlers", left)
			}
			return nil
		})
		r.take()
		never.take()
		ofServices.take()

		// The host's handler gets this notification. The handlers of ended terms must not.
		update := []byte(`{"metadata":{"labels":{"after":"the-term"}}}`)
		if _, err := client.CoreV1().Nodes().Patch(ctx, name, "application/merge-patch+json",
			update, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitReceived(t, hosts, "update "+name)
		for _, ended := range []*recorder{r, never, ofServices} {
			if events := ended.take(); len(events) > 0 {
				t.Errorf("after the term a handler received %q", events)
			}
		}
		if services.IsStopped() {
			t.Error("the host's informer that a term started has ended with the term")
		}
		if r.twice.Load() || never.twice.Load() || ofServices.twice.Load() {
			t.Error("a handler received two notifications at once")
		}
	}
	close(stop)
	factory.Shutdown()
	if !services.IsStopped() {
		t.Error("the host's informer that a term started has not ended with the host's others")
	}
}

// waitReceived waits until the handler has received all these events.
func waitReceived(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the handler receives %q", want), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, event := range want {
			if !slices.Contains(r.events, event) {
				return fmt.Errorf("it received %q", r.events)
			}
		}
		return nil
	})
}
