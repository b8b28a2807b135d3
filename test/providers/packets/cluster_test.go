//go:build linux

package packets_test

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// A cluster has nodes with network namespaces, and clients outside of it.
type cluster struct {
	*project.Project
	t        *testing.T
	packets  project.Packets
	plane    *suite.Suite
	kube     kubernetes.Interface
	nodes    map[string]*machine
	balancer balancer
	// servers are by the names of their nodes, and group is their security group.
	servers map[string]project.Server
	group   string
	began   time.Time
}

// The nodes' network is 10.0.0.0/16 of package project. The clients have another behind the same
// router. clientsCIDR6 is for a project with IPv6.
const (
	clientsCIDR  = "10.9.0.0/24"
	clientsCIDR6 = "fd09::/64"
)

// A balancer is a provider of Octavia's, with the method of its pools. A transparent one forwards
// packets with the client's address; else the nodes see that of the load balancer.
type balancer struct {
	provider, method string
	isTransparent    bool
}

var (
	ovn     = balancer{"ovn", "SOURCE_IP_PORT", true}
	amphora = balancer{"amphora", "ROUND_ROBIN", false}
)

// onEach runs a test of two nodes with load balancers of each provider.
func onEach(t *testing.T, test func(t *testing.T, c *cluster), options ...project.Option) {
	t.Helper()
	onEachOf(t, []string{"node-1", "node-2"}, test, options...)
}

// onEachOf is onEach with these nodes.
func onEachOf(
	t *testing.T, nodes []string, test func(t *testing.T, c *cluster), options ...project.Option,
) {
	t.Helper()
	t.Parallel()
	for _, b := range []balancer{ovn, amphora} {
		t.Run(b.provider, func(t *testing.T) {
			t.Parallel()
			c := newClusterIn(t, options, nodes...)
			c.balancer = b
			test(t, c)
		})
	}
}

// sees says what the nodes see of a client.
func (b balancer) sees() string {
	if b.isTransparent {
		return "the client's own address"
	}
	return "the load balancer's address"
}

// wantSeen checks the addresses that the nodes have seen of a client with one address.
func (c *cluster) wantSeen(own string, seen []string) {
	c.t.Helper()
	isOwn := slices.Equal(seen, []string{own})
	if isOwn != c.balancer.isTransparent || len(seen) != 1 {
		c.t.Errorf("the nodes saw %q; the client's own address is %s", seen, own)
	}
}

// newCluster creates a project with nodes; fxccm serves the Services with load balancers of ovn.
// The nodes' security group lets nothing in, so that what reaches them is what fxccm admits.
func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	return newClusterIn(t, nil, nodes...)
}

// newClusterIn is newCluster with options of the project.
func newClusterIn(t *testing.T, opts []project.Option, nodes ...string) *cluster {
	t.Helper()
	packets, found := project.LabPackets(t)
	const want = "packets need a lab that has them: make openstack-lab RELEASE=2025.1"
	if !found && project.OnLab() {
		t.Fatal(want)
	}
	if !found {
		t.Skip(want)
	}
	plane := planes.Take(t)
	c := &cluster{
		Project: project.New(t, opts...), t: t, packets: packets, plane: plane, kube: plane.Admin,
		nodes: map[string]*machine{}, servers: map[string]project.Server{}, began: time.Now(),
		balancer: ovn,
	}
	c.group = project.ID(c.User().Create(project.Network, "/security-groups", "security_group",
		project.Object{"name": "nodes"}))
	c.tell("the project is there")
	for _, s := range c.AddServers(nodes, project.Object{
		"availability_zone": c.packets.Zone,
		"security_groups":   []project.Object{{"name": c.group}},
	}) {
		c.servers[s.Name] = s
		c.nodes[s.Name] = c.connect(s.Name,
			c.User().Get(project.Network, "/ports/"+s.Port, "port"))
	}
	c.tell("the nodes are connected")
	return c
}

// tell logs the progress of the test.
func (c *cluster) tell(format string, args ...any) {
	c.t.Helper()
	c.t.Logf("%5.1fs  %s", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// note notes in one sentence what was sent and seen, for docs/evidence/openstack-runs.md. The test
// has checked it before.
func (c *cluster) note(format string, args ...any) {
	c.t.Helper()
	if !c.t.Failed() {
		c.t.Attr("seen", fmt.Sprintf(format, args...))
	}
}

// begin starts the Manager, and lets the nodes join.
func (c *cluster) begin(change func(*cloudconf.Config)) {
	c.t.Helper()
	c.start(change)
	c.join(slices.Collect(maps.Keys(c.nodes)))
}

// join creates Nodes, and waits until the CCM has initialized them.
func (c *cluster) join(names []string, opts ...ccmtest.NodeOption) {
	c.t.Helper()
	for _, name := range names {
		ccmtest.CreateNode(c.t, c.kube, ccmtest.TaintedNode(name, opts...))
	}
	for _, name := range names {
		c.Wait("node "+name+" is initialized", func() error {
			n, err := c.kube.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
			if err == nil && (n.Spec.ProviderID == "" || len(n.Spec.Taints) > 0) {
				err = fmt.Errorf("%+v", n.Spec)
			}
			return err
		})
	}
	c.tell("the nodes %q are initialized", names)
}

// config is the configuration of fxccm in all tests.
func (c *cluster) config(change func(*cloudconf.Config)) cloudconf.Config {
	cfg := c.Config()
	cfg.LoadBalancer.LBProvider = c.balancer.provider
	cfg.LoadBalancer.LBMethod = c.balancer.method
	cfg.LoadBalancer.ManageSecurityGroups = true
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// start starts a Manager.
func (c *cluster) start(change func(*cloudconf.Config)) *ccmtest.CCM {
	c.t.Helper()
	return ccmtest.StartManager(c.t, c.plane.ControlPlane, nil,
		ccmtest.WithProvider(c.Provider(openstack.WithConfig(c.config(change)))),
		ccmtest.WithIdentity(c.plane.Identity))
}

// A place is an address in a subnet, and the subnet's gateway.
type place struct {
	address netip.Prefix
	gateway string
}

// places are those of a port, by IP version. A port's addresses have no order.
func (c *cluster) places(port project.Object) map[int]place {
	c.t.Helper()
	all := map[int]place{}
	ips, _ := port["fixed_ips"].([]any)
	for _, ip := range ips {
		fixed, _ := ip.(project.Object)
		subnet := c.User().Get(project.Network, "/subnets/"+project.Text(fixed, "subnet_id"),
			"subnet")
		address := netip.MustParseAddr(project.Text(fixed, "ip_address"))
		version := 4
		if address.Is6() {
			version = 6
		}
		bits := netip.MustParsePrefix(project.Text(subnet, "cidr")).Bits()
		all[version] = place{
			address: netip.PrefixFrom(address, bits),
			gateway: project.Text(subnet, "gateway_ip"),
		}
	}
	return all
}

// connect gives a machine the network namespace of a port that is bound to the packets' host.
func (c *cluster) connect(name string, port project.Object) *machine {
	c.t.Helper()
	places, id := c.places(port), project.ID(port)
	four, found := places[4]
	if !found {
		c.t.Fatalf("the port of %s has no IPv4 address: %v", name, port)
	}
	m := startMachine(c.t, name)
	inSwitch := "p" + id[:11]
	c.attach("attach", strconv.Itoa(m.pid), inSwitch, id, project.Text(port, "mac_address"),
		four.address.String(), four.gateway)
	c.t.Cleanup(func() { c.attach("detach", inSwitch) })
	m.address = four.address.Addr().String()
	if six, found := places[6]; found {
		// Until duplicate address detection is over, an address cannot be used.
		m.ip(c.t, "-6", "address", "add", six.address.String(), "dev", "eth0", "nodad")
		m.ip(c.t, "-6", "route", "add", "default", "via", six.gateway, "dev", "eth0")
		m.address6 = six.address.Addr().String()
	}
	c.Wait("port of "+name+" is ACTIVE", func() error {
		is := project.Text(c.User().Get(project.Network, "/ports/"+id, "port"), "status")
		if is != "ACTIVE" {
			return fmt.Errorf("it is %s", is)
		}
		return nil
	})
	return m
}

// attach runs the lab's program that connects namespaces.
func (c *cluster) attach(args ...string) {
	c.t.Helper()
	cmd := exec.Command(c.packets.Program, args...)
	cmd.Env = append(os.Environ(), "LAB_DIR="+os.Getenv(project.LabVariable))
	if text, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%s %q: %v\n%s", c.packets.Program, args, err, text)
	}
}

// addClients connects clients to a network behind the nodes' router. No security group is theirs:
// they are not of the cloud.
func (c *cluster) addClients(names ...string) []*machine {
	c.t.Helper()
	network := c.AddNetwork("clients")
	c.Connect(c.Router, c.AddSubnet(network, clientsCIDR))
	if c.Subnets[6] != "" {
		c.Connect(c.Router, c.AddSubnet(network, clientsCIDR6))
	}
	var clients []*machine
	for _, name := range names {
		port := c.User().Create(project.Network, "/ports", "port", project.Object{
			"network_id": network, "name": name, "port_security_enabled": false,
		})
		c.Admin().Update(project.Network, "/ports/"+project.ID(port), "port",
			project.Object{"binding:host_id": c.packets.Host})
		clients = append(clients, c.connect(name, port))
	}
	c.tell("the clients are connected")
	return clients
}

// expose creates a Service, and waits for its address. The nodes listen at the node port of its
// first port, as kube-proxy makes them, and target is that port.
func (c *cluster) expose(
	name string, opts ...ccmtest.ServiceOption,
) (service *corev1.Service, target string) {
	c.t.Helper()
	service = ccmtest.CreateService(c.t, c.kube, ccmtest.LoadBalancerService(name, opts...))
	for _, m := range c.nodes {
		m.listen(c.t, service.Spec.Ports[0].NodePort)
	}
	c.Wait("Service "+name+" has an address", func() (err error) {
		service, err = c.kube.CoreV1().Services(metav1.NamespaceDefault).Get(c.t.Context(), name,
			metav1.GetOptions{})
		if err == nil && len(service.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	target = net.JoinHostPort(service.Status.LoadBalancer.Ingress[0].IP,
		strconv.Itoa(int(service.Spec.Ports[0].Port)))
	c.tell("Service %s has the address %s", name, target)
	return service, target
}

// parts are the kinds of objects that a load balancer has in Octavia.
var parts = []string{"load balancer", "listener", "pool", "member"}

// waitProvider waits until the load balancer of the only Service is ACTIVE with all its parts, of
// which the driver of ovn reports it as ACTIVE too early.
func (c *cluster) waitProvider(members int) {
	c.t.Helper()
	c.Wait("the provider has created all parts", func() error {
		all, found := c.Inventory(), 0
		for _, kind := range parts {
			for _, part := range all.Of(kind) {
				if is := project.Text(part, "provisioning_status"); is != "ACTIVE" {
					return fmt.Errorf("%s %s is %s", kind, project.ID(part), is)
				}
			}
		}
		if found = len(all.Of("member")); found != members {
			return fmt.Errorf("there are %d members, want %d", found, members)
		}
		return nil
	})
	c.tell("the provider has created all parts")
}

// answers counts who answers to n connections; "" means no answer.
func answers(client *machine, target string, n int) (by map[string]int, seen []string) {
	return answersTo(client.get, target, n)
}

// answersTo is answers to what request sends.
func answersTo(
	request func(target string) (Answer, error), target string, n int,
) (by map[string]int, seen []string) {
	by = map[string]int{}
	got := make(chan Answer, n)
	for range n {
		go func() {
			a, err := request(target)
			if err != nil {
				a = Answer{}
			}
			got <- a
		}()
	}
	for range n {
		a := <-got
		by[a.Machine]++
		if a.Client != "" && !slices.Contains(seen, a.Client) {
			seen = append(seen, a.Client)
		}
	}
	return by, seen
}
