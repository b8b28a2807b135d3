package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// deletionOf is the CCM's request to delete the node.
func deletionOf(t *testing.T, since controlplane.Mark, name string) controlplane.AuditRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ccmtest.WaitLimit)
	defer cancel()
	records, err := shared.Audit().Wait(ctx, since, 1, controlplane.ByUser(shared.User),
		controlplane.ByName(name),
		controlplane.ByVerb("delete"), controlplane.ByCode(http.StatusOK))
	if err != nil {
		t.Fatal(err)
	}
	return records[0]
}

func TestGone_NovaDeniesAServerTwice_NodeIsDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	m := s.addServer("gone-1")
	began := shared.Audit().Mark()
	node := notReady(t, m)
	s.waitCalls(0, 3, operations("server_get"), "the server is requested")
	before := s.mark()
	s.must(s.DeleteServer(m.id))
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, m.name))
	event := waitEvent(t, shared.Client(t), node, "DeletingNode")
	if !strings.Contains(event.Message, "does not exist in the cloud provider") {
		t.Errorf("the event has the message %q", event.Message)
	}
	deleted := deletionOf(t, began, m.name).Time
	var denials []openstacktest.Call
	for _, c := range s.since(before, operations("server_get")) {
		if c.Status == http.StatusNotFound && c.Time.Before(deleted) {
			denials = append(denials, c)
		}
	}
	if len(denials) < 2 {
		t.Fatalf("the node was deleted after %d denials, want 2:\n%s", len(denials),
			describe(denials))
	}
	// A call is recorded a moment after the provider has read its clock. The delay of the first
	// call may be longer than that of the second.
	if apart := denials[len(denials)-1].Time.Sub(denials[0].Time) * 10; apart < confirmation/2 {
		t.Errorf("the denials are %s apart, want about %s or more", apart, confirmation)
	}
}

// autoscalerTaint is written by the cluster autoscaler before it deletes the server of a node.
const autoscalerTaint = "ToBeDeletedByClusterAutoscaler"

// isKeptByTheGuard waits for an event that says that the guard keeps a node of the prefix.
func isKeptByTheGuard(t *testing.T, prefix string) {
	t.Helper()
	ctx := t.Context()
	ccmtest.Eventually(t, "an event says which node the guard keeps",
		func(context.Context) (bool, error) {
			events, err := shared.Client(t).CoreV1().Events("").List(ctx,
				metav1.ListOptions{FieldSelector: "reason=InstancesVanished"})
			if err != nil {
				return false, err
			}
			for _, event := range events.Items {
				if strings.HasPrefix(event.InvolvedObject.Name, prefix) {
					if !strings.Contains(event.Message, "not marked for removal") {
						t.Errorf("the event says %q", event.Message)
					}
					return true, nil
				}
			}
			return false, errors.New("none of them is")
		})
}

// The autoscaler deletes 60 of 100 servers, and leaves the nodes to the cloud controller manager.
// Then Nova denies all servers, also those of 20 nodes that the autoscaler has marked meanwhile.
func TestGone_LargeScaleDownThenALyingCloud_OnlyMarkedNodesGo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	nodes := shared.Client(t).CoreV1().Nodes()
	var machines []machine
	for i := range 100 {
		m := s.addServer(fmt.Sprintf("scaled-%d", i))
		machines = append(machines, m)
		var marks []ccmtest.NodeOption
		if i < 60 {
			marks = append(marks,
				ccmtest.NodeTaint(autoscalerTaint, "1", corev1.TaintEffectNoSchedule))
		}
		tainted(t, m.name, marks...)
	}
	for _, m := range machines {
		initialized(t, m.name)
	}
	gone := func(some []machine) {
		t.Helper()
		for _, m := range some {
			ccmtest.Eventually(t, m.name+" is gone", ccmtest.Gone(nodes.Get, m.name))
		}
	}
	stay := func(some []machine) {
		t.Helper()
		for _, m := range some {
			if node := getNode(t, m.name); node.DeletionTimestamp != nil {
				t.Errorf("%s is being deleted", m.name)
			}
		}
	}

	for _, m := range machines[:60] {
		s.must(s.DeleteServer(m.id))
	}
	for _, m := range machines {
		setReady(t, m.name, corev1.ConditionFalse)
	}
	gone(machines[:60])
	stay(machines[60:])

	s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute,
		Rewrite: func(c openstacktest.Call, _ int, _ []byte) (int, []byte) {
			if c.Operation == "server_list" {
				return http.StatusOK, []byte(`{"servers": []}`)
			}
			return http.StatusNotFound, []byte(`{"itemNotFound": {"code": 404}}`)
		},
	})
	isKeptByTheGuard(t, "scaled-")
	stay(machines[60:])
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, autoscalerTaint)
	for _, m := range machines[60:80] {
		if _, err := nodes.Patch(t.Context(), m.name, types.StrategicMergePatchType,
			[]byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gone(machines[60:80])
	stay(machines[80:])
}
