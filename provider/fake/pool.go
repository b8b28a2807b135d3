package fake

import (
	"errors"
	"net/netip"
	"slices"
)

var errNoAddressLeft = errors.New("the fake cloud has no address left")

// pool allocates addresses of its ranges in order, except the first and last of each range. A
// released address is reused only after the others, as in a busy cloud.
type pool struct {
	ranges []netip.Prefix
	// last is the last checked address, in the range with the index in.
	in   int
	last netip.Addr
	used map[netip.Addr]bool
}

func newPool(cidrs ...string) *pool {
	p := &pool{used: map[netip.Addr]bool{}}
	for _, cidr := range cidrs {
		p.ranges = append(p.ranges, netip.MustParsePrefix(cidr))
	}
	p.last = p.ranges[0].Addr()
	return p
}

func (p *pool) take() (string, error) {
	if len(p.used) >= p.capacity() {
		return "", errNoAddressLeft
	}
	for {
		p.advance()
		if !p.used[p.last] {
			p.used[p.last] = true
			return p.last.String(), nil
		}
	}
}

// giveBack releases an address. It ignores an address of another pool.
func (p *pool) giveBack(address string) {
	if addr, err := netip.ParseAddr(address); err == nil {
		delete(p.used, addr)
	}
}

// advance moves to the next address that may be allocated. The last address of a range is the one
// whose successor is outside.
func (p *pool) advance() {
	p.last = p.last.Next()
	if !p.ranges[p.in].Contains(p.last.Next()) {
		p.in = (p.in + 1) % len(p.ranges)
		p.last = p.ranges[p.in].Addr().Next()
	}
}

// capacity is the number of addresses that can be allocated, up to a large limit.
func (p *pool) capacity() int {
	n := 0
	for _, r := range p.ranges {
		n += 1<<min(r.Addr().BitLen()-r.Bits(), 24) - 2
	}
	return n
}

// covers reports whether the address lies in one of the ranges.
func (p *pool) covers(address string) bool {
	addr, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(p.ranges,
		func(r netip.Prefix) bool { return r.Contains(addr) })
}
