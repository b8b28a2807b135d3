package loadbalancer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// newCluster returns a cluster of one node.
func newCluster(t *testing.T, options ...openstacktest.Option) (*cluster, *v1.Node) {
	t.Helper()
	s := newSite(t, options...)
	return s.begin("cluster-1", s.kube), s.addNode("a")
}

func TestLoadBalancer_Gone_IsRecreatedWithItsAddress(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	before := c.ensure(service, node)
	old := s.LoadBalancers()[0].ID
	if err := s.DeleteLoadBalancer(old); err != nil {
		t.Fatal(err)
	}
	if err := c.forgetList(); err != nil {
		t.Fatal(err)
	}
	after := c.ensure(service, node)
	lbs := s.LoadBalancers()
	if len(lbs) != 1 || s.now(service).Annotations[settings.AnnotationLoadBalancerID] != lbs[0].ID {
		t.Fatalf("the load balancers are %+v, and the Service names %q",
			lbs, s.now(service).Annotations)
	}
	if after.Ingress[0].IP != before.Ingress[0].IP || len(s.FloatingIPs()) != 1 {
		t.Errorf("the address is now %s, it was %s", after.Ingress[0].IP, before.Ingress[0].IP)
	}
	if said := s.said("LoadBalancerLost"); len(said) != 1 {
		t.Errorf("the events are %q", said)
	}
}

func TestService_TypeChangesAndBack_IsServedAgain(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	service = s.now(service)
	service.Spec.Type = v1.ServiceTypeClusterIP
	if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", service); err != nil {
		t.Fatal(err)
	}
	now := s.now(service)
	if _, named := now.Annotations[settings.AnnotationLoadBalancerID]; named {
		t.Errorf("the Service still names a load balancer: %v", now.Annotations)
	}
	// OCCM leaves both annotations.
	now.Annotations[settings.AnnotationLoadBalancerID] = "00000000-dead-4000-8000-000000000000"
	now.Annotations[settings.AnnotationLoadBalancerAddress] = "203.0.113.9"
	now.Spec.Type, now.Status = v1.ServiceTypeLoadBalancer, v1.ServiceStatus{}
	s.update(now)
	c.ensure(now, node)
	if n := len(s.LoadBalancers()); n != 1 {
		t.Errorf("%d load balancers", n)
	}
}

func TestUsersLoadBalancer_WithoutFloatingIP_IsShared(t *testing.T) {
	t.Parallel()
	for _, internal := range []string{"false", "true"} {
		c, node := newCluster(t)
		s := c.site
		id := s.AddLoadBalancer(
			openstacktest.LoadBalancer{
				OctaviaResource: openstacktest.OctaviaResource{Name: "mine"},
				VIPSubnetID:     s.subnet,
			})
		service := s.addService("web", 80)
		service.Annotations[settings.AnnotationLoadBalancerID] = id
		service.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = internal
		s.update(service)
		status := c.ensure(service, node)
		lb, err := s.LoadBalancer(id)
		if err != nil || len(lb.Listeners) != 1 || status.Ingress[0].IP != lb.VIPAddress ||
			len(s.FloatingIPs()) > 0 {
			t.Errorf("internal %s: status %+v, load balancer %+v, %v", internal, status, lb, err)
		}
		c.remove(service)
		lb, err = s.LoadBalancer(id)
		if err != nil || len(lb.Listeners) > 0 || len(lb.Pools) > 0 || len(lb.Tags) > 0 {
			t.Errorf("internal %s: after the Service it is %+v, %v", internal, lb, err)
		}
	}
}

func TestWait_ContextEnds_Ends(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80, 443)
	c.ensure(service, node)
	s.Provision(openstacktest.ProvisioningRule{Never: true})
	service = s.now(service)
	service.Spec.Ports[0].NodePort, service.Spec.Ports[1].NodePort = 31000, 31001
	s.update(service)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the term is over")
	// Octavia is at work on the first change, so the second waits.
	done := make(chan error, 1)
	go func() {
		_, err := c.EnsureLoadBalancer(ctx, "kubernetes", s.now(service), []*v1.Node{node})
		done <- err
	}()
	if _, err := s.WaitForCall(t.Context(), func(call openstacktest.Call) bool {
		return call.Operation == "loadbalancer_members_update"
	}); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	select {
	case err := <-done:
		if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ends with %v", err)
		}
	case <-time.After(waittest.Limit):
		t.Fatal("the wait does not end")
	}
}

func TestStuckLoadBalancer_DelaysNoOther(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	s.Provision(
		openstacktest.ProvisioningRule{
			LoadBalancer: "kube_service_kubernetes_default_stuck",
			Never:        true,
		})
	stuck := s.addService("stuck", 80)
	for range 20 {
		if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(stuck),
			[]*v1.Node{node}); !isWait(err) {
			t.Fatalf("the error is %v", err)
		}
	}
	if said := s.said("LoadBalancerWaiting"); len(said) != 1 ||
		!strings.Contains(said[0], "PENDING_CREATE") || !strings.HasPrefix(said[0], "Normal") {
		t.Errorf("the events are %q, want one about the wait", said)
	}
	if warnings := s.said("Warning"); len(warnings) > 0 {
		t.Errorf("the warnings are %q", warnings)
	}
	c.ensure(s.addService("web", 80), node)
}

func TestMembers_CannotBeRead_NothingIsWritten(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{
		"loadbalancer_status", "loadbalancer_pool_list",
		"loadbalancer_listener_list", "loadbalancer_list", "floating_ip_list",
	} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			c, node := newCluster(t)
			s := c.site
			service := s.addService("web", 80)
			c.ensure(service, node)
			other := s.addNode("b")
			restarted := s.begin("cluster-1", s.kube)
			for _, fault := range []openstacktest.Fault{
				{
					Status: http.StatusNotFound,
					Body:   "<html>no such page</html>",
				},
				{Truncate: 10},
				{Status: http.StatusForbidden},
			} {
				fault.Operation = operation
				remove := s.Inject(fault)
				mark := s.mark()
				if _, err := restarted.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
					[]*v1.Node{node, other}); err == nil || isWait(err) {
					t.Errorf("%s fails: the answer is %v", operation, err)
				}
				if writes := s.writes(mark); len(writes) > 0 {
					t.Errorf("%s fails: the requests %q are made", operation, writes)
				}
				remove()
			}
			restarted.ensure(service, node, other)
		})
	}
}

func TestLoadBalancers_TwoOfOneService_OneStays(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	first := s.LoadBalancers()[0]
	// A leader's request was carried out after its successor had read the list.
	s.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: first.Name, Tags: first.Tags},
		VIPSubnetID:     s.subnet,
		Listeners:       []openstacktest.Listener{{Protocol: "TCP", ProtocolPort: 80}},
	})
	c = s.begin("cluster-1", s.kube)
	status := c.ensure(service, node)
	if lbs := s.LoadBalancers(); len(lbs) != 1 || lbs[0].ID != first.ID {
		t.Errorf("the load balancers are %+v, want only %s", lbs, first.ID)
	}
	if ips := s.FloatingIPs(); len(ips) != 1 || status.Ingress[0].IP != ips[0].Address {
		t.Errorf("the floating IPs are %+v", ips)
	}
}

func TestEnsureAndUpdateAtOnce_AreOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s, _ := newTickingSite(t, openstacktest.WithProvisioning(30*time.Millisecond))
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80, 443)
	c.ensure(service, node)
	nodes := []*v1.Node{node, s.addNode("b"), s.addNode("c")}
	var alive sync.WaitGroup
	for i := range 12 {
		alive.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
					nodes[:1+i%3])
			} else {
				err = c.UpdateLoadBalancer(t.Context(), "kubernetes", s.now(service), nodes[:1+i%3])
			}
			if err != nil && !isWait(err) {
				t.Error(err)
			}
		})
	}
	alive.Wait()
	for _, call := range s.Calls() {
		if call.Status == http.StatusConflict {
			t.Errorf("%s %s was sent during another change", call.Method, call.Path)
		}
	}
	c.ensure(service, nodes...)
	if lbs := s.LoadBalancers(); len(lbs) != 1 || len(lbs[0].Pools[0].Members) != 3 {
		t.Errorf("the load balancers are %+v", lbs)
	}
}

func TestUpdate_OfAServiceThatIsGone_MakesNothing(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	late := s.now(service)
	c.remove(service)
	mark := s.mark()
	if err := c.UpdateLoadBalancer(t.Context(), "kubernetes", late, []*v1.Node{node}); err == nil {
		t.Error("a missing load balancer was updated")
	}
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("the requests are %q", writes)
	}
}

// The status tree, from which a load balancer is usually read, omits how a monitor checks.
func TestEnsure_MonitorsThatCheckOtherwise_AreChanged(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	for _, delay := range []int{7, 9} {
		service = s.now(service)
		annotations("enable-health-monitor", "true", "health-monitor-delay",
			fmt.Sprint(delay))(service)
		s.update(service)
		c.ensure(service, node)
		if m := s.LoadBalancers()[0].Pools[0].Monitor; m == nil || m.Delay != delay {
			t.Errorf("the monitor is %+v, want one with a delay of %d s", m, delay)
		}
	}
}

// Octavia needs longer for a deletion than a reconcile waits.
func TestEnsure_RecreatedAfterALongDeletion_KeepsItsAddress(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"it is free": false, "it is taken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.AddLoadBalancerZone("second")
			c := s.begin("cluster-1", s.kube)
			// The first free address must not be the previous one of the load balancer.
			earlier := s.addNode("earlier")
			node := s.addNode("a")
			other := s.AddLoadBalancer(openstacktest.LoadBalancer{VIPSubnetID: s.subnet})
			service := s.addService("web", 80)
			c.ensure(service, node, earlier)
			lb, err := s.LoadBalancer(s.now(service).Annotations[settings.AnnotationLoadBalancerID])
			if err != nil {
				t.Fatal(err)
			}
			if err := s.DeleteLoadBalancer(other); err != nil {
				t.Fatal(err)
			}
			s.Provision(openstacktest.ProvisioningRule{
				LoadBalancer: lb.Name, Times: 1,
				Duration: reconcileTimeout + time.Second,
			})
			service = s.now(service)
			annotations("availability-zone", "second", "recreate", "true")(service)
			s.update(service)
			if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", service,
				[]*v1.Node{node}); !isWait(err) {
				t.Fatalf("while the old one is being deleted the error is %v", err)
			}
			waittest.Until(t, "the old load balancer is gone", func() bool {
				_, err := s.LoadBalancer(lb.ID)
				return err != nil
			})
			if taken {
				s.AddLoadBalancer(
					openstacktest.LoadBalancer{VIPSubnetID: s.subnet, VIPAddress: lb.VIPAddress})
			}
			c.persist(service, []*v1.Node{node, earlier})
			now, err := s.LoadBalancer(
				s.now(service).Annotations[settings.AnnotationLoadBalancerID])
			if err != nil || (now.VIPAddress == lb.VIPAddress) == taken || now.ID == lb.ID {
				t.Errorf("the new one is %+v, %v; the old one was %+v", now, err, lb)
			}
		})
	}
}

// A creation whose response is in ERROR has failed: nothing waits for it.
func TestCreation_ResponseIsInError_HasFailed(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	s.Inject(openstacktest.Fault{
		Operation: "loadbalancer_create", Times: 1,
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			return status, bytes.ReplaceAll(body, []byte("ACTIVE"), []byte("ERROR"))
		},
	})
	_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.addService("web", 80),
		[]*v1.Node{node})
	if !errors.Is(err, plan.ErrFailed) || isWait(err) {
		t.Errorf("the error is %v, want that the load balancer has failed", err)
	}
	if said := s.said("LoadBalancerWaiting"); len(said) > 0 || len(s.FloatingIPs()) > 0 {
		t.Errorf("the events are %q, and the floating IPs %v", said, s.FloatingIPs())
	}
}
