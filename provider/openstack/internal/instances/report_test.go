package instances

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
		"no server": {
			ask: true, reason: events.ServerNotFound,
			text: "; give the server the name of the node, or set --provider-id of the kubelet",
		},
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
			ask: true, reason: events.LookupFailed, text: "500",
		},
		"another region": {
			prepare: func(_ *world, node *v1.Node) {
				node.Spec.ProviderID = "openstack://elsewhere/5f8f1c3e-0000-4000-8000-000000000000"
			},
			ask: true, reason: events.LookupFailed, text: "region",
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
		"address of a network that is left out": {
			prepare: func(w *world, node *v1.Node) {
				w.config.Networking.InternalNetworkNames = []string{"misspelled"}
				w.addServer("new")
				node.Annotations = map[string]string{
					api.AnnotationAlphaProvidedIPAddr: "10.0.0.1",
				}
			},
			ask: true, reason: events.NodeIPMismatch, text: "internal-network-name of cloud.conf",
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
				_, err := w.InstanceMetadata(within(t), node)
				t.Logf("the lookup returned %v", err)
			}
			got := w.Reports()
			if len(got) != 1 || got[0].Node != "new" || got[0].Reason != c.reason ||
				!strings.Contains(got[0].Message, c.text) {
				t.Fatalf("the reports are %+v; want one of the new node, %s, %q", got, c.reason,
					c.text)
			}
			text := got[0].Message
			_, whatFollows, _ := strings.Cut(text, "; ")
			// The client of the provider names the service of a failed request.
			isOfNova := strings.HasPrefix(text, "Nova: ") || name == "another region" ||
				name == "Nova fails" && strings.HasPrefix(text, "OpenStack: 500 ")
			if c.reason != events.NodeWaiting && (!isOfNova || whatFollows == "" ||
				strings.HasSuffix(text, ".") || strings.Count(text, ": ") > 2) {
				t.Errorf("%q is not a service, a cause, and what follows or what to do", text)
			}
		})
	}
}

func TestEvents_NameOfTheFlavorIsNoLabelValue_NewNodeHasOneEventWithBoth(t *testing.T) {
	for name, minor := range map[string]int{"Nova": 90, "old Nova": 46} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t,
				[]openstacktest.Option{openstacktest.WithComputeMicroversion(minor)})
			w.cloud.AddFlavor(openstacktest.Flavor{ID: "f1", Name: "m1 large (gpu)"})
			id := w.addServer("node-1")
			if err := w.cloud.UpdateServer(id, func(s *openstacktest.Server) {
				s.Flavor = "f1"
			}); err != nil {
				t.Fatal(err)
			}
			for range 3 { // a node that cannot be written is looked up again
				if kind := w.metadata(newNode("node-1")).InstanceType; kind != "f1" {
					t.Errorf("the instance type is %q", kind)
				}
			}
			w.metadata(nodeOf("node-1", id)) // an initialized node
			var told []string
			for len(w.events.Events) > 0 {
				told = append(told, <-w.events.Events)
			}
			if len(told) != 1 || !strings.Contains(told[0], "Warning InvalidLabelChanged") ||
				!strings.Contains(told[0], `"f1"`) ||
				!strings.Contains(told[0], `"m1 large (gpu)"`) {
				t.Errorf("the events are %q, want one with both values", told)
			}
		})
	}
}

// A new server has taken over the name of a node, whose provider ID stays. The lists of servers
// show it without a further request.
// Results are kept for a day, and a tenant's API server may report a new node each second.
func TestNoteResult_NodeHasLongTexts_AreNotKept(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, change := range map[string]func(w *world, node *v1.Node){
		"a provider ID": func(_ *world, node *v1.Node) {
			node.Spec.ProviderID = "openstack:///" + long
		},
		"an address": func(w *world, node *v1.Node) {
			w.addServer("new")
			node.Annotations = map[string]string{api.AnnotationAlphaProvidedIPAddr: long}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, node := newWorld(t), newNode("new")
			change(w, node)
			_, err := w.InstanceMetadata(within(t), node)
			t.Logf("the lookup returned %.300v", err)
			w.mu.Lock()
			defer w.mu.Unlock()
			if kept := fmt.Sprintf("%+v", w.results["new"]); w.results["new"].failure == "" ||
				len(kept) > 4<<10 {
				t.Errorf("%d bytes are kept: %.300s", len(kept), kept)
			}
			for key := range w.seen {
				if len(key) > 1<<10 {
					t.Errorf("a key of %d bytes is kept", len(key))
				}
			}
		})
	}
}

func TestEvents_ServerIsReplaced_EventNamesBothIDs(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(40)
	w.cluster(nodes...)
	node := withReady(nodes[3], v1.ConditionTrue)
	w.delete(node)
	id := w.addServer(node.Name)
	refresh := func(age time.Duration) (told []string) {
		w.pass(age)
		for _, each := range nodes {
			_, _ = w.InstanceMetadata(within(t), each)
		}
		for len(w.events.Events) > 0 {
			told = append(told, <-w.events.Events)
		}
		return told
	}
	var told []string
	for range 3 { // the first refreshes may not see the new server yet
		told = append(told, refresh(10*time.Minute)...)
	}
	if len(told) != 1 || !strings.Contains(told[0], "Warning ServerReplaced") ||
		!strings.Contains(told[0], idOf(node)) || !strings.Contains(told[0], id) {
		t.Errorf("the events are %q, want one with both IDs", told)
	}
	if told := refresh(eventInterval); len(told) != 1 {
		t.Errorf("after the interval the events are %q, want one", told)
	}
}

// Without other nodes there is no list. The name of a node may be derived from that of its server.
func TestEvents_OnlyServerIsReplaced_EventNamesBothIDs(t *testing.T) {
	for server, name := range map[string]string{"cp-3": "cp-3", "CP_4": "cp-4.novalocal"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			old := w.addServer(server)
			node := withReady(nodeOf(name, old), v1.ConditionTrue)
			w.cluster(node)
			w.metadata(node)
			w.delete(node)
			id := w.addServer(server)
			node.Status.NodeInfo.SystemUUID = id
			var told []string
			for range 12 {
				w.pass(5 * time.Minute)
				_, _ = w.InstanceMetadata(within(t), node)
				for len(w.events.Events) > 0 {
					told = append(told, <-w.events.Events)
				}
			}
			if len(told) == 0 || !strings.Contains(told[0], "Warning ServerReplaced") ||
				!strings.Contains(told[0], old) || !strings.Contains(told[0], id) {
				t.Errorf("the events are %q, want one with both IDs", told)
			}
		})
	}
}

// Controllers show the errors in events and in the status, too.
func TestErrors_NovaDeniesAServer_TextHasServiceCauseAndWhatFollows(t *testing.T) {
	w := newWorld(t)
	w.addServer("twin")
	w.addServer("twin")
	gone := nodeOf("gone", w.addServer("gone"))
	w.delete(gone)
	for _, node := range []*v1.Node{newNode("twin"), newNode("none"), gone} {
		_, looked := w.InstanceMetadata(within(t), node)
		_, shutDown := w.InstanceShutdown(within(t), node)
		for _, err := range []error{looked, shutDown} {
			if err == nil {
				t.Fatalf("%s: the lookup succeeded", node.Name)
			}
			cause, follows, _ := strings.Cut(err.Error(), "; ")
			if !strings.HasPrefix(cause, "Nova: ") || strings.Count(cause, ": ") > 2 ||
				follows == "" {
				t.Errorf("%s: the text is %q, want service, cause and what follows", node.Name, err)
			}
			if got := textOf(err); got != err.Error() {
				t.Errorf("%s: its text becomes %q", node.Name, got)
			}
		}
	}
}

func TestEvents_NodeCannotBeInitialized_HaveCauseAndAdviceAndAreRare(t *testing.T) {
	w := newWorld(t)
	node := newNode("new")
	ask := func(age time.Duration) (told []string) {
		t.Helper()
		w.pass(age)
		if _, err := w.InstanceMetadata(within(t), node); err == nil {
			t.Fatal("the lookup succeeded")
		}
		for len(w.events.Events) > 0 {
			told = append(told, <-w.events.Events)
		}
		return told
	}
	if told := ask(0); len(told) != 1 || !strings.Contains(told[0], "Warning ServerNotFound") ||
		!strings.Contains(told[0], "no server matches the node") ||
		!strings.Contains(told[0], "--provider-id") {
		t.Errorf("the events are %q, want one with the cause and the advice", told)
	}
	if told := ask(time.Minute); len(told) > 0 {
		t.Errorf("a minute later the events are %q, want none", told)
	}
	if told := ask(eventInterval); len(told) != 1 {
		t.Errorf("after the interval the events are %q, want one", told)
	}
	w.cloud.Inject(openstacktest.Fault{
		Operation: "server_*", Status: http.StatusInternalServerError,
	})
	if told := ask(time.Minute); len(told) != 1 || !strings.Contains(told[0], "LookupFailed") ||
		!strings.HasSuffix(told[0], "; retrying") {
		t.Errorf("when Nova fails the events are %q, want one that says what follows", told)
	}
}
