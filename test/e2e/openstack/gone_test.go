package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// isKeptByTheGuard waits for an event that reports that the guard keeps one of the nodes, and
// checks that no marked node has such an event.
func isKeptByTheGuard(t *testing.T, names, marked []string) {
	t.Helper()
	ctx := t.Context()
	waittest.Until(t, "an event says which node the guard keeps", func() error {
		events, err := shared.Client(t).CoreV1().Events("").List(ctx,
			metav1.ListOptions{FieldSelector: "reason=InstancesVanished"})
		if err != nil {
			return err
		}
		kept := false
		for _, event := range events.Items {
			name := event.InvolvedObject.Name
			if slices.Contains(marked, name) {
				return fmt.Errorf("marked node %s has the event %q", name, event.Message)
			}
			if slices.Contains(names, name) {
				kept = true
				if !strings.Contains(event.Message, "not marked for removal") {
					t.Errorf("the event says %q", event.Message)
				}
			}
		}
		if !kept {
			return errors.New("none of the nodes has the event")
		}
		return nil
	})
}

// The autoscaler deletes 60 of 100 servers, and leaves the nodes to the cloud controller manager.
// In the same minute Nova denies all 100. Later the autoscaler marks 20 others.
func TestGone_LargeScaleDownInALyingCloud_OnlyMarkedNodesGoInAMinute(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ready(t, s)
	nodes := shared.Client(t).CoreV1().Nodes()
	var machines []machine
	var names []string
	for i := range 100 {
		m := s.addServer(fmt.Sprintf("scaled-%d", i))
		machines, names = append(machines, m), append(names, m.name)
		var marks []ccmtest.NodeOption
		if i < 60 {
			marks = append(marks,
				ccmtest.NodeTaint(autoscalerTaint, "1", corev1.TaintEffectNoSchedule))
		}
		tainted(t, m.name, marks...)
	}
	for _, name := range names {
		initialized(t, name)
	}
	began := shared.Audit().Mark()
	deletions := []controlplane.Filter{
		controlplane.ByUser(shared.User), controlplane.ByResource("", "nodes"),
		controlplane.ByVerb("delete"), controlplane.ByCode(http.StatusOK),
		controlplane.ByName(names...),
	}
	// wantDeleted waits at most a minute for all of them, and checks that no others are deleted.
	wantDeleted := func(want []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		records, err := shared.Audit().Wait(ctx, began, len(want), deletions...)
		if err != nil {
			t.Fatalf("in a minute %d of %d nodes are deleted: %v", len(records), len(want), err)
		}
		var got []string
		for _, record := range records {
			got = append(got, record.Name)
		}
		want = slices.Sorted(slices.Values(want))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the deleted nodes are %q, want %q", got, want)
		}
	}

	s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute,
		Rewrite: func(c openstacktest.Call, _ int, _ []byte) (int, []byte) {
			if c.Operation == "server_list" {
				return http.StatusOK, []byte(`{"servers": []}`)
			}
			return http.StatusNotFound, []byte(`{"itemNotFound": {"code": 404}}`)
		},
	})
	for _, m := range machines[:60] {
		s.must(s.DeleteServer(m.id))
	}
	for _, name := range names {
		setReady(t, name, corev1.ConditionFalse)
	}
	wantDeleted(names[:60])
	isKeptByTheGuard(t, names[60:], names[:60])
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, autoscalerTaint)
	for _, name := range names[60:80] {
		if _, err := nodes.Patch(t.Context(), name, types.StrategicMergePatchType,
			[]byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wantDeleted(names[:80])
	for _, name := range names[80:] {
		if node := getNode(t, name); node.DeletionTimestamp != nil {
			t.Errorf("%s is being deleted", name)
		}
	}
}
