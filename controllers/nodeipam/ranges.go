package nodeipam

import (
	"net/netip"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

// ranges divides one cluster CIDR into node ranges of equal size.
type ranges struct {
	cluster netip.Prefix
	bits    int

	// users counts the nodes that use each range, because two nodes may have the same one. A
	// service CIDR counts as a user.
	users []int32
	free  int
	// next is the range that is tried first. It advances with each allocation, so that a released
	// range is unused for as long as possible before another node gets it.
	next int
}

func newRanges(r cloudcontrollers.NodeRange) *ranges {
	count := 1 << (r.Bits - r.Cluster.Bits())
	return &ranges{cluster: r.Cluster, bits: r.Bits, users: make([]int32, count), free: count}
}

// take returns a free range and counts its user.
func (r *ranges) take() (netip.Prefix, bool) {
	if r.free == 0 {
		return netip.Prefix{}, false
	}
	for r.users[r.next] != 0 {
		r.next = (r.next + 1) % len(r.users)
	}
	taken := r.at(r.next)
	r.change(taken, 1)
	r.next = (r.next + 1) % len(r.users)
	return taken, true
}

// change adds delta users to each range that p overlaps. overlaps is false if p is outside the
// cluster CIDR; isShared reports that a range has another user.
func (r *ranges) change(p netip.Prefix, delta int32) (overlaps, isShared bool) {
	first, end := r.span(p)
	for i := first; i < end; i++ {
		before := r.users[i]
		r.users[i] += delta
		switch {
		case before == 0:
			r.free--
		case r.users[i] == 0:
			r.free++
		default:
			isShared = true
		}
	}
	return first < end, isShared
}

// span returns the indexes of the ranges that p overlaps.
func (r *ranges) span(p netip.Prefix) (first, end int) {
	switch {
	case !p.Overlaps(r.cluster):
		return 0, 0
	case p.Bits() <= r.cluster.Bits():
		return 0, len(r.users)
	}
	address := p.Addr().AsSlice()
	for bit := r.cluster.Bits(); bit < r.bits; bit++ {
		first = first<<1 | int(address[bit/8]>>(7-bit%8)&1)
	}
	if p.Bits() >= r.bits {
		return first, first + 1
	}
	return first, first + 1<<(r.bits-p.Bits())
}

// at returns the range with the index.
func (r *ranges) at(index int) netip.Prefix {
	address := r.cluster.Addr().AsSlice()
	for bit := r.bits - 1; bit >= r.cluster.Bits(); bit-- {
		address[bit/8] |= byte(index&1) << (7 - bit%8)
		index >>= 1
	}
	first, _ := netip.AddrFromSlice(address)
	return netip.PrefixFrom(first, r.bits)
}
