package openstack_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Two clusters in two clouds, by two Managers of one process with one registry. The servers of both
// have the same names, and the clouds make other ids.
func TestClouds_TwoInOneProcess_KnowNothingOfEachOther(t *testing.T) {
	t.Parallel()
	cp := controlplane.ForTest(t)
	other, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	near, far := newSite(t), newSite(t, openstacktest.WithRegion("RegionTwo"))
	far.AddServer(openstacktest.Server{Name: "bystander"})
	registry := prometheus.NewRegistry()
	sharing := func(l *launch) { l.Registerer = registry }
	one := ready(t, near, named("near"), sharing)
	two := ready(t, far, named("far"), sharing,
		func(l *launch) { l.RESTConfig = far.secrets.watch(cp.RESTConfig()) })

	for _, c := range []struct {
		site   *site
		client kubernetes.Interface
		region string
	}{{near, shared.Client(t), "RegionOne"}, {far, other, "RegionTwo"}} {
		m := c.site.addServer("twin-1")
		ccmtest.CreateNode(t, c.client, ccmtest.TaintedNode(m.name))
		node := ccmtest.WaitNodeInitialized(t, c.client, m.name)
		if node.Spec.ProviderID != m.providerID() ||
			node.Labels[corev1.LabelTopologyRegion] != c.region {
			t.Errorf("the node in %s has the provider ID %q and is in region %q", c.region,
				node.Spec.ProviderID, node.Labels[corev1.LabelTopologyRegion])
		}
	}
	if twins := [2]string{
		getNode(t, "twin-1").Spec.ProviderID,
		far.Servers()[1].ID,
	}; strings.HasSuffix(twins[0], twins[1]) {
		t.Fatalf("the two servers are not told apart: %v", twins)
	}

	// What is wrong with one of them does not concern the other.
	near.Inject(openstacktest.Fault{Service: openstacktest.ServiceIdentity, Status: 503})
	near.RevokeTokens()
	m := far.addServer("alone-1")
	ccmtest.CreateNode(t, other, ccmtest.TaintedNode(m.name))
	ccmtest.WaitNodeInitialized(t, other, m.name)
	near.RemoveFaults()
	one.unbroken()
	two.unbroken()

	for _, manager := range []string{"near", "far"} {
		if n := metric(t, registry, "fxccm_openstack_logins_total",
			map[string]string{"manager": manager, "result": "ok"}); n != 1 {
			t.Errorf("%v logins of %s are counted, want 1", n, manager)
		}
	}
	one.stop()
	if n := metric(t, registry, "fxccm_openstack_logins_total",
		map[string]string{"manager": "near"}); n != 0 {
		t.Errorf("the series of a Manager that is stopped are still there")
	}
	if n := metric(t, registry, "fxccm_openstack_logins_total",
		map[string]string{"manager": "far", "result": "ok"}); n != 1 {
		t.Errorf("the series of the other Manager are gone")
	}
}
