package octavia

import (
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// The enabled providers. The default is amphora.
const (
	providerAmphora = "amphora"
	providerOctavia = "octavia"
	providerOVN     = "ovn"
)

// LoadBalancerFlavor is a flavor of load balancers.
type LoadBalancerFlavor struct {
	// ID is generated if it is empty.
	ID, Name string
}

// AddLoadBalancerFlavor adds a flavor and returns its ID.
func (s *Service) AddLoadBalancerFlavor(f LoadBalancerFlavor) string {
	defer s.Enter()()
	if f.ID == "" {
		f.ID = s.NewID()
	}
	s.flavors = append(s.flavors, f.ID)
	return f.ID
}

// AddLoadBalancerZone adds an availability zone of Octavia.
func (s *Service) AddLoadBalancerZone(name string) {
	defer s.Enter()()
	s.zones = append(s.zones, name)
}

// chooseProvider sets the default provider of a new load balancer, and checks provider, flavor and
// zone (LoadBalancersController._get_provider).
func (s *Service) chooseProvider(lb *LoadBalancer) error {
	setDefault(&lb.Provider, providerAmphora)
	switch {
	case lb.FlavorID != "" && !slices.Contains(s.flavors, lb.FlavorID):
		return invalid("Invalid flavor_id.")
	case !slices.Contains([]string{providerAmphora, providerOctavia, providerOVN}, lb.Provider):
		return api.Refuse(http.StatusBadRequest, "Provider '%s' is not enabled.", lb.Provider)
	case lb.AvailabilityZone != "" && !slices.Contains(s.zones, lb.AvailabilityZone):
		return invalid("Invalid availability zone.")
	}
	return nil
}
