package instances

import (
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestReports_NewNodes_HaveTheCauseOfTheirWait(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *world, node *v1.Node)
		ask     bool
		reason  events.Reason
		text    string
	}{
		"not looked up": {reason: events.NodeWaiting, text: "not looked up"},
		"found": {
			prepare: func(w *world, _ *v1.Node) { w.addServer("new") },
			ask:     true, reason: events.NodeWaiting, text: "has returned the server",
		},
		"no server": {ask: true, reason: events.ServerNotFound, text: "no server"},
		"two servers": {
			prepare: func(w *world, _ *v1.Node) { w.addServer("new"); w.addServer("new") },
			ask:     true, reason: events.SeveralServers, text: "several servers",
		},
		"Nova fails": {
			prepare: func(w *world, _ *v1.Node) {
				w.cloud.Inject(openstacktest.Fault{
					Operation: "server_*", Status: http.StatusInternalServerError,
				})
			},
			ask: true, reason: events.RequestFailed, text: "500",
		},
		"another region": {
			prepare: func(_ *world, node *v1.Node) {
				node.Spec.ProviderID = "openstack://elsewhere/5f8f1c3e-0000-4000-8000-000000000000"
			},
			ask: true, reason: events.RequestFailed, text: "region",
		},
		"other address": {
			prepare: func(w *world, node *v1.Node) {
				w.addServer("new")
				node.Annotations = map[string]string{
					api.AnnotationAlphaProvidedIPAddr: "192.0.2.1",
				}
			},
			ask: true, reason: events.NodeIPMismatch, text: "192.0.2.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			node := newNode("new")
			if c.prepare != nil {
				c.prepare(w, node)
			}
			w.cluster(node, nodeOf("old", w.addServer("old")))
			if c.ask {
				_, err := w.V2().InstanceMetadata(within(t), node)
				t.Logf("the lookup returned %v", err)
			}
			got := w.Reports()
			if len(got) != 1 || got[0].Node != "new" || got[0].Reason != c.reason ||
				!strings.Contains(got[0].Message, c.text) {
				t.Errorf("the reports are %+v; want one of the new node, %s, %q", got, c.reason,
					c.text)
			}
		})
	}
}
