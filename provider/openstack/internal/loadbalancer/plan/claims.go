package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// claims tells what is the Service's.
type claims struct {
	id   desired.Identity
	role Role
	// loadBalancer is the load balancer's name; "" for none.
	loadBalancer string
}

// isOfOtherCluster tells whether the tags name another cluster.
func (c claims) isOfOtherCluster(tags []string) bool {
	cluster := desired.ClusterOf(tags)
	return cluster != "" && cluster != c.id.ClusterUID
}

// byTags tells whether fxccm's tags make it the Service's, if there are any that tell.
func (c claims) byTags(tags []string) (own, told bool) {
	if slices.Contains(tags, c.id.ServiceTag()) {
		return true, true
	}
	return false, c.isOfOtherCluster(tags) || len(desired.ServicesOf(tags)) > 0
}

// ownsListener: fxccm's tag, or OCCM's, makes a listener the Service's. One without tags is as old
// as an OCCM, or an Octavia, that knew none: it is the owner's if its name is the one that OCCM
// gives. OCCM takes every listener without tags for the owner's, also one that a user has made.
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
		// The cluster's name was another when the load balancer was made, and so was the tag.
		return true
	}
	return len(l.Tags) == 0 && c.isPart("listener_", l.Name, desired.ListenerName)
}

// ownsPool is about a pool that no listener uses: what a plan that was interrupted leaves.
func (c claims) ownsPool(p octavia.Pool) bool {
	if own, told := c.byTags(p.Tags); told {
		return own
	}
	return c.role == Owner && len(p.Tags) == 0 &&
		c.isPart("pool_", p.Name, desired.PoolName)
}

// isServices tells whether the load balancer was made for a Service, whichever.
func (c claims) isServices() bool {
	return strings.HasPrefix(c.loadBalancer, desired.ServicePrefix)
}

// isPart tells whether the name is the one that OCCM gives to a part of the load balancer.
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

// ownsFloatingIP: fxccm's tag makes a floating IP the Service's; without any owner's tag, OCCM's
// description does.
func (c claims) ownsFloatingIP(f neutron.FloatingIP) bool {
	if own, told := c.byTags(f.Tags); told {
		return own
	}
	return f.Description == c.id.FloatingIPDescription()
}

// othersIn are the tags of other Services: fxccm's and OCCM's.
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

// added are the tags of the one that the other has not, as changes.
func added(is, want []string) []string {
	var changes []string
	for _, tag := range want {
		if !slices.Contains(is, tag) {
			changes = append(changes, tagChange+tag+" added")
		}
	}
	return changes
}
