package loadbalancer

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The CCM was killed after it had deleted the load balancer, and before it updated the Service,
// whose type has changed.
func TestGet_AnnotationsOfALoadBalancerThatIsGone_AreLeftOfIt(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	service = s.now(service)
	if err := s.DeleteLoadBalancer(
		service.Annotations[settings.AnnotationLoadBalancerID]); err != nil {
		t.Fatal(err)
	}
	for _, ip := range s.FloatingIPs() {
		if err := s.DeleteFloatingIP(ip.ID); err != nil {
			t.Fatal(err)
		}
	}
	// Another CCM has an empty cache.
	c = s.begin("cluster-1", s.kube)
	service.Spec.Type, service.Status = v1.ServiceTypeClusterIP, v1.ServiceStatus{}
	if _, exists, err := c.GetLoadBalancer(t.Context(), "kubernetes", service); err != nil ||
		!exists {
		t.Fatalf("exists: %t, %v; want true because of the annotations", exists, err)
	}
	if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", service); err != nil {
		t.Fatal(err)
	}
	service = s.now(service)
	service.Spec.Type = v1.ServiceTypeClusterIP
	if a := service.Annotations; a[settings.AnnotationLoadBalancerID]+
		a[settings.AnnotationLoadBalancerAddress] != "" {
		t.Errorf("the Service still has %v", a)
	}
	if _, exists, err := c.GetLoadBalancer(t.Context(), "kubernetes", service); err != nil ||
		exists {
		t.Errorf("exists: %t, %v; want false", exists, err)
	}
}

func TestEnsure_StepByStep_PausesFollowOctavia(t *testing.T) {
	t.Parallel()
	const took = 10 * time.Second
	s, now := newTickingSite(t, openstacktest.WithProvisioning(took))
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c := s.begin("cluster-1", s.kube)
	service := s.addService("web", 1, 2, 3)
	serve := func() {
		t.Helper()
		for pass := range 100 {
			_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service), nil)
			if err == nil {
				return
			}
			var later *api.RetryError
			if !errors.As(err, &later) {
				t.Fatal(err)
			}
			if later.RetryAfter() > took*3/2 {
				t.Errorf("the pause after pass %d is %s: %v", pass, later.RetryAfter(), err)
			}
			now.Step(later.RetryAfter())
		}
		t.Fatal("the Service is not served after 100 passes")
	}
	serve()
	service = s.now(service)
	for i := range service.Spec.Ports {
		service.Spec.Ports[i].Protocol = v1.ProtocolUDP
	}
	s.update(service)
	serve()
}

func TestEnsure_ManyAtOnce_FewAreRequestedAtATime(t *testing.T) {
	t.Parallel()
	const many, few, creation = 12, 4, 50 * time.Millisecond
	c, node := newCluster(t, openstacktest.WithCreationTime(creation))
	s := c.site
	var passes sync.WaitGroup
	for i := range many {
		service := s.addService(fmt.Sprint("web-", i), 80)
		passes.Go(func() {
			for {
				_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
					[]*v1.Node{node})
				var later *api.RetryError
				switch {
				case err == nil:
					return
				case !errors.As(err, &later):
					t.Errorf("%s: %v", service.Name, err)
					return
				}
			}
		})
	}
	passes.Wait()
	var asked []time.Time
	for _, call := range s.Calls() {
		if call.Operation == "loadbalancer_create" {
			asked = append(asked, call.Time)
		}
	}
	if len(asked) != many || len(s.LoadBalancers()) != many {
		t.Fatalf("%d requests for %d load balancers, want %d of each",
			len(asked), len(s.LoadBalancers()), many)
	}
	slices.SortFunc(asked, time.Time.Compare)
	for i, at := range asked {
		if made := int(at.Sub(asked[0]) / creation); i >= few && i-few >= made {
			t.Errorf(
				"request %d was made after %s, when no more than %d others can have been answered",
				i+1, at.Sub(asked[0]), made)
		}
	}
}

// The address of a recreated load balancer is kept while the old one is being deleted, and while
// the creation is queued.
func TestInheritedVIP_NewOneIsNotBegun_IsKept(t *testing.T) {
	t.Parallel()
	remove, create := plan.DeleteLoadBalancer{ID: "old"},
		plan.CreateLoadBalancer{
			LoadBalancer: octavia.LoadBalancer{VIP: octavia.VIP{Address: "10.0.0.9"}},
		}
	old := &octavia.LoadBalancer{ID: "old", Status: octavia.PendingDelete}
	queued := fmt.Errorf("step 2 of 2: %w", plan.ErrQueued)
	kept := &octavia.VIP{Address: "10.0.0.9"}
	for name, test := range map[string]struct {
		before *octavia.VIP
		todo   []plan.Step
		done   plan.Result
		err    error
		want   bool
	}{
		"the old one is being deleted": {
			nil,
			[]plan.Step{remove, create},
			plan.Result{Done: []plan.Step{remove}, LoadBalancer: old},
			errors.New("it waits"),
			true,
		},
		"the old one is gone":         {nil, []plan.Step{remove, create}, plan.Result{Done: []plan.Step{remove}}, queued, true},
		"the old one was gone before": {kept, []plan.Step{create}, plan.Result{}, queued, true},
		"first creation":              {nil, []plan.Step{create}, plan.Result{}, queued, false},
		"the address cannot be had":   {kept, []plan.Step{create}, plan.Result{}, errors.New("in use"), false},
		"the new one is made":         {nil, []plan.Step{remove, create}, plan.Result{Done: []plan.Step{remove, create}, LoadBalancer: old}, nil, false},
	} {
		if got := inheritedVIP(test.before, plan.Plan{Steps: test.todo}, test.done,
			test.err); (got != nil && got.Address == "10.0.0.9") != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
