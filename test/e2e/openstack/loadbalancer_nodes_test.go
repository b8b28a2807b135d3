//go:build !race

// Upstream's service controller has a data race when nodes change while there are load balancers;
// see test/e2e/controllers/churn_test.go. These tests run without the race detector.

package openstack_test

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// patchNode changes a node like its kubelet or an operator.
func patchNode(t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	_, err := shared.Client(t).CoreV1().Nodes().Patch(t.Context(), name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
}

// Nodes come and go. Upstream's controller and the provider's own node checks follow them.
func TestChurn_LoadBalancer_FollowsItsNodes(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "churn-1", "churn-2")
	r := serving(t, s,
		balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }))
	service := served(t, "churn", ccmtest.ServicePorts(80, 443))
	id := service.Annotations[annotationID]
	s.waitShape(service, s.usual(service, machines...))
	s.waitGroup(service, machines...)

	more := s.addNodes(shared.Client(t), "churn-3")
	s.waitShape(service, s.usual(service, append(machines, more...)...))
	s.waitGroup(service, append(machines, more...)...)
	deleteNode(t, "churn-1")
	rest := append(machines[1:], more...)
	s.waitShape(service, s.usual(service, rest...))
	s.waitGroup(service, rest...)

	// A node that is about to be deleted gets no new connections, and keeps existing ones.
	patchNode(t, "churn-2",
		`{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	address := s.address(machines[1], 4)
	drained := s.usual(service, rest...)
	for _, port := range service.Spec.Ports {
		member := address + ":" + strconv.Itoa(int(port.NodePort))
		drained = strings.ReplaceAll(drained, member, member+" weight 0")
	}
	s.waitShape(service, drained)
	patchNode(t, "churn-2", `{"spec":{"taints":null}}`)
	s.waitShape(service, s.usual(service, rest...))
	patchNode(t, "churn-2",
		`{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"true"}}}`)
	s.waitShape(service, s.usual(service, more...))
	s.waitGroup(service, more...)

	deleteNode(t, "churn-2")
	deleteNode(t, "churn-3")
	lb := s.waitShape(service, s.usual(service))
	if lb.ID != id {
		t.Error("the load balancer was recreated")
	}
	r.unbroken()
	deleteService(t, shared.Client(t), "churn")
	s.wantNothingLeft()
}
