package openstack_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

func TestLoadBalancer_IsSharedByServices(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, func(_ *project.Project, c *cloudconf.LoadBalancer) { c.MaxSharedLB = 2 })
	s.create("owner")
	s.serve("owner")
	id := s.id("owner")
	joins := annotated("load-balancer-id", id)

	s.create("same-port", joins)
	s.refused("same-port")
	s.create("guest", ports("443/TCP"), joins)
	s.serve("guest")
	s.create("one-too-many", ports("8080/TCP"), joins)
	s.refused("one-too-many", "max-shared-lb")
	s.quiet("owner", "guest")

	v := s.view("owner")
	if got := v.portNames(); !slices.Equal(got, []string{"443/TCP", "80/TCP"}) {
		t.Errorf("the ports are %q", got)
	}
	s.wantTags("the load balancer", v.balancer,
		append(s.tags("owner"),
			append(s.tags("guest"), balancerName("owner"), balancerName("guest"))...)...)
	s.wantTags("the guest's listener", v.ports["443/TCP"].listener,
		append(s.tags("guest"), balancerName("guest"))...)
	for _, tag := range texts(v.balancer["tags"]) {
		if slices.Contains(s.tags("same-port")[1:], tag) ||
			slices.Contains(s.tags("one-too-many")[1:], tag) {
			t.Errorf("the load balancer has the tag %s of a Service that was refused", tag)
		}
	}
	address := project.Text(v.floatingIPs[0], "floating_ip_address")
	s.wantStatus("owner", address)
	s.wantStatus("guest", address)
	s.remove("same-port", "one-too-many")

	// A port of the guest's more, and one less.
	s.change("guest", ports("443/TCP", "8443/TCP"))
	s.serve("guest")
	s.change("guest", ports("8443/TCP"))
	s.serve("guest")
	if got := s.view("owner").portNames(); !slices.Equal(got, []string{"80/TCP", "8443/TCP"}) {
		t.Errorf("the ports are %q", got)
	}
	s.quietAfterRestart()

	// The owner goes, the guest stays with the address, and then all is gone.
	s.remove("owner")
	v = s.look(id)
	if got := v.portNames(); !slices.Equal(got, []string{"8443/TCP"}) || len(v.floatingIPs) != 1 ||
		v.floatingIPs[0]["floating_ip_address"] != address {
		t.Errorf("when the owner is gone, the ports are %q and the floating IPs %v", got,
			v.floatingIPs)
	}
	// The owner's tags may go later.
	s.WaitBalancer(id)
	s.quiet("guest")
	s.wantStatus("guest", address)
	s.end()
}

func TestLoadBalancer_IsSharedByName(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	shares := annotated("share-as", "web")
	s.create("first", shares)
	s.serve("first")
	id := s.id("first")
	address := project.Text(s.view("first").floatingIPs[0], "floating_ip_address")
	s.create("second", ports("443/TCP"), shares)
	s.create("same-port", shares)
	s.create("inside", ports("8080/TCP"), shares, internal())
	all := []string{"first", "second", "same-port", "inside"}
	for _, name := range all[1:] {
		s.serve(name)
		if isShared := s.id(name) == id; isShared != (name == "second") {
			t.Errorf("%s is in the load balancer of the first Service: %t", name, isShared)
		}
	}
	s.quiet(all...)
	s.wantStatus("first", address)
	s.wantStatus("second", address)

	// The first one leaves, and the second one keeps the address.
	s.change("first", annotated("share-as", "-"))
	s.serve("first")
	if got := s.look(id).portNames(); s.id("first") == id || !slices.Equal(got,
		[]string{"443/TCP"}) {
		t.Errorf("the load balancer that the first Service has left has the ports %q", got)
	}
	s.wantStatus("second", address)
	s.quiet(all...)
	s.quietAfterRestart()
	s.end()
}

// A load balancer of the user's own is used and left as it was.
func TestLoadBalancer_OfTheUser_IsUsed(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	user := s.User()
	id := project.ID(
		user.Create(project.LoadBalancer, "/lbaas/loadbalancers", "loadbalancer", project.Object{
			"name": "mine", "description": "made by hand", "vip_subnet_id": s.Subnets[4],
			"tags": []string{"mine"},
			"listeners": []project.Object{{
				"name": "pages", "protocol": "HTTP", "protocol_port": 80,
				"default_pool": project.Object{
					"name": "pages", "protocol": "HTTP",
					"lb_algorithm": "ROUND_ROBIN",
					"members": []project.Object{{
						"address":       "10.0.0.200",
						"protocol_port": 80,
					}},
				},
			}},
		}))
	s.WaitBalancer(id)
	s.before = s.Inventory()
	s.create("web", ports("443/TCP"), annotated("load-balancer-id", id))
	s.create("collides", annotated("load-balancer-id", id))
	s.serve("web")
	s.quiet("web")
	s.refused("collides")
	s.remove("collides")
	v := s.view("web")
	s.wantAttributes("the load balancer", v.balancer,
		project.Object{"name": "mine", "description": "made by hand"})
	s.wantTags("the load balancer", v.balancer, "mine", balancerName("web"))
	s.wantStatus("web", project.Text(v.balancer, "vip_address"))
	if got := v.portNames(); !slices.Equal(got, []string{"443/TCP", "80/TCP"}) ||
		len(v.floatingIPs) > 0 {
		t.Errorf("the ports are %q, the floating IPs %v", got, v.floatingIPs)
	}
	s.quietAfterRestart()
	s.end()

	// A floating IP of the user's is shown, and stays.
	ip := user.Create(project.Network, "/floatingips", "floatingip",
		project.Object{"floating_network_id": s.Public, "port_id": v.balancer["vip_port_id"]})
	s.before = s.Inventory()
	s.create("web", ports("443/TCP"), annotated("load-balancer-id", id))
	s.serve("web")
	s.quiet("web")
	s.wantStatus("web", project.Text(ip, "floating_ip_address"))

	// A load balancer of another cluster is shared, and its tags stay.
	tags := user.Get(project.LoadBalancer, "/lbaas/loadbalancers/"+id, "loadbalancer")["tags"]
	s.meddle(http.MethodPut, "/loadbalancers/"+id,
		project.Object{"loadbalancer": project.Object{"tags": []string{
			"mine",
			"fxccm-cluster=of-another",
		}}})
	s.WaitBalancer(id)
	s.create("stranger", ports("8443/TCP"), annotated("load-balancer-id", id))
	s.serve("stranger")
	v = s.view("stranger")
	s.wantTags("the shared load balancer", v.balancer, append(s.tags("stranger"), "mine",
		"fxccm-cluster=of-another", "fxccm-guest="+string(project.ClusterUID),
		balancerName("stranger"))...)
	gone := s.tags("stranger")[1]
	s.remove("stranger")
	s.WaitBalancer(id)
	left := texts(user.Get(project.LoadBalancer, "/lbaas/loadbalancers/"+id,
		"loadbalancer")["tags"])
	if slices.Contains(left, gone) || !slices.Contains(left, "fxccm-cluster=of-another") {
		t.Errorf("after the stranger the tags are %q", left)
	}
	s.meddle(http.MethodPut, "/loadbalancers/"+id,
		project.Object{"loadbalancer": project.Object{"tags": tags}})
	s.WaitBalancer(id)

	// A missing load balancer is not created.
	s.create("nowhere", annotated("load-balancer-id", "00000000-0000-4000-8000-000000000000"))
	s.refused("nowhere", "00000000-0000-4000-8000-000000000000")
	s.end()
	if answer := user.Try(http.MethodGet, project.LoadBalancer, "/lbaas/loadbalancers/"+id,
		nil); answer.Status != http.StatusOK {
		t.Errorf("the user's load balancer: %s", answer)
	}
}
