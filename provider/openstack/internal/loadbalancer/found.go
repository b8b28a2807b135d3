package loadbalancer

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// found is the load balancer of the Service and its floating IPs.
type found struct {
	claim
	// apiMinor is the minor version of Octavia's API.
	apiMinor    int
	floatingIPs []neutron.FloatingIP
}

func (f found) hasTags() bool { return f.apiMinor >= 5 }

// query selects the floating IPs of the load balancer, those tagged as the Service's, and the
// requested one.
func (f found) query(id desired.Identity, s settings.Settings) neutron.FloatingIPQuery {
	query := neutron.FloatingIPQuery{Tag: id.ServiceTag()}
	if f.balancer != nil {
		query.PortID = f.balancer.VIP.PortID
	}
	if !s.Internal {
		query.Address = s.Address
	}
	return query
}

// hasFloatingIP reports whether a floating IP points to the load balancer or can be attached to it:
// one with the tag of the Service, or the requested one.
func (f found) hasFloatingIP(tag, requested string) bool {
	return slices.ContainsFunc(f.floatingIPs, func(ip neutron.FloatingIP) bool {
		return f.leadsHere(ip) || ip.PortID == "" &&
			(slices.Contains(ip.Tags, tag) || ip.Address == requested)
	})
}

func (f found) leadsHere(ip neutron.FloatingIP) bool {
	return f.balancer != nil && ip.PortID != "" && ip.PortID == f.balancer.VIP.PortID
}

// address returns the address of the floating IP, or else of the VIP.
func (f found) address(internal bool) string {
	isVIP := internal && f.role == plan.Guest
	for _, ip := range f.floatingIPs {
		if f.leadsHere(ip) && !isVIP {
			return ip.Address
		}
	}
	return f.balancer.VIP.Address
}

// addresses returns the addresses at which clients reach the load balancer.
func (f found) addresses(internal bool) []string {
	addresses := []string{f.address(internal)}
	for _, vip := range f.balancer.AdditionalVIPs {
		addresses = append(addresses, vip.Address)
	}
	return addresses
}

// lastChange returns when the load balancer last changed, or the creation of the Service if no load
// balancer exists.
func (f found) lastChange(service *v1.Service) time.Time {
	lb := cmp.Or(f.balancer, f.deleting)
	switch {
	case lb == nil:
		return service.CreationTimestamp.Time
	case lb.UpdatedAt.After(lb.CreatedAt):
		return lb.UpdatedAt
	}
	return lb.CreatedAt
}

// lostTags returns the Service's tags that the load balancer lacks. A cluster that read the tags
// before this one wrote them removes them, because a write replaces all tags.
func (f found) lostTags(id desired.Identity) []string {
	if !f.hasTags() {
		return nil
	}
	return slices.DeleteFunc(id.Tags(),
		func(tag string) bool { return slices.Contains(f.balancer.Tags, tag) })
}

// admitGuest enforces the limit of Services that share a load balancer.
func (f found) admitGuest(id desired.Identity, maxShared int) error {
	lb := f.balancer
	if lb == nil || f.role != plan.Guest {
		return nil
	}
	if !f.hasTags() {
		return newRefusal(events.NotShared,
			"load balancer %s cannot be shared: Octavia API 2.%d has no tags, which mark the owner of each part", lb.ID, f.apiMinor)
	}
	// Services of OCCM have only names, and Services of two clusters may have the same name.
	others := max(len(sharers(id, lb)), len(desired.ServicesOf(lb.Tags)))
	if !id.HasJoined(lb.Tags) && others+1 > maxShared {
		return newRefusal(events.NotShared,
			"load balancer %s is already shared by %d other Services; [LoadBalancer] max-shared-lb allows %d", lb.ID, others, maxShared)
	}
	return nil
}

// adopt records the objects that a run has created or deleted.
func (f *found) adopt(done runResult) {
	f.balancer = done.loadBalancer
	for _, step := range done.done {
		switch s := step.(type) {
		case plan.DeleteFloatingIP:
			f.dropFloatingIP(s.ID)
		case plan.DetachFloatingIP:
			f.dropFloatingIP(s.ID)
		}
	}
	if ip := done.floatingIP; ip != nil {
		f.dropFloatingIP(ip.ID)
		f.floatingIPs = append(f.floatingIPs, *ip)
	}
}

func (f *found) dropFloatingIP(id string) {
	f.floatingIPs = slices.DeleteFunc(slices.Clone(f.floatingIPs),
		func(ip neutron.FloatingIP) bool { return ip.ID == id })
}
