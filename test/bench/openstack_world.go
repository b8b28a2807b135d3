package main

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The networks of a simulated cloud. Each node has a /24 of the pods' network.
const (
	nodesCIDR = "10.0.0.0/16"
	// outsideCIDR is for floating IPs: RFC 6598 reserves it.
	outsideCIDR = "100.64.0.0/16"
	podsCIDR    = "10.128.0.0/12"
	// mostRoutes is how many nodes have room in it.
	mostRoutes = 1 << 12
	// accessBase is the first of the addresses that servers have in the outer world: RFC 2544 keeps
	// them for benchmarks.
	accessBase = "198.18.0.0"
	// openStackPage is the most items that a list of the cloud has on a page.
	openStackPage = 1000
)

// openStack is a simulated cloud with the servers of a cluster's nodes, and a router between them
// and the outer world.
type openStack struct {
	*openstacktest.Cloud
	servers []server
	router  string
	// network and subnet are those of the nodes, and of load balancers; outside is the network of
	// floating IPs.
	network, subnet, outside string
}

// server is one of them, with its port.
type server struct {
	name, id, port string
	// address is the port's, pods the network of its node's pods.
	address, pods string
}

func newOpenStack(servers int, more ...openstacktest.Option) *openStack {
	options := append([]openstacktest.Option{
		openstacktest.WithPageSize(openStackPage),
		openstacktest.WithLatency(targetLatency),
	}, more...)
	cloud := &openStack{Cloud: openstacktest.NewCloud(options...)}
	cloud.network = cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	cloud.subnet = cloud.AddSubnet(openstacktest.Subnet{
		NetworkID: cloud.network, CIDR: nodesCIDR,
	})
	cloud.outside = cloud.AddNetwork(openstacktest.Network{Name: "outside", External: true})
	cloud.AddSubnet(openstacktest.Subnet{NetworkID: cloud.outside, CIDR: outsideCIDR})
	cloud.router = cloud.AddRouter(openstacktest.Router{
		Name:              "router",
		ExternalNetworkID: cloud.outside, Subnets: []string{cloud.subnet},
	})
	for i := range servers {
		s := server{name: fmt.Sprintf("node-%04d", i), pods: podCIDR(i)}
		s.id = cloud.AddServer(openstacktest.Server{Name: s.name})
		s.port = cloud.AddPort(openstacktest.Port{
			NetworkID: cloud.network, DeviceID: s.id,
			DeviceOwner: openstacktest.OwnerCompute,
		})
		cloud.servers = append(cloud.servers, s)
	}
	addresses := map[string]string{}
	for _, port := range cloud.Ports() {
		addresses[port.ID] = port.FixedIPs[0].Address
	}
	for i := range cloud.servers {
		cloud.servers[i].address = addresses[cloud.servers[i].port]
	}
	return cloud
}

// podCIDR is that of the i-th node.
func podCIDR(i int) string {
	base := netip.MustParsePrefix(podsCIDR).Addr().As4()
	base[1], base[2] = base[1]+byte(i>>8), byte(i)
	return netip.PrefixFrom(netip.AddrFrom4(base), 24).String()
}

// accessAddress is what the i-th server gets for the outer world.
func accessAddress(i int) string {
	base := netip.MustParseAddr(accessBase).As4()
	base[1], base[2], base[3] = base[1]+byte(i>>16), byte(i>>8), byte(i)
	return netip.AddrFrom4(base).String()
}

// config is a cloud.conf, with something more at its end.
func (o *openStack) config(more string) string {
	return o.CloudConf("password") + "\n[Route]\nrouter-id = " + o.router +
		"\n[LoadBalancer]\nsubnet-id = " + o.subnet + "\nfloating-network-id = " + o.outside +
		"\n" + more
}

// recorded are the calls so far.
func (o *openStack) recorded() calls { return o.Calls() }

// routes are those that the cluster is to have.
func (o *openStack) routes() (all []openstacktest.Route) {
	for _, s := range o.servers {
		all = append(all, openstacktest.Route{Destination: s.pods, NextHop: s.address})
	}
	return all
}

// giveRoutes lets the cloud have all routes of the cluster, and what the ports need for them.
func (o *openStack) giveRoutes() error {
	for _, s := range o.servers {
		err := o.UpdatePort(s.port, func(p *openstacktest.Port) {
			p.AllowedPairs = []openstacktest.AddressPair{{Address: s.pods}}
		})
		if err != nil {
			return fmt.Errorf("prepare the ports: %w", err)
		}
	}
	if err := o.SetRoutes(o.router, o.routes()...); err != nil {
		return fmt.Errorf("prepare the router: %w", err)
	}
	return nil
}

// checkRoutes is an error unless the cloud has exactly the routes of the cluster, and each port
// allows the pods of its node.
func (o *openStack) checkRoutes() error {
	there := map[openstacktest.Route]bool{}
	for _, route := range o.Routes(o.router) {
		there[route] = true
	}
	wanted := o.routes()
	for _, route := range wanted {
		if !there[route] {
			return fmt.Errorf("the router has no route to %s via %s", route.Destination,
				route.NextHop)
		}
	}
	if len(there) != len(wanted) {
		return fmt.Errorf("the router has %d routes instead of %d", len(there), len(wanted))
	}
	allowed := map[string][]openstacktest.AddressPair{}
	for _, port := range o.Ports() {
		allowed[port.ID] = port.AllowedPairs
	}
	for _, s := range o.servers {
		if pairs := allowed[s.port]; len(pairs) != 1 || pairs[0].Address != s.pods {
			return fmt.Errorf("the port of %s allows %v instead of %s", s.name, pairs, s.pods)
		}
	}
	return nil
}

// newNodes are nodes that have just registered.
func (o *openStack) newNodes() []*corev1.Node { return o.nodes(func(server, *corev1.Node) {}) }

// oldNodes are nodes that were initialized long ago, and have no addresses yet.
func (o *openStack) oldNodes() []*corev1.Node { return o.nodes(initialized) }

// silentNodes are nodes whose kubelets have stopped reporting.
func (o *openStack) silentNodes() []*corev1.Node {
	return o.nodes(func(s server, node *corev1.Node) {
		initialized(s, node)
		for i := range node.Status.Conditions {
			condition := &node.Status.Conditions[i]
			condition.Status, condition.Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
		}
	})
}

// podNodes are nodes that have pods, and addresses that routes to these can lead to.
func (o *openStack) podNodes() []*corev1.Node {
	return o.nodes(func(s server, node *corev1.Node) {
		initialized(s, node)
		node.Spec.PodCIDR, node.Spec.PodCIDRs = s.pods, []string{s.pods}
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: s.address})
	})
}

func (o *openStack) nodes(change func(server, *corev1.Node)) (all []*corev1.Node) {
	for _, s := range o.servers {
		node := newNode(s.name)
		change(s, node)
		all = append(all, node)
	}
	return all
}

func initialized(s server, node *corev1.Node) {
	node.Spec.Taints, node.Spec.ProviderID = nil, "openstack:///"+s.id
}

// hasNodeAddress tells whether a node has any address of a kind; with one given, whether it has
// that.
func hasNodeAddress(node *corev1.Node, kind corev1.NodeAddressType, address string) bool {
	for _, a := range node.Status.Addresses {
		if a.Type == kind && (address == "" || a.Address == address) {
			return true
		}
	}
	return false
}

// hasRoute tells whether the route controller has said that all routes of a node are there.
func hasRoute(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeNetworkUnavailable {
			return condition.Status == corev1.ConditionFalse
		}
	}
	return false
}

// checkNodes ends the trial unless exactly these nodes are there.
func (t *trial) checkNodes(wanted map[string]bool) {
	nodes, err := t.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	t.Check(err)
	t.Check(checkNodes(nodes.Items, wanted))
}

// checkNodes is an error unless exactly these nodes are there.
func checkNodes(found []corev1.Node, wanted map[string]bool) error {
	there := map[string]bool{}
	for _, node := range found {
		there[node.Name] = true
		if !wanted[node.Name] {
			return fmt.Errorf("node %s is there, and should not be", node.Name)
		}
	}
	for name := range wanted {
		if !there[name] {
			return fmt.Errorf("node %s was deleted, although its server is there", name)
		}
	}
	return nil
}

// checkBalancers is an error unless each Service has a load balancer of its own that is ready, with
// a pool of all members for each port, and a floating IP that leads to it.
func (o *openStack) checkBalancers(services []*corev1.Service, members int) error {
	bySuffix := map[string]openstacktest.LoadBalancer{}
	for _, lb := range o.LoadBalancers() {
		// kube_service_<cluster>_<namespace>_<name>
		suffix := lb.Name[strings.LastIndex(lb.Name, "_")+1:]
		if _, twice := bySuffix[suffix]; twice {
			return fmt.Errorf("service %s has two load balancers", suffix)
		}
		bySuffix[suffix] = lb
	}
	floating := map[string]int{}
	for _, ip := range o.FloatingIPs() {
		floating[ip.PortID]++
	}
	for _, service := range services {
		lb, ok := bySuffix[service.Name]
		if !ok {
			return fmt.Errorf("service %s has no load balancer", service.Name)
		}
		if err := checkBalancer(lb, len(service.Spec.Ports), members); err != nil {
			return fmt.Errorf("the load balancer of service %s %w", service.Name, err)
		}
		if ips := floating[lb.VIPPortID]; ips != 1 {
			return fmt.Errorf("the load balancer of service %s has %d floating IPs", service.Name,
				ips)
		}
	}
	if len(bySuffix) != len(services) {
		return fmt.Errorf("there are %d load balancers for %d Services", len(bySuffix),
			len(services))
	}
	return nil
}

// checkBalancer returns what is wrong, as the end of a sentence.
func checkBalancer(lb openstacktest.LoadBalancer, ports, members int) error {
	if lb.ProvisioningStatus != openstacktest.StatusActive {
		return fmt.Errorf("is %s", lb.ProvisioningStatus)
	}
	if len(lb.Listeners) != ports || len(lb.Pools) != ports {
		return fmt.Errorf("has %d listeners and %d pools for %d ports", len(lb.Listeners),
			len(lb.Pools), ports)
	}
	for _, pool := range lb.Pools {
		if len(pool.Members) != members {
			return fmt.Errorf("has a pool of %d members instead of %d", len(pool.Members), members)
		}
	}
	return nil
}

// fullPools is how many pools have so many members.
func (o *openStack) fullPools(members int) (full int) {
	for _, lb := range o.LoadBalancers() {
		for _, pool := range lb.Pools {
			if len(pool.Members) == members {
				full++
			}
		}
	}
	return full
}

// refuseSome has Octavia refuse one of so many requests, because there are too many.
func (o *openStack) refuseSome(oneOf int) {
	seen := 0 // the cloud asks for one call after the other
	o.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: tooMany, RetryAfter: refusedFor,
		Match: func(openstacktest.Call) bool {
			seen++
			return seen%oneOf == 0
		},
	})
}
