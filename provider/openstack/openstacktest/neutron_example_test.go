package openstacktest_test

import (
	"fmt"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// A router connects the nodes' network to the external one, and has a route to the pods of a node.
func ExampleCloud_AddRouter() {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()

	public := cloud.AddNetwork(openstacktest.Network{Name: "public", External: true})
	cloud.AddSubnet(openstacktest.Subnet{NetworkID: public, CIDR: "203.0.113.0/24"})
	nodes := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: nodes, CIDR: "10.0.0.0/24"})
	router := cloud.AddRouter(openstacktest.Router{
		ExternalNetworkID: public,
		Subnets:           []string{subnet},
		Routes: []openstacktest.Route{{
			Destination: "10.244.1.0/24",
			NextHop:     "10.0.0.2",
		}},
	})
	port := cloud.AddPort(openstacktest.Port{NetworkID: nodes, DeviceID: "node-1"})
	cloud.AddFloatingIP(openstacktest.FloatingIP{NetworkID: public, PortID: port})

	fmt.Println(cloud.Routes(router))
	for _, ip := range cloud.FloatingIPs() {
		fmt.Println(ip.Address, "->", ip.FixedAddress, ip.Status)
	}
	// Output:
	// [{10.244.1.0/24 10.0.0.2}]
	// 203.0.113.3 -> 10.0.0.2 ACTIVE
}
