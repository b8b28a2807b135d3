package project_test

import (
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/test/internal/project"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProject_HasNodesAndIsEmptyAgain(t *testing.T) {
	p := project.New(t, project.WithIPv6())
	before := p.Inventory()
	s := p.AddServer("node-1")
	if s.Addresses[4] == "" || s.Addresses[6] == "" || s.Port == "" {
		t.Fatalf("%+v", s)
	}
	lines := before.Differences(p.Inventory())
	if len(lines) != 2 {
		t.Errorf("a server and its port were made: %q", lines)
	}
	lb := project.ID(p.User().Create(project.LoadBalancer, "/lbaas/loadbalancers", "loadbalancer",
		project.Object{"name": "lb", "vip_subnet_id": p.Subnets[4]}))
	p.WaitBalancer(lb)
	p.User().Must(http.MethodDelete, project.LoadBalancer,
		"/lbaas/loadbalancers/"+lb+"?cascade=true", nil)
	p.WaitBalancer(lb, true)
	p.User().Delete(project.Compute, "/servers/"+s.ID)
	p.WaitServer(s.ID, "")
	if lines := before.Differences(p.Inventory()); len(lines) != 0 {
		t.Errorf("%q", lines)
	}
}

func TestOpen_TheProviderIsSeenOnTheWire(t *testing.T) {
	p := project.New(t)
	s := p.AddServer("node-1")
	c := p.Open(t, p.Config())
	instances, _ := c.InstancesV2()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	meta, err := instances.InstanceMetadata(t.Context(), node)
	if err != nil || meta.ProviderID != s.ProviderID() || meta.Zone != p.Zones[0] {
		t.Fatalf("%+v, %v", meta, err)
	}
	if calls := p.Wire.Since(0,
		func(c project.Call) bool {
			return strings.Contains(c.Path, "/servers")
		}); len(calls) == 0 || calls[0].Status != http.StatusOK {
		t.Errorf("%+v", p.Wire.Calls())
	}
	// The provider sees the faults on the wire.
	p.Wire.Break(project.Fault{
		Matches: project.On("", "/servers/{id}"),
		Status:  http.StatusInternalServerError,
	})
	node.Spec.ProviderID = "openstack:///00000000-0000-4000-8000-000000000000"
	if exists, err := instances.InstanceExists(t.Context(), node); err == nil {
		t.Errorf("of a server that Nova cannot tell about: exists %v", exists)
	}
}
