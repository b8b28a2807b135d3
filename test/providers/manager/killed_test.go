//go:build linux

package manager_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/test/internal/project"
)

// fewestKills is the minimum of kills for a valid run.
const fewestKills = 6

// A cluster of many nodes and Services changes in every way, while two replicas of the CCM are
// killed again and again. A real OpenStack has 50 nodes and 20 Services.
func TestKilledAtRandom_ClusterAndCloudAgreeInTheEndAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	start := seed(t)
	nodes, services := 14, 5
	if c.Real() {
		nodes, services = 50, 20
	}
	all := names("node", nodes)
	c.addServers(all...)
	before := c.Inventory()
	c.tell("there are %d servers", nodes)

	cfg := c.config()
	r := c.startReplicas(cfg, 2)
	c.join(all...)
	c.waitAgreement(fmt.Sprintf("%d nodes are initialized and have routes", nodes))
	for _, name := range names("service", services) {
		c.expose(name)
	}
	c.waitAgreement(fmt.Sprintf("%d Services are served", services))

	stop := r.mayhem(t, chance(start, "mayhem"))
	c.changeEverything(start, services)
	c.wait("enough replicas were killed", func() []string {
		if n := r.killed.Load(); n < fewestKills {
			return []string{fmt.Sprintf("%d were", n)}
		}
		return nil
	})
	stop()
	c.tell("%d replicas were killed", r.killed.Load())
	c.wait("the server that is gone has no node any more",
		func() []string { return c.isThere(gone) })
	c.waitAgreement("cluster and cloud agree")

	stop = r.mayhem(t, chance(start, "more mayhem"))
	c.removeServices(services)
	stop()
	c.tell("%d replicas were killed", r.killed.Load())
	// The owner of a route is unknown if its node is deleted while no replica leads and its server
	// lives. So there is a leader that knows the nodes before they are deleted. A new leader reads
	// the router at once.
	c.loseRoute(stopped)
	if err := r.restart([]int{0, 1}, func() {}); err != nil {
		t.Fatal(err)
	}
	c.waitAgreement("a route that another client has deleted is back")
	c.removeNodes()
	c.wait("nothing is left over", func() []string { return c.leftOver(before) })
}

// loseRoute deletes the node's route as another client.
func (c *cluster) loseRoute(node string) {
	c.t.Helper()
	address := c.servers[node].Addresses[4]
	router := c.User().Get(project.Network, "/routers/"+c.Router, "router")
	all, _ := router["routes"].([]any)
	for _, route := range all {
		if route, _ := route.(project.Object); project.Text(route, "nexthop") == address {
			c.User().Must(http.MethodPut, project.Network,
				"/routers/"+c.Router+"/remove_extraroutes",
				project.Object{"router": project.Object{"routes": []any{route}}})
			return
		}
	}
	c.t.Fatalf("%s (%s) has no route: %v", node, address, all)
}

// These nodes change.
const (
	stopped  = "node-7"
	gone     = "node-11"
	excluded = "node-13"
	added    = "node-new"
)

// changeEverything makes every change to Services twice, in another order each time, with changes
// of nodes in between.
func (c *cluster) changeEverything(seed uint64, services int) {
	c.t.Helper()
	random := chance(seed, "changes")
	c.addServers(added)
	among := map[int]func(){
		2: func() {
			c.Act(c.servers[stopped].ID, "os-stop")
			c.WaitServer(c.servers[stopped].ID, "SHUTOFF")
			c.kubelet(stopped, corev1.ConditionFalse)
		},
		6: func() { c.join(added) },
		10: func() {
			c.User().Must(http.MethodDelete, project.Compute, "/servers/"+c.servers[gone].ID, nil)
			c.WaitServer(c.servers[gone].ID, "")
			c.kubelet(gone, corev1.ConditionFalse)
		},
		14: func() { c.exclude(excluded, true) },
		18: func() { c.remove("service-1") },
		30: func() { c.exclude(excluded, false) },
	}
	table, order := changes(c.Zones[0]), []int(nil)
	for range 2 {
		order = append(order, random.Perm(len(table))...)
	}
	for i, n := range order {
		if do := among[i]; do != nil {
			do()
		}
		// The first is deleted meanwhile.
		name := fmt.Sprintf("service-%d", 2+i%(services-1))
		c.edit(name, table[n].edit)
		c.tell("%s: %s", name, table[n].name)
		c.pause(time.Duration(random.Int64N(int64(c.pace()))))
	}
	// The deleted Service comes back under the same name.
	c.waitServicesGone("service-1")
	c.expose("service-1")
}

// pause spreads changes over time, so that the CCM is killed before, during and after its work on
// them.
func (c *cluster) pause(d time.Duration) {
	c.t.Helper()
	select {
	case <-time.After(d):
	case <-c.t.Context().Done():
		c.t.Fatal(c.t.Context().Err())
	}
}

// isThere returns a sentence while the node exists.
func (c *cluster) isThere(node string) []string {
	_, all := c.list()
	if slices.ContainsFunc(all, func(n corev1.Node) bool { return n.Name == node }) {
		return []string{node + " is there"}
	}
	return nil
}

// removeServices deletes all Services. The server that was stopped runs again.
func (c *cluster) removeServices(services int) {
	c.t.Helper()
	for _, name := range names("service", services) {
		c.remove(name)
	}
	c.Act(c.servers[stopped].ID, "os-start")
	c.WaitServer(c.servers[stopped].ID, "ACTIVE")
	c.kubelet(stopped, corev1.ConditionTrue)
	c.waitServicesGone(names("service", services)...)
}

func (c *cluster) removeNodes() {
	c.t.Helper()
	if err := c.nodes().DeleteCollection(c.t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// leftOver describes the differences of the project from before, except the server that was added
// and the one that was removed.
func (c *cluster) leftOver(before project.Inventory) []string {
	c.t.Helper()
	before = maps.Clone(before)
	maps.DeleteFunc(before, func(_ string, o project.Object) bool { return c.isOf(o, gone) })
	now := c.Inventory()
	maps.DeleteFunc(now, func(_ string, o project.Object) bool { return c.isOf(o, added) })
	return before.Differences(now)
}

// isOf reports whether an object is the node's server or its port.
func (c *cluster) isOf(o project.Object, node string) bool {
	id := c.servers[node].ID
	return id != "" && (project.ID(o) == id || strings.HasPrefix(project.Text(o, "device_id"), id))
}
