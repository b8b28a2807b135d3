package initfunc

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

func TestTypedInformers_StartedByAnInitFunc_RunUntilTheEndOfTheTerm(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	typed := newTypedInformers(ctx, informers.NewSharedInformerFactory(fake.NewClientset(node), 0))
	nodes := typed.Core().V1().Nodes()
	informer := nodes.Informer()
	closed := make(chan struct{})
	close(closed)
	typed.Start(closed)
	over, end := context.WithCancel(t.Context())
	end()
	typed.StartWithContext(over)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	if _, err := nodes.Lister().Get("a"); err != nil {
		t.Error(err)
	}
	if informer.IsStopped() {
		t.Error("the informer ended with the starter's context")
	}
	cancel()
	typed.Shutdown()
	if !informer.IsStopped() {
		t.Error("the informer did not end with the term")
	}
}

func TestMetadataInformers_Client_DisablesWatchLists(t *testing.T) {
	if !watchlist.DoesClientNotSupportWatchListSemantics(listingClient{}) {
		t.Error(
			"client-go would request a watch-list, which delays the end of a term while the API server refuses it")
	}
}
