package initfunc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	clienttesting "k8s.io/client-go/testing"
)

var gadget = schema.GroupKind{Group: "example.test", Kind: "Gadget"}

func gadgets() *metav1.APIResourceList {
	return &metav1.APIResourceList{
		GroupVersion: "example.test/v1",
		APIResources: []metav1.APIResource{{
			Name: "gadgets", SingularName: "gadget", Kind: "Gadget",
			Group: "example.test", Version: "v1",
		}},
	}
}

// mapperOver returns a mapper with a clock that the test controls.
func mapperOver(
	server *fakediscovery.FakeDiscovery,
) (_ *restmapper.DeferredDiscoveryRESTMapper, age func(time.Duration)) {
	var passed atomic.Int64
	cached := newDiscovery(discovery.ToDiscoveryInterfaceWithContext(server),
		func() time.Time { return time.Unix(0, passed.Load()) })
	return restmapper.NewDeferredDiscoveryRESTMapperWithContext(cached), func(d time.Duration) {
		passed.Add(int64(d))
	}
}

func TestMapper_KindIsAddedLater_IsFound(t *testing.T) {
	server := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}
	mapper, age := mapperOver(server)
	if _, err := mapper.RESTMapping(gadget); !meta.IsNoMatchError(err) {
		t.Fatalf("before the kind exists: %v, want no match", err)
	}
	server.Resources = append(server.Resources, gadgets())
	if _, err := mapper.RESTMapping(gadget); !meta.IsNoMatchError(err) {
		t.Errorf("a second lookup at once: %v, want no match again", err)
	}
	age(missRefresh)
	mapping, err := mapper.RESTMapping(gadget)
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Resource.Resource != "gadgets" {
		t.Errorf("mapped to %s", mapping.Resource)
	}
}

func TestMapper_UnknownKind_IsLookedUpOnce(t *testing.T) {
	resources := []*metav1.APIResourceList{gadgets()}
	server := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: resources}}
	mapper, age := mapperOver(server)
	if _, err := mapper.RESTMapping(gadget); err != nil {
		t.Fatal(err)
	}
	once := len(server.Actions())
	age(time.Hour)
	for range 10 {
		if _, err := mapper.RESTMapping(schema.GroupKind{
			Group: "example.test",
			Kind:  "Nothing",
		}); !meta.IsNoMatchError(err) {
			t.Fatalf("got %v, want no match", err)
		}
	}
	if asked := len(server.Actions()); asked != 2*once {
		t.Errorf("%d requests for 10 lookups, want %d of one more discovery", asked-once, once)
	}
}

func TestMapper_APIServerDoesNotAnswer_RequestEndsWithTheTerm(t *testing.T) {
	arrived := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	mapper, err := newMapper(ctx, &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := mapper.RESTMapping(gadget)
		result <- err
	}()
	<-arrived
	cancel(errBroken)
	if err := <-result; err == nil {
		t.Error("a mapping was found although the server does not answer")
	}
}

func TestEndingWith_ContextEnds_ReadOfTheResponseEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := endingWith(ctx)(base).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	first := make([]byte, len("first"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatalf("read the first part: %v", err)
	}
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("the next read ended with %v, want the end of the context", err)
	}
}
