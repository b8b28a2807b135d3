package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// OutlineDesired describes the desired state for people: a line for each object, below its parent.
func OutlineDesired(want desired.State) []string {
	lb := want.LoadBalancer
	lines := []string{fmt.Sprintf("load balancer %s at %s", lb.Name, textOf(lb.VIP))}
	lines = append(lines, indented(loadBalancerDetails(CreateLoadBalancer{
		LoadBalancer: lb, Ports: want.Ports,
	}))...)
	if ip := want.FloatingIP; ip != nil {
		lines = append(lines, fmt.Sprintf("floating IP %s in network %s", cmp.Or(ip.Address,
			"with any address"), cmp.Or(ip.NetworkID, "of the existing one")))
		lines = append(lines, indented(tagDetails(ip.Tags))...)
	}
	return append(lines, outlineGroup(want.SecurityGroup)...)
}

// Outline describes the observed state in the same form. It has the listeners and pools of all
// owners.
func (o *Observed) Outline() []string {
	var lines []string
	if lb := o.LoadBalancer; lb != nil {
		lines = append(lines, fmt.Sprintf("load balancer %s (%s), %s %s, at %s", lb.Name, lb.ID,
			lb.Status, lb.Operating, textOf(lb.VIP)))
		lines = append(lines, indented(loadBalancerDetails(CreateLoadBalancer{
			LoadBalancer: *lb, Bare: true,
		}))...)
	}
	shown := map[string]bool{}
	for _, l := range o.Listeners {
		lines = append(lines, fmt.Sprintf("  listener %s, %s", listenerText(l), l.Status))
		lines = append(lines, indented(indented(listenerDetails(l)))...)
		if pool := o.Pool(l.PoolID); pool != nil {
			shown[pool.ID] = true
			lines = append(lines, indented(indented(outlinePool(*pool)))...)
		}
	}
	for _, p := range o.Pools {
		if !shown[p.ID] {
			lines = append(lines, indented(outlinePool(p))...)
		}
	}
	for _, ip := range o.FloatingIPs {
		lines = append(lines, fmt.Sprintf("floating IP %s (%s) in network %s, to port %s",
			ip.Address, ip.ID, ip.NetworkID, cmp.Or(ip.PortID, "none")))
		lines = append(lines, indented(tagDetails(ip.Tags))...)
	}
	return append(lines, outlineGroup(o.SecurityGroup)...)
}

func outlinePool(p octavia.Pool) []string {
	monitor := p.Monitor
	p.Members = slices.Clone(p.Members)
	for i := range p.Members {
		if p.MembersInPart {
			p.Members[i].Weight = 1 // not shown
		}
	}
	if p.MonitorInPart {
		p.Monitor = nil
	}
	lines := poolDetails(p)
	lines[0] += ", " + string(p.Status)
	if p.MonitorInPart && monitor != nil {
		lines = append(lines, fmt.Sprintf("  monitor %s (%s)", monitor.Name, monitor.Type))
	}
	return lines
}

func outlineGroup(group *neutron.SecurityGroup) []string {
	if group == nil {
		return nil
	}
	lines := []string{"security group " + group.Name}
	lines = append(lines, indented(tagDetails(group.Tags))...)
	for _, rule := range group.Rules {
		lines = append(lines, "  rule "+ruleText(rule))
	}
	return lines
}

func indented(lines []string) []string {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}
