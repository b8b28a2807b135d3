package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
)

// cloud serves only instances and load balancers. Its fields implement them.
type cloud struct {
	cloudprovider.Interface
	metadata   func(context.Context) (*cloudprovider.InstanceMetadata, error)
	update     func(context.Context) error
	routes     func() (cloudprovider.Routes, bool)
	initialize func(cloudprovider.ControllerClientBuilder)
}

func (c *cloud) Initialize(b cloudprovider.ControllerClientBuilder, _ <-chan struct{}) {
	c.initialize(b)
}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return balancer{cloud: c}, true
}
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return instances{c}, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)           { return c.routes() }

type balancer struct {
	cloudprovider.LoadBalancer
	*cloud
}

func (b balancer) UpdateLoadBalancer(
	ctx context.Context, _ string, _ *v1.Service, _ []*v1.Node,
) error {
	return b.update(ctx)
}

type instances struct{ *cloud }

func (i instances) InstanceExists(context.Context, *v1.Node) (bool, error)   { return true, nil }
func (i instances) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return false, nil }
func (i instances) InstanceMetadata(
	ctx context.Context, _ *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	return i.metadata(ctx)
}

type routes struct {
	cloudprovider.Routes
	list []*cloudprovider.Route
}

func (r routes) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return r.list, nil
}

type volumeCloud struct{ *cloud }

func (volumeCloud) GetLabelsForVolume(
	context.Context, *v1.PersistentVolume,
) (map[string]string, error) {
	return map[string]string{"zone": "a"}, nil
}

func guarded(real cloudprovider.Interface) (cloudprovider.Interface, *guard.Cloud, *fence.Fence) {
	f := fence.New(nil, clock.RealClock{})
	g, c := guard.New(real, f, logr.Discard())
	return g, c, f
}

func node() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }

// Callers compare these errors by identity, or look for them in the chain.
func TestGuard_ErrorOfTheProvider_IsReturnedUnchanged(t *testing.T) {
	retry := api.NewRetryError("not yet", time.Minute)
	for _, want := range []error{
		cloudprovider.InstanceNotFound, cloudprovider.DiskNotFound, cloudprovider.NotImplemented,
		cloudprovider.ImplementedElsewhere,
		retry, fmt.Errorf("provisioning: %w", retry), errors.New("quota"),
	} {
		g, _, _ := guarded(everything{answer: func(context.Context, string) error { return want }})
		for _, m := range methods(g) {
			if _, err := m.call(t.Context()); m.hasError() && err != want {
				t.Errorf("%s: %v became %v", m, want, err)
			}
		}
	}
}

func TestGuard_ResultsOfTheProvider_AreReturnedWithAndWithoutError(t *testing.T) {
	for _, answer := range []error{nil, errors.New("only half of it")} {
		g, _, _ := guarded(everything{answer: func(context.Context, string) error {
			return answer
		}})
		for _, m := range methods(g) {
			results, err := m.call(t.Context())
			if m.hasError() && err != answer {
				t.Errorf("%s returned %v, want %v", m, err, answer)
			}
			for n, result := range results {
				if result.IsZero() {
					t.Errorf("%s: the provider's result %d was not returned beside the error %v", m, n,
						answer)
				}
			}
		}
	}
}

func TestGuard_EachMethod_CallsTheSameMethodOfTheProvider(t *testing.T) {
	var asked []string
	g, _, _ := guarded(everything{answer: func(_ context.Context, method string) error {
		asked = append(asked, method)
		return nil
	}})
	for _, m := range methods(g) {
		asked = nil
		_, _ = m.call(t.Context())
		if len(asked) != 1 || asked[0] != m.name {
			t.Errorf("%s called the provider's %v", m, asked)
		}
	}
}

type key struct{}

func TestGuard_ContextOfACall_HasTheCallersValuesAndEndsWithIt(t *testing.T) {
	type seen struct {
		value any
		err   error
	}
	var got seen
	// meanwhile is called while the call is in flight, and must end its context.
	var meanwhile func()
	g, _, _ := guarded(everything{answer: func(ctx context.Context, _ string) error {
		if meanwhile != nil {
			meanwhile()
			<-ctx.Done()
		}
		got = seen{ctx.Value(key{}), ctx.Err()}
		return nil
	}})
	for _, m := range methods(g) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, m.name))
		meanwhile = nil
		_, _ = m.call(ctx)
		if got != (seen{m.name, nil}) {
			t.Errorf("%s: the provider got %v, want the caller's value and an open context", m, got)
		}
		meanwhile = cancel
		_, _ = m.call(ctx)
		if got != (seen{m.name, context.Canceled}) {
			t.Errorf("%s: the provider got %v, want the caller's cancellation", m, got)
		}
	}
}

func TestGuard_TermEnds_CallOfEachMethodEnds(t *testing.T) {
	for n := range methods(everything{answer: func(context.Context, string) error { return nil }}) {
		var lose func()
		g, _, f := guarded(everything{answer: func(ctx context.Context, _ string) error {
			if lose == nil {
				return nil
			}
			lose()
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		m := methods(g)[n]
		if !m.hasError() {
			continue // it bypasses the fence
		}
		lose = func() { f.Close(errors.New("lost")) }
		if _, err := m.call(context.TODO()); !errors.Is(err, fence.ErrClosed) {
			t.Errorf("%s: got %v, want the end of the term as the context's cause", m, err)
		}
		lose = func() { t.Errorf("%s was called after the term", m) }
		if _, err := m.call(context.TODO()); !errors.Is(err, fence.ErrClosed) {
			t.Errorf("%s after the term: got %v, want a refusal", m, err)
		}
	}
}

func TestGuard_ProviderServesAllOrNone_GuardServesTheSame(t *testing.T) {
	for _, none := range []bool{false, true} {
		g, _, _ := guarded(everything{
			none:   none,
			answer: func(context.Context, string) error { return nil },
		})
		lb, lbServed := g.LoadBalancer()
		i, iServed := g.Instances()
		v2, v2Served := g.InstancesV2()
		z, zServed := g.Zones()
		cl, clServed := g.Clusters()
		r, rServed := g.Routes()
		for name, served := range map[string]struct{ ok, there bool }{
			"LoadBalancer": {lbServed, lb != nil},
			"Instances":    {iServed, i != nil},
			"InstancesV2":  {v2Served, v2 != nil},
			"Zones":        {zServed, z != nil},
			"Clusters":     {clServed, cl != nil},
			"Routes":       {rServed, r != nil},
		} {
			if served.ok == none || served.there == none {
				t.Errorf("%s: served by the provider: %v, by the guard: %v (not nil: %v)", name, !none,
					served.ok, served.there)
			}
		}
		if !g.HasClusterID() || g.ProviderName() != "everything" {
			t.Errorf("HasClusterID %v, ProviderName %q", g.HasClusterID(), g.ProviderName())
		}
	}
}

func TestGuard_InterfaceThatTheProviderLacks_IsNotServed(t *testing.T) {
	asked := 0
	g, _, _ := guarded(&cloud{routes: func() (cloudprovider.Routes,
		bool,
	) {
		asked++
		return nil, false
	}})
	if _, ok := g.Instances(); ok {
		t.Error("Instances is served although the provider does not serve it")
	}
	for range 3 {
		if r, ok := g.Routes(); ok || r != nil {
			t.Error("Routes is served although the provider does not serve it")
		}
	}
	if asked != 1 {
		t.Errorf("Routes of the provider was called %d times, want once, because some providers answer over the network", asked)
	}
	if _, ok := g.(cloudprovider.PVLabeler); ok {
		t.Error("the guard is a PVLabeler although the provider is not")
	}
	labels, _, _ := guarded(volumeCloud{&cloud{}})
	labeler, ok := labels.(cloudprovider.PVLabeler)
	if !ok {
		t.Fatal("the guard is not a PVLabeler although the provider is")
	}
	if got, err := labeler.GetLabelsForVolume(t.Context(), nil); err != nil || got["zone"] != "a" {
		t.Errorf("labels: %v, %v", got, err)
	}
}

type cleaningCloud struct{ *cloud }

func (cleaningCloud) CleanUpCluster(_ context.Context, uid string) ([]string, error) {
	if uid == "panic" {
		panic("nil map")
	}
	return []string{"of " + uid}, nil
}

func TestGuard_CleanUpOfACluster_PassesTheFence(t *testing.T) {
	_, plain, _ := guarded(&cloud{})
	if _, err := plain.CleanUpCluster(t.Context(), "a"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a provider that cannot clean up: %v", err)
	}
	_, c, f := guarded(cleaningCloud{&cloud{}})
	if left, err := c.CleanUpCluster(t.Context(), "a"); err != nil || len(left) != 1 ||
		left[0] != "of a" {
		t.Errorf("%q, %v", left, err)
	}
	var panicked *guard.PanicError
	if _, err := c.CleanUpCluster(t.Context(), "panic"); !errors.As(err, &panicked) {
		t.Errorf("a panic: %v", err)
	}
	f.Close(errors.New("the term is over"))
	if left, err := c.CleanUpCluster(t.Context(), "a"); err == nil {
		t.Errorf("after the term it returns %q", left)
	}
}

func TestGuard_ProviderPanics_ReturnsAnError(t *testing.T) {
	g, _, f := guarded(&cloud{
		update: func(context.Context) error { panic("nil map") },
		routes: func() (cloudprovider.Routes, bool) { panic("no router") },
	})
	lb, _ := g.LoadBalancer()
	err := lb.UpdateLoadBalancer(t.Context(), "c", nil, nil)
	var panicked *guard.PanicError
	if !errors.As(err, &panicked) || panicked.Call != "LoadBalancer.UpdateLoadBalancer" {
		t.Errorf("got %v, want a PanicError that names the call", err)
	}
	if _, ok := g.Routes(); ok {
		t.Error("Routes panicked and is served")
	}
	if left := f.InFlight(); len(left) != 0 {
		t.Errorf("calls that panicked are still in flight: %v", left)
	}
}

func TestGuard_EachMethodPanics_ErrorNamesIt(t *testing.T) {
	panics := false
	g, c, f := guarded(everything{answer: func(context.Context, string) error {
		if panics {
			panic("no")
		}
		return nil
	}})
	list := methods(g)
	panics = true
	var panicked *guard.PanicError
	for _, m := range list {
		if _, err := m.call(t.Context()); m.hasError() &&
			(!errors.As(err, &panicked) || panicked.Call != m.String()) {
			t.Errorf("%s: got %v, want a PanicError that names it", m, err)
		}
	}
	if err := c.Start(nil, nil, informers.NewSharedInformerFactory(nil, 0)); !errors.As(err,
		&panicked) || panicked.Call != "Initialize" {
		t.Errorf("Start: %v", err)
	}
	if err := c.Close(); !errors.As(err, &panicked) || panicked.Call != "Close" {
		t.Errorf("Close: %v", err)
	}
	if g.HasClusterID() || g.ProviderName() != "" {
		t.Error("a method that panicked returned a value")
	}
	if left := f.InFlight(); len(left) != 0 {
		t.Errorf("calls that panicked are still in flight: %v", left)
	}
}

func TestGuard_NilRoute_IsAnError(t *testing.T) {
	list := []*cloudprovider.Route{{Name: "a"}, nil}
	g, _, _ := guarded(&cloud{routes: func() (cloudprovider.Routes,
		bool,
	) {
		return routes{list: list}, true
	}})
	r, _ := g.Routes()
	if got, err := r.ListRoutes(t.Context(), ""); err == nil {
		t.Errorf("got %v without an error; upstream would dereference each", got)
	}
	list[1] = &cloudprovider.Route{Name: "b"}
	if got, err := r.ListRoutes(t.Context(), ""); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestGuard_NeitherMetadataNorError_PassesThrough(t *testing.T) {
	g, _, _ := guarded(&cloud{metadata: func(context.Context) (*cloudprovider.InstanceMetadata,
		error,
	) {
		return nil, nil
	}})
	i, _ := g.InstancesV2()
	if m, err := i.InstanceMetadata(t.Context(), node()); m != nil || err != nil {
		t.Errorf("got %v, %v; the provider says that the node is not its own", m, err)
	}
}

func TestGuard_FenceCloses_CallInFlightEnds(t *testing.T) {
	begun := make(chan struct{})
	g, _, f := guarded(&cloud{update: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}})
	lb, _ := g.LoadBalancer()
	result := make(chan error, 1)
	go func() { result <- lb.UpdateLoadBalancer(context.TODO(), "c", nil, nil) }()
	<-begun
	f.Close(errors.New("lost"))
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := lb.UpdateLoadBalancer(context.TODO(), "c", nil, nil); !errors.Is(err,
		fence.ErrClosed) {
		t.Errorf("call after the end got %v, want a refusal", err)
	}
}

func TestStart_InformerUser_GetsInformersAfterInitialize(t *testing.T) {
	var asked []string
	_, c, _ := guarded(everything{answer: func(_ context.Context, method string) error {
		asked = append(asked, method)
		return nil
	}})
	if err := c.Start(nil, nil, informers.NewSharedInformerFactory(nil, 0)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(asked, []string{"Initialize", "SetInformers"}) {
		t.Errorf("the provider got the calls %v", asked)
	}
	initialized := false
	_, plain, _ := guarded(&cloud{initialize: func(cloudprovider.ControllerClientBuilder) {
		initialized = true
	}})
	if err := plain.Start(nil, nil, informers.NewSharedInformerFactory(nil, 0)); err != nil ||
		!initialized {
		t.Errorf("a provider without SetInformers: initialized %v, %v", initialized, err)
	}
}

type failingClients struct {
	cloudprovider.ControllerClientBuilder
}

func (failingClients) ConfigOrDie(name string) *rest.Config {
	panic(&guard.ClientError{Client: name, Err: errors.New("no such account")})
}
func (failingClients) Client(string) (kubernetes.Interface, error) { return nil, nil }

func TestStart_ClientCannotBeMade_IsAnError(t *testing.T) {
	_, c, _ := guarded(&cloud{initialize: func(b cloudprovider.ControllerClientBuilder) {
		b.ConfigOrDie("cloud")
	}})
	err := c.Start(failingClients{}, nil, informers.NewSharedInformerFactory(nil, 0))
	var wanted *guard.ClientError
	if !errors.As(err, &wanted) || wanted.Client != "cloud" {
		t.Errorf("got %v, want the ClientError", err)
	}
}
