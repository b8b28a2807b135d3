package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// openNodes opens the nodes to the load balancer before they become members, and restricts the
// clients of their ports. New rules are created before old ones are deleted.
func (c *changer) openNodes() {
	want, is := c.want.SecurityGroup, c.is.SecurityGroup
	if want == nil {
		return
	}
	if is != nil && c.isOthersGroup(*is) {
		c.block(events.OfOtherCluster, othersGroup, is.ID, is.Name)
		return
	}
	group := GroupRef()
	var rules []neutron.Rule
	if is == nil {
		made := *want
		made.Rules = nil
		c.add(CreateSecurityGroup{Group: made})
	} else {
		group, rules = Ref{ID: is.ID}, is.Rules
		if is.Tags != nil && len(added(is.Tags, want.Tags)) > 0 {
			c.add(TagSecurityGroup{ID: is.ID, Name: is.Name, Tags: merged(is.Tags, want.Tags)})
		}
	}
	for _, rule := range want.Rules {
		if !slices.ContainsFunc(rules, rule.Same) {
			c.add(CreateRule{Group: group, Rule: rule})
		}
	}
	for _, rule := range rules {
		if !slices.ContainsFunc(want.Rules, rule.Same) && c.isOfWantedPort(rule) {
			c.add(DeleteRule{ID: rule.ID, Rule: rule})
		}
	}
	for _, port := range c.is.NodePorts {
		if node, ok := c.backendOf(port); ok && port.PortSecurity &&
			!slices.Contains(port.SecurityGroups, group.ID) {
			c.add(AddGroup{Group: group, Port: port, Node: node})
		}
	}
}

// isOfWantedPort reports whether a rule admits clients to a port of members.
func (c *changer) isOfWantedPort(rule neutron.Rule) bool {
	return slices.ContainsFunc(c.want.SecurityGroup.Rules, func(r neutron.Rule) bool {
		return r.Protocol == rule.Protocol && r.PortMin == rule.PortMin && r.PortMax == rule.PortMax
	})
}

const othersGroup = "security group %s (%s) has the mark of another cluster; it stays as it is"

// isOthersGroup: the name of a group consists of what a Service's API server reports.
func (p *planner) isOthersGroup(group neutron.SecurityGroup) bool {
	return p.id.IsOthers(group.Tags) || p.isOfOtherCluster(group.Tags)
}

// closeNodes deletes the rules of ports that no member has any more, removes the group from the
// ports of nodes that are no longer members, and deletes an unwanted group.
func (c *changer) closeNodes() {
	is := c.is.SecurityGroup
	switch {
	case is == nil || c.isOthersGroup(*is):
	case c.want.SecurityGroup == nil:
		c.removeSecurityGroup("not wanted any more")
	default:
		for _, rule := range is.Rules {
			if !slices.ContainsFunc(c.want.SecurityGroup.Rules, rule.Same) &&
				!c.isOfWantedPort(rule) {
				c.add(DeleteRule{ID: rule.ID, Rule: rule, AfterMembers: true})
			}
		}
		for _, port := range c.is.NodePorts {
			if _, ok := c.backendOf(port); !ok && slices.Contains(port.SecurityGroups, is.ID) {
				c.add(RemoveGroup{
					GroupID: is.ID, GroupName: is.Name, Port: port,
					Node: c.nodeOf(port), Why: "no member any more", AfterMembers: true,
				})
			}
		}
	}
}

// backendOf returns the node whose member address the port has.
func (c *changer) backendOf(port neutron.NodePort) (node string, ok bool) {
	for _, b := range c.want.Backends {
		if b.ServerID == "" || b.ServerID != port.ServerID {
			continue
		}
		for _, a := range port.Addresses {
			if desired.SameAddress(a.IP, b.Address) &&
				(b.SubnetID == "" || b.SubnetID == a.SubnetID) {
				return b.Node, true
			}
		}
	}
	return "", false
}

// nodeOf returns the name of the port's node, if it is still a backend.
func (c *changer) nodeOf(port neutron.NodePort) string {
	for _, b := range c.want.Backends {
		if b.ServerID != "" && b.ServerID == port.ServerID {
			return b.Node
		}
	}
	return ""
}

// removeSecurityGroup first removes the group from all ports, because Neutron requires that.
func (p *planner) removeSecurityGroup(why string) {
	group := p.is.SecurityGroup
	if group == nil || p.isOthersGroup(*group) {
		return
	}
	for _, port := range p.is.NodePorts {
		if slices.Contains(port.SecurityGroups, group.ID) {
			p.add(RemoveGroup{GroupID: group.ID, GroupName: group.Name, Port: port, Why: why})
		}
	}
	p.add(DeleteSecurityGroup{group.ID, group.Name, why})
}

func ruleText(r neutron.Rule) string {
	ports := "all ports"
	switch {
	case r.PortMin == 0 && r.PortMax == 0:
	case r.PortMin == r.PortMax:
		ports = fmt.Sprintf("port %d", r.PortMin)
	default:
		ports = fmt.Sprintf("ports %d-%d", r.PortMin, r.PortMax)
	}
	return fmt.Sprintf("%s %s %s %s from %s", r.Direction, r.EtherType,
		cmp.Or(r.Protocol, "any protocol"), ports, cmp.Or(r.RemotePrefix, "anywhere"))
}
