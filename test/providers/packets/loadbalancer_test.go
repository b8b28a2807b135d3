//go:build linux

package packets_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// tries is how many connections show that both of two nodes answer. OVN chooses a node by a hash of
// addresses and ports, so one of them is not seen once in 2^31 runs.
const tries = 32

func internal(cfg *cloudconf.Config) { cfg.LoadBalancer.InternalLB = true }

// changeService changes the Service of a test, again after a conflict with the CCM.
func (c *cluster) changeService(name string, change func(*corev1.Service)) {
	c.t.Helper()
	services := c.kube.CoreV1().Services(metav1.NamespaceDefault)
	c.Wait("Service "+name+" is changed", func() error {
		service, err := services.Get(c.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			change(service)
			_, err = services.Update(c.t.Context(), service, metav1.UpdateOptions{})
		}
		return err
	})
}

// waitAnswers waits until no machines but these answer, and no connection is without an answer
// unless "" is one of them. Not each of them has to answer.
func (c *cluster) waitAnswers(what string, client *machine, target string, want ...string) {
	c.t.Helper()
	began := time.Now()
	c.Wait(what, func() error {
		by, _ := answers(client, target, tries/4)
		for machine := range by {
			if !slices.Contains(want, machine) {
				return fmt.Errorf("%v answer, want %q", by, want)
			}
		}
		return nil
	})
	c.tell("%s, %.1f s after the change", what, time.Since(began).Seconds())
}

// remove deletes the only Service, and waits until its load balancer is gone, with the port of its
// address and its floating IP.
func (c *cluster) remove(name string) {
	c.t.Helper()
	var ports []string
	for _, lb := range c.Inventory().Of("load balancer") {
		ports = append(ports, "port "+project.Text(lb, "vip_port_id"))
	}
	if err := c.kube.CoreV1().Services(metav1.NamespaceDefault).Delete(c.t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.Wait("the load balancer of "+name+" is gone", func() error {
		if all := c.User().List(project.LoadBalancer, "/lbaas/loadbalancers",
			"loadbalancers"); len(all) > 0 {
			return fmt.Errorf("%v", all)
		}
		left := c.Inventory()
		if ips := left.Of("floating IP"); len(ips) > 0 {
			return fmt.Errorf("floating IPs are left: %v", ips)
		}
		for _, port := range ports {
			if _, found := left[port]; found {
				return fmt.Errorf("%s is left", port)
			}
		}
		return nil
	})
}

func TestService_OfTwoNodes_BothAnswerAndSeeTheClient(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.begin(internal)
		service, target := c.expose("web")
		port := service.Spec.Ports[0].NodePort
		c.nodes["node-1"].forward(t, port, c.startPod("pod-1", "node-1", "10.244.1"))
		c.nodes["node-2"].forward(t, port, c.startPod("pod-2", "node-2", "10.244.2"))
		c.waitAnswers("the pods answer", client, target, "pod-1", "pod-2")
		by, seen := answers(client, target, tries)
		if len(by) != 2 || by["pod-1"]+by["pod-2"] != tries {
			t.Errorf("of %d connections %v were answered, want all, by both pods", tries, by)
		}
		c.wantSeen(client.address, seen)

		c.remove("web")
		c.waitAnswers("no pod answers for the deleted Service", client, target, "")
		c.note("of %d connections of a client in another subnet a pod behind node-1 answered %d and "+
			"one behind node-2 %d; both nodes saw %s; a deleted Service answered no connection",
			tries, by["pod-1"], by["pod-2"], c.balancer.sees())
	})
}

func TestService_WithSourceRanges_AdmitsOneClientAndRefusesAnother(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		clients := c.addClients("friend", "stranger")
		friend, stranger := clients[0], clients[1]
		c.begin(internal)
		_, target := c.expose("web", func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{friend.address + "/32"}
		})
		c.waitAnswers("the friend is answered", friend, target, "node-1", "node-2")
		if by, _ := answers(friend, target, tries); by[""] > 0 {
			t.Errorf("a client in the source ranges is answered by %v", by)
		}
		if by, _ := answers(stranger, target, tries/4); by[""] != tries/4 {
			t.Errorf("a client outside the source ranges is answered by %v", by)
		}
		c.changeService("web", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil })
		c.waitAnswers("the stranger is answered, too", stranger, target, "node-1", "node-2")
		c.changeService("web", func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{stranger.address + "/32"}
		})
		c.waitAnswers("the friend is refused", friend, target, "")
		if by, _ := answers(stranger, target, tries); by[""] > 0 {
			t.Errorf("a client in the new source ranges is answered by %v", by)
		}
		c.note("the source ranges admitted %d of %d connections of one client and none of another; "+
			"after a change of the ranges the first was refused and the second admitted; "+
			"the nodes' own security group admits nothing", tries, tries)
	})
}

func TestService_NodesComeAndGo_OnlyThoseOfTheClusterAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.begin(internal)
		_, target := c.expose("web")
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		// Its server is alive and answers at the node port: the load balancer must let it alone.
		c.deleteNode("node-2")
		c.waitAnswers("only node-1 answers", client, target, "node-1")
		if by, _ := answers(client, target, 2*tries); by["node-1"] != 2*tries {
			t.Errorf("when node-2 is gone %v answer, want node-1", by)
		}
		ccmtest.CreateNode(t, c.kube, ccmtest.TaintedNode("node-2"))
		began := time.Now()
		c.Wait("node-2 answers again", func() error {
			if by, _ := answers(client, target, tries/4); by["node-2"] == 0 {
				return fmt.Errorf("%v answer", by)
			}
			return nil
		})
		c.note("a node left the cluster and its server still answered: the next %d connections went to "+
			"the other node; when the node joined again it answered within %.1f s", 2*tries,
			time.Since(began).Seconds())
	})
}

// With ovn, no client stays at a node, and a Warning reports that.
func TestService_WithSessionAffinity_EachClientHasOneNodeOrThereIsAWarning(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		clients := c.addClients("client-1", "client-2", "client-3", "client-4", "client-5",
			"client-6")
		c.begin(internal)
		_, target := c.expose("web", func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		})
		c.waitProvider(2)
		c.waitAnswers("the nodes answer", clients[0], target, "node-1", "node-2")
		if c.balancer == ovn {
			if by, _ := answers(clients[0], target, tries); len(by) != 2 || by[""] > 0 {
				t.Errorf("of %d connections of a client %v were answered", tries, by)
			}
			c.waitEvent("LoadBalancerAffinityIgnored")
			c.note("session affinity has no effect: both nodes answered one client; a Warning at " +
				"the Service reports that")
			return
		}
		nodes := map[string]int{}
		for _, client := range clients {
			first, err := client.get(target)
			if err != nil {
				t.Fatal(err)
			}
			if by, _ := answers(client, target, tries); by[first.Machine] != tries {
				t.Errorf("%s is answered by %v, want %d times by %s", client.name, by, tries,
					first.Machine)
			}
			nodes[first.Machine]++
		}
		c.note("with session affinity the %d connections of each of %d clients were answered by "+
			"one node: %d clients by node-1, %d by node-2", tries, len(clients), nodes["node-1"],
			nodes["node-2"])
	})
}

// waitEvent waits for a Warning with the reason.
func (c *cluster) waitEvent(reason string) {
	c.t.Helper()
	c.Wait("a Warning "+reason, func() error {
		events, err := c.kube.EventsV1().Events(metav1.NamespaceDefault).List(c.t.Context(),
			metav1.ListOptions{FieldSelector: "type=Warning,reason=" + reason})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("not yet")
		}
		return err
	})
}

// The second Service outlives the first, which has created the load balancer.
func TestServices_ShareALoadBalancer_EachAnswersUntilItIsDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.begin(internal)
		shared := ccmtest.ServiceAnnotation(annotation+"share-as", "web")
		first, target := c.expose("first", shared)
		second, of := c.expose("second", shared, ccmtest.ServicePorts(81))
		if target[:len(target)-1] != of[:len(of)-1] {
			t.Fatalf("the Services have the addresses %s and %s, want one", target, of)
		}
		for _, m := range c.nodes {
			m.listen(t, first.Spec.Ports[0].NodePort, second.Spec.Ports[0].NodePort)
		}
		c.waitAnswers("the first Service is answered", client, target, "node-1", "node-2")
		c.waitAnswers("the second Service is answered", client, of, "node-1", "node-2")

		finish := client.load(t, of)
		if err := c.kube.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), "first",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.waitAnswers("no node answers for the first Service", client, target, "")
		time.Sleep(3 * time.Second)
		report := finish()
		c.wantAllAnswered("the deletion of the first Service", report, 50)
		c.remove("second")
		c.note("two Services shared one address; while the first, which had created the load balancer, "+
			"was deleted, none of %d requests to the second failed; then the address was free",
			report.Sent)
	})
}

func TestService_UDP_BothNodesAnswerAndSeeTheClient(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	client := c.addClients("client")[0]
	c.begin(internal)
	service, target := c.expose("dns", func(s *corev1.Service) {
		s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	})
	for _, m := range c.nodes {
		m.listenUDP(t, service.Spec.Ports[0].NodePort)
	}
	c.waitProvider(2)
	var by map[string]int
	var seen []string
	c.Wait("the nodes answer", func() error {
		if by, seen = answersTo(client.ask, target, tries); by[""] > 0 || len(by) != 2 {
			return fmt.Errorf("%v answer", by)
		}
		return nil
	})
	if !slices.Equal(seen, []string{client.address}) {
		t.Errorf("the nodes saw the clients %q, want %s", seen, client.address)
	}
	c.note("of %d datagrams of a client in another subnet node-1 answered %d and node-2 %d; both "+
		"saw the client's own address", tries, by["node-1"], by["node-2"])
}

func TestService_NodeIsDrained_ItsOpenConnectionGoesOnUntilTheServerEnds(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.begin(internal)
		_, target := c.expose("web")
		c.waitProvider(2)
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		c.Wait("the client has a connection to node-2", func() error {
			if a := client.open(t, target); a.Machine != "node-2" {
				return fmt.Errorf("it is with %s", a.Machine)
			}
			return nil
		})
		c.taint("node-2", "ToBeDeletedByClusterAutoscaler")
		c.waitAnswers("only node-1 answers new connections", client, target, "node-1")
		left := 1
		if !c.balancer.isTransparent {
			left = 2 // node-2 has weight 0
		}
		c.waitProvider(left)
		const more = 50
		for i := range more {
			if a, err := client.again(); err != nil || a.Machine != "node-2" {
				t.Fatalf("request %d on the open connection: %+v, %v", i+1, a, err)
			}
			time.Sleep(100 * time.Millisecond)
		}

		// The autoscaler ends the server, and then deletes the Node.
		c.nodes["node-2"].listen(t)
		client.waitForTheEnd(t)
		c.deleteNode("node-2")
		c.waitProvider(1)
		if by, _ := answers(client, target, tries); by["node-1"] != tries {
			t.Errorf("after the drained node is deleted %v answer, want node-1", by)
		}
		c.note("the cluster autoscaler's taint came to a node while a client had a connection to "+
			"it: new connections went to the other node, and the next %d requests on the open one "+
			"were answered, until the server ended it; after the Node was deleted the other one "+
			"answered all of %d connections", more, tries)
	})
}

// deleteNode deletes a Node. Its machine stays as it is.
func (c *cluster) deleteNode(name string) {
	c.t.Helper()
	if err := c.kube.CoreV1().Nodes().Delete(c.t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// taint adds a taint to a node, as an autoscaler does.
func (c *cluster) taint(node, key string) {
	c.t.Helper()
	nodes := c.kube.CoreV1().Nodes()
	c.Wait("node "+node+" has taint "+key, func() error {
		n, err := nodes.Get(c.t.Context(), node, metav1.GetOptions{})
		if err == nil {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
			_, err = nodes.Update(c.t.Context(), n, metav1.UpdateOptions{})
		}
		return err
	})
}

func TestService_TrafficPolicyLocal_OnlyTheNodeWithThePodAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.begin(func(cfg *cloudconf.Config) {
			internal(cfg)
			cfg.LoadBalancer.CreateMonitor = true
		})
		service, target := c.expose("web", func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			if !c.balancer.isTransparent {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotation+"proxy-protocol", "v2")
			}
		})
		// As kube-proxy does, without a pod at node-2. Only an amphora asks for /healthz.
		spec := service.Spec
		c.nodes["node-1"].listen(t, spec.Ports[0].NodePort, spec.HealthCheckNodePort)
		c.nodes["node-2"].losePods(t)
		c.nodes["node-2"].listen(t, spec.HealthCheckNodePort)
		c.waitProvider(2)
		c.waitMembers(map[string]string{"node-1": "ONLINE", "node-2": "ERROR"})
		c.waitAnswers("only node-1 answers", client, target, "node-1")
		if seen := c.waitAllBy("node-1", client, target); !slices.Equal(seen,
			[]string{client.address}) {
			t.Errorf("the nodes saw %q, want %s", seen, client.address)
		}
		how := "and saw the client's own address; the other did not listen at the node port"
		if !c.balancer.isTransparent {
			how = "and was told the client's own address by the PROXY protocol; the other " +
				"answered the checks with 503"
		}
		c.note("with externalTrafficPolicy Local the node with the pod answered all of %d "+
			"connections, %s", tries, how)
		c.remove("web") // while node-1 answers
	})
}

// The monitor asks from an address in the nodes' subnet, which is not in the source ranges.
func TestService_WithSourceRangesAndMonitor_OnlyNodesThatListenAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.begin(func(cfg *cloudconf.Config) {
			internal(cfg)
			cfg.LoadBalancer.CreateMonitor = true
		})
		service, target := c.expose("web", func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{client.address + "/32"}
		})
		c.waitProvider(2)
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		c.waitMembers(map[string]string{"node-1": "ONLINE", "node-2": "ONLINE"})

		c.nodes["node-2"].listen(t)
		failed := c.waitMembers(map[string]string{"node-1": "ONLINE", "node-2": "ERROR"})
		c.waitAnswers("only node-1 answers", client, target, "node-1")
		c.waitAllBy("node-1", client, target)

		c.nodes["node-2"].listen(t, service.Spec.Ports[0].NodePort)
		recovered := c.waitMembers(map[string]string{"node-1": "ONLINE", "node-2": "ONLINE"})
		c.Wait("node-2 answers again", func() error {
			if by, _ := answers(client, target, tries); by["node-2"] == 0 {
				return fmt.Errorf("%v answer", by)
			}
			return nil
		})
		c.note("the checks reached the nodes, although with ovn no rule admits them: a node that "+
			"stopped listening was ERROR after %.1f s and got none of %d connections; it was ONLINE "+
			"%.1f s after it listened again, and answered", failed.Seconds(), tries,
			recovered.Seconds())

		// While the nodes answer: Octavia's driver agent repeats a member's new status, if its
		// listener is deleted by then, for eleven minutes, in which it handles no floating IP of
		// any test.
		c.remove("web")
	})
}

// waitAllBy waits until a node answers all of tries connections, and returns what addresses it saw.
// Another node may answer none. On a busy machine, a check of the only node that answers may fail.
func (c *cluster) waitAllBy(node string, client *machine, target string) (seen []string) {
	c.t.Helper()
	c.Wait(node+" answers all connections", func() error {
		var by map[string]int
		by, seen = answers(client, target, tries)
		if by[node]+by[""] < tries {
			c.t.Errorf("of %d connections %v were answered, want all by %s", tries, by, node)
		}
		if by[node] < tries {
			return fmt.Errorf("%v were answered; the members are %v", by, c.statuses())
		}
		return nil
	})
	return seen
}

// statuses are the operating statuses of the members, by the names of their nodes.
func (c *cluster) statuses() map[string]string {
	c.t.Helper()
	got := map[string]string{}
	for _, member := range c.Inventory().Of("member") {
		for name, m := range c.nodes {
			if m.address == project.Text(member, "address") {
				got[name] = project.Text(member, "operating_status")
			}
		}
	}
	return got
}

// waitMembers waits until the members have these operating statuses, by the names of their nodes,
// and returns how long that took.
func (c *cluster) waitMembers(want map[string]string) time.Duration {
	c.t.Helper()
	began := time.Now()
	c.Wait("members are "+fmt.Sprint(want), func() error {
		got := c.statuses()
		if !maps.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
	took := time.Since(began)
	c.tell("members are %v, %.1f s after the change", want, took.Seconds())
	return took
}
