package loadbalancer

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// polls are the requests that show Octavia's progress. Many waits share them.
func polls(counts map[string]int) int {
	return counts["loadbalancer_list"] + counts["loadbalancer_get"]
}

// The number of requests does not grow with ports and nodes, and is zero without a change.
func TestEnsure_CountsOfRequests(t *testing.T) {
	t.Parallel()
	s, _ := newTickingSite(t, openstacktest.WithProvisioning(50*time.Millisecond))
	c := s.begin("cluster-1", s.kube)
	var nodes []*v1.Node
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		nodes = append(nodes, s.addNode(name))
	}
	c.ensure(s.addService("first", 80), nodes[:2]...)
	for _, ports := range [][]int32{{80}, {80, 443, 8080}} {
		service := s.addService("web", ports...)
		count := func(what string, limit int, do func()) {
			mark := s.mark()
			do()
			counts := s.counts(mark)
			if n := total(counts) - polls(counts); n > limit {
				t.Errorf("%s with %d ports: %d requests, want at most %d: %v", what, len(ports), n,
					limit, counts)
			}
		}
		count("new", 4, func() { c.ensure(service, nodes[:2]...) })
		count("nothing to do", 1, func() { c.ensure(service, nodes[:2]...) })
		count("first change of nodes", 5+len(ports), func() { c.ensure(service, nodes[:3]...) })
		count("a node more", 1+len(ports), func() { c.ensure(service, nodes...) })
		count("restart", 8, func() { s.begin("cluster-1", s.kube).ensure(service, nodes...) })
		count("deletion", 8, func() { c.remove(service) })
		if err := s.kube.CoreV1().Services("default").Delete(t.Context(), "web",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Octavia counts the change of a single node as one member, whose ID is known without a further
// request. Several members are one request.
func TestEnsure_NodeComesOrGoes_OneMemberIsRequested(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.begin("cluster-1", s.kube)
	var nodes []*v1.Node
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		nodes = append(nodes, s.addNode(name))
	}
	service := s.addService("web", 80, 443)
	c.ensure(service, nodes[:3]...)
	step := func(what string, want map[string]int, now ...*v1.Node) {
		t.Helper()
		mark := s.mark()
		c.ensure(service, now...)
		counts := s.counts(mark)
		maps.DeleteFunc(counts, func(operation string, _ int) bool {
			return slices.Contains([]string{
				"loadbalancer_list", "loadbalancer_get",
				"floating_ip_list", "port_list",
			}, operation)
		})
		if !maps.Equal(counts, want) {
			t.Errorf("%s: the requests are %v, want %v", what, counts, want)
		}
		for _, pool := range s.LoadBalancers()[0].Pools {
			if len(pool.Members) != len(now) {
				t.Errorf("%s: a pool has %d members, want %d", what, len(pool.Members), len(now))
			}
		}
	}
	step("one goes that was there from the beginning",
		map[string]int{"loadbalancer_member_delete": 2}, nodes[1], nodes[2])
	step("one comes", map[string]int{"loadbalancer_member_create": 2}, nodes[1], nodes[2], nodes[3])
	step("it goes again", map[string]int{"loadbalancer_member_delete": 2}, nodes[1], nodes[2])
	step("two come", map[string]int{"loadbalancer_members_update": 2}, nodes[1], nodes[2], nodes[3],
		nodes[4])
	step("one goes that was there before them", map[string]int{"loadbalancer_member_delete": 2},
		nodes[2], nodes[3], nodes[4])
	step("one of the two goes", map[string]int{"loadbalancer_members_update": 2}, nodes[2],
		nodes[3])
}

func TestDelete_TakesLong_OnlyTheLoadBalancerIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{
		"by the Service's deletion": false,
		"by another client":         true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.defaults.LoadBalancer.ManageSecurityGroups = true
			c := s.begin("cluster-1", s.kube)
			service := s.addService("web", 80)
			c.ensure(service, s.addNode("a"))
			s.Provision(openstacktest.ProvisioningRule{
				LoadBalancer: s.LoadBalancers()[0].ID,
				Times:        1, Duration: deleteTimeout + 2*time.Second,
			})
			if others {
				if err := c.config.Octavia.DeleteLoadBalancer(t.Context(), s.LoadBalancers()[0].ID,
					true); err != nil {
					t.Fatal(err)
				}
			}
			mark := s.mark()
			c.remove(service)
			counts := s.counts(mark)
			if n := counts["security_group_list"]; n > 2 {
				t.Errorf("the security group was read %d times: %v", n, counts)
			}
			if n := counts["floating_ip_list"]; n > 3 {
				t.Errorf("floating IPs were read %d times: %v", n, counts)
			}
			if lbs, ips, groups := s.LoadBalancers(), s.FloatingIPs(),
				s.SecurityGroups(); len(lbs)+len(ips) > 0 ||
				slices.ContainsFunc(groups, isOfAService) {
				t.Errorf("%v, %v, %v remain", lbs, ips, groups)
			}
		})
	}
}

// The contents of the load balancer are cached, so only the last read shows a user's new listener.
func TestDelete_NewListenerOfAnotherClient_IsSeenBeforeTheDeletion(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	lb := s.LoadBalancers()[0]
	r := c.reconciler(request{cluster: "kubernetes", service: s.now(service)}, newServiceState(),
		true)
	if err := r.findAny(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		lb.Listeners = append(lb.Listeners, openstacktest.Listener{
			OctaviaResource: openstacktest.OctaviaResource{
				Name: "new", Tags: []string{"fxccm-service=another"},
			},
			Protocol: "TCP", ProtocolPort: 9000, ConnectionLimit: -1,
		})
	}); err != nil {
		t.Fatal(err)
	}
	mark := s.mark()
	err := r.deleteObserved(t.Context(), plan.Observed{
		LoadBalancer: r.found.balancer, Role: plan.Owner,
	}, s.clock.Now().Add(deleteTimeout))
	r.close()
	if writes := s.writes(mark); !isWait(err) || len(writes) > 0 {
		t.Errorf("the error is %v, after %q", err, writes)
	}
	c.remove(service)
	if lbs := s.LoadBalancers(); len(lbs) != 1 || len(lbs[0].Listeners) != 1 {
		t.Errorf("the load balancer with another client's listener is now %+v", lbs)
	}
}

func isOfAService(g openstacktest.SecurityGroup) bool { return strings.HasPrefix(g.Name, "lb-sg-") }

// A typo in a setting that is used only at creation must not stop updates of the members, nor lead
// to a deletion.
func TestEnsure_BadValueThatCountsAtCreation_StopsOnlyThat(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := s.begin("cluster-1", s.kube)
	nodes := []*v1.Node{s.addNode("a"), s.addNode("b")}
	service := s.addService("web", 80)
	c.ensure(service, nodes[:1]...)
	before := s.LoadBalancers()[0].ID

	service = s.now(service)
	annotations("flavor-id", "large", "subnet-id", "mine", "recreate", "true")(service)
	s.update(service)
	c.ensure(service, nodes...)
	lb := s.LoadBalancers()[0]
	if lb.ID != before || len(lb.Pools[0].Members) != 2 {
		t.Errorf("the load balancer is %s with %d members, want %s with 2", lb.ID,
			len(lb.Pools[0].Members), before)
	}
	if said := s.said("InvalidAnnotation"); len(said) != 2 {
		t.Errorf("the events are %q", said)
	}

	other := s.addService("other", 80)
	annotations("flavor-id", "large")(other)
	s.update(other)
	for range 3 {
		if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(other),
			nodes); !isWait(err) {
			t.Errorf("a Service without a load balancer gets the error %v", err)
		}
	}
	if said := s.said("InvalidAnnotation"); len(said) != 3 ||
		!strings.Contains(said[2], "flavor-id") || !strings.Contains(said[2], "large") {
		t.Errorf("the events are %q", said)
	}
	if n := len(s.LoadBalancers()); n != 1 {
		t.Errorf("%d load balancers", n)
	}
}

// A recreation would also delete the listeners of others.
func TestEnsure_RecreationWithOthersListenerInIt_ReadsBeforeItDeletes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddLoadBalancerZone("second")
	c := s.begin("cluster-1", s.kube)
	node := s.addNode("a")
	service := s.addService("web", 80)
	c.ensure(service, node)
	c.ensure(service, node)
	lb := s.LoadBalancers()[0]
	// UpdatedAt shows no change.
	err := s.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		lb.Listeners = append(lb.Listeners, openstacktest.Listener{
			OctaviaResource: openstacktest.OctaviaResource{Name: "users"}, Protocol: "TCP",
			ProtocolPort: 9000, ConnectionLimit: -1,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	service = s.now(service)
	annotations("availability-zone", "second", "recreate", "true")(service)
	s.update(service)
	_, err = c.EnsureLoadBalancer(t.Context(), "kubernetes", service, []*v1.Node{node})
	t.Log(err)
	if now := s.LoadBalancers(); len(now) != 1 || now[0].ID != lb.ID || len(now[0].Listeners) != 2 {
		t.Errorf("the load balancer with a user's listener is now %+v", now)
	}
}

// A status tree omits the monitored port of a member, and its weight.
func TestEnsure_WhatStatusTreesHide_IsChangedAllTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.CreateMonitor = true
	c := s.begin("cluster-1", s.kube)
	nodes := []*v1.Node{s.addNode("a"), s.addNode("b")}
	service := s.addService("web", 80)
	want := func(monitor string, port, weight int) {
		t.Helper()
		c.ensure(service, nodes...)
		pool := s.LoadBalancers()[0].Pools[0]
		if m := pool.Members[0]; pool.Monitor.Type != monitor || m.MonitorPort != port ||
			m.Weight != weight {
			t.Errorf(
				"the monitor is %s, the first member is monitored at %d and has weight %d, want %s, %d, %d",
				pool.Monitor.Type, m.MonitorPort, m.Weight, monitor, port, weight)
		}
	}
	local := func(policy v1.ServiceExternalTrafficPolicy, port int32) {
		service = s.now(service)
		service.Spec.ExternalTrafficPolicy, service.Spec.HealthCheckNodePort = policy, port
		s.update(service)
	}
	for _, restart := range []bool{false, true} {
		again := func() {
			if restart {
				c = s.begin("cluster-1", s.kube)
			}
		}
		want("TCP", 0, 1)
		local(v1.ServiceExternalTrafficPolicyLocal, 32000)
		again()
		want("HTTP", 32000, 1)
		local(v1.ServiceExternalTrafficPolicyCluster, 0)
		again()
		want("TCP", 0, 1)
	}
	c.ensure(service, nodes...)
	nodes[0].Spec.Taints = []v1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
	want("TCP", 0, 0)
	nodes[0].Spec.Taints = nil
	want("TCP", 0, 1)
	nodes[0].Spec.Taints = []v1.Taint{{Key: api.TaintNodeShutdown}}
	c = s.begin("cluster-1", s.kube) // the next term sees it first
	want("TCP", 0, 0)
	nodes[0].Spec.Taints = nil
	c = s.begin("cluster-1", s.kube)
	want("TCP", 0, 1)
}
