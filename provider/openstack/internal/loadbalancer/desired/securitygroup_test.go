package desired

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func managed(in *Input) { in.Settings.ManageSecurityGroups = true }

func TestSecurityGroup_OnlyIfManaged(t *testing.T) {
	t.Parallel()
	d, _ := build(t)
	if d.SecurityGroup != nil {
		t.Errorf("%+v", d.SecurityGroup)
	}
	d, _ = build(t, managed)
	want := &neutron.SecurityGroup{
		Name:        "lb-sg-" + serviceUID + "-shop-web",
		Description: "Security Group for shop/web Service LoadBalancer in cluster kubernetes",
		Tags:        []string{"fxccm-cluster=" + clusterUID, "fxccm-service=" + serviceUID},
		Rules:       []neutron.Rule{let("tcp", 30080, "10.0.0.0/16")},
	}
	if !reflect.DeepEqual(d.SecurityGroup, want) {
		t.Errorf("%+v, want %+v", d.SecurityGroup, want)
	}
}

// let returns an IPv4 rule.
func let(protocol string, port int, from string) neutron.Rule {
	return neutron.Rule{
		Direction: "ingress", EtherType: "IPv4", Protocol: protocol, PortMin: port,
		PortMax: port, RemotePrefix: from,
	}
}

func let6(protocol string, port int, from string) neutron.Rule {
	r := let(protocol, port, from)
	r.EtherType = "IPv6"
	return r
}

func TestSecurityGroup_Rules(t *testing.T) {
	t.Parallel()
	ranges := func(cidrs ...string) func(*Input) {
		return func(in *Input) { in.Settings.SourceRanges = cidrs }
	}
	subnet := func(cidr string) func(*Input) {
		return func(in *Input) { in.Places.Member.CIDR = cidr }
	}
	for name, test := range map[string]struct {
		changes []func(*Input)
		want    []neutron.Rule
	}{
		"ports, and the health check's": {
			[]func(*Input){
				withProtocols(v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP),
				withLocal, withMonitor,
			},
			[]neutron.Rule{
				let("tcp", 31000, "10.0.0.0/16"), let("tcp", 30080, "10.0.0.0/16"),
				let("udp", 30081, "10.0.0.0/16"), let("sctp", 30082, "10.0.0.0/16"),
			},
		},
		// TERMINATED_HTTPS is not a protocol of Neutron.
		"a listener of another protocol": {
			[]func(*Input){withSettings(func(s *settings.Settings) {
				s.TLSContainer = certificate
			})},
			[]neutron.Rule{let("tcp", 30080, "10.0.0.0/16")},
		},
		"amphora enforces source ranges itself": {
			[]func(*Input){ranges("192.0.2.0/24")},
			[]neutron.Rule{let("tcp", 30080, "10.0.0.0/16")},
		},
		"no node port": {
			[]func(*Input){withPorts(v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80},
				v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 81, NodePort: 30081})},
			[]neutron.Rule{let("tcp", 30081, "10.0.0.0/16")},
		},
		"two ports to one node port": {
			[]func(*Input){withPorts(
				v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 80, NodePort: 30080},
				v1.ServicePort{Protocol: v1.ProtocolTCP, Port: 81, NodePort: 30080},
			)},
			[]neutron.Rule{let("tcp", 30080, "10.0.0.0/16")},
		},
		// The members' subnet determines the family, whatever the VIP's is.
		"IPv6 members": {
			[]func(*Input){v6, subnet("fd00::/64"), withLocal, withMonitor},
			[]neutron.Rule{let6("tcp", 31000, "fd00::/64"), let6("tcp", 30080, "fd00::/64")},
		},
		"ovn: the clients": {
			[]func(*Input){withFeatures(ovn())},
			[]neutron.Rule{let("tcp", 30080, "0.0.0.0/0")},
		},
		"ovn: the clients that may": {
			[]func(*Input){
				withFeatures(ovn()), ranges("198.51.100.0/24", "192.0.2.0/24"),
				withProtocols(v1.ProtocolTCP, v1.ProtocolUDP),
			},
			[]neutron.Rule{
				let("tcp", 30080, "192.0.2.0/24"), let("tcp", 30080, "198.51.100.0/24"),
				let("udp", 30081, "192.0.2.0/24"), let("udp", 30081, "198.51.100.0/24"),
			},
		},
		"ovn: the health check comes from the subnet": {
			[]func(*Input){withFeatures(ovn()), withLocal, withMonitor},
			[]neutron.Rule{let("tcp", 31000, "10.0.0.0/16"), let("tcp", 30080, "0.0.0.0/0")},
		},
		"ovn, IPv6": {
			[]func(*Input){withFeatures(ovn()), v6, subnet("")},
			[]neutron.Rule{let6("tcp", 30080, "::/0")},
		},
		"ovn: nothing of the subnet is needed": {
			[]func(*Input){withFeatures(ovn()), subnet("")},
			[]neutron.Rule{let("tcp", 30080, "0.0.0.0/0")},
		},
	} {
		d, _ := build(t, append(test.changes, managed)...)
		if got := d.SecurityGroup.Rules; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, test.want)
		}
	}
}

// OCCM panics at the second pass. Without rules the nodes' ports would be closed.
func TestSecurityGroup_SubnetUnknown_IsAnError(t *testing.T) {
	t.Parallel()
	for name, features := range map[string]Features{"amphora": latest(), "ovn": ovn()} {
		err := refused(t, managed, withLocal, withFeatures(features),
			func(in *Input) { in.Places.Member = MemberPlace{} })
		if !strings.Contains(err.Error(), "subnet") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
