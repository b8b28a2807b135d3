package plan

import (
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

func lbRef() Ref    { return LoadBalancerRef() }
func groupRef() Ref { return GroupRef() }

func wantedBalancer(s *runSite) octavia.LoadBalancer {
	return octavia.LoadBalancer{
		Name: "lb", Description: "d", Tags: []string{"a"},
		VIP: octavia.VIP{SubnetID: s.subnet},
	}
}

func tcpListener() octavia.Listener {
	return octavia.Listener{
		Name: "listener_0", Tags: []string{"a"}, Protocol: octavia.TCP,
		Port: 80, ConnectionLimit: -1,
	}
}

func tcpPool() octavia.Pool {
	return octavia.Pool{Name: "pool_0", Protocol: octavia.TCP, Algorithm: "ROUND_ROBIN"}
}

func tcpMonitor() octavia.Monitor {
	return octavia.Monitor{
		Name: "monitor_0", Type: octavia.MonitorTCP, Delay: 5, Timeout: 3,
		MaxRetries: 1, MaxRetriesDown: 3,
	}
}

func member(name, address string) octavia.Member {
	return octavia.Member{Name: name, Address: address, Port: 30080, Weight: 1}
}

func wantedIP(s *runSite) neutron.WantedFloatingIP {
	return neutron.WantedFloatingIP{
		NetworkID: s.external, SubnetIDs: []string{s.floating},
		Description: "for lb", Tags: []string{"a"},
	}
}

func rule(port int) neutron.Rule {
	return neutron.Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", PortMin: port,
		PortMax: port, RemotePrefix: "10.0.0.0/16",
	}
}
