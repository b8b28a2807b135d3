package main

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// openStack is the simulated cloud of the replicas, in this process. Its methods are safe for
// concurrent use.
type openStack struct {
	server  *openstacktest.Cloud
	network string
	// router has the routes to the pods; outside is the network of its gateway and of floating IPs.
	router, outside string
	// ours is the project of the replicas' login; elsewhere is another one, which they cannot see.
	ours, elsewhere string
}

// serveOpenStack starts a cloud with a network, and a router to an external network.
func serveOpenStack() (*openStack, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve OpenStack: %w", err)
	}
	server := openstacktest.NewCloud(
		openstacktest.WithListener(listener), openstacktest.WithRegion(region),
		openstacktest.WithLatency(cloudLatency),
		// It allows a user to control the cloud with curl.
		openstacktest.WithAdmin(),
	)
	o := &openStack{
		server:    server,
		network:   server.AddNetwork(openstacktest.Network{Name: "nodes"}),
		outside:   server.AddNetwork(openstacktest.Network{Name: "outside", External: true}),
		ours:      server.Credentials().ProjectID,
		elsewhere: server.AddProject(openstacktest.Project{Name: "elsewhere"}).ProjectID,
	}
	server.AddSubnet(
		openstacktest.Subnet{Name: "outside", NetworkID: o.outside, CIDR: "203.0.113.0/24"})
	o.router = server.AddRouter(openstacktest.Router{Name: "router", ExternalNetworkID: o.outside})
	server.Provision(openstacktest.ProvisioningRule{Duration: provisioning})
	server.AddFlavor(openstacktest.Flavor{Name: machineType, VCPUs: 4, RAM: 8192, Disk: 80})
	subnet := server.AddSubnet(
		openstacktest.Subnet{Name: "nodes", NetworkID: o.network, CIDR: "10.0.0.0/16"})
	if err := server.ConnectSubnet(o.router, subnet); err != nil {
		server.Close()
		return nil, fmt.Errorf("serve OpenStack: %w", err)
	}
	return o, nil
}

// writeCloudConf writes the file of --cloud-config.
func (o *openStack) writeCloudConf(path string) error {
	conf := o.server.CloudConf("application-credential") + fmt.Sprintf(`
[Route]
router-id = %s

[LoadBalancer]
floating-network-id = %s

# A short period keeps the demo short.
[Instances]
status-max-age = %s
absence-confirmation = %s
`, o.router, o.outside, statusMaxAge, absenceConfirmation)
	return os.WriteFile(path, []byte(conf), 0o600)
}

const (
	// provisioning is how long Octavia needs for each change of a load balancer.
	provisioning = time.Second
	// machineOwner is the prefix of the owners of the machines' ports.
	machineOwner = "compute:"

	statusMaxAge = 250 * time.Millisecond
	// absenceConfirmation is the time between the two 404s that delete a node.
	absenceConfirmation = time.Second
)

// addMachine makes a server with a port.
func (o *openStack) addMachine(name string) {
	zone := zoneOf(len(o.server.Servers()))
	id := o.server.AddServer(
		openstacktest.Server{Name: name, AvailabilityZone: zone, Flavor: machineType})
	o.server.AddPort(
		openstacktest.Port{NetworkID: o.network, DeviceID: id, DeviceOwner: machineOwner + zone})
}

// find finds the server of a machine.
func (o *openStack) find(name string) (openstacktest.Server, error) {
	for _, server := range o.server.Servers() {
		if server.Name == name {
			return server, nil
		}
	}
	return openstacktest.Server{}, fmt.Errorf("OpenStack has no server %s", name)
}

// portOf is the only port of a machine.
func (o *openStack) portOf(id string) (openstacktest.Port, error) {
	for _, port := range o.server.Ports() {
		if port.DeviceID == id && len(port.FixedIPs) > 0 {
			return port, nil
		}
	}
	return openstacktest.Port{}, fmt.Errorf("the server %s has no port with an address", id)
}

func (o *openStack) machine(name string) (machine, error) {
	server, err := o.find(name)
	if err != nil {
		return machine{}, err
	}
	port, err := o.portOf(server.ID)
	if err != nil {
		return machine{}, err
	}
	return machine{
		providerID: "openstack:///" + server.ID, kind: server.Flavor, region: region,
		zone:    server.AvailabilityZone,
		address: port.FixedIPs[0].Address,
	}, nil
}

func (o *openStack) setStatus(name, status string) error {
	server, err := o.find(name)
	if err != nil {
		return err
	}
	return o.server.SetServerStatus(server.ID, status)
}

// removeMachine deletes a machine, with its port.
func (o *openStack) removeMachine(name string) error {
	server, err := o.find(name)
	if err != nil {
		return err
	}
	return o.server.DeleteServer(server.ID)
}

// moveMachines moves all machines into another project.
func (o *openStack) moveMachines(project string) error {
	for _, server := range o.server.Servers() {
		if err := o.server.UpdateServer(server.ID,
			func(i *openstacktest.Server) { i.ProjectID = project }); err != nil {
			return err
		}
	}
	return nil
}

// routeTo finds the route by its next hop, because a router has no other information about a node.
func (o *openStack) routeTo(node *corev1.Node) string {
	for _, route := range o.server.Routes(o.router) {
		if route.NextHop == internalIP(node) {
			return route.Destination
		}
	}
	return ""
}

// mayUse reports whether Neutron allows a machine to send from the addresses of its pods.
func (o *openStack) mayUse(name, podCIDR string) (bool, error) {
	server, err := o.find(name)
	if err != nil {
		return false, err
	}
	port, err := o.portOf(server.ID)
	return slices.ContainsFunc(port.AllowedPairs,
		func(p openstacktest.AddressPair) bool { return p.Address == podCIDR }), err
}

// turns are the replicas in the order of their calls, by --user-agent.
func (o *openStack) turns(replicas []*replica) []string {
	var all []string
	for _, call := range o.server.Calls() {
		caller, _, _ := strings.Cut(call.UserAgent, " ")
		if slices.ContainsFunc(replicas, func(r *replica) bool { return r.name == caller }) {
			all = append(all, caller)
		}
	}
	return slices.Compact(all)
}

// tally is the number of calls by operation.
type tally map[string]int

// since counts the calls after before.
func (t tally) since(before tally) tally {
	rest := tally{}
	for operation, calls := range t {
		if more := calls - before[operation]; more > 0 {
			rest[operation] = more
		}
	}
	return rest
}

// only counts the calls of some operations.
func (t tally) only(operations ...string) tally {
	some := tally{}
	for _, operation := range operations {
		if calls := t[operation]; calls > 0 {
			some[operation] = calls
		}
	}
	return some
}

func (t tally) total() (calls int) {
	for _, n := range t {
		calls += n
	}
	return calls
}

// String names each operation, the most frequent ones first.
func (t tally) String() string {
	operations := slices.SortedFunc(maps.Keys(t),
		func(a, b string) int { return cmp.Or(t[b]-t[a], cmp.Compare(a, b)) })
	told := make([]string, 0, len(operations))
	for _, operation := range operations {
		told = append(told, fmt.Sprintf("%d %s", t[operation], operation))
	}
	return strings.Join(told, ", ")
}

// calls counts all calls so far.
func (o *openStack) calls() tally { return o.server.Counts() }
