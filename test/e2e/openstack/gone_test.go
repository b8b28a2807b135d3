package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

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

// vanish creates nodes of six servers that are not ready, and deletes four of the servers at once.
// It returns when the deletion of their nodes is refused.
func vanish(t *testing.T, s *site, prefix string) (r *replica, gone, left []*corev1.Node) {
	t.Helper()
	r = ready(t, s, named(prefix))
	var machines []machine
	for i := range 6 {
		machines = append(machines, s.addServer(fmt.Sprintf("%s-%d", prefix, i)))
	}
	for i, m := range machines {
		node := notReady(t, m)
		if i < 4 {
			gone = append(gone, node)
		} else {
			left = append(left, node)
		}
	}
	s.waitCalls(0, 2, operations("server_list"), "all servers are listed")
	for _, m := range machines[:4] {
		s.must(s.DeleteServer(m.id))
	}
	for _, node := range gone {
		event := waitEvent(t, shared.Client(t), node, "InstancesVanished")
		if event.Type != corev1.EventTypeWarning ||
			!strings.Contains(event.Message, "vanished-number") {
			t.Errorf("the event is %s: %s", event.Type, event.Message)
		}
	}
	before := s.mark()
	s.waitCalls(before, 10, operations("server_list", "server_get"),
		"servers are requested, for several confirmations")
	wantUntouched(t, gone...)
	wantUntouched(t, left...)
	ours := []string{"manager", prefix}
	if n := metric(t, r.metrics, "fxccm_openstack_absent_instances", ours...); n != 4 {
		t.Errorf("%v instances are absent by the metric, want 4", n)
	}
	if n := metric(t, r.metrics, "fxccm_openstack_absence_refused_total", ours...); n < 4 {
		t.Errorf("%v absences were refused by the metric, want one for each node at least", n)
	}
	return r, gone, left
}

func TestGone_ManyAtOnce_AreKeptUntilAnOperatorHasDeletedSome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, gone, left := vanish(t, s, "vanished")
	// Without these two, the number of absent servers is below the limit of the guard.
	deleteNode(t, gone[0].Name)
	deleteNode(t, gone[1].Name)
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, gone[2].Name))
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, gone[3].Name))
	wantUntouched(t, left...)
	ccmtest.Eventually(t, "the metric tells that none is absent",
		func(context.Context) (bool, error) {
			if n := metric(t, r.metrics, "fxccm_openstack_absent_instances"); n != 0 {
				return false, fmt.Errorf("%v", n)
			}
			return true, nil
		})
	r.unbroken()
}
