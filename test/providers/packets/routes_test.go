//go:build linux

package packets_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// podPort is the port at which pods answer.
const podPort = 8080

// A pod is an address behind the port of its node: no subnet of Neutron has it.
type pod struct{ cidr, address, target string }

// addPod gives a node a pod, from which its connections to other pods come.
func (c *cluster) addPod(node, cidr, address string) pod {
	c.t.Helper()
	m := c.nodes[node]
	gateway := c.places(c.User().Get(project.Network, "/ports/"+c.servers[node].Port,
		"port"))[4].gateway
	m.ip(c.t, "address", "add", address+"/32", "dev", "lo")
	m.ip(c.t, "route", "add", ccmtest.ClusterCIDR, "via", gateway, "src", address)
	m.listen(c.t, podPort)
	return pod{cidr, address, net.JoinHostPort(address, strconv.Itoa(podPort))}
}

// setPairs sets the allowed address pairs of a node's port, as another client than fxccm.
func (c *cluster) setPairs(node string, pairs []project.Object) {
	c.t.Helper()
	c.User().Update(project.Network, "/ports/"+c.servers[node].Port, "port",
		project.Object{"allowed_address_pairs": pairs})
}

func TestRoutes_PodsOfTwoNodes_TalkOnlyWithTheirAddressPairs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	// The operator admits the pods.
	c.User().Create(project.Network, "/security-group-rules", "security_group_rule", project.Object{
		"security_group_id": c.group, "direction": "ingress", "ethertype": "IPv4",
		"protocol": "tcp", "remote_ip_prefix": ccmtest.ClusterCIDR,
	})
	pods := map[string]pod{
		"node-1": c.addPod("node-1", "10.244.1.0/24", "10.244.1.1"),
		"node-2": c.addPod("node-2", "10.244.2.0/24", "10.244.2.1"),
	}
	one, two := c.nodes["node-1"], c.nodes["node-2"]
	if by, _ := answers(one, pods["node-2"].target, tries/4); by[""] != tries/4 {
		t.Errorf("without a route a pod is answered by %v", by)
	}

	manager := c.start(func(cfg *cloudconf.Config) { cfg.Route.RouterID = c.Router })
	for name, p := range pods {
		c.join([]string{name}, ccmtest.NodePodCIDRs(p.cidr))
	}
	c.waitAnswers("node-2's pod answers", one, pods["node-2"].target, "node-2")
	c.waitAnswers("node-1's pod answers", two, pods["node-1"].target, "node-1")
	for _, way := range []struct {
		from   *machine
		source string
		to     string
	}{{one, pods["node-1"].address, "node-2"}, {two, pods["node-2"].address, "node-1"}} {
		by, seen := answers(way.from, pods[way.to].target, tries)
		if by[way.to] != tries || len(seen) != 1 || seen[0] != way.source {
			t.Errorf("%s's pod answers %v of %d connections and sees %q, want all, from %s", way.to,
				by, tries, seen, way.source)
		}
	}

	// The routes stay, so only the pair is missing.
	manager.Stop()
	c.setPairs("node-2", []project.Object{})
	c.waitAnswers("no pod answers without its address pair", one, pods["node-2"].target, "")
	if by, _ := answers(two, pods["node-1"].target, tries/4); by[""] != tries/4 {
		t.Errorf("a pod without its address pair is answered by %v", by)
	}
	manager.Start()
	c.waitAnswers("the next term allows the pod again", one, pods["node-2"].target, "node-2")
	c.note("pods of two nodes answered all of %d connections each way, by fxccm's routes, and saw "+
		"each other's address; without its address pair a pod neither answered nor was answered; "+
		"the next term repaired the pair", tries)
}
