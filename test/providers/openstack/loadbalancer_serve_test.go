package openstack_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

func TestLoadBalancer_ExternalService_IsServedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := begin(t, 2, nil)
	s.create("web", ports("80/TCP", "53/UDP", "5000/SCTP"))
	s.create("inside", internal())
	s.serve("web", "inside")
	s.quiet("web", "inside")

	v := s.view("web")
	if got, want := v.portNames(),
		[]string{"5000/SCTP", "53/UDP", "80/TCP"}; !slices.Equal(got, want) {
		t.Fatalf("the ports are %q, want %q", got, want)
	}
	s.wantMembers("web", v, s.servers...)
	name := balancerName("web")
	s.wantAttributes("the load balancer", v.balancer, project.Object{
		"name":          name,
		"description":   "Kubernetes external service default/web from cluster kubernetes",
		"provider":      "amphora",
		"vip_subnet_id": s.Subnets[4], "provisioning_status": "ACTIVE",
	})
	s.wantTags("the load balancer", v.balancer, append(s.tags("web"), name)...)
	for i, number := range []string{"80/TCP", "53/UDP", "5000/SCTP"} {
		p, protocol := v.ports[number], number[len(number)-3:]
		if protocol == "CTP" {
			protocol = "SCTP"
		}
		s.wantAttributes("the listener of "+number, p.listener, project.Object{
			"name": fmt.Sprintf("listener_%d_%s", i, name), "protocol": protocol,
			"connection_limit": -1, "provisioning_status": "ACTIVE",
		})
		s.wantTags("the listener of "+number, p.listener, append(s.tags("web"), name)...)
		s.wantAttributes("the pool of "+number, p.pool, project.Object{
			"name": fmt.Sprintf("pool_%d_%s", i, name), "protocol": protocol,
			"lb_algorithm": "ROUND_ROBIN", "session_persistence": nil,
			"provisioning_status": "ACTIVE",
		})
	}
	if len(v.floatingIPs) != 1 {
		t.Fatalf("floating IPs: %v", v.floatingIPs)
	}
	ip := v.floatingIPs[0]
	s.wantAttributes("the floating IP", ip, project.Object{
		"description":         "Floating IP for Kubernetes external service default/web from cluster kubernetes",
		"floating_network_id": s.Public,
	})
	s.wantTags("the floating IP", ip, s.tags("web")...)
	s.wantStatus("web", project.Text(ip, "floating_ip_address"))
	if got := s.service("web").Annotations[annotationAddress]; got != ip["floating_ip_address"] {
		t.Errorf("annotation %s is %q, want %v", annotationAddress, got, ip["floating_ip_address"])
	}

	inside := s.view("inside")
	if len(inside.floatingIPs) > 0 {
		t.Errorf("an internal load balancer has %v", inside.floatingIPs)
	}
	s.wantStatus("inside", project.Text(inside.balancer, "vip_address"))
	s.quietAfterRestart()

	// A Service of another type is left without a trace of its load balancer, and may want
	// one again.
	s.change("inside", func(service *v1.Service) { service.Spec.Type = v1.ServiceTypeClusterIP })
	err := s.insist(t.Context(), "inside",
		func() error { return s.removal(t.Context(), s.service("inside")) }, nil)
	if now := s.service("inside"); err != nil || len(now.Annotations) != 1 ||
		!s.gone(project.LoadBalancer, "/lbaas/loadbalancers/"+project.ID(inside.balancer)) {
		t.Errorf("without a load balancer it is %v, and has the annotations %v", err,
			now.Annotations)
	}
	s.change("inside", func(service *v1.Service) { service.Spec.Type = v1.ServiceTypeLoadBalancer })
	s.serve("inside")
	s.end()
}

// Not a port but those that change is touched, and the load balancer stays.
func TestLoadBalancer_PortsComeGoAndChange(t *testing.T) {
	t.Parallel()
	s := begin(t, 1,
		func(_ *project.Project, c *cloudconf.LoadBalancer) { c.CascadeDelete = false })
	s.create("web", ports("80/TCP"))
	s.serve("web")
	id := s.id("web")
	for _, step := range []struct {
		what string
		edit edit
		want []string
		// kept is a port whose listener and pool must be the same before and after.
		kept string
	}{
		{"two are added", ports("80/TCP", "443/TCP", "80/UDP"), []string{"443/TCP", "80/TCP", "80/UDP"}, "80/TCP"},
		{"they change places, and one goes", ports("443/TCP", "80/TCP"), []string{"443/TCP", "80/TCP"}, "443/TCP"},
		{"one has another number", ports("443/TCP", "8080/TCP"), []string{"443/TCP", "8080/TCP"}, "443/TCP"},
		{"one has another transport", ports("443/SCTP", "8080/TCP"), []string{"443/SCTP", "8080/TCP"}, "8080/TCP"},
		{"one has another node port", func(service *v1.Service) { service.Spec.Ports[0].NodePort = 31443 }, []string{"443/SCTP", "8080/TCP"}, "443/SCTP"},
		{"there are others altogether", ports("1/TCP"), []string{"1/TCP"}, ""},
	} {
		before := s.view("web")
		s.change("web", step.edit)
		s.serve("web")
		s.quiet("web")
		v := s.view("web")
		if got := v.portNames(); !slices.Equal(got, step.want) || s.id("web") != id ||
			len(v.loose) > 0 {
			t.Errorf("%s: load balancer %s has the ports %q, and the loose pools %v; want %q in %s",
				step.what, s.id("web"), got, v.loose, step.want, id)
		}
		s.wantMembers("web", v, s.servers...)
		if step.kept == "" {
			continue
		}
		was, is := before.ports[step.kept], v.ports[step.kept]
		if project.ID(was.listener) != project.ID(is.listener) ||
			project.ID(was.pool) != project.ID(is.pool) {
			t.Errorf("%s: port %s was made again: %v", step.what, step.kept, is)
		}
	}
	s.end()
}
