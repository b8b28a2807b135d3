package controllerruntime

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

func TestTracked_EndedContext_RunnableIsNotStarted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &trackedManager{}
	late := tracked{manager.RunnableFunc(func(context.Context) error {
		t.Error("a runnable was started after its campaign had ended")
		return nil
	}), &m.running}
	if err := late.Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestTracked_NeedLeaderElection_IsTheRunnablesOrTrue(t *testing.T) {
	silent := manager.RunnableFunc(func(context.Context) error { return nil })
	for want, r := range map[bool]manager.Runnable{true: silent, false: everywhere{silent}} {
		if got := (tracked{Runnable: r}).NeedLeaderElection(); got != want {
			t.Errorf("%T needs leadership: %v, want %v", r, got, want)
		}
	}
}

type everywhere struct{ manager.Runnable }

func (everywhere) NeedLeaderElection() bool { return false }

// custom is a kind that is not in client-go.
type custom struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (c *custom) DeepCopyObject() runtime.Object { copied := *c; return &copied }

func TestSharedCache_CacheWithoutFiltersAndTransforms_UsesSharedInformers(t *testing.T) {
	host, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	unchanged := func(o any) (any, error) { return o, nil }
	cases := map[string]struct {
		options cache.Options
		object  runtime.Object
		shared  bool
	}{
		"all nodes":         {cache.Options{}, &corev1.Node{}, true},
		"all secrets":       {cache.Options{}, &corev1.Secret{}, true},
		"other kind chosen": {cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {}}}, &corev1.Node{}, true},
		"this kind chosen":  {cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {}}}, &corev1.Node{}, false},
		"custom kind":       {cache.Options{}, &custom{}, false},
		"metadata":          {cache.Options{}, &metav1.PartialObjectMetadata{}, false},
		"unstructured": {cache.Options{}, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node",
		}}, false},
		"a namespace":    {cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}}, &corev1.Node{}, false},
		"label selector": {cache.Options{DefaultLabelSelector: labels.Nothing()}, &corev1.Node{}, false},
		"field selector": {cache.Options{DefaultFieldSelector: fields.Nothing()}, &corev1.Node{}, false},
		"transform":      {cache.Options{DefaultTransform: unchanged}, &corev1.Node{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := &trackedManager{view: host.informers.view()}
			defer m.view.Shutdown()
			o := m.sharedCache(c.options)
			isShared := false
			if o.NewInformer != nil {
				informer := o.NewInformer(&toolscache.ListWatch{}, c.object, 0, nil)
				_, isShared = informer.(campaignInformer)
			}
			if isShared != c.shared {
				t.Errorf("the informer is shared: %v, want %v", isShared, c.shared)
			}
		})
	}
}

func TestHandler_AcceptHeaderOfMetrics_IsReadWithinALimit(t *testing.T) {
	host, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;" +
		"encoding=delimited"
	for accept, want := range map[string]string{
		"":       "text/plain",
		protobuf: "application/vnd.google.protobuf",
		// With a parser that has no limit, this would get protocol buffers.
		strings.Repeat("a/b,", 16<<10) + protobuf: "text/plain",
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		host.Handler().ServeHTTP(w, r)
		got, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		if w.Code != http.StatusOK || got != want {
			t.Errorf("Accept: %.80q is answered with %d %s, want %s", accept, w.Code, got, want)
		}
	}
}

func TestHandler_Pages_AreThoseOfTheCurrentManager(t *testing.T) {
	host, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	code := func(path string) int {
		w := httptest.NewRecorder()
		host.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if got := code("/healthz"); got != http.StatusOK {
		t.Errorf("before the first campaign /healthz returns %d", got)
	}
	m := &trackedManager{pages: newPages()}
	failing := func(*http.Request) error { return http.ErrServerClosed }
	for _, err := range []error{
		m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("cloud", failing),
		m.AddMetricsServerExtraHandler("/extra", http.NotFoundHandler()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/extra", "/metrics", "no-slash"} {
		if err := m.AddMetricsServerExtraHandler(path, http.NotFoundHandler()); err == nil {
			t.Errorf("a handler for %s was accepted", path)
		}
	}
	host.pages.Store(m.pages.seal())
	if err := m.AddHealthzCheck("late", healthz.Ping); err == nil {
		t.Error("a check was accepted after the manager had started")
	}
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/healthz/ping": http.StatusOK,
		"/readyz": http.StatusInternalServerError, "/readyz/cloud": http.StatusInternalServerError,
		"/metrics": http.StatusOK, "/extra": http.StatusNotFound, "/other": http.StatusNotFound,
	} {
		if got := code(path); got != want {
			t.Errorf("%s returns %d, want %d", path, got, want)
		}
	}
}
