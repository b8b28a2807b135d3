package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// limitClients leaves out the CIDRs of clients that no address of the load balancer can have:
// Octavia refuses them. The desired state has them if a recreation would add a second VIP, and
// something prevents the recreation. It returns false, and blocks, if a listener would be left with
// an empty list, which admits all clients.
func (c *changer) limitClients() bool {
	ports := limited(c.want.Ports, c.is.LoadBalancer)
	for i, port := range ports {
		if all := c.want.Ports[i].Listener.AllowedCIDRs; len(port.Listener.AllowedCIDRs) == 0 &&
			len(all) > 0 {
			c.block(events.Unsupported, "load balancer %s has no address in the IP family of the "+
				"clients that port %s admits (%s), so none could connect; correct the source ranges",
				c.is.LoadBalancer.ID, port.Name, strings.Join(all, ", "))
			return false
		}
	}
	c.want.Ports = ports
	return true
}

// limited returns the ports with those CIDRs of clients that are in a family of the load balancer's
// addresses. It changes nothing if an address is unknown, or if the load balancer is nil.
func limited(ports []octavia.Port, lb *octavia.LoadBalancer) []octavia.Port {
	if lb == nil {
		return ports
	}
	has := map[bool]bool{}
	for _, vip := range append([]octavia.VIP{lb.VIP}, lb.AdditionalVIPs...) {
		address, err := netip.ParseAddr(vip.Address)
		if err != nil {
			return ports
		}
		has[address.Is4()] = true
	}
	isUseless := func(cidr string) bool {
		prefix, err := netip.ParsePrefix(cidr)
		return err == nil && !has[prefix.Addr().Is4()]
	}
	ports = slices.Clone(ports)
	for i := range ports {
		if l := &ports[i].Listener; slices.ContainsFunc(l.AllowedCIDRs, isUseless) {
			l.AllowedCIDRs = slices.DeleteFunc(slices.Clone(l.AllowedCIDRs), isUseless)
		}
	}
	return ports
}
