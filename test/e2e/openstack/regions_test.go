//go:build !race

package openstack_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The test adds nodes while the Manager runs, which is a data race in upstream.
func TestRegions_ClusterInTwo_NodesAndServicesAreServedInTheirRegion(t *testing.T) {
	t.Parallel()
	one := newBalancedSite(t)
	two := newBalancedSite(t, openstacktest.WithRegion("RegionTwo"))
	near := one.addServer("regions-near")
	// Servers of two regions never have the same ID.
	far := two.addServer("regions-far", func(s *openstacktest.Server) {
		s.ID = "7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f"
	})
	tainted(t, near.name)
	tainted(t, far.name)

	other := launch{cloud: two.config()}
	balancing(two)(&other)
	serving(t, one, configured(func(c *cloudconf.Config) {
		c.Regions = map[string]cloudconf.Region{"second": {
			Global: other.cloud.Global, LoadBalancer: other.cloud.LoadBalancer,
		}}
	}))
	for m, want := range map[machine]string{near: "RegionOne", far: "RegionTwo"} {
		node := initialized(t, m.name)
		if id := "openstack://" + want + "/" + m.id; node.Spec.ProviderID != id ||
			node.Labels[corev1.LabelTopologyRegion] != want {
			t.Errorf("%s has the provider ID %s and the region %s, want %s", m.name,
				node.Spec.ProviderID, node.Labels[corev1.LabelTopologyRegion], want)
		}
		ccmtest.Eventually(t, "the node has an address",
			ccmtest.NodeAddress(shared.Client(t), m.name, corev1.NodeInternalIP))
	}

	service := served(t, "regions", ccmtest.ServicePorts(80),
		annotated("loadbalancer.openstack.org/region", "second"))
	two.waitShape(service, two.usual(service, far))
	if got := service.Annotations["loadbalancer.openstack.org/load-balancer-region"]; got !=
		"second" {
		t.Errorf("the recorded region is %q", got)
	}
	if made := one.since(0, changes); len(made) > 0 {
		t.Errorf("the default region was changed:\n%s", describe(made))
	}
	deleteService(t, shared.Client(t), "regions")
	two.wantNothingLeft()
	one.wantNothingLeft()
}
