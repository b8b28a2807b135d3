package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/reference"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

func web(uid string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid)}}
}

// answers is a cloud that gives the next one to each call.
type answers struct {
	cloudprovider.LoadBalancer
	next   []error
	exists bool
	seen   []string
}

func (a *answers) take(service *v1.Service) (err error) {
	a.seen = append(a.seen, service.APIVersion)
	err, a.next = a.next[0], a.next[1:]
	return err
}

func (a *answers) GetLoadBalancer(_ context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	err := a.take(service)
	return nil, a.exists, err
}

func (a *answers) EnsureLoadBalancer(_ context.Context, _ string, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	return nil, a.take(service)
}

func (a *answers) UpdateLoadBalancer(_ context.Context, _ string, service *v1.Service, _ []*v1.Node) error {
	return a.take(service)
}

func (a *answers) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *v1.Service) error {
	return a.take(service)
}

// call is one of the calls above.
type call func(waitingBalancers, *v1.Service) error

func ensure(b waitingBalancers, s *v1.Service) error {
	_, err := b.EnsureLoadBalancer(context.Background(), "", s, nil)
	return err
}

func update(b waitingBalancers, s *v1.Service) error {
	return b.UpdateLoadBalancer(context.Background(), "", s, nil)
}

func remove(b waitingBalancers, s *v1.Service) error {
	return b.EnsureLoadBalancerDeleted(context.Background(), "", s)
}

func get(b waitingBalancers, s *v1.Service) error {
	_, _, err := b.GetLoadBalancer(context.Background(), "", s)
	return err
}

var (
	errRetry  = fmt.Errorf("provisioning: %w", api.NewRetryError("busy", time.Second))
	errBroken = errors.New("quota exceeded")
)

func TestWaits_BeginWithARetryErrorAndEndWithAnyOtherAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		before  error // of EnsureLoadBalancer
		call    call
		answer  error
		missing bool
		want    string // the beginning of the next pass's mark
	}{
		"ensure asks again":        {nil, ensure, errRetry, false, ensureMark},
		"ensure is done":           {errRetry, ensure, nil, false, ""},
		"ensure fails":             {errRetry, ensure, errBroken, false, ""},
		"ensure is done elsewhere": {errRetry, ensure, cloudprovider.ImplementedElsewhere, false, ""},
		"update asks again":        {nil, update, errRetry, false, ensureMark},
		"update is done":           {errRetry, update, nil, false, ensureMark},
		"update fails":             {errRetry, update, errBroken, false, ensureMark},
		"delete asks again":        {errRetry, remove, errRetry, false, deleteMark},
		"delete is done":           {errRetry, remove, nil, false, ""},
		"check asks again":         {errRetry, get, errRetry, false, ensureMark},
		"check asks again, first":  {nil, get, errRetry, false, ""},
		"check finds":              {errRetry, get, nil, false, ensureMark},
		"check finds nothing":      {errRetry, get, nil, true, ""},
		"check fails":              {errRetry, get, errBroken, true, ensureMark},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits()
			cloud := &answers{next: []error{test.before, test.answer}, exists: !test.missing}
			b := waitingBalancers{cloud, w}
			_ = ensure(b, web("one"))
			err := test.call(b, w.mark(web("one")))
			if !errors.Is(err, test.answer) {
				t.Errorf("the answer %v became %v", test.answer, err)
			}
			if !asksAgain(test.answer) && err != test.answer { //nolint:errorlint // upstream compares so
				t.Errorf("the answer %v was wrapped: %v", test.answer, err)
			}
			got := w.mark(web("one")).APIVersion
			if (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("the next pass has the mark %q, want %q", got, test.want)
			}
			for _, version := range cloud.seen {
				if version != "" {
					t.Errorf("the cloud was given a Service with the mark %q", version)
				}
			}
		})
	}
}

func TestWaits_MarkEachPassAnew_AndNoServiceOfTheSameName(t *testing.T) {
	w := newWaits()
	_ = ensure(waitingBalancers{&answers{next: []error{errRetry}}, w}, web("one"))
	given := web("one")
	first, second := w.mark(given), w.mark(given)
	if first.APIVersion == second.APIVersion {
		t.Errorf("two passes have the mark %q", first.APIVersion)
	}
	if given.APIVersion != "" {
		t.Error("the Service of the informer was changed")
	}
	if other := w.mark(web("two")); other.APIVersion != "" {
		t.Errorf("another Service of the name has the mark %q", other.APIVersion)
	}
	// The mark is what client-go writes into an event.
	ref, err := reference.GetReference(scheme.Scheme, first)
	if err != nil || ref.APIVersion != first.APIVersion || ref.Kind != "Service" {
		t.Errorf("the reference is %+v (%v), want it to have the mark", ref, err)
	}
}

// stored are the Services of an informer.
type stored struct {
	coreinformers.ServiceInformer
	indexer cache.Indexer
}

func (s stored) Lister() corelisters.ServiceLister { return corelisters.NewServiceLister(s.indexer) }

func TestWaits_KeepNothingOfAServiceThatIsGone(t *testing.T) {
	w := newWaits()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	lister := waitingServices{stored{indexer: indexer}, w}.Lister().Services("default")
	if err := indexer.Add(web("one")); err != nil {
		t.Fatal(err)
	}
	b := waitingBalancers{&answers{next: []error{errRetry, nil}}, w}
	_ = ensure(b, web("one"))
	service, err := lister.Get("web")
	if err != nil || !isMark(service.APIVersion) {
		t.Fatalf("the Service is listed as %v (%v), want it to have a mark", service, err)
	}
	_ = update(b, service)
	if len(w.empty) != 1 {
		t.Fatalf("that the load balancer has no nodes is remembered as %v", w.empty)
	}
	if err := indexer.Delete(web("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := lister.Get("web"); err == nil {
		t.Fatal("the Service is still there")
	}
	if len(w.services)+len(w.empty) > 0 {
		t.Errorf("there is still %v %v", w.services, w.empty)
	}
}

func TestWaits_HoldBackTheirOwnEventsAlone(t *testing.T) {
	failure := unfinished{errRetry}.Error()
	for name, test := range map[string]struct {
		reason, version, message string
		emptied, held            bool
	}{
		"first pass":        {reason: ensuringReason, version: "v1"},
		"next pass":         {reason: ensuringReason, version: ensureMark + "7", held: true},
		"last pass":         {reason: ensuringReason, version: ensureMark + "8", held: true},
		"served":            {reason: "EnsuredLoadBalancer", version: ensureMark + "8"},
		"failed":            {reason: "SyncLoadBalancerFailed", version: ensureMark + "8", message: "Error syncing load balancer: quota exceeded"},
		"not ready":         {reason: "SyncLoadBalancerFailed", version: "v1", message: "Error syncing load balancer: failed to ensure load balancer: " + failure, held: true},
		"update not ready":  {reason: "UpdateLoadBalancerFailed", version: "v1", message: "Error updating load balancer: " + failure, held: true},
		"deletion begins":   {reason: deletingReason, version: ensureMark + "9"},
		"deletion goes on":  {reason: deletingReason, version: deleteMark + "10", held: true},
		"no nodes, first":   {reason: unavailableReason, version: "v1"},
		"no nodes, still":   {reason: unavailableReason, version: ensureMark + "7", held: true},
		"no nodes any more": {reason: unavailableReason, version: ensureMark + "8", emptied: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits()
			if test.emptied {
				service := web("one")
				service.APIVersion = test.version
				_ = update(waitingBalancers{&answers{next: []error{nil}}, w}, service)
			}
			client := fake.NewClientset()
			sink := &corev1client.EventSinkImpl{Interface: waitingClient{client, w}.CoreV1().Events("")}
			event := &v1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web.1"}, Reason: test.reason, Message: test.message,
				InvolvedObject: v1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web", UID: "one", APIVersion: test.version},
			}
			if _, err := sink.Create(event); err != nil {
				t.Fatal(err)
			}
			if _, err := sink.Patch(event, []byte(`{"count":2}`)); err != nil {
				t.Fatal(err)
			}
			if sent, want := len(client.Actions()) == 2, !test.held; sent != want || len(client.Actions()) == 1 {
				t.Errorf("there were the requests %v; want it to be sent: %t", client.Actions(), want)
			}
			if !test.held {
				got, err := client.CoreV1().Events("default").Get(context.Background(), "web.1", metav1.GetOptions{})
				if err != nil || got.InvolvedObject.APIVersion != "v1" || got.Count != 2 {
					t.Errorf("the event is %+v (%v), want it to be about v1", got, err)
				}
			}
		})
	}
}

// Service workers, the node worker and the sender of events use it at the same time.
func TestWaits_AreSafeForConcurrentUse(t *testing.T) {
	w := newWaits()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				service := web(fmt.Sprint(i % 2))
				_ = w.answered(service, i%3 == 0, errRetry)
				marked := w.mark(service)
				w.holdsBack(&v1.Event{Reason: unavailableReason, InvolvedObject: v1.ObjectReference{APIVersion: marked.APIVersion}})
				w.emptied(marked)
				_ = w.answered(service, false, nil)
			}
		})
	}
	all.Wait()
	if len(w.services) > 0 {
		t.Errorf("there is still %v", w.services)
	}
}
