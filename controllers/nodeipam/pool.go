package nodeipam

import (
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	netutils "k8s.io/utils/net"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

// pool holds the ranges of all nodes. It is safe for concurrent use.
type pool struct {
	mu      sync.Mutex
	cluster []*ranges
	holders map[string]holder // by node name
}

// holder is a node that has ranges, or to which a patch may have given them.
type holder struct {
	uid    types.UID
	ranges []netip.Prefix
}

func newPool(cluster []cloudcontrollers.NodeRange, services []netip.Prefix) *pool {
	p := &pool{holders: map[string]holder{}}
	for _, c := range cluster {
		r := newRanges(c)
		for _, service := range services {
			r.change(service, 1)
		}
		p.cluster = append(p.cluster, r)
	}
	return p
}

// occupied reports irregular ranges of a node.
type occupied struct {
	// outside are the ranges that no cluster CIDR contains.
	outside []string
	// shared names the other users of the ranges.
	shared []string
}

// occupy records the ranges that a node has. It reports irregular ones when they are new.
func (p *pool) occupy(node *corev1.Node) occupied {
	has, unparsed := parse(node.Spec.PodCIDRs)
	p.mu.Lock()
	defer p.mu.Unlock()
	old, ok := p.holders[node.Name]
	if ok && old.uid == node.UID && slices.Equal(old.ranges, has) {
		return occupied{}
	}
	p.drop(node.Name)
	found := occupied{outside: unparsed}
	for _, prefix := range has {
		inside := false
		for _, r := range p.cluster {
			overlaps, isShared := r.change(prefix, 1)
			inside = inside || overlaps
			if isShared {
				found.shared = append(found.shared, p.holdersOf(prefix)...)
			}
		}
		if !inside {
			found.outside = append(found.outside, prefix.String())
		}
	}
	p.holders[node.Name] = holder{node.UID, has}
	return found
}

// assign returns the ranges for a node without ranges: those of an earlier attempt, or free ones.
// If a cluster CIDR has no free range, assign returns that CIDR and takes no range.
func (p *pool) assign(node *corev1.Node) (_ []netip.Prefix, full *ranges) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if held := p.holders[node.Name]; held.uid == node.UID && len(held.ranges) > 0 {
		return held.ranges, nil
	}
	p.drop(node.Name)
	taken := make([]netip.Prefix, 0, len(p.cluster))
	for _, r := range p.cluster {
		prefix, ok := r.take()
		if !ok {
			p.free(taken)
			return nil, r
		}
		taken = append(taken, prefix)
	}
	p.holders[node.Name] = holder{node.UID, taken}
	return taken, nil
}

// release frees the ranges of a node. It reports whether the node had ranges.
func (p *pool) release(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drop(name)
}

// holder returns the UID of the node that holds ranges under the name.
func (p *pool) holder(name string) (types.UID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held, ok := p.holders[name]
	return held.uid, ok
}

// usage calls f with the number of ranges and of free ranges of each cluster CIDR.
func (p *pool) usage(f func(cluster netip.Prefix, capacity, free int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.cluster {
		f(r.cluster, len(r.users), r.free)
	}
}

func (p *pool) drop(name string) bool {
	held, ok := p.holders[name]
	p.free(held.ranges)
	delete(p.holders, name)
	return ok
}

func (p *pool) free(prefixes []netip.Prefix) {
	for _, prefix := range prefixes {
		for _, r := range p.cluster {
			r.change(prefix, -1)
		}
	}
}

// holdersOf searches all nodes, because shared ranges are rare.
func (p *pool) holdersOf(prefix netip.Prefix) []string {
	var names []string
	for name, held := range p.holders {
		if slices.ContainsFunc(held.ranges, prefix.Overlaps) {
			names = append(names, name)
		}
	}
	if names == nil {
		return []string{"the service CIDR"}
	}
	slices.Sort(names)
	return names
}

// parse reads the ranges of a node as the API server does, which accepts leading zeros in old
// objects.
func parse(cidrs []string) (prefixes []netip.Prefix, unparsed []string) {
	for _, cidr := range cidrs {
		_, network, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			unparsed = append(unparsed, cidr)
			continue
		}
		address, _ := netip.AddrFromSlice(network.IP)
		bits, _ := network.Mask.Size()
		prefixes = append(prefixes, netip.PrefixFrom(address.Unmap(), bits))
	}
	return prefixes, unparsed
}
