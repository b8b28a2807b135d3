package instances

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Without limits, the comparisons would take days.
func TestNodeAddresses_ServerAndNodeHaveAddressesWithoutAnEnd_FewAreCompared(t *testing.T) {
	const count = 1 << 20
	s := &server{Addresses: map[string][]address{}}
	p := port{Status: portActive}
	node := &v1.Node{}
	for n := range count {
		ip := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
		network := fmt.Sprint("network-", n%10)
		s.Addresses[network] = append(s.Addresses[network], address{Address: ip})
		p.FixedIPs = append(p.FixedIPs, fixedIP{ip})
		node.Status.Addresses = append(node.Status.Addresses, externalIP("1"+ip))
	}
	found := nodeAddresses(s, []port{p}, node.Status.Addresses, cloudconf.Networking{
		InternalNetworkNames: []string{"network-1", "network-0"},
	})
	if len(found) == 0 || len(found) > mostAddresses {
		t.Errorf("the node gets %d addresses, want %d at most", len(found), mostAddresses)
	}
	if told := (toldServer{Server: Server{Addresses: found}}); !told.lacks(node) {
		t.Error("the server has all addresses of the node")
	}
}
