package plan

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// claims decides which objects belong to the Service.
type claims struct {
	id   desired.Identity
	role Role
	// loadBalancer is the load balancer's name, and vipPort its port; "" for none.
	loadBalancer, vipPort string
}

// isOfOtherCluster reports whether the tags name another cluster.
func (c claims) isOfOtherCluster(tags []string) bool {
	cluster := desired.ClusterOf(tags)
	return cluster != "" && cluster != c.id.ClusterUID
}

// byTags reports whether fxccm's tags name the Service as the owner, and whether such tags exist.
func (c claims) byTags(tags []string) (own, told bool) {
	if c.id.IsOthers(tags) {
		return false, true
	}
	if slices.Contains(tags, c.id.ServiceTag()) {
		return true, true
	}
	return false, c.isOfOtherCluster(tags) || len(desired.ServicesOf(tags)) > 0
}

// ownsListener: fxccm's tag, or OCCM's, makes a listener the Service's. A listener without tags
// comes from an OCCM or an Octavia without tags: it is the owner's if its name is the one that OCCM
// gives. OCCM treats every listener without tags as the owner's, even a user's.
func (c claims) ownsListener(l octavia.Listener) bool {
	if own, told := c.byTags(l.Tags); told {
		return own
	}
	if slices.Contains(l.Tags, c.id.LoadBalancerName()) {
		return true
	}
	if c.role != Owner {
		return false
	}
	if slices.Contains(l.Tags, c.loadBalancer) && c.isServices() {
		// The cluster had another name, and so another tag, when the load balancer was created.
		return true
	}
	return len(l.Tags) == 0 && c.isPart("listener_", l.Name, desired.ListenerName)
}

// ownsPool decides about a pool without a listener, which an interrupted plan leaves.
func (c claims) ownsPool(p octavia.Pool) bool {
	if own, told := c.byTags(p.Tags); told {
		return own
	}
	return c.role == Owner && len(p.Tags) == 0 &&
		c.isPart("pool_", p.Name, desired.PoolName)
}

// isServices reports whether the load balancer was created for any Service.
func (c claims) isServices() bool {
	return strings.HasPrefix(c.loadBalancer, desired.ServicePrefix)
}

// isPart reports whether OCCM gives the name to a part of the load balancer.
func (c claims) isPart(
	prefix, name string, nameOf func(index int, loadBalancer string) string,
) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || c.loadBalancer == "" {
		return false
	}
	digits, _, _ := strings.Cut(rest, "_")
	index, err := strconv.Atoi(digits)
	return err == nil && index >= 0 && name == nameOf(index, c.loadBalancer)
}

// ownsFloatingIP: fxccm's tag makes a floating IP the Service's. If the tags name no owner, OCCM's
// description decides, but only about a floating IP that is not older than the Service, and is at
// the load balancer or, if it is detached, has the address at which the Service was served:
// clusters of the same name write the same descriptions.
func (c claims) ownsFloatingIP(f neutron.FloatingIP) bool {
	if own, told := c.byTags(f.Tags); told {
		return own
	}
	isHere := f.PortID == c.vipPort
	if f.PortID == "" {
		isHere = f.Address == c.id.LastAddress
	}
	return f.Description == c.id.FloatingIPDescription() && isHere && !c.isOlder(f)
}

// clockSkew is how far the clock of the API server may be ahead of Neutron's.
const clockSkew = time.Minute

// isOlder reports whether a floating IP is older than the Service: OCCM left its description when
// an earlier Service of the same name kept the floating IP.
func (c claims) isOlder(f neutron.FloatingIP) bool {
	created, err := time.Parse(time.RFC3339, f.CreatedAt)
	return err == nil && created.Before(c.id.Created.Add(-clockSkew))
}

// isMarkedByOthers reports whether the tags or the description of a floating IP show another owner.
// The description counts only in the form of a controller: users may describe what they reserve.
func (c claims) isMarkedByOthers(f neutron.FloatingIP) bool {
	if c.ownsFloatingIP(f) {
		return false
	}
	_, told := c.byTags(f.Tags)
	return told || slices.ContainsFunc(f.Tags, desired.IsMark) ||
		f.Description != c.id.FloatingIPDescription() &&
			desired.IsControllersDescription(f.Description)
}

// othersIn returns the tags of other Services: fxccm's and OCCM's.
func (c claims) othersIn(tags []string) []string {
	var others []string
	for _, tag := range tags {
		switch {
		case tag == c.id.LoadBalancerName() || tag == c.id.ServiceTag():
		case c.role == Owner && tag == c.loadBalancer:
		case strings.HasPrefix(tag, desired.ServicePrefix) ||
			len(desired.ServicesOf([]string{tag})) > 0:
			others = append(others, tag)
		}
	}
	return others
}

// merged adds the missing tags. Other tags stay: they may have another owner.
func merged(is, want []string) []string {
	tags := slices.Clone(is)
	for _, tag := range want {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// added returns the missing tags, as texts of changes.
func added(is, want []string) []string {
	var changes []string
	for _, tag := range want {
		if !slices.Contains(is, tag) {
			changes = append(changes, tagChange+tag+" added")
		}
	}
	return changes
}
