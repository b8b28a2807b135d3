package informerview_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/waittest"
)

// refusals are the errors for which a term would end.
type refusals struct {
	mu   sync.Mutex
	errs []error
}

func (r *refusals) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// take returns the first error since the last call, which must be short.
func (r *refusals) take(t *testing.T) (first error) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.errs {
		if len(err.Error()) > 300 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("an error has %d bytes: %.300q", len(err.Error()), err)
		}
	}
	if len(r.errs) > 0 {
		first = r.errs[0]
	}
	r.errs = nil
	return first
}

func TestRefuseNames_ObjectThatNoAPIServerAccepts_IsKeptOut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		object  runtime.Object
		refused string
	}{
		"a long name": {
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: long}},
			"of the kind Node with the name",
		},
		"an escape": {
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "x\n\x1b[2J"}},
			"of the kind Service with the name",
		},
		"no name": {&discoveryv1.EndpointSlice{}, "of the kind EndpointSlice with the name"},
		"a long namespace": {
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: long, Name: "s"}},
			"with the namespace",
		},
		"a long UID": {
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: types.UID(long)}},
			"with the UID",
		},
		"a usual object": {
			object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s"}},
		},
		"another kind, with other rules for names": {
			object: &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:node"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var refused refusals
			transform := informerview.RefuseNames(refused.add, informerview.StripManagedFields)
			kept, err := transform(c.object.DeepCopyObject())
			switch first := refused.take(t); {
			case c.refused == "" && (err != nil || first != nil || kept == nil):
				t.Errorf("it is refused: %v", err)
			case c.refused != "" && kept != nil:
				t.Errorf("it is kept: %.300v", kept)
			case c.refused != "":
				expectError(t, "transform", err, c.refused)
				expectError(t, "the end of the term", first, c.refused)
			}
		})
	}
}

// On a fake clock, client-go's pause after an error would last for decades.
func TestRefuseNames_InformerGetsSuchAnObject_OthersAreKept(t *testing.T) {
	var refused refusals
	client := fake.NewClientset()
	create := func(name string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	view := informerview.New(informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(
			informerview.RefuseNames(refused.add, informerview.StripManagedFields))))
	ctx, cancel := context.WithCancel(t.Context())
	defer view.Shutdown()
	defer cancel()
	informer := view.Core().V1().Nodes().Informer()
	handler := &recorder{}
	add(t, informer, handler)
	view.StartWithContext(ctx)
	if err := view.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	create(strings.Repeat("x", 1<<20))
	create("a")
	var got []string
	waittest.Until(t, "the second node arrives", func() bool {
		got = append(got, handler.take()...)
		return len(got) > 0
	})
	if keys := informer.GetStore().ListKeys(); !slices.Equal(got, []string{"add a"}) ||
		!slices.Equal(keys, []string{"a"}) {
		t.Errorf("the handler received %d notifications, and %d objects are kept; want one of each",
			len(got), len(keys))
	}
	expectError(t, "the end of the term", refused.take(t), "(1048576 bytes)")
}
