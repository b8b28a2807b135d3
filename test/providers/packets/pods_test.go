//go:build linux

package packets_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// startPod starts a machine in a network namespace behind a node, and returns the address and port
// at which the node reaches it. The subnet is of their connection, without the last number.
func (c *cluster) startPod(name, node, subnet string) (target string) {
	c.t.Helper()
	m, pod, address := c.nodes[node], startMachine(c.t, name), subnet+".2"
	m.ip(c.t, "link", "add", "pod", "type", "veth", "peer", "name", "eth0", "netns",
		strconv.Itoa(pod.pid))
	m.ip(c.t, "address", "add", subnet+".1/24", "dev", "pod")
	m.ip(c.t, "link", "set", "pod", "up")
	pod.ip(c.t, "address", "add", address+"/24", "dev", "eth0")
	pod.ip(c.t, "link", "set", "eth0", "up")
	pod.listen(c.t, podPort)
	return net.JoinHostPort(address, strconv.Itoa(podPort))
}

// ready and leaving are the states of a pod in an EndpointSlice while a Deployment replaces it.
func ready(node, address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		NodeName: &node, Addresses: []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
	}
}

func leaving(node, address string) discoveryv1.Endpoint {
	e := ready(node, address)
	e.Conditions.Ready, e.Conditions.Terminating = new(false), new(true)
	return e
}

// createSlice creates an EndpointSlice of a Service, as the controller of EndpointSlices does.
func (c *cluster) createSlice(service *corev1.Service, pods ...discoveryv1.Endpoint) {
	c.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   service.Name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: new(service.Spec.Ports[0].Name), Port: new(int32(podPort)),
		}},
		Endpoints: pods,
	}
	if _, err := c.kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(c.t.Context(),
		slice, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// setPods replaces the endpoints of a Service's EndpointSlice.
func (c *cluster) setPods(service string, pods ...discoveryv1.Endpoint) {
	c.t.Helper()
	all := c.kube.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	slice, err := all.Get(c.t.Context(), service, metav1.GetOptions{})
	if err == nil {
		slice.Endpoints = pods
		_, err = all.Update(c.t.Context(), slice, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// waitTargets waits until these are the addresses and ports of all members, and ovn has them.
func (c *cluster) waitTargets(want ...string) {
	c.t.Helper()
	began := time.Now()
	slices.Sort(want)
	c.Wait(fmt.Sprintf("the members are %q", want), func() error {
		var got []string
		for _, m := range c.Inventory().Of("member") {
			if is := project.Text(m, "provisioning_status"); is != "ACTIVE" {
				return fmt.Errorf("member %s is %s", project.ID(m), is)
			}
			got = append(got, fmt.Sprintf("%v:%v", m["address"], m["protocol_port"]))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
	c.tell("the members are %q, %.1f s after the change", want, time.Since(began).Seconds())
}

// waitOnline waits until the monitor has found that all members answer.
func (c *cluster) waitOnline() {
	c.t.Helper()
	c.Wait("all members are ONLINE", func() error {
		for _, m := range c.Inventory().Of("member") {
			if is := project.Text(m, "operating_status"); is != "ONLINE" {
				return fmt.Errorf("member %v:%v is %s", m["address"], m["protocol_port"], is)
			}
		}
		return nil
	})
}

// waitRoutes waits until the router has these destinations.
func (c *cluster) waitRoutes(want ...string) {
	c.t.Helper()
	c.Wait(fmt.Sprintf("the router has routes to %q", want), func() error {
		var got []string
		routes, _ := c.User().Get(project.Network, "/routers/"+c.Router, "router")["routes"].([]any)
		for _, each := range routes {
			route, _ := each.(project.Object)
			got = append(got, project.Text(route, "destination"))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// The load balancer forwards to nodes, then to pods, whose Deployment is rolled out, and to nodes
// again.
func TestService_FromNodesToPodsAndBack_NoRequestFails(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		// ovn checks only members whose address is that of a port (ovn_octavia_provider/helper.py,
		// _get_member_lsp). The addresses of pods behind a route are not.
		isMonitored := c.balancer != ovn
		client := c.addClients("client")[0]
		old := map[string]string{"node-1": "10.244.1.1", "node-2": "10.244.2.1"}
		next := map[string]string{"node-1": "10.244.1.2", "node-2": "10.244.2.2"}
		c.addPod("node-1", "10.244.1.0/24", old["node-1"])
		c.addPod("node-2", "10.244.2.0/24", old["node-2"])
		for node, address := range next {
			c.nodes[node].ip(t, "address", "add", address+"/32", "dev", "lo")
		}
		c.start(func(cfg *cloudconf.Config) {
			internal(cfg)
			cfg.Route.RouterID = c.Router
			cfg.LoadBalancer.CreateMonitor = isMonitored
		})
		c.join([]string{"node-1"}, ccmtest.NodePodCIDRs("10.244.1.0/24"))
		c.join([]string{"node-2"}, ccmtest.NodePodCIDRs("10.244.2.0/24"))
		c.waitRoutes("10.244.1.0/24", "10.244.2.0/24")
		service, target := c.expose("web")
		nodePort := service.Spec.Ports[0].NodePort
		listen := func(ports ...int32) {
			for _, m := range c.nodes {
				m.listen(t, ports...)
			}
		}
		toNodes := []string{
			fmt.Sprintf("%s:%d", c.nodes["node-1"].address, nodePort),
			fmt.Sprintf("%s:%d", c.nodes["node-2"].address, nodePort),
		}
		toPods := func(pods ...string) (all []string) {
			for _, pod := range pods {
				all = append(all, fmt.Sprintf("%s:%d", pod, podPort))
			}
			return all
		}
		// A pod that is leaving is a member without new connections, where there are weights.
		draining := func(pod string) []string {
			if c.balancer == ovn {
				return nil
			}
			return toPods(pod)
		}
		monitored := ""
		online := func() {
			if isMonitored {
				c.waitOnline()
				monitored = "; a health monitor found the pods ONLINE"
			}
		}
		c.waitTargets(toNodes...)
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		listen(nodePort, podPort)
		c.createSlice(service, ready("node-1", old["node-1"]), ready("node-2", old["node-2"]))

		finish := client.load(t, target)
		time.Sleep(3 * time.Second)
		setTarget := func(to string) {
			c.changeService("web", func(s *corev1.Service) {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotation+"member-target", to)
			})
		}
		setTarget("pod")
		c.waitTargets(toPods(old["node-1"], old["node-2"])...)
		online()
		time.Sleep(3 * time.Second)
		// From now on nothing but pods can answer.
		listen(podPort)
		time.Sleep(3 * time.Second)
		c.setPods("web", ready("node-1", next["node-1"]), leaving("node-1", old["node-1"]),
			ready("node-2", old["node-2"]))
		c.waitTargets(append(toPods(next["node-1"], old["node-2"]), draining(old["node-1"])...)...)
		c.setPods("web", ready("node-1", next["node-1"]), ready("node-2", next["node-2"]),
			leaving("node-2", old["node-2"]))
		c.waitTargets(append(toPods(next["node-1"], next["node-2"]), draining(old["node-2"])...)...)
		time.Sleep(3 * time.Second)
		for node, address := range old {
			c.nodes[node].ip(t, "address", "del", address+"/32", "dev", "lo")
		}
		c.setPods("web", ready("node-1", next["node-1"]), ready("node-2", next["node-2"]))
		c.waitTargets(toPods(next["node-1"], next["node-2"])...)
		online()
		time.Sleep(3 * time.Second)

		listen(podPort, nodePort)
		setTarget("node")
		c.waitTargets(toNodes...)
		time.Sleep(3 * time.Second)
		listen(nodePort)
		time.Sleep(3 * time.Second)
		report := finish()
		c.wantAllAnswered("the changes of the members", report, 200)
		c.note("the members were nodes, then pods, which were replaced, and then nodes again: of %d "+
			"requests, 20 a second, none failed%s", report.Sent, monitored)
	})
}
