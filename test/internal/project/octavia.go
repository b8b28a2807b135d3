package project

import (
	"context"
	"net/http"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// AddBalancerFlavor creates a flavor of load balancers, which all projects see until the test ends.
func (p *Project) AddBalancerFlavor(name string) (id string) {
	p.t.Helper()
	if !p.Real() {
		return p.Simulator.AddLoadBalancerFlavor(openstacktest.LoadBalancerFlavor{Name: name})
	}
	profile := ID(p.Admin().Create(LoadBalancer, "/lbaas/flavorprofiles", "flavorprofile", Object{
		"name": p.Name + "-" + name, "provider_name": "amphora",
		"flavor_data": `{"loadbalancer_topology": "SINGLE"}`,
	}))
	p.dropLater("/lbaas/flavorprofiles/" + profile)
	id = ID(p.Admin().Create(LoadBalancer, "/lbaas/flavors", "flavor", Object{
		"name": p.Name + "-" + name, "flavor_profile_id": profile, "enabled": true,
	}))
	p.dropLater("/lbaas/flavors/" + id)
	return id
}

// AddBalancerZone creates an availability zone of load balancers, which all projects see until the
// test ends. Its name begins with that of the project.
func (p *Project) AddBalancerZone(suffix string) (name string) {
	p.t.Helper()
	name = p.Name + "-" + suffix
	if !p.Real() {
		p.Simulator.AddLoadBalancerZone(name)
		return name
	}
	profile := ID(p.Admin().Create(LoadBalancer, "/lbaas/availabilityzoneprofiles",
		"availability_zone_profile", Object{
			"name": name, "provider_name": "amphora",
			"availability_zone_data": `{"compute_zone": "` + p.Zones[0] + `"}`,
		}))
	p.dropLater("/lbaas/availabilityzoneprofiles/" + profile)
	p.Admin().Create(LoadBalancer, "/lbaas/availabilityzones", "availability_zone", Object{
		"name": name, "availability_zone_profile_id": profile, "enabled": true,
	})
	p.dropLater("/lbaas/availabilityzones/" + name)
	return name
}

// dropLater deletes an object outside the project, after the test and before the project.
func (p *Project) dropLater(path string) {
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if answer, err := p.admin.Do(ctx, http.MethodDelete, LoadBalancer, path, nil); err != nil ||
			answer.Status != http.StatusNoContent {
			p.t.Errorf("delete %s: %v %s", path, err, answer)
		}
	})
}
