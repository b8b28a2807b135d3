package openstack_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

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
