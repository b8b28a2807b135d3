package instances

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestDeletedServer_DeniedTwice_IsAbsent(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(5)[3]
	if !w.exists(node) {
		t.Fatal("the instance does not exist at the beginning")
	}
	w.delete(node)
	w.pass(time.Minute)
	w.cloud.ForgetCalls()

	w.doubts(node, absence.ErrUnconfirmed)
	w.doubts(node, absence.ErrUnconfirmed)
	w.pass(9 * time.Second)
	w.doubts(node, absence.ErrUnconfirmed)
	w.exactly(map[string]int{"server_get": 1})

	w.pass(time.Second)
	if w.exists(node) {
		t.Error("the instance still exists after two denials")
	}
	if shutdown, err := w.InstanceShutdown(t.Context(), node); shutdown ||
		err != cloudprovider.InstanceNotFound { // Upstream's contract is identity.
		t.Errorf("shut down: %t, %v", shutdown, err)
	}
	if metadata, err := w.InstanceMetadata(t.Context(), node); metadata != nil ||
		err != cloudprovider.InstanceNotFound { // Upstream's contract is identity.
		t.Errorf("metadata %+v, %v", metadata, err)
	}
}

// An alarm on this number must not persist after the regular deletion of a node.
func TestAbsentInstances_NodeDeleted_CountIsZero(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(2)
	w.cluster(nodes...)
	w.delete(nodes[0])
	w.isGone(nodes[0])
	if absent, _, _ := w.observed.values(); absent != 1 {
		t.Errorf("%d instances are absent, want 1", absent)
	}
	w.cluster(nodes[1])
	w.pass(absence.RecountAfter)
	if !w.exists(nodes[1]) {
		t.Error("the other instance is absent, too")
	}
	if absent, _, _ := w.observed.values(); absent != 0 {
		t.Errorf("%d instances are absent when the node is deleted, want none", absent)
	}
}

// OCCM deletes a node at the first 404.
func TestOneNotFound_IsNotAbsent(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1)[0]
	w.cloud.Inject(openstacktest.Fault{
		Operation: "server_get",
		Status:    http.StatusNotFound, Times: 1,
	})
	w.doubts(node, absence.ErrUnconfirmed)
	w.pass(w.config.Options.AbsenceConfirmation)
	if !w.exists(node) {
		t.Error("the instance does not exist, although Nova shows it again")
	}
	// The first denial is dropped.
	w.cloud.Inject(openstacktest.Fault{Operation: "server_get", Status: http.StatusNotFound})
	w.pass(w.config.Options.AbsenceConfirmation)
	w.doubts(node, absence.ErrUnconfirmed)
}

func TestReadyNode_IsNotAbsent(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1)[0]
	w.delete(node)
	for range 5 {
		if _, err := w.InstanceMetadata(t.Context(),
			withReady(node, v1.ConditionTrue)); !errors.Is(err, absence.ErrUnconfirmed) {
			t.Errorf("metadata of a ready node: %v", err)
		}
		w.pass(w.config.Options.AbsenceConfirmation)
	}
	w.isGone(withReady(node, v1.ConditionUnknown))
}

// delete deletes the server of a node.
func (w *world) delete(node *v1.Node) {
	w.t.Helper()
	if err := w.cloud.DeleteServer(idOf(node)); err != nil {
		w.t.Fatal(err)
	}
}

func idOf(node *v1.Node) string { return strings.TrimPrefix(node.Spec.ProviderID, "openstack:///") }

// OCCM never deletes such a node, because its own not-found error is not upstream's.
func TestNodeWithoutProviderID_ServerDeleted_IsAbsent(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(node *v1.Node, id string)
		asked  bool
	}{
		{"asked about before", func(*v1.Node, string) {}, true},
		{"never asked about before", func(*v1.Node, string) {}, false},
		{"the machine tells its UUID", func(n *v1.Node, id string) {
			n.Status.NodeInfo.SystemUUID = strings.ToUpper(id)
		}, false},
		{"named by its id", func(n *v1.Node, id string) { n.Name = id }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addServer("another")
			id := w.addServer("node-1")
			node := nodeOf("node-1", "")
			c.change(node, id)
			if c.asked && !w.exists(node) {
				t.Fatal("the instance does not exist at the beginning")
			}
			if err := w.cloud.DeleteServer(id); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
			w.isGone(node)
		})
	}
}

func TestRenamedServer_Exists(t *testing.T) {
	for name, known := range map[string]func(w *world, node *v1.Node, id string){
		"its name was seen": func(w *world, node *v1.Node, _ string) { w.exists(node) },
		"the machine tells its UUID": func(_ *world, node *v1.Node, id string) {
			node.Status.NodeInfo.SystemUUID = id
		},
		"with a provider ID, not even": func(_ *world, node *v1.Node, id string) {
			node.Spec.ProviderID = "openstack:///" + id
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.addServer("node-1")
			node := nodeOf("node-1", "")
			known(w, node, id)
			if err := w.cloud.UpdateServer(id, func(i *openstacktest.Server) {
				i.Name = "renamed"
			}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				w.pass(time.Minute)
				if !w.exists(node) {
					t.Error("the instance does not exist, although only its name has changed")
				}
			}
			if _, err := w.InstanceMetadata(t.Context(), node); node.Spec.ProviderID == "" &&
				!errors.Is(err, ErrUnmatched) {
				t.Errorf("metadata: %v, want %v", err, ErrUnmatched)
			}
		})
	}
}

// Without an ID, only lists can show the server.
func TestEmptyList_ProvesNothing(t *testing.T) {
	w := newWorld(t)
	node := nodeOf("node-1", "")
	for range 5 {
		w.doubts(node, absence.ErrUnconfirmed)
		w.pass(time.Minute)
	}
	w.addServer("another")
	if w.exists(node) {
		t.Error("the instance exists")
	}
}

// A node may be registered before Nova shows its server, or under another name. Because the node is
// not ready yet, upstream checks its existence, and would delete it.
func TestNewNode_WithoutServer_IsNotAbsentWhileItsKubeletLives(t *testing.T) {
	w := newWorld(t)
	node := newNode("node-1")
	for range 5 {
		w.doubts(node, ErrUnmatched)
		if _, err := w.InstanceMetadata(t.Context(), node); !errors.Is(err, ErrUnmatched) {
			t.Errorf("metadata: %v, want %v", err, ErrUnmatched)
		}
		w.pass(time.Minute)
	}
	w.addServer("node-1")
	if metadata := w.metadata(node); len(metadata.NodeAddresses) != 1 {
		t.Errorf("metadata %+v", metadata)
	}
}

func TestNewNode_WithoutServer_IsAbsentOnceItsKubeletIsSilent(t *testing.T) {
	w := newWorld(t)
	w.addServer("another")
	node := newNode("node-1")
	w.doubts(node, ErrUnmatched)
	w.pass(time.Minute)
	if w.exists(withReady(node, v1.ConditionUnknown)) {
		t.Error("the instance exists")
	}
}

// No failure of Nova deletes a node.
func TestFaults_NoInstanceIsAbsent(t *testing.T) {
	rewrite := func(body string) func(openstacktest.Call, int, []byte) (int, []byte) {
		return func(openstacktest.Call, int, []byte) (int,
			[]byte,
		) {
			return http.StatusOK, []byte(body)
		}
	}
	for name, fault := range map[string]openstacktest.Fault{
		"500": {Status: http.StatusInternalServerError},
		"503": {Status: http.StatusServiceUnavailable},
		"403": {Status: http.StatusForbidden},
		"401": {Status: http.StatusUnauthorized},
		"404 of a proxy": {
			Status: http.StatusNotFound,
			Body:   "<html>404 Not Found</html>",
		},
		"404 of another service": {
			Status: http.StatusNotFound,
			Body:   `{"NeutronError": {"type": "x"}}`,
		},
		"404 of no API":         {Status: http.StatusNotFound, Body: "404 page not found"},
		"connection closed":     {Drop: true},
		"cut off":               {Truncate: 10},
		"not JSON":              {Rewrite: rewrite("<html>")},
		"empty object":          {Rewrite: rewrite("{}")},
		"null":                  {Rewrite: rewrite("null")},
		"nulls":                 {Rewrite: rewrite(`{"server": null, "servers": null}`)},
		"wrong types":           {Rewrite: rewrite(`{"server": [], "servers": {}}`)},
		"an error in a success": {Rewrite: rewrite(`{"itemNotFound": {"code": 404}}`)},
		"another server":        {Rewrite: rewrite(`{"server": {"id": "x", "name": "x"}, "servers": [{"id": ""}]}`)},
		"lists are empty": {
			Operation: "server_list",
			Rewrite:   rewrite(`{"servers": []}`),
		},
		"lists are empty, gets fail": {Rewrite: emptyLists},
		"lists are short":            {Operation: "server_list", Rewrite: shorten},
		"lists are short, gets 404 HTML": {Rewrite: func(c openstacktest.Call, status int,
			body []byte,
		) (int, []byte) {
			if c.Operation == "server_get" {
				return http.StatusNotFound, []byte("<html>")
			}
			return shorten(c, status, body)
		}},
	} {
		for _, count := range []int{2, 40} {
			t.Run(fmt.Sprintf("%s, %d nodes", name, count), func(t *testing.T) {
				w := newWorld(t)
				nodes := w.addNodes(count)
				nodes = append(nodes, nodeOf("node-0", ""), nodeOf("node-1", ""))
				w.cluster(nodes...)
				fault.Service = openstacktest.ServiceCompute
				w.cloud.Inject(fault)
				for range 8 {
					forEach(nodes, 8, func(node *v1.Node) {
						if exists, err := w.InstanceExists(within(t), node); !exists && err == nil {
							t.Errorf("the instance of %s is absent", node.Name)
						}
						if _, err := w.InstanceMetadata(within(t), node); errors.Is(err,
							cloudprovider.InstanceNotFound) {
							t.Errorf("the instance of %s is not found", node.Name)
						}
					})
					w.pass(6 * time.Second)
				}
				w.cloud.RemoveFaults()
				w.pass(time.Minute)
				for range 3 {
					w.pass(5 * time.Second)
					forEach(nodes, 8, func(node *v1.Node) {
						if exists, err := w.InstanceExists(within(t), node); !exists || err != nil {
							t.Errorf("after the fault %s exists = %t, %v", node.Name, exists, err)
						}
					})
				}
			})
		}
	}
}

// emptyLists fails for a response that is not a list.
func emptyLists(c openstacktest.Call, _ int, _ []byte) (int, []byte) {
	if c.Operation == "server_list" {
		return http.StatusOK, []byte(`{"servers": []}`)
	}
	return http.StatusInternalServerError, []byte(`{"computeFault": {"code": 500}}`)
}

// shorten drops every second item of a list of servers.
func shorten(_ openstacktest.Call, status int, body []byte) (int, []byte) {
	var list struct {
		Servers []json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(body, &list); err != nil || list.Servers == nil {
		return status, body
	}
	kept := [][]byte{}
	for n, s := range list.Servers {
		if n%2 == 0 {
			kept = append(kept, s)
		}
	}
	return status, []byte(`{"servers": [` + string(bytes.Join(kept, []byte(","))) + `]}`)
}

func TestHang_CallerReturnsWithItsContext(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(20)
	w.cloud.Inject(openstacktest.Fault{Service: openstacktest.ServiceCompute, Hang: true})
	forEach(nodes, 20, func(node *v1.Node) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if exists, err := w.InstanceExists(ctx, node); exists ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("exists = %t, %v", exists, err)
		}
	})
}

func TestEmptyList_DirectRequestsAreLimited(t *testing.T) {
	for _, workers := range []int{1, 32} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			w := newWorld(t)
			nodes := w.addNodes(500)
			w.cluster(nodes...)
			w.cloud.Inject(openstacktest.Fault{Operation: "server_list", Rewrite: emptyLists})
			forEach(nodes, workers, func(node *v1.Node) {
				exists, err := w.InstanceExists(t.Context(), node)
				if !exists && !errors.Is(err, absence.ErrUnconfirmed) {
					t.Errorf("exists = %t, %v", exists, err)
				}
			})
			if got := w.cloud.Counts()["server_get"]; got == 0 || got > confirmations {
				t.Errorf("%d servers were requested directly, want 1 to %d", got, confirmations)
			}
		})
	}
}

// Nova's lists omit servers of cells that are down, and soft-deleted ones. Each of these servers is
// requested in turn.
func TestUnlistedServers_AreRequestedInTurn(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(30)
	w.cluster(nodes...)
	w.cloud.Inject(openstacktest.Fault{Operation: "server_list", Rewrite: emptyLists})
	found := map[string]bool{}
	for range 4 {
		for _, node := range nodes {
			if exists, _ := w.InstanceExists(t.Context(), node); exists {
				found[node.Name] = true
			}
		}
		w.pass(5 * time.Second)
	}
	if len(found) != len(nodes) {
		t.Errorf("%d of %d were requested", len(found), len(nodes))
	}
}

// For a wrong project, Nova correctly returns 404 for each server.
func TestVanished_WrongProject_IsRefused(t *testing.T) {
	for _, count := range []int{3, 200} {
		for _, clusterKnown := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d nodes, clusterKnown=%t", count, clusterKnown),
				func(t *testing.T) {
					w := newWorld(t)
					nodes := w.addNodes(count)
					w.Instances = w.open(w.cloud.AddProject(openstacktest.Project{Name: "other"}))
					if clusterKnown {
						w.cluster(nodes...)
					}
					for range 10 {
						forEach(nodes, 16, func(node *v1.Node) {
							exists, err := w.InstanceExists(t.Context(), node)
							if exists || err == nil {
								t.Errorf("exists = %t, %v", exists, err)
							}
						})
						w.pass(6 * time.Second)
					}
					absent, refused, _ := w.observed.values()
					if absent != count || refused == 0 {
						t.Errorf("absent = %d, refused = %d; want %d and some",
							absent, refused, count)
					}
					if got, want := len(w.events.Events),
						min(count, eventsPerEpisode); got != want {
						t.Errorf("%d events, want %d: once for a node, and %d at most", got,
							want, eventsPerEpisode)
					}
					if event := <-w.events.Events; !strings.HasPrefix(event,
						"Warning InstancesVanished Nova does not find server") {
						t.Errorf("event %q", event)
					}
				})
		}
	}
}

// Only one node is looked up, but the missing servers of the others show a problem.
func TestVanished_OneNodeNotReadyInAWrongProject_IsRefused(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(20)
	for _, node := range nodes[1:] {
		withReady(node, v1.ConditionTrue)
	}
	w.Instances = w.open(w.cloud.AddProject(openstacktest.Project{Name: "other"}))
	w.cluster(nodes...)
	w.doubts(nodes[0], absence.ErrUnconfirmed)
	w.pass(w.config.Options.AbsenceConfirmation)
	for _, test := range []struct {
		lasts time.Duration
		want  int
	}{{5 * time.Minute, 1}, {eventInterval, 2}} {
		for end := w.clock.Now().Add(test.lasts); w.clock.Now().Before(end); {
			w.doubts(nodes[0], absence.ErrMassDeletion)
			w.pass(5 * time.Second)
		}
		if got := len(w.events.Events); got != test.want {
			t.Errorf("%d events in a long episode, want %d", got, test.want)
		}
	}
}

func TestVanished_EndsWhenTheServersAreBack(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(9)
	w.cluster(nodes...)
	remove := w.cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute,
		Rewrite: func(c openstacktest.Call, _ int, _ []byte) (int, []byte) {
			if c.Operation == "server_list" {
				return http.StatusOK, []byte(`{"servers": []}`)
			}
			return http.StatusNotFound, []byte(`{"itemNotFound": {"code": 404}}`)
		},
	})
	ask := func(node *v1.Node) (bool, error) { return w.InstanceExists(t.Context(), node) }
	for range 4 {
		for _, node := range nodes {
			if exists, err := ask(node); exists || err == nil {
				t.Errorf("exists = %t, %v", exists, err)
			}
		}
		w.pass(6 * time.Second)
	}
	w.delete(nodes[0])
	remove()
	w.pass(time.Minute)
	for _, node := range nodes[1:] {
		if !w.exists(node) {
			t.Error("an instance that exists again is absent")
		}
	}
	// A 404 during the episode proves nothing.
	w.doubts(nodes[0], absence.ErrUnconfirmed)
	w.pass(w.config.Options.AbsenceConfirmation)
	if w.exists(nodes[0]) {
		t.Error("the deleted instance exists")
	}
	if absent, _, _ := w.observed.values(); absent != 1 {
		t.Errorf("%d absent instances, want 1", absent)
	}
}

func TestVanished_OperatorDeletesNodes_GuardIsLifted(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(6)
	indexer := w.cluster(nodes...)
	for _, node := range nodes[:3] {
		w.delete(node)
	}
	askAll := func(nodes []*v1.Node) (gone int) {
		for _, node := range nodes {
			if exists, err := w.InstanceExists(t.Context(), node); !exists && err == nil {
				gone++
			}
		}
		return gone
	}
	for range 4 {
		if gone := askAll(nodes); gone != 0 {
			t.Fatalf("%d of 6 instances are reported as absent while 3 are", gone)
		}
		w.pass(w.config.Options.AbsenceConfirmation)
	}
	remove(t, indexer, nodes[0], nodes[1])
	if gone := askAll(nodes[2:]); gone != 0 {
		t.Error("a denial from the time of the active guard made an instance absent")
	}
	w.pass(w.config.Options.AbsenceConfirmation)
	for range 2 {
		askAll(nodes[2:])
		w.pass(w.config.Options.AbsenceConfirmation)
	}
	if gone := askAll(nodes[2:]); gone != 1 {
		t.Errorf("%d instances are absent, want only the remaining one", gone)
	}
}

func remove(t *testing.T, indexer cache.Indexer, nodes ...*v1.Node) {
	t.Helper()
	for _, node := range nodes {
		if err := indexer.Delete(node); err != nil {
			t.Fatal(err)
		}
	}
}

// A rolling replacement deletes servers continually. The node of each is deleted.
func TestVanished_FewOfMany_AreDeleted(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(30)
	w.cluster(nodes...)
	for _, node := range nodes[:8] {
		w.delete(node)
	}
	gone := map[string]bool{}
	for range 6 {
		for _, node := range nodes[:8] {
			if exists, err := w.InstanceExists(t.Context(), node); !exists && err == nil {
				gone[node.Name] = true
			}
		}
		w.pass(5 * time.Second)
	}
	if len(gone) != 8 {
		t.Errorf("%d of 8 deleted servers are reported", len(gone))
	}
}

// leave marks nodes as the cluster autoscaler does before it deletes their servers.
func leave(nodes []*v1.Node) {
	for _, node := range nodes {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{
			Key: "ToBeDeletedByClusterAutoscaler", Effect: v1.TaintEffectNoSchedule,
		})
	}
}

// goneOf asks for each node three times, and returns how many of the nodes with and without a mark
// have no instance.
func (w *world) goneOf(nodes []*v1.Node) (marked, others int) {
	w.t.Helper()
	gone := map[*v1.Node]bool{}
	for range 3 {
		for _, node := range nodes {
			if exists, err := w.InstanceExists(w.t.Context(), node); !exists && err == nil {
				gone[node] = true
			}
		}
		w.pass(w.config.Options.AbsenceConfirmation)
	}
	for node := range gone {
		if absence.IsLeaving(node, nil) {
			marked++
		} else {
			others++
		}
	}
	return marked, others
}

// A scale-down is as large as it wants to be: its nodes are absent, and the guard is not active.
func TestVanished_ScaleDown_NodesAreAbsentAtOnce(t *testing.T) {
	for _, count := range []struct{ all, leaving int }{{6, 3}, {100, 60}, {5, 5}} {
		w := newWorld(t)
		nodes := w.addNodes(count.all)
		leaving := nodes[:count.leaving]
		leave(leaving)
		w.cluster(nodes...)
		for _, node := range leaving {
			w.delete(node)
		}
		if marked, others := w.goneOf(nodes); marked != count.leaving || others != 0 {
			t.Errorf("%d marked nodes and %d others of %d have no instance, want %d and 0",
				marked, others, count.all, count.leaving)
		}
		if absent, refused, _ := w.observed.values(); absent != 0 || refused != 0 {
			t.Errorf("%d absences count, and %d are refused; want none", absent, refused)
		}
		if n := len(w.events.Events); n != 0 {
			t.Errorf("%d events, want none", n)
		}
	}
}

// In the same minute the cloud denies all servers. The guard keeps the nodes without a mark, and
// events name them.
func TestVanished_ScaleDownWhileTheCloudLies_OthersAreKept(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(100)
	leave(nodes[:60])
	withReady(nodes[0], v1.ConditionTrue)
	w.Instances = w.open(w.cloud.AddProject(openstacktest.Project{Name: "other"}))
	w.cluster(nodes...)
	// The nodes that the guard keeps come first, and use up the limit of direct requests.
	slices.Reverse(nodes)
	if marked, others := w.goneOf(nodes); marked != 59 || others != 0 {
		t.Errorf("%d marked nodes and %d others have no instance, want 59, because one kubelet "+
			"is alive, and 0", marked, others)
	}
	if absent, refused, _ := w.observed.values(); absent != 40 || refused == 0 {
		t.Errorf("%d absences count, want 40; %d are refused", absent, refused)
	}
	if n := len(w.events.Events); n != eventsPerEpisode {
		t.Errorf("%d events, want %d", n, eventsPerEpisode)
	}
	if event := <-w.events.Events; !strings.Contains(event, "is not marked for removal") {
		t.Errorf("event %q", event)
	}
}
