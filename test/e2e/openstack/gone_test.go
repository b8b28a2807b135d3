package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// deletionOf is the CCM's request to delete the node.
func deletionOf(t *testing.T, since controlplane.Mark, name string) controlplane.AuditRecord {
	t.Helper()
	records, err := shared.Audit().Wait(waittest.Context(t), since, 1,
		controlplane.ByUser(shared.User), controlplane.ByName(name),
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

// keptByTheGuard returns the messages of the events that report which nodes the guard keeps.
func keptByTheGuard(t *testing.T) (map[string]string, error) {
	events, err := shared.Client(t).CoreV1().Events("").List(t.Context(),
		metav1.ListOptions{FieldSelector: "reason=InstancesVanished"})
	if err != nil {
		return nil, err
	}
	kept := map[string]string{}
	for _, event := range events.Items {
		kept[event.InvolvedObject.Name] = event.Message
	}
	return kept, nil
}

// isKeptByTheGuard waits for an event that reports that the guard keeps one of the nodes, and
// checks that no marked node has such an event.
func isKeptByTheGuard(t *testing.T, names, marked []string) {
	t.Helper()
	waittest.Until(t, "an event says which node the guard keeps", func() error {
		all, err := keptByTheGuard(t)
		if err != nil {
			return err
		}
		kept := false
		for name, message := range all {
			if slices.Contains(marked, name) {
				return fmt.Errorf("marked node %s has the event %q", name, message)
			}
			if slices.Contains(names, name) {
				kept = true
				if !strings.Contains(message, "not marked for removal") {
					t.Errorf("the event says %q", message)
				}
			}
		}
		if !kept {
			return errors.New("none of the nodes has the event")
		}
		return nil
	})
}

// A scaleDown is a cluster with 100 initialized nodes. The autoscaler has marked the first 60.
type scaleDown struct {
	*site
	machines []machine
	names    []string
	began    controlplane.Mark
}

func newScaleDown(t *testing.T, prefix string) scaleDown {
	t.Helper()
	d := scaleDown{site: newSite(t)}
	ready(t, d.site)
	for i := range 100 {
		m := d.addServer(fmt.Sprintf("%s-%d", prefix, i))
		d.machines, d.names = append(d.machines, m), append(d.names, m.name)
		var marks []ccmtest.NodeOption
		if i < 60 {
			marks = append(marks,
				ccmtest.NodeTaint(autoscalerTaint, "1", corev1.TaintEffectNoSchedule))
		}
		tainted(t, m.name, marks...)
	}
	for _, name := range d.names {
		initialized(t, name)
	}
	d.began = shared.Audit().Mark()
	return d
}

// deleteServers deletes servers. Their kubelets do not report any more.
func (d scaleDown) deleteServers(machines ...machine) {
	d.t.Helper()
	for _, m := range machines {
		d.must(d.DeleteServer(m.id))
		setReady(d.t, m.name, corev1.ConditionFalse)
	}
}

// wantDeleted waits for the deletion of the first n nodes, and checks that no others are deleted.
func (d scaleDown) wantDeleted(n int) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), ccmtest.WaitLimit)
	defer cancel()
	records, err := shared.Audit().Wait(ctx, d.began, n,
		controlplane.ByUser(shared.User), controlplane.ByResource("", "nodes"),
		controlplane.ByVerb("delete"), controlplane.ByCode(http.StatusOK),
		controlplane.ByName(d.names...))
	if err != nil {
		d.t.Fatalf("%d of %d nodes are deleted: %v", len(records), n, err)
	}
	var got []string
	for _, record := range records {
		got = append(got, record.Name)
	}
	want := slices.Sorted(slices.Values(d.names[:n]))
	if slices.Sort(got); !slices.Equal(got, want) {
		d.t.Errorf("the deleted nodes are %q, want %q", got, want)
	}
	for _, name := range d.names[n:] {
		if node := getNode(d.t, name); node.DeletionTimestamp != nil {
			d.t.Errorf("%s is being deleted", name)
		}
	}
}

// The autoscaler deletes 60 of 100 servers, and leaves the nodes to the cloud controller manager.
// Then a server is deleted whose node is not marked. Its node goes too: the guard counts one
// instance, and not 61.
func TestGone_LargeScaleDown_MarkedNodesGoAndTheGuardStaysInactive(t *testing.T) {
	t.Parallel()
	d := newScaleDown(t, "shrunk")
	d.deleteServers(d.machines[:60]...)
	d.wantDeleted(60)
	d.deleteServers(d.machines[60])
	d.wantDeleted(61)
	kept, err := keptByTheGuard(t)
	d.must(err)
	for _, name := range d.names {
		if message, has := kept[name]; has {
			t.Errorf("the guard kept %s: %s", name, message)
		}
	}
}

// The autoscaler deletes 60 of 100 servers, and leaves the nodes to the cloud controller manager.
// In the same minute Nova denies all 100. Later the autoscaler marks 20 others.
func TestGone_LargeScaleDownInALyingCloud_OnlyMarkedNodesGo(t *testing.T) {
	t.Parallel()
	d := newScaleDown(t, "scaled")
	d.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute,
		Rewrite: func(c openstacktest.Call, _ int, _ []byte) (int, []byte) {
			if c.Operation == "server_list" {
				return http.StatusOK, []byte(`{"servers": []}`)
			}
			return http.StatusNotFound, []byte(`{"itemNotFound": {"code": 404}}`)
		},
	})
	d.deleteServers(d.machines[:60]...)
	for _, name := range d.names[60:] {
		setReady(t, name, corev1.ConditionFalse)
	}
	d.wantDeleted(60)
	isKeptByTheGuard(t, d.names[60:], d.names[:60])
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, autoscalerTaint)
	for _, name := range d.names[60:80] {
		if _, err := shared.Client(t).CoreV1().Nodes().Patch(t.Context(), name,
			types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d.wantDeleted(80)
}
