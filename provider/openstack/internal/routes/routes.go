package routes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
)

var (
	// ErrNoRoutes is returned by every method when the cloud has said that its routers have no routes of their own.
	ErrNoRoutes = errors.New("the network service has neither the extension " + extensionExtraRoute + " nor " + extensionExtraRouteAtomic)
	// ErrNodesUnknown is returned by every method until the nodes are known.
	ErrNodesUnknown = errors.New("the nodes are not known yet")
	// ErrForeign is in the chain of the error of a deletion of a route that is not this cluster's.
	ErrForeign = errors.New("the route is not of this cluster")

	errClosed = errors.New("the provider's routes are closed")
)

// maxAge limits the age of the router copy that ListRoutes answers from.
const maxAge = time.Minute

// Config is what a [Routes] needs.
type Config struct {
	// Network is asked for the client of the network service each time.
	Network func(context.Context) (*gophercloud.ServiceClient, error)
	// RouterID is the router.
	RouterID string
	// Clock tells the time. Nil: the real one.
	Clock  clock.Clock
	Logger logr.Logger
}

// Routes implements cloudprovider.Routes. It is safe for concurrent use.
type Routes struct {
	log        logr.Logger
	extensions *capability.Fact[capability.NetworkExtensions]
	router     *routerCache
	finder     *portFinder
	neighbours *neighbours
	pairs      *addressPairs
	writes     *batch.Batches[*call]

	mu     sync.Mutex
	lister corelisters.NodeLister
	synced func() bool
	// known are the routes of the router that were ours and right once, with the node's name.
	known map[route]string
}

var _ cloudprovider.Routes = (*Routes)(nil)

// New asks nothing of the cloud. The caller has to Close what it returns.
func New(c Config) *Routes {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	a := &api{network: c.Network, routerID: c.RouterID}
	r := &Routes{log: c.Logger, known: map[route]string{}}
	r.extensions = capability.Network(c.Network, capability.Options{Clock: c.Clock})
	r.router = newRouterCache(a, c.Clock)
	r.finder = newPortFinder(a, r.router, c.Clock)
	r.neighbours = newNeighbours(r.finder, c.Clock)
	r.pairs = newAddressPairs(a, r.finder)
	w := &writer{api: a, router: r.router, extensions: r.extensions.Get, ownerOf: r.ownerOf, log: c.Logger}
	r.writes = batch.NewSerial(errClosed, w.run)
	return r
}

// Close cancels what is being done, and waits for it; what is asked for afterwards is refused. It takes no longer than requests take to be
// cancelled, and 10 s when something has to be taken back.
func (r *Routes) Close() {
	r.writes.Close()
	r.finder.asked.Close()
}

// SetNodes tells where nodes are looked up. Before synced is true they are taken for unknown.
func (r *Routes) SetNodes(lister corelisters.NodeLister, synced func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lister, r.synced = lister, synced
}

// ListRoutes implements cloudprovider.Routes. Routes that are not of this cluster are not listed; the name of the cluster is of no account. An idle
// cluster costs one request a minute, or two when there are routes of others.
func (r *Routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	if err := r.ready(ctx); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	found, err := r.router.get(ctx, maxAge)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	k, err := r.knowledge()
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	if err := r.neighbours.look(ctx, k.strangers(found.entries), maxAge); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	// Requests take time: what is told of the nodes has to be of now.
	if k, err = r.knowledge(); err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	r.keepKnown(found.entries, k)
	return listing(found.entries, k), nil
}

// CreateRoute implements cloudprovider.Routes. The next hop is the node's first InternalIP of the destination's family. A route of ours to the
// destination that leads elsewhere is replaced; if it is somebody else's, the error has [ErrConflict] in its chain.
func (r *Routes) CreateRoute(ctx context.Context, _, _ string, wanted *cloudprovider.Route) error {
	arrived := r.writes.Expect()
	defer arrived()
	if err := r.create(ctx, wanted, arrived); err != nil {
		return fmt.Errorf("create route to %s via node %s: %w", wanted.DestinationCIDR, wanted.TargetNode, err)
	}
	return nil
}

func (r *Routes) create(ctx context.Context, wanted *cloudprovider.Route, arrived func()) error {
	c, err := r.creation(wanted)
	if err != nil {
		return err
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	// Not to give the port a pair for nothing.
	found, err := r.router.get(ctx, maxAge)
	if err != nil {
		return err
	}
	if _, _, refused := plan([]change{c}, found.entries, r.ownerOf); refused[0] != nil {
		return refused[0]
	}
	if err := r.ifPairs(ctx, c.route, r.pairs.allow); err != nil {
		return err
	}
	if err := r.write(ctx, c, arrived); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[c.route] = c.node
	return nil
}

// write returns when the change is written together with others, or ctx ends.
func (r *Routes) write(ctx context.Context, c change, arrived func()) error {
	w := &call{change: c, ctxDone: ctx.Done()}
	if err := r.writes.AskExpected(ctx, w, arrived); err != nil {
		return err
	}
	return w.err
}

func (r *Routes) creation(wanted *cloudprovider.Route) (change, error) {
	destination, err := parseDestination(wanted.DestinationCIDR)
	if err != nil {
		return change{}, err
	}
	nodes, err := r.nodes()
	if err != nil {
		return change{}, err
	}
	node, err := nodes.Get(string(wanted.TargetNode))
	if err != nil {
		return change{}, err
	}
	nextHop, err := nextHopTo(node, destination)
	if err != nil {
		return change{}, err
	}
	return change{route{destination, nextHop}, node.Name}, nil
}

// DeleteRoute implements cloudprovider.Routes. A route that is gone is no error. The address pair of a blackhole stays: whose the port is
// that has the address now, if any, is not known.
func (r *Routes) DeleteRoute(ctx context.Context, _ string, listed *cloudprovider.Route) error {
	arrived := r.writes.Expect()
	defer arrived()
	if err := r.delete(ctx, listed, arrived); err != nil {
		return fmt.Errorf("delete route %s to %s: %w", listed.Name, listed.DestinationCIDR, err)
	}
	return nil
}

func (r *Routes) delete(ctx context.Context, listed *cloudprovider.Route, arrived func()) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	all, err := r.meant(ctx, listed)
	if err != nil {
		return err
	}
	for _, one := range all {
		if err := r.mayDelete(ctx, one); err != nil {
			return err
		}
		if !listed.Blackhole {
			if err := r.ifPairs(ctx, one, r.pairs.revoke); err != nil {
				return err
			}
		}
		if err := r.write(ctx, change{route: one}, arrived); err != nil {
			return err
		}
	}
	return nil
}

// meant are the routes that the caller means: that which ListRoutes has named; without a name, those to the destination that are the node's.
func (r *Routes) meant(ctx context.Context, listed *cloudprovider.Route) ([]route, error) {
	destination, err := parseDestination(listed.DestinationCIDR)
	if err != nil {
		return nil, err
	}
	if named, err := parseName(listed.Name); err == nil && named.destination == destination {
		return []route{named}, nil
	}
	found, err := r.router.get(ctx, planAge)
	if err != nil {
		return nil, err
	}
	var all []route
	for _, e := range found.entries {
		if !e.foreign && e.destination == destination && r.ownerOf(e.route).node == string(listed.TargetNode) {
			all = append(all, e.route)
		}
	}
	return all, nil
}

// mayDelete looks once more: since the route was listed, somebody may have come to live at a next hop where nobody was.
func (r *Routes) mayDelete(ctx context.Context, one route) error {
	if r.isKnown(one) {
		return nil
	}
	if s := r.ownerOf(one).standing; s != foreign && s != dead {
		return nil
	}
	r.finder.forget() // the router may have a new interface, too
	found, err := r.finder.find(ctx, one.nextHop)
	if err != nil {
		return err
	}
	for _, p := range found {
		if isAttached(p) {
			return fmt.Errorf("%w: its next hop %s is the address of port %s", ErrForeign, one.nextHop, p.ID)
		}
	}
	return nil
}

// isKnown tells whether a route was ours and right once.
func (r *Routes) isKnown(one route) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.known[one]
	return known
}

// ifPairs does something about address pairs if the cloud has them.
func (r *Routes) ifPairs(ctx context.Context, one route, do func(context.Context, route) error) error {
	has, err := r.extensions.Get(ctx)
	if err != nil || !hasAddressPairs(has) {
		return err
	}
	return do(ctx, one)
}

// ready tells whether there is anything to be done about routes.
func (r *Routes) ready(ctx context.Context) error {
	if _, err := r.nodes(); err != nil {
		return err
	}
	has, err := r.extensions.Get(ctx)
	if err != nil {
		return err
	}
	if !hasRoutes(has) {
		return ErrNoRoutes
	}
	return nil
}

func (r *Routes) nodes() (corelisters.NodeLister, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lister == nil || !r.synced() {
		return nil, ErrNodesUnknown
	}
	return r.lister, nil
}

// knowledge is what is known now.
func (r *Routes) knowledge() (knowledge, error) {
	lister, err := r.nodes()
	if err != nil {
		return knowledge{}, err
	}
	nodes, err := lister.List(labels.Everything())
	if err != nil {
		return knowledge{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return knowledge{nodes: indexNodes(nodes), known: maps.Clone(r.known), alive: r.neighbours.known()}, nil
}

// ownerOf judges one route by what is known now.
func (r *Routes) ownerOf(one route) owner {
	k, err := r.knowledge()
	if err != nil {
		return owner{standing: foreign}
	}
	return k.owner(one)
}

// keepKnown remembers the routes that are ours and right, and forgets those that are not in the router any more.
func (r *Routes) keepKnown(found []entry, k knowledge) {
	there := make(map[route]bool, len(found))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range found {
		if e.foreign {
			continue
		}
		there[e.route] = true
		if o := k.owner(e.route); o.standing == ours {
			r.known[e.route] = o.node
		}
	}
	for one := range r.known {
		if !there[one] {
			delete(r.known, one)
		}
	}
}
