package openstack_test

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// edge is the label of nodes that the Manager leaves alone.
const edge = "example.com/edge"

// labelEdge makes a node one that is left alone, or with "null" one that is not.
func labelEdge(t *testing.T, node, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, edge, value)
	if _, err := shared.Client(t).CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType,
		patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestNodeSelector_OtherNodes_AreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newBalancedSite(t)
	client := shared.Client(t)
	r := serving(t, s, balancing(s, drifting),
		func(l *launch) { l.Config.NodeSelector = "!" + edge })
	ours := s.addNodes(client, "selected-1")
	other := s.addServer("selected-2")
	ccmtest.CreateNode(t, client, s.node(other, ccmtest.NodeLabel(edge, ""), ccmtest.NodeTaint(
		cloudproviderapi.TaintExternalCloudProvider, "true", corev1.TaintEffectNoSchedule)))
	gone := s.addServer("selected-3")
	s.must(s.DeleteServer(gone.id))
	notReady(t, gone, ccmtest.NodeLabel(edge, ""))

	service := served(t, "selected")
	s.waitShape(service, s.usual(service, ours...))
	s.waitQuiet(loadBalancerChanges)
	s.waitShape(service, s.usual(service, ours...))
	getNode(t, gone.name)
	if node := getNode(t, other.name); !isNew(node) {
		t.Errorf("a node that is not selected was initialized: %v", node)
	}

	labelEdge(t, other.name, "null")
	initialized(t, other.name)
	s.waitShape(service, s.usual(service, append(ours, other)...))
	labelEdge(t, other.name, `""`)
	s.waitShape(service, s.usual(service, ours...))
	s.waitQuiet(loadBalancerChanges)
	s.waitShape(service, s.usual(service, ours...))
	if looked := s.since(0, func(c openstacktest.Call) bool {
		return c.Status == http.StatusNotFound
	}); len(looked) > 0 {
		t.Errorf("a node that is not selected was looked up in Nova:\n%s", describe(looked))
	}
	getNode(t, gone.name)
	r.unbroken()
}
