package guard_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/members"
)

// endpointCloud is a cloud whose load balancers may have endpoints as members.
type endpointCloud struct{ everything }

func (e endpointCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return endpointBalancers{allBalancers(e)}, true
}

type endpointBalancers struct{ allBalancers }

func (b endpointBalancers) WantsEndpoints(*v1.Service) bool {
	return b.answer(context.Background(), "WantsEndpoints") == nil
}

func (b endpointBalancers) EnsureEndpointLoadBalancer(
	ctx context.Context, _ string, _ *v1.Service, _ []*v1.Node, _ []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	return &v1.LoadBalancerStatus{}, b.answer(ctx, "EnsureEndpointLoadBalancer")
}

func (b endpointBalancers) UpdateEndpointLoadBalancer(
	ctx context.Context, _ string, _ *v1.Service, _ []*v1.Node, _ []*discoveryv1.EndpointSlice,
) error {
	return b.answer(ctx, "UpdateEndpointLoadBalancer")
}

func TestGuard_EndpointBalancer_IsGuardedAndOnlyThere(t *testing.T) {
	var asked []string
	failure := errors.New("quota")
	real := everything{answer: func(_ context.Context, method string) error {
		asked = append(asked, method)
		if method == "WantsEndpoints" {
			return nil
		}
		return failure
	}}
	plain, _, _ := guarded(real)
	lb, _ := plain.LoadBalancer()
	if _, ok := lb.(members.EndpointBalancer); ok {
		t.Error("the guard of another provider's load balancer is an EndpointBalancer")
	}
	g, _, f := guarded(endpointCloud{real})
	lb, _ = g.LoadBalancer()
	balancer, ok := lb.(members.EndpointBalancer)
	if !ok {
		t.Fatal("the guard hides an EndpointBalancer")
	}
	if !balancer.WantsEndpoints(&v1.Service{}) {
		t.Error("WantsEndpoints is false")
	}
	calls := map[string]func() error{
		"EnsureEndpointLoadBalancer": func() error {
			_, err := balancer.EnsureEndpointLoadBalancer(t.Context(), "", nil, nil, nil)
			return err
		},
		"UpdateEndpointLoadBalancer": func() error {
			return balancer.UpdateEndpointLoadBalancer(t.Context(), "", nil, nil, nil)
		},
	}
	for name, call := range calls {
		asked = nil
		if err := call(); !errors.Is(err, failure) || len(asked) != 1 || asked[0] != name {
			t.Errorf("%s: %v, and the provider got %q", name, err, asked)
		}
	}
	f.Close(errors.New("lost"))
	asked = nil
	for name, call := range calls {
		if err := call(); !errors.Is(err, fence.ErrClosed) || len(asked) != 0 {
			t.Errorf("%s after the term: %v, and the provider got %q", name, err, asked)
		}
	}
}

func TestGuard_WantsEndpointsPanics_NodesAreMembers(t *testing.T) {
	g, _, _ := guarded(endpointCloud{everything{answer: func(_ context.Context, m string) error {
		if m == "WantsEndpoints" {
			panic("boom")
		}
		return nil
	}}})
	lb, _ := g.LoadBalancer()
	if lb.(members.EndpointBalancer).WantsEndpoints(&v1.Service{}) {
		t.Error("WantsEndpoints is true after a panic")
	}
}
