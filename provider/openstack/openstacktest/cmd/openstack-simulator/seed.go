package main

import (
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// seeded are the IDs of the initial objects; "" for an object that the cloud does not have.
type seeded struct{ external, router, subnet string }

// seed creates the objects of the options.
func seed(cloud *openstacktest.Cloud, o options) (made seeded, err error) {
	var networks []string
	if o.router {
		made.external = cloud.AddNetwork(openstacktest.Network{Name: "public", External: true})
		cloud.AddSubnet(
			openstacktest.Subnet{Name: "public", NetworkID: made.external, CIDR: "203.0.113.0/24"})
		made.router = cloud.AddRouter(
			openstacktest.Router{Name: "router", ExternalNetworkID: made.external})
	}
	for i := range o.networks {
		name := fmt.Sprintf("net-%d", i+1)
		network := cloud.AddNetwork(openstacktest.Network{Name: name})
		subnet := cloud.AddSubnet(openstacktest.Subnet{
			Name: name, NetworkID: network,
			CIDR: fmt.Sprintf("10.%d.0.0/16", i),
		})
		if o.router {
			if err := cloud.ConnectSubnet(made.router, subnet); err != nil {
				return seeded{}, fmt.Errorf("connect %s: %w", name, err)
			}
		}
		if i == 0 {
			made.subnet = subnet
		}
		networks = append(networks, network)
	}
	for i := range o.servers {
		zone := o.zones[i%len(o.zones)]
		id := cloud.AddServer(
			openstacktest.Server{Name: fmt.Sprintf("node-%d", i+1), AvailabilityZone: zone})
		if len(networks) > 0 {
			cloud.AddPort(openstacktest.Port{
				NetworkID: networks[0], DeviceID: id,
				DeviceOwner: "compute:" + zone,
			})
		}
	}
	return made, nil
}

// sections are the sections of cloud.conf that name the objects.
func (s seeded) sections() string {
	var text strings.Builder
	if s.router != "" {
		fmt.Fprintf(&text, "\n[Route]\nrouter-id = %q\n", s.router)
	}
	if s.external != "" || s.subnet != "" {
		text.WriteString("\n[LoadBalancer]\n")
	}
	if s.external != "" {
		fmt.Fprintf(&text, "floating-network-id = %q\n", s.external)
	}
	if s.subnet != "" {
		fmt.Fprintf(&text, "subnet-id = %q\n", s.subnet)
	}
	return text.String()
}
