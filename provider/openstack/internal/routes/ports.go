package routes

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

const (
	// interfacesAge is the interval at which the router's ports are read even if its revision is
	// unchanged.
	interfacesAge = time.Hour
	// addressesPerList limits the length of a URL: web servers accept 8 KiB, and an IPv6 address
	// needs up to 65 bytes.
	addressesPerList = 64

	ownerGateway = "network:router_gateway"
	ownerHA      = "network:router_ha_interface"
)

// surroundings are the networks and subnets of the router's interfaces, where its next hops are.
type surroundings struct {
	networks []string
	subnets  map[string]bool
}

// surroundingsOf takes the gateway from the router, because only an administrator sees its port.
func surroundingsOf(r *router, interfaces []port) surroundings {
	s := surroundings{subnets: map[string]bool{}}
	add := func(network string, addresses []fixedIP) {
		if network != "" && !slices.Contains(s.networks, network) {
			s.networks = append(s.networks, network)
		}
		for _, a := range addresses {
			s.subnets[a.SubnetID] = true
		}
	}
	add(r.Gateway.NetworkID, r.Gateway.FixedIPs)
	for _, p := range interfaces {
		// The network between the replicas of a highly available router has no next hops.
		if p.DeviceOwner != ownerGateway && p.DeviceOwner != ownerHA {
			add(p.NetworkID, p.FixedIPs)
		}
	}
	return s
}

// at are the ports that have the address on one of the subnets.
func (s surroundings) at(address netip.Addr, all []port) []port {
	var found []port
	for _, p := range all {
		if slices.ContainsFunc(p.FixedIPs, func(ip fixedIP) bool {
			parsed, err := parseAddress(ip.Address)
			return err == nil && parsed == address && s.subnets[ip.SubnetID]
		}) {
			found = append(found, p)
		}
	}
	return found
}

// lookup is a call to a portFinder and its result.
type lookup struct {
	addresses []netip.Addr
	// found are the ports by address.
	found map[netip.Addr][]port
	err   error
}

// portFinder finds ports by the address of a next hop, with one list for concurrent calls.
type portFinder struct {
	api    *api
	router *routerCache
	clock  clock.PassiveClock
	asked  *batch.Batches[*lookup]

	mu sync.Mutex
	// around belongs to the router's revision, if the cloud has revisions, and to the time read.
	around   *surroundings
	revision *int
	read     time.Time
}

func newPortFinder(a *api, r *routerCache, c clock.PassiveClock) *portFinder {
	f := &portFinder{api: a, router: r, clock: c}
	f.asked = batch.New(errClosed, f.run)
	return f
}

// find returns the ports that have the address now.
func (f *portFinder) find(ctx context.Context, address netip.Addr) ([]port, error) {
	found, err := f.findAll(ctx, []netip.Addr{address})
	return found[address], err
}

func (f *portFinder) findAll(
	ctx context.Context, addresses []netip.Addr,
) (map[netip.Addr][]port, error) {
	l := &lookup{addresses: addresses, found: map[netip.Addr][]port{}}
	if err := f.asked.Ask(ctx, l); err != nil {
		return nil, err
	}
	return l.found, l.err
}

// nearest returns the first of a node's addresses that a port has on a subnet of the router; the
// first if none has. A single address is not looked up.
func (f *portFinder) nearest(ctx context.Context, addresses []netip.Addr) (netip.Addr, error) {
	if len(addresses) == 1 {
		return addresses[0], nil
	}
	found, err := f.findAll(ctx, addresses)
	if err != nil {
		return netip.Addr{}, err
	}
	near := slices.IndexFunc(addresses, func(a netip.Addr) bool { return len(found[a]) > 0 })
	return addresses[max(near, 0)], nil
}

func (f *portFinder) run(ctx context.Context, lookups []*lookup) {
	var addresses []netip.Addr
	for _, l := range lookups {
		addresses = append(addresses, l.addresses...)
	}
	around, all, err := f.list(ctx, addresses, maxAge)
	for _, l := range lookups {
		if l.err = err; err != nil {
			continue
		}
		for _, address := range l.addresses {
			l.found[address] = around.at(address, all)
		}
	}
}

// list returns the ports that have any of the addresses, each once, although several requests may
// return it. age limits the age of the router.
func (f *portFinder) list(ctx context.Context,
	addresses []netip.Addr, age time.Duration,
) (*surroundings, []port, error) {
	around, err := f.surroundings(ctx, age)
	if err != nil || len(around.networks) == 0 {
		return around, nil, err
	}
	addresses = slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare)
	var all []port
	for some := range slices.Chunk(slices.Compact(addresses), addressesPerList) {
		found, err := f.api.portsAt(ctx, around.networks, some)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, found...)
	}
	// Of the versions of a port, the last one stays.
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b port) int { return strings.Compare(a.ID, b.ID) })
	return around, slices.CompactFunc(all, func(a, b port) bool { return a.ID == b.ID }), nil
}

func (f *portFinder) surroundings(
	ctx context.Context, age time.Duration,
) (*surroundings, error) {
	s, err := f.router.get(ctx, age)
	if err != nil {
		return nil, err
	}
	if around := f.remembered(s); around != nil {
		return around, nil
	}
	now := f.clock.Now()
	interfaces, err := f.api.interfaces(ctx)
	if err != nil {
		return nil, err
	}
	around := surroundingsOf(s.router, interfaces)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.around, f.revision, f.read = &around, s.Revision, now
	return &around, nil
}

// remembered is valid until the router gets a new interface, which increases the revision of the
// router.
func (f *portFinder) remembered(s *snapshot) *surroundings {
	f.mu.Lock()
	defer f.mu.Unlock()
	age := f.clock.Now().Sub(f.read)
	same := f.revision != nil && s.Revision != nil && *f.revision == *s.Revision
	if f.around != nil && (same && age < interfacesAge || age < planAge) {
		return f.around
	}
	return nil
}

// forget drops the cached interfaces.
func (f *portFinder) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.around = nil
}
