package routes

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"golang.org/x/sync/semaphore"

	"github.com/fxccm/fxccm/provider/openstack/internal/locks"
)

// pairWrites limits concurrent writes of ports.
const pairWrites = 16

// addressPairs lets the ports of nodes send from pod CIDRs.
type addressPairs struct {
	api    *api
	finder *portFinder
	writes *semaphore.Weighted
	// ports serialize the writes of one port: the two routes of a dual-stack node use the same one.
	ports locks.Locks
}

func newAddressPairs(a *api, f *portFinder) *addressPairs {
	return &addressPairs{api: a, finder: f, writes: semaphore.NewWeighted(pairWrites)}
}

// port is the only port with the next hop's address.
func (a *addressPairs) port(ctx context.Context, r route) (port, error) {
	found, err := a.finder.find(ctx, r.nextHop)
	switch {
	case err != nil:
		return port{}, err
	case len(found) == 0:
		a.finder.forget()
		return port{}, neutronError(
			"no port has the address of the next hop %s on the networks of router %s "+
				"(option router-id of cloud.conf); connect the router to the network of the node, "+
				"or correct the option", r.nextHop, a.api.routerID)
	case len(found) > 1:
		return port{}, neutronError(
			"%d ports have the address of the next hop %s on the subnets of router %s; delete "+
				"those that no server uses", len(found), r.nextHop, a.api.routerID)
	}
	return found[0], nil
}

// allow lets the port send from the destination.
func (a *addressPairs) allow(ctx context.Context, p port, r route) error {
	return a.change(ctx, p, func(p port) ([]ports.AddressPair, bool) {
		return withPair(p, r.destination)
	})
}

// revoke removes the pair that allow added, from the ports that may lose it. A missing port is no
// error.
func (a *addressPairs) revoke(ctx context.Context, r route, mayLose func(port) bool) error {
	found, err := a.finder.find(ctx, r.nextHop)
	if err != nil {
		return err
	}
	for _, p := range slices.DeleteFunc(found, func(p port) bool { return !mayLose(p) }) {
		if err := a.change(ctx, p, func(p port) ([]ports.AddressPair, bool) {
			return withoutPair(p, r.destination)
		}); err != nil {
			return err
		}
	}
	return nil
}

// lookAt reports whether allow would add the pairs of routes, and at which ports. age limits the
// age of the router.
func (a *addressPairs) lookAt(
	ctx context.Context, routes []route, age time.Duration,
) (map[route]pairing, error) {
	addresses := make([]netip.Addr, len(routes))
	for i, r := range routes {
		addresses[i] = r.nextHop
	}
	around, all, err := a.finder.list(ctx, addresses, age)
	if err != nil {
		return nil, err
	}
	seen := map[route]pairing{}
	for _, r := range routes {
		p := pairing{complete: true}
		if found := around.at(r.nextHop, all); len(found) == 1 {
			_, isLacking := withPair(found[0], r.destination)
			p = pairing{complete: !isLacking, port: found[0].ID}
		}
		seen[r] = p
	}
	return seen, nil
}

// change writes the pairs that decide returns, and retries after concurrent changes.
func (a *addressPairs) change(ctx context.Context, p port,
	decide func(port) ([]ports.AddressPair, bool),
) error {
	if _, needed := decide(p); !needed {
		return nil
	}
	unlock, err := a.ports.Lock(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.writes.Acquire(ctx, 1); err != nil {
		return err
	}
	defer a.writes.Release(1)
	for attempt := range maxStale {
		// Without a revision the write is unconditional, so read the port right before it.
		if attempt > 0 || p.Revision == nil {
			if p, err = a.api.port(ctx, p.ID); err != nil {
				return err
			}
		}
		pairs, needed := decide(p)
		if !needed {
			return nil
		}
		if err = a.api.putPairs(ctx, p.ID, pairs, p.Revision); !isStale(err) {
			return err
		}
	}
	return neutronError("other clients keep changing port %s; retrying", p.ID)
}

// withPair adds a pair for the destination. It is not needed if port security is off or another
// pair covers it.
func withPair(p port, destination netip.Prefix) ([]ports.AddressPair, bool) {
	if p.PortSecurity != nil && !*p.PortSecurity {
		return nil, false
	}
	for _, pair := range p.Pairs {
		allowed, ok := pairRange(pair)
		if ok && isOwnMAC(p, pair) && allowed.Bits() <= destination.Bits() &&
			allowed.Contains(destination.Addr()) {
			return nil, false
		}
	}
	// Without a MAC address Neutron uses that of the port.
	return append(p.Pairs[:len(p.Pairs):len(p.Pairs)],
		ports.AddressPair{IPAddress: destination.String()}), true
}

// withoutPair removes the pair for exactly the destination and the port's MAC address; other pairs
// are foreign.
func withoutPair(p port, destination netip.Prefix) ([]ports.AddressPair, bool) {
	left := make([]ports.AddressPair, 0, len(p.Pairs))
	for _, pair := range p.Pairs {
		if allowed, ok := pairRange(pair); ok && allowed == destination && isOwnMAC(p, pair) {
			continue
		}
		left = append(left, pair)
	}
	return left, len(left) < len(p.Pairs)
}

// pairRange is the CIDR or the address of a pair.
func pairRange(pair ports.AddressPair) (netip.Prefix, bool) {
	if prefix, err := parseDestination(pair.IPAddress); err == nil {
		return prefix, true
	}
	address, err := parseAddress(pair.IPAddress)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address, address.BitLen()), true
}

func isOwnMAC(p port, pair ports.AddressPair) bool {
	return pair.MACAddress == "" || strings.EqualFold(pair.MACAddress, p.MAC)
}
