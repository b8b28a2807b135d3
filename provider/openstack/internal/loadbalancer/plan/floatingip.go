package plan

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// floatingIPs plans the floating IP of the load balancer. vipPort is "" if this plan creates the
// port with the load balancer.
//
// The floating IP belongs to the load balancer, and so to its owner. A guest only removes the
// floating IP that it had earlier.
func (c *changer) floatingIPs(loadBalancer Ref, vipPort string) {
	f := &floating{changer: c, loadBalancer: loadBalancer}
	for _, ip := range c.is.FloatingIPs {
		switch {
		case ip.PortID != "" && ip.PortID == vipPort:
			f.attached = append(f.attached, ip)
		case ip.PortID == "" && c.ownsFloatingIP(ip):
			f.idle = append(f.idle, ip)
		case vipPort != "" && c.ownsFloatingIP(ip):
			f.moved = append(f.moved, ip)
		}
	}
	switch want := c.want.FloatingIP; {
	case c.role != Owner:
		f.dropIdle("the Service shares another's load balancer")
	case want == nil:
		f.dropAttached("not wanted any more")
		f.dropIdle("not wanted any more")
	case want.PoolTag != "":
		f.useFromPool(*want)
	case want.ID != "":
		f.useNamed(*want)
	case want.Address != "":
		f.useAsked(*want)
	default:
		f.useAny(*want)
	}
}

type floating struct {
	*changer
	loadBalancer Ref
	// attached point to the load balancer, whoever created them; idle are the Service's detached
	// ones, and moved are the Service's that point elsewhere.
	attached, idle, moved []neutron.FloatingIP
}

// useAny keeps an attached floating IP, or attaches the Service's detached one after a recreation.
func (f *floating) useAny(want neutron.WantedFloatingIP) {
	switch {
	case len(f.attached) > 0:
		f.tagFloatingIP(f.attached[0], want.Tags)
	case len(f.idle) > 0:
		f.attach(f.idle[0], want)
	default:
		f.giveUpMoved(want.NetworkID == "")
		if want.NetworkID != "" {
			f.add(CreateFloatingIP{LoadBalancer: f.loadBalancer, Wanted: want})
		}
	}
	f.dropIdle("the load balancer has another")
}

// These messages do not name the port: annotation port-id of another Service could use its ID.
const (
	movedFloatingIP  = "floating IP %s of the Service was moved to another port; leaving it there"
	othersFloatingIP = "floating IP %s %s is marked as that of another Service, cluster or " +
		"controller; leaving it there"
)

// giveUpMoved disowns a floating IP that another client has attached elsewhere. It blocks until the
// network of a replacement is known.
func (f *floating) giveUpMoved(blocks bool) {
	for _, ip := range f.moved {
		f.notice(blocks, events.FloatingIPUnavailable, movedFloatingIP, ip.Address)
		f.disown(ip)
	}
}

// annotationID names the annotation for people.
const annotationID = "annotation loadbalancer.openstack.org/floating-ip-id"

// useNamed uses the floating IP with the ID, or reports why it cannot. Another one stays then.
func (f *floating) useNamed(want neutron.WantedFloatingIP) {
	i := slices.IndexFunc(f.is.FloatingIPs,
		func(ip neutron.FloatingIP) bool { return ip.ID == want.ID })
	switch {
	case i < 0:
		f.block(events.FloatingIPUnavailable,
			"floating IP %s, named by %s, does not exist in the project; correct the annotation",
			want.ID, annotationID)
	case want.Address != "" && !desired.SameAddress(want.Address, f.is.FloatingIPs[i].Address):
		f.block(events.FloatingIPUnavailable,
			"%s names floating IP %s, whose address is not %s, which %s requests; remove one of them",
			annotationID, want.ID, want.Address, want.Source)
	default:
		want.Address = f.is.FloatingIPs[i].Address
		f.useAsked(want)
	}
}

// useFromPool keeps the floating IP of the pool that the Service has, or takes an unused one. If
// the pool is empty, the previous floating IP stays.
func (f *floating) useFromPool(want neutron.WantedFloatingIP) {
	isOfPool := func(ip neutron.FloatingIP) bool { return f.isOfPool(ip, want.PoolTag) }
	if i := slices.IndexFunc(f.attached, isOfPool); i >= 0 {
		f.keepOfPool(f.attached[i], want)
		f.dropIdle("the load balancer has another")
		return
	}
	if f.isHeld() {
		return
	}
	why := "one of the pool " + want.PoolTag + " is requested"
	if i := slices.IndexFunc(f.idle, isOfPool); i >= 0 {
		f.dropAttached(why)
		want.Tags = tagsFromPool(want)
		f.attach(f.idle[i], want)
		f.dropIdle(why)
		return
	}
	unused := f.unusedOf(want.PoolTag)
	if len(unused) == 0 {
		f.block(events.FloatingIPUnavailable, "no floating IP of the project with the tag %s, "+
			"which %s names, is unused and without another owner; release one, or create one and set "+
			"the tag", want.PoolTag, annotationTag)
		return
	}
	f.giveUpMoved(false)
	f.dropAttached(why)
	f.add(TakeFloatingIP{
		LoadBalancer: f.loadBalancer, Pool: want.PoolTag, From: unused,
		Tags: tagsFromPool(want),
		MayUse: func(now neutron.FloatingIP) bool {
			return slices.Contains(now.Tags, want.PoolTag) && !f.isMarkedByOthers(now)
		},
	})
	f.dropIdle(why)
}

// annotationTag names the annotation for people.
const annotationTag = "annotation loadbalancer.openstack.org/floating-ip-tag"

// isOfPool reports whether a floating IP is in the pool, or was when the Service took it, and has
// no other owner.
func (c *changer) isOfPool(ip neutron.FloatingIP, tag string) bool {
	return !c.isMarkedByOthers(ip) &&
		(slices.Contains(ip.Tags, tag) || slices.Contains(ip.Tags, desired.PoolTag(tag)))
}

// unusedOf returns the unused floating IPs of a pool in the order in which the Service tries them.
// The order depends on the Service: so concurrent Services rarely try the same one, and a Service
// that is created again gets the same one if it is unused.
func (f *floating) unusedOf(tag string) []neutron.FloatingIP {
	var unused []neutron.FloatingIP
	for _, ip := range f.is.FloatingIPs {
		if ip.PortID == "" && slices.Contains(ip.Tags, tag) && f.isOfPool(ip, tag) {
			unused = append(unused, ip)
		}
	}
	rank := func(ip neutron.FloatingIP) string {
		sum := sha256.Sum256([]byte(strings.Join([]string{
			f.id.ClusterUID, f.id.Namespace, f.id.Name, ip.ID,
		}, "/")))
		return string(sum[:])
	}
	slices.SortFunc(unused, func(a, b neutron.FloatingIP) int {
		return cmp.Or(strings.Compare(rank(a), rank(b)), strings.Compare(a.ID, b.ID))
	})
	return unused
}

// tagsFromPool are the tags of a floating IP while a Service uses it.
func tagsFromPool(want neutron.WantedFloatingIP) []string {
	return append(slices.Clone(want.Tags), desired.PoolTag(want.PoolTag))
}

// keepOfPool marks a floating IP of a pool that an interrupted plan has only attached, or that was
// attached before the Service named the pool. So a floating IP that was created for the Service
// joins the pool.
func (c *changer) keepOfPool(ip neutron.FloatingIP, want neutron.WantedFloatingIP) {
	if marks := tagsFromPool(want); len(added(ip.Tags, marks)) > 0 {
		c.add(TagFloatingIP{
			ID: ip.ID, Address: ip.Address, Tags: merged(ip.Tags, marks), Listed: unchanged(ip),
		})
	}
}

// isFromPool reports whether the Service has taken its floating IP from a pool, to which the
// floating IP returns.
func isFromPool(ip neutron.FloatingIP) bool {
	return slices.ContainsFunc(ip.Tags, desired.IsPoolTag)
}

// useAsked creates the new floating IP before it releases the old one, because a request for an
// address needs a permission that not every project has.
func (f *floating) useAsked(want neutron.WantedFloatingIP) {
	if i := slices.IndexFunc(f.attached, isAsked(want)); i >= 0 {
		f.tagFloatingIP(f.attached[i], want.Tags)
		f.dropIdle("the load balancer has another")
		return
	}
	why := "address " + want.Address + " is requested"
	i := slices.IndexFunc(f.is.FloatingIPs, isAsked(want))
	if f.isHeld() {
		return
	}
	switch {
	case i >= 0 && f.isMarkedByOthers(f.is.FloatingIPs[i]):
		f.block(events.FloatingIPUnavailable, othersFloatingIP+
			" until its owner removes these tags and this description", want.Address,
			"is requested, but it")
		return
	case i >= 0 && f.is.FloatingIPs[i].PortID != "":
		f.block(events.FloatingIPUnavailable, "requested floating IP %s is in use; detach it, or "+
			"request another one", want.Address)
		return
	case i >= 0:
		f.dropAttached(why)
		f.attach(f.is.FloatingIPs[i], want)
	default:
		if want.NetworkID == "" && len(f.attached) > 0 {
			want.NetworkID = f.attached[0].NetworkID
		}
		if want.NetworkID == "" {
			f.block(events.FloatingIPUnavailable,
				"requested floating IP %s does not exist, and no external network to create it in "+
					"was found; correct the address, or set floating-network-id", want.Address)
			return
		}
		f.createAsked(want, why)
	}
	f.dropIdle(why)
}

// isAsked returns whether a floating IP is the requested one. Two external networks may have the
// same address.
func isAsked(want neutron.WantedFloatingIP) func(neutron.FloatingIP) bool {
	return func(f neutron.FloatingIP) bool {
		if want.ID != "" {
			return f.ID == want.ID
		}
		return want.Address != "" && desired.SameAddress(f.Address, want.Address)
	}
}

func (f *floating) createAsked(want neutron.WantedFloatingIP, why string) {
	if len(f.attached) == 0 {
		f.add(CreateFloatingIP{LoadBalancer: f.loadBalancer, Wanted: want})
		return
	}
	f.add(CreateFloatingIP{Wanted: want})
	f.dropAttached(why)
	f.add(AttachFloatingIP{LoadBalancer: f.loadBalancer, Address: want.Address})
}

// attach also removes the floating IP from the idle ones. A requested floating IP that only looks
// like the Service's may be another cluster's. Its description is cleared: once it is attached, the
// description would make it the Service's, and it would be deleted with the Service.
func (f *floating) attach(ip neutron.FloatingIP, want neutron.WantedFloatingIP) {
	f.tagFloatingIP(ip, want.Tags)
	f.add(AttachFloatingIP{
		LoadBalancer: f.loadBalancer, ID: ip.ID, Address: ip.Address,
		Release: !f.ownsFloatingIP(ip) && ip.Description == f.id.FloatingIPDescription(),
		MayUse:  func(now neutron.FloatingIP) bool { return !f.isMarkedByOthers(now) },
	})
	f.idle = slices.DeleteFunc(slices.Clone(f.idle),
		func(other neutron.FloatingIP) bool { return other.ID == ip.ID })
}

// tagFloatingIP tags a floating IP that was created for the Service, or for an earlier Service of
// the same name that has left it to the guests. It does not tag another owner's.
func (p *planner) tagFloatingIP(ip neutron.FloatingIP, want []string) {
	tags := ip.Tags
	if p.isInherited(ip) {
		tags = slices.DeleteFunc(slices.Clone(tags),
			func(tag string) bool { return len(desired.ServicesOf([]string{tag})) > 0 })
	} else if !p.ownsFloatingIP(ip) {
		return
	}
	if tags != nil && len(added(tags, want)) > 0 {
		p.add(TagFloatingIP{
			ID: ip.ID, Address: ip.Address, Tags: merged(tags, want), Listed: unchanged(ip),
		})
	}
}

// isInherited reports whether a floating IP was created for an earlier Service of the same name,
// and points to that Service's load balancer, which is the Service's now.
func (p *planner) isInherited(ip neutron.FloatingIP) bool {
	lb := p.is.LoadBalancer
	return p.role == Owner && lb != nil && ip.PortID != "" && ip.PortID == lb.VIP.PortID &&
		!p.ownsFloatingIP(ip) && !p.id.IsOthers(ip.Tags) &&
		desired.ClusterOf(ip.Tags) == p.id.ClusterUID &&
		ip.Description == p.id.FloatingIPDescription()
}

// dropAttached detaches the floating IPs of the load balancer. It deletes one that was created for
// the Service, or disowns it if it is to be kept or is from a pool.
func (f *floating) dropAttached(why string) {
	for _, ip := range f.attached {
		switch {
		case f.stays(ip):
			f.notice(false, events.FloatingIPUnavailable, othersFloatingIP, ip.Address,
				"of the load balancer")
		case f.ownsFloatingIP(ip) && !f.want.KeepFloatingIP && !isFromPool(ip):
			f.add(deletionOf(ip, why))
		case f.ownsFloatingIP(ip):
			f.giveUp(ip, why)
		case !f.isAtNamedPort(ip):
			f.add(f.detachmentOf(ip, why))
		}
	}
}

// stays reports whether an attached floating IP has another owner.
func (f *floating) stays(ip neutron.FloatingIP) bool {
	return f.isMarkedByOthers(ip) && !f.isInherited(ip)
}

// isHeld reports, also to the user, whether the load balancer has a floating IP that stays there. A
// port has one floating IP for each of its addresses.
func (f *floating) isHeld() bool {
	for _, ip := range f.attached {
		switch {
		case f.stays(ip):
			f.block(events.FloatingIPUnavailable, othersFloatingIP, ip.Address,
				"of the load balancer")
			return true
		case f.isAtNamedPort(ip) && !f.ownsFloatingIP(ip):
			f.block(events.FloatingIPUnavailable, "floating IP %s is attached to the port that "+
				"annotation loadbalancer.openstack.org/port-id names, and was not created for the "+
				"Service; detach it, so that the Service gets the requested one", ip.Address)
			return true
		}
	}
	return false
}

// isAtNamedPort reports whether the Service names the port of a floating IP. Such a port is older
// than the load balancer, and so may the floating IP be.
func (f *floating) isAtNamedPort(ip neutron.FloatingIP) bool {
	return ip.PortID == f.want.LoadBalancer.VIP.PortID
}

// dropIdle deletes only what the tags show as the Service's: a detached floating IP with OCCM's
// description may be that of a Service of the same name in another cluster of the same name.
func (f *floating) dropIdle(why string) {
	for _, ip := range f.idle {
		if own, _ := f.byTags(ip.Tags); !own {
			continue
		}
		if f.want.KeepFloatingIP || isFromPool(ip) {
			f.disown(ip)
		} else {
			f.add(deletionOf(ip, why))
		}
	}
}

// deletionOf deletes a floating IP unless another client has moved or marked it since the list.
func deletionOf(listed neutron.FloatingIP, why string) DeleteFloatingIP {
	return DeleteFloatingIP{
		ID: listed.ID, Address: listed.Address, Why: why, Listed: unchanged(listed),
	}
}

// unchanged expects the port, the tags and the description of the list. The end of its port
// detaches a floating IP.
func unchanged(listed neutron.FloatingIP) Listed {
	return Listed{
		Revision: listed.Revision,
		Owned: func(now neutron.FloatingIP) bool {
			return (now.PortID == "" || now.PortID == listed.PortID) && hasMarksOf(now, listed)
		},
	}
}

func hasMarksOf(now, listed neutron.FloatingIP) bool {
	return now.Description == listed.Description &&
		slices.Equal(slices.Sorted(slices.Values(now.Tags)),
			slices.Sorted(slices.Values(listed.Tags)))
}

// detachmentOf detaches a floating IP unless after the list it was led elsewhere or got another
// owner. The plan itself may have tagged it.
func (c claims) detachmentOf(listed neutron.FloatingIP, why string) DetachFloatingIP {
	return DetachFloatingIP{
		ID: listed.ID, Address: listed.Address, Why: why,
		Listed: Listed{
			Revision: listed.Revision,
			Owned: func(now neutron.FloatingIP) bool {
				return (now.PortID == "" || now.PortID == listed.PortID) &&
					(hasMarksOf(now, listed) || !c.isMarkedByOthers(now))
			},
		},
	}
}

// disown removes the marks from a floating IP of the Service, so that no deletion of the Service
// deletes it for its next user, and any Service may use it. They may be older than the name of the
// cluster, the Service's ownership of the load balancer, or the cluster's departure from a fleet.
func (p *planner) disown(f neutron.FloatingIP) {
	step := TagFloatingIP{
		ID: f.ID, Address: f.Address, Release: p.isDescribed(f), Listed: unchanged(f),
	}
	isMark := func(tag string) bool {
		return slices.Contains(p.id.NetworkTags(), tag) || desired.IsPoolTag(tag) ||
			!p.isElsewhere(f) && desired.IsMark(tag)
	}
	if slices.ContainsFunc(f.Tags, isMark) {
		step.Tags = slices.DeleteFunc(slices.Clone(f.Tags), isMark)
	}
	if step.Release || step.Tags != nil {
		p.add(step)
	}
}

// giveUp detaches and disowns a floating IP.
func (p *planner) giveUp(f neutron.FloatingIP, why string) {
	step := p.detachmentOf(f, why)
	step.Release = p.isDescribed(f)
	p.add(step)
	if step.Release {
		f.Description = ""
	}
	p.disown(f)
}

func (p *planner) isDescribed(f neutron.FloatingIP) bool {
	return f.Description == p.id.FloatingIPDescription() ||
		!p.isElsewhere(f) && desired.IsControllersDescription(f.Description)
}

// isElsewhere reports whether another client has attached a floating IP of the Service to another
// port: the client may have marked it.
func (p *planner) isElsewhere(f neutron.FloatingIP) bool {
	lb := p.is.LoadBalancer
	return f.PortID != "" && (lb == nil || f.PortID != lb.VIP.PortID)
}
