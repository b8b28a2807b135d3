package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// createLoadBalancer creates the Service's own load balancer.
func (c *changer) createLoadBalancer() {
	vip := c.want.LoadBalancer.VIP.SubnetID
	ports := slices.Clone(c.want.Ports)
	for i := range ports {
		ports[i].Pool.Members = requested(ports[i].Pool.Members, nil, vip, c.want.Features)
	}
	if c.want.Features.Serial {
		c.add(CreateLoadBalancer{LoadBalancer: c.want.LoadBalancer, Bare: true})
		return
	}
	c.add(CreateLoadBalancer{LoadBalancer: c.want.LoadBalancer, Ports: ports})
}

// tagLoadBalancer comes first, because the tags prevent an owner that leaves from deleting what its
// guests use.
func (c *changer) tagLoadBalancer() {
	if !c.want.Features.Tags {
		return
	}
	lb := c.is.LoadBalancer
	want := c.id.Tags()
	if c.role == Guest {
		// The mark is that of the cluster whose load balancer it is.
		want = slices.DeleteFunc(want, func(tag string) bool { return tag == c.id.OwnerTag() })
	}
	if c.joinsAnothers() {
		want = append(want, c.id.GuestTag())
	}
	changes, tags := added(lb.Tags, want), merged(lb.Tags, want)
	if at := slices.Index(tags, c.id.GuestTag()); at >= 0 && c.role == Owner {
		// A guest of the owner's cluster joined before fxccm knew the owner.
		tags = slices.Delete(tags, at, at+1)
		changes = append(changes, tagChange+c.id.GuestTag()+" removed")
	}
	if c.role == Owner && len(c.others()) == 0 {
		var more []string
		tags, more = c.shareAlone(tags)
		changes = append(changes, more...)
	}
	if len(changes) > 0 {
		c.add(UpdateLoadBalancer{ID: lb.ID, Name: lb.Name, Tags: tags, Changes: changes})
	}
}

// shareAlone sets the tags by which others find the load balancer of a Service that shares it with
// none yet. They promise what the Service requests, so they are absent while an immutable
// difference exists. A load balancer that others use keeps its tags, by which they joined it.
func (c *changer) shareAlone(tags []string) (after, changes []string) {
	var want []string
	if len(c.immutable()) == 0 {
		want = desired.ShareTags(c.want.LoadBalancer.Tags)
	}
	changes = added(tags, want)
	for _, tag := range desired.ShareTags(tags) {
		if !slices.Contains(want, tag) {
			tags = slices.DeleteFunc(slices.Clone(tags), func(is string) bool { return is == tag })
			changes = append(changes, tagChange+tag+" removed")
		}
	}
	return merged(tags, want), changes
}

// joinsAnothers reports whether the cluster joins a load balancer that another cluster uses, or one
// that OCCM created for a Service of an unknown cluster.
func (c *changer) joinsAnothers() bool {
	lb := c.is.LoadBalancer
	isOCCMs := c.isServices() && lb.Name != c.id.LoadBalancerName() &&
		slices.Contains(lb.Tags, lb.Name)
	return c.role == Guest && !slices.Contains(lb.Tags, c.id.ClusterTag()) &&
		(isOCCMs || len(c.id.OtherClusters(lb.Tags)) > 0)
}

const howToRecreate = `annotation loadbalancer.openstack.org/recreate: "true" recreates it`

func (c *changer) noticeImmutable(changes []string) {
	c.notice(false, events.Immutable, "this cannot be changed in a load balancer: %s; %s",
		strings.Join(changes, ", "), howToRecreate)
}

// immutable returns the differences that Octavia cannot change
// (octavia/api/v2/types/load_balancer.py, LoadBalancerPUT). Only requested values are compared, and
// a guest requests none.
func (c *changer) immutable() []string {
	if c.role != Owner {
		return nil
	}
	want, is := c.want.LoadBalancer, c.is.LoadBalancer
	var changes []string
	compare := func(what, is, want string) {
		if want != "" && want != is {
			changes = append(changes, changed(what, is, want))
		}
	}
	if !sameProvider(want.Provider, is.Provider) {
		compare("provider", is.Provider, want.Provider)
	}
	compare("flavor", is.FlavorID, want.FlavorID)
	compare("availability zone", is.AvailabilityZone, want.AvailabilityZone)
	if !desired.SameAddress(want.VIP.Address, is.VIP.Address) {
		compare("address", is.VIP.Address, want.VIP.Address)
	}
	compare("port", is.VIP.PortID, want.VIP.PortID)
	compare("subnet", is.VIP.SubnetID, want.VIP.SubnetID)
	compare("network", is.VIP.NetworkID, want.VIP.NetworkID)
	for _, vip := range want.AdditionalVIPs {
		if !slices.ContainsFunc(is.AdditionalVIPs,
			func(there octavia.VIP) bool { return fulfills(there, vip) }) {
			changes = append(changes, "additional address "+textOf(vip)+" missing")
		}
	}
	return changes
}

// sameProvider knows that octavia and amphorav2 are aliases of amphora (Octavia's configuration
// reference, enabled_provider_drivers).
func sameProvider(a, b string) bool {
	amphora := []string{"amphora", "amphorav2", "octavia"}
	return a == b || slices.Contains(amphora, a) && slices.Contains(amphora, b)
}

func fulfills(is, want octavia.VIP) bool {
	return (want.SubnetID == "" || want.SubnetID == is.SubnetID) &&
		(want.Address == "" || desired.SameAddress(want.Address, is.Address))
}

// recreate replaces the load balancer if the settings allow it, and reports whether they do.
//
// The floating IP moves to the new load balancer, which keeps the VIP address if possible, because
// clients may have stored the address.
func (c *changer) recreate(why []string) bool {
	if reason := c.whyKept(); reason != "" {
		// The load balancer serves all the same, unless it is in ERROR.
		c.notice(c.is.LoadBalancer.Status == octavia.InError, events.UsedByOthers,
			"load balancer %s is not recreated (%s): %s",
			c.is.LoadBalancer.ID, strings.Join(why, ", "), reason)
		return false
	}
	old, served := *c.is.LoadBalancer, !c.failedAtOnce()
	c.releaseFloatingIPs()
	c.deleteLoadBalancer(c.want.Cascade, strings.Join(why, ", "))
	if c.want.LoadBalancer.Provider != "" &&
		!sameProvider(c.want.LoadBalancer.Provider, old.Provider) {
		// The new load balancer's provider may support other features, so the desired state is
		// built again without this load balancer.
		return true
	}
	if vip := &c.want.LoadBalancer.VIP; served && vip.Address == "" && vip.PortID == "" &&
		isWithin(old.VIP, *vip) {
		vip.Address = old.VIP.Address
	}
	c.make()
	return true
}

// releaseFloatingIPs detaches them with separate steps, so that they do not depend on the VIP port.
// Until they are attached again, their tags or the requested address identify them.
func (c *changer) releaseFloatingIPs() {
	port := c.is.LoadBalancer.VIP.PortID
	c.is.FloatingIPs = slices.Clone(c.is.FloatingIPs)
	for i := range c.is.FloatingIPs {
		f := &c.is.FloatingIPs[i]
		if port == "" || f.PortID != port {
			continue
		}
		want := c.want.FloatingIP
		ofPool := want != nil && c.isOfPool(*f, want.PoolTag)
		if ofPool {
			c.keepOfPool(*f, *want)
		} else {
			c.tagFloatingIP(*f, c.id.NetworkTags())
		}
		c.add(c.detachmentOf(*f, "the load balancer is recreated"))
		switch {
		case ofPool:
			f.Tags = merged(f.Tags, tagsFromPool(*want))
		case c.ownsFloatingIP(*f):
			f.Tags = merged(f.Tags, c.id.NetworkTags())
		}
		f.PortID = ""
	}
}

// isWithin reports whether an address is in the desired place.
func isWithin(is, want octavia.VIP) bool {
	return (want.SubnetID == "" || want.SubnetID == is.SubnetID) &&
		(want.NetworkID == "" || want.NetworkID == is.NetworkID)
}

// whyKept returns why the load balancer must not be recreated; "" if it may be.
func (c *changer) whyKept() string {
	if others := c.others(); len(others) > 0 {
		return "others use it: " + strings.Join(others, ", ") +
			"; delete these if they are not needed"
	}
	for _, f := range c.is.FloatingIPs {
		if f.PortID != "" && f.PortID == c.is.LoadBalancer.VIP.PortID && c.isMarkedByOthers(f) &&
			!c.isInherited(f) {
			return "floating IP " + f.Address + " has another owner and would be lost; detach it"
		}
	}
	if c.want.FloatingIP == nil {
		return ""
	}
	for _, f := range c.is.FloatingIPs {
		if f.PortID != "" && f.PortID == c.is.LoadBalancer.VIP.PortID && !c.ownsFloatingIP(f) &&
			!isAsked(*c.want.FloatingIP)(f) && !c.isOfPool(f, c.want.FloatingIP.PoolTag) {
			return fmt.Sprintf(
				"floating IP %s was not created for the Service and would be lost; set "+
					"spec.loadBalancerIP: %s to keep it", f.Address, f.Address)
		}
	}
	return ""
}

// others returns the other users of the load balancer.
func (p *planner) others() []string {
	others := p.othersIn(p.is.LoadBalancer.Tags)
	for _, cluster := range p.id.OtherClusters(p.is.LoadBalancer.Tags) {
		others = append(others, "cluster "+cluster)
	}
	own := map[string]bool{}
	for _, l := range p.is.Listeners {
		if p.ownsListener(l) {
			own[l.PoolID] = true
		} else {
			others = append(others, "listener "+l.ID)
		}
	}
	for _, pool := range p.is.Pools {
		if !own[pool.ID] && !p.ownsPool(pool) && !p.isUsed(pool.ID) {
			others = append(others, "pool "+pool.ID)
		}
	}
	return others
}

// isUsed reports whether the pool is a listener's default pool.
func (p *planner) isUsed(pool string) bool {
	return slices.ContainsFunc(p.is.Listeners,
		func(l octavia.Listener) bool { return l.PoolID == pool })
}

// deleteLoadBalancer deletes the load balancer with its parts. In ERROR no part can be deleted
// alone.
func (p *planner) deleteLoadBalancer(cascade bool, why string) {
	lb := p.is.LoadBalancer
	cascade = cascade || lb.Status == octavia.InError
	if !cascade {
		// A listener first, then its pool: a policy of the listener may use a pool too.
		for _, l := range p.is.Listeners {
			p.add(DeleteListener{l.ID, l.Name, why})
		}
		for _, pool := range p.is.Pools {
			p.add(DeletePool{pool.ID, pool.Name, why})
		}
	}
	p.add(DeleteLoadBalancer{ID: lb.ID, Name: lb.Name, Cascade: cascade, Why: why})
}

// differences are the changes of a step, for people.
type differences []string

// compare adds a difference of two values of the same type.
func (d *differences) compare(what string, is, want any) {
	if is != want {
		*d = append(*d, changed(what, is, want))
	}
}

// add adds the differences of an object.
func (d *differences) add(changes []octavia.Change) {
	for _, c := range changes {
		*d = append(*d, changed(c.Name, c.Is, c.Want))
	}
}

// repair adds an update of a resource in ERROR: any update makes Octavia set it up again.
func (d *differences) repair(status octavia.Status) {
	if status == octavia.InError {
		*d = append(*d, "in ERROR")
	}
}

// changed describes a difference.
func changed(what string, is, want any) string {
	return fmt.Sprintf("%s %s -> %s", what, shown(is), shown(want))
}

func shown(value any) string {
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "none"
}

func textOf(vip octavia.VIP) string {
	var parts []string
	if vip.Address != "" {
		parts = append(parts, vip.Address)
	}
	for _, at := range []struct{ what, id string }{
		{"port", vip.PortID},
		{"subnet", vip.SubnetID},
		{"network", vip.NetworkID},
	} {
		if at.id != "" {
			parts = append(parts, at.what+" "+at.id)
		}
	}
	if len(parts) == 0 {
		return "anywhere"
	}
	return strings.Join(parts, ", ")
}
