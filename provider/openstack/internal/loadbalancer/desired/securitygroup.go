package desired

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// securityGroup opens the node ports, or the ports of the pods, at the nodes' ports in Neutron to
// the members' subnet, or to the clients if the provider keeps their addresses. It may return nil.
func (b *builder) securityGroup(clients []string) (*neutron.SecurityGroup, error) {
	if !b.Settings.ManageSecurityGroups {
		return nil, nil
	}
	sources := clients
	if !b.Features.KeepsClientAddress {
		sources = []string{b.Places.Member.CIDR}
	}
	var rules []neutron.Rule
	if port := int(b.Service.Spec.HealthCheckNodePort); port != 0 && b.Pods == nil {
		for _, family := range b.memberFamilies() {
			rules = append(rules, rule("tcp", port, b.memberPlace(family).CIDR))
		}
	}
	for _, port := range b.Service.Spec.Ports {
		switch {
		case b.Pods != nil:
			rules = append(rules, b.podRules(port, sources)...)
			continue
		case b.nodePort(port) == 0:
			continue
		}
		for _, source := range sources {
			rules = append(rules,
				rule(strings.ToLower(transport(port)), b.nodePort(port), source))
		}
	}
	for i, r := range rules {
		prefix, err := netip.ParsePrefix(r.RemotePrefix)
		if err != nil {
			return nil,
				fmt.Errorf(
					"the security group needs the CIDR of the members' subnet, which is unknown "+
						"(%q); name the subnet by member-subnet-id", r.RemotePrefix)
		}
		rules[i].EtherType = string(familyOf(prefix.Addr()))
	}
	return &neutron.SecurityGroup{
		Name:        b.Identity.SecurityGroupName(),
		Description: b.Identity.SecurityGroupDescription(),
		Tags:        b.Identity.NetworkTags(),
		Rules:       unique(rules),
	}, nil
}

func rule(protocol string, port int, from string) neutron.Rule {
	return neutron.Rule{
		Direction: "ingress", Protocol: protocol, PortMin: port, PortMax: port,
		RemotePrefix: from,
	}
}

// unique keeps the first of rules that admit the same traffic: Neutron refuses the second.
func unique(rules []neutron.Rule) []neutron.Rule {
	var kept []neutron.Rule
	for _, r := range rules {
		if !slices.ContainsFunc(kept, r.Same) {
			kept = append(kept, r)
		}
	}
	return kept
}
