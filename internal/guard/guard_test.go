package guard_test

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
)

// cloud serves instances and load balancers by the functions it is given, and nothing else.
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

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return balancer{cloud: c}, true }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return instances{c}, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)             { return c.routes() }

type balancer struct {
	cloudprovider.LoadBalancer
	*cloud
}

func (b balancer) UpdateLoadBalancer(ctx context.Context, _ string, _ *v1.Service, _ []*v1.Node) error {
	return b.update(ctx)
}

type instances struct{ *cloud }

func (i instances) InstanceExists(context.Context, *v1.Node) (bool, error)   { return true, nil }
func (i instances) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return false, nil }
func (i instances) InstanceMetadata(ctx context.Context, _ *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return i.metadata(ctx)
}

type volumeCloud struct{ *cloud }

func (volumeCloud) GetLabelsForVolume(context.Context, *v1.PersistentVolume) (map[string]string, error) {
	return map[string]string{"zone": "a"}, nil
}

func guarded(real cloudprovider.Interface) (cloudprovider.Interface, *guard.Cloud, *fence.Fence) {
	f := fence.New(nil, time.Now)
	g, c := guard.New(real, f, logr.Discard())
	return g, c, f
}

func node() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }

// Callers compare these by identity, or look for them in the chain.
func TestGuard_ErrorsPassThroughAsTheyAre(t *testing.T) {
	retry := api.NewRetryError("not yet", time.Minute)
	for _, want := range []error{
		cloudprovider.InstanceNotFound, cloudprovider.NotImplemented, cloudprovider.ImplementedElsewhere,
		retry, fmt.Errorf("provisioning: %w", retry), errors.New("quota"),
	} {
		g, _, _ := guarded(&cloud{
			update:   func(context.Context) error { return want },
			metadata: func(context.Context) (*cloudprovider.InstanceMetadata, error) { return nil, want },
		})
		lb, _ := g.LoadBalancer()
		if err := lb.UpdateLoadBalancer(t.Context(), "c", nil, nil); err != want {
			t.Errorf("UpdateLoadBalancer: %v became %v", want, err)
		}
		i, _ := g.InstancesV2()
		if _, err := i.InstanceMetadata(t.Context(), node()); err != want {
			t.Errorf("InstanceMetadata: %v became %v", want, err)
		}
	}
}

func TestGuard_KeepsWhatTheProviderDoesNotServe(t *testing.T) {
	asked := 0
	g, _, _ := guarded(&cloud{routes: func() (cloudprovider.Routes, bool) { asked++; return nil, false }})
	if _, ok := g.Instances(); ok {
		t.Error("Instances is served, although the provider has none")
	}
	for range 3 {
		if r, ok := g.Routes(); ok || r != nil {
			t.Error("Routes is served, although the provider has none")
		}
	}
	if asked != 1 {
		t.Errorf("the provider was asked %d times; some answer over the network", asked)
	}
	if _, ok := g.(cloudprovider.PVLabeler); ok {
		t.Error("the guard labels volumes, although the provider does not")
	}
	labels, _, _ := guarded(volumeCloud{&cloud{}})
	labeler, ok := labels.(cloudprovider.PVLabeler)
	if !ok {
		t.Fatal("the provider labels volumes, its guard does not")
	}
	if got, err := labeler.GetLabelsForVolume(t.Context(), nil); err != nil || got["zone"] != "a" {
		t.Errorf("labels: %v, %v", got, err)
	}
}

func TestGuard_PanicsBecomeErrors(t *testing.T) {
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
		t.Error("Routes panicked and still counts as served")
	}
	if left := f.InFlight(); len(left) != 0 {
		t.Errorf("calls that panicked are still in flight: %v", left)
	}
}

func TestGuard_NoMetadataAndNoErrorIsAnError(t *testing.T) {
	g, _, _ := guarded(&cloud{metadata: func(context.Context) (*cloudprovider.InstanceMetadata, error) { return nil, nil }})
	i, _ := g.InstancesV2()
	if m, err := i.InstanceMetadata(t.Context(), node()); err == nil {
		t.Errorf("got %v without an error; upstream would dereference it", m)
	}
}

func TestGuard_CallInFlightEndsWithTheFence(t *testing.T) {
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
	if err := lb.UpdateLoadBalancer(context.TODO(), "c", nil, nil); !errors.Is(err, fence.ErrClosed) {
		t.Errorf("call after the end got %v, want a refusal", err)
	}
}

type failingClients struct {
	cloudprovider.ControllerClientBuilder
}

func (failingClients) ConfigOrDie(name string) *rest.Config {
	panic(&guard.ClientError{Client: name, Err: errors.New("no such account")})
}
func (failingClients) Client(string) (kubernetes.Interface, error) { return nil, nil }

func TestStart_ClientThatCannotBeMadeIsAnError(t *testing.T) {
	_, c, _ := guarded(&cloud{initialize: func(b cloudprovider.ControllerClientBuilder) { b.ConfigOrDie("cloud") }})
	err := c.Start(failingClients{}, nil, informers.NewSharedInformerFactory(nil, 0))
	var wanted *guard.ClientError
	if !errors.As(err, &wanted) || wanted.Client != "cloud" {
		t.Errorf("got %v, want the ClientError", err)
	}
}
