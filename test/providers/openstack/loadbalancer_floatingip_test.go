package openstack_test

import (
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/test/internal/project"
)

// A floating IP that was made for a Service goes with it, unless the Service says that it stays.
func TestFloatingIP_ComesAndGoesAsTheServiceSays(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	user := s.User()
	s.create("web")
	s.serve("web")
	vip := project.Text(s.view("web").balancer, "vip_address")
	first := s.view("web").floatingIPs[0]

	s.change("web", internal())
	s.serve("web")
	s.quiet("web")
	s.wantStatus("web", vip)
	if !s.gone(project.Network, "/floatingips/"+project.ID(first)) {
		t.Errorf("an internal Service's floating IP %v is still there", first)
	}

	s.change("web", annotated(annotationInternal, "false", "keep-floatingip", "true"))
	s.serve("web")
	second := s.view("web").floatingIPs[0]
	s.wantStatus("web", project.Text(second, "floating_ip_address"))
	s.change("web", internal())
	s.serve("web")
	s.quiet("web")
	s.wantAttributes("the floating IP that is kept",
		user.Get(project.Network, "/floatingips/"+project.ID(second), "floatingip"),
		project.Object{"port_id": nil})
	// No Service owns it any more, so the Service has to ask for it.
	s.change("web", all(annotated(annotationInternal, "-"), func(service *v1.Service) {
		service.Spec.LoadBalancerIP = project.Text(second, "floating_ip_address")
	}))
	s.serve("web")
	if again := s.view("web").floatingIPs; len(again) != 1 ||
		project.ID(again[0]) != project.ID(second) {
		t.Errorf("the floating IPs are %v, want the one that was kept, %v", again, second)
	}
	s.quietAfterRestart()

	// When the Service is gone it is unused.
	s.remove("web")
	kept := user.Get(project.Network, "/floatingips/"+project.ID(second), "floatingip")
	s.wantAttributes("the floating IP that is kept", kept,
		project.Object{"port_id": nil, "tags": []string{}})
	user.Delete(project.Network, "/floatingips/"+project.ID(second))
	s.end()
}

// A floating IP that the user has made serves, goes to the Service that asks for it, and stays when
// that is gone.
func TestFloatingIP_OfTheUser_ServesWhoAsksForIt(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	user := s.User()
	var ips []project.Object
	for range 2 {
		ips = append(ips,
			user.Create(project.Network, "/floatingips", "floatingip",
				project.Object{"floating_network_id": s.Public, "description": "mine"}))
	}
	address := func(i int) string { return project.Text(ips[i], "floating_ip_address") }
	asks := func(i int) edit {
		return func(service *v1.Service) { service.Spec.LoadBalancerIP = address(i) }
	}
	s.before = s.Inventory()

	s.create("web", asks(0))
	s.create("late", internal())
	s.serve("web", "late")
	s.quiet("web")
	s.wantStatus("web", address(0))
	s.change("web", asks(1))
	s.serve("web")
	s.quiet("web")
	s.wantStatus("web", address(1))
	s.wantAttributes("the one it had",
		user.Get(project.Network, "/floatingips/"+project.ID(ips[0]), "floatingip"),
		project.Object{"port_id": nil, "description": "mine"})

	// An address of another Service is refused; the Service keeps its own.
	s.change("late", annotated(annotationInternal, "-"), asks(1))
	s.refused("late", address(1))
	s.wantAttributes("the one that two Services want",
		user.Get(project.Network, "/floatingips/"+project.ID(ips[1]), "floatingip"), project.Object{
			"port_id": s.view("web").balancer["vip_port_id"],
		})
	s.change("late", asks(0))
	s.serve("late")
	s.wantStatus("late", address(0))

	// An address that does not exist is created, if the cloud lets the user choose; by default only
	// administrators may.
	s.change("late", func(service *v1.Service) { service.Spec.LoadBalancerIP = "198.18.200.7" })
	s.serveDespite(func(error) { s.change("late", asks(0)) }, "late")
	s.wantStatus("late", address(0))
	s.quietAfterRestart()
	s.end()
}

// The operator fills a pool by a tag. Each Service has one of its floating IPs, and gives it back.
func TestFloatingIP_OfAPool_IsTakenMarkedAndGivenBack(t *testing.T) {
	t.Parallel()
	s := begin(t, 1, nil)
	user := s.User()
	pool := map[string]string{} // the IDs by address
	for range 2 {
		ip := user.Create(project.Network, "/floatingips", "floatingip",
			project.Object{"floating_network_id": s.Public, "description": "of the operator"})
		user.Must(http.MethodPut, project.Network, "/floatingips/"+project.ID(ip)+"/tags",
			project.Object{"tags": []string{"front"}})
		pool[project.Text(ip, "floating_ip_address")] = project.ID(ip)
	}
	s.before = s.Inventory()

	fromPool := annotated("floating-ip-tag", "front")
	s.create("web", fromPool)
	s.create("api", fromPool)
	s.serve("web", "api")
	s.quiet("web", "api")
	used := map[string]bool{}
	for _, name := range []string{"web", "api"} {
		ips := s.view(name).floatingIPs
		if len(ips) != 1 {
			t.Fatalf("%s has the floating IPs %v", name, ips)
		}
		address := project.Text(ips[0], "floating_ip_address")
		s.wantStatus(name, address)
		if pool[address] != project.ID(ips[0]) || used[address] {
			t.Errorf("%s has %s, want one of %v that the other one does not have", name, address,
				pool)
		}
		used[address] = true
	}
	s.create("late", internal())
	s.serve("late")
	s.change("late", annotated(annotationInternal, "-"), fromPool)
	s.refused("late", "front")
	s.remove("late")

	// By its ID, a floating IP is the Service's only while that names it.
	s.change("web", internal(), annotated("floating-ip-tag", "-"))
	s.serve("web")
	free := ""
	for address, id := range pool {
		ip := user.Get(project.Network, "/floatingips/"+id, "floatingip")
		if ip["port_id"] == nil {
			free = address
			s.wantAttributes("the one that was given back", ip,
				project.Object{"tags": []string{"front"}, "description": "of the operator"})
		}
	}
	s.change("web", annotated(annotationInternal, "-", "floating-ip-id", pool[free]))
	s.serve("web")
	s.wantStatus("web", free)
	s.quietAfterRestart()
	s.remove("web", "api")
	for address, id := range pool {
		s.wantAttributes("floating IP "+address,
			user.Get(project.Network, "/floatingips/"+id, "floatingip"), project.Object{
				"port_id": nil, "tags": []string{"front"}, "description": "of the operator",
			})
	}
	s.end()
}
