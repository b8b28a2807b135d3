package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/semaphore"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

var errClosed = errors.New("the provider's routes are closed")

// Extensions of the Networking API.
const (
	extensionExtraRoute = "extraroute"
	// extensionExtraRouteAtomic: single routes can be added and removed.
	extensionExtraRouteAtomic = "extraroute-atomic"
	extensionAddressPairs     = "allowed-address-pairs"
)

const (
	// listAge limits the age of the router copy that ListRoutes answers from, unless Config.MaxAge
	// is longer. Upstream's controller lists the routes every 10 s, mostly to find changes by other
	// clients. Drift of load balancers and of addresses is found with the same delay.
	listAge = 5 * time.Minute
	// pairsAge limits the age of the ports whose address pairs are known to be complete, unless
	// Config.MaxAge is longer. With the pass of upstream's controller after it, a lost pair is back
	// within 10 minutes.
	pairsAge = 9 * time.Minute
	// maxAge limits the age of the copy with which a creation is compared before its first write.
	maxAge = time.Minute
)

// Config has the dependencies of [Routes].
type Config struct {
	// Network returns the client of Neutron. It is called for each request.
	Network  func(context.Context) (*gophercloud.ServiceClient, error)
	RouterID string
	// Project returns the ID of the project of the credentials.
	Project func(context.Context) (string, error)
	// Server and LastServer are those of [instances.Instances]. Nil: each node has the addresses
	// that it reports.
	Server     func(context.Context, *v1.Node) (instances.Server, error)
	LastServer func(*v1.Node) (instances.Server, bool)
	// Share shares reads with other clusters of the project. It may be nil.
	Share sharing.Read
	// MaxAge limits the age of the router that ListRoutes reports, if it is more than 5 minutes.
	MaxAge time.Duration
	// Clock defaults to the real clock.
	Clock  clock.Clock
	Logger logr.Logger
	// Trouble gets the missing rights for the record of routes. It may be nil.
	Trouble *trouble.Report
}

// Routes implements cloudprovider.Routes. It is safe for concurrent use.
type Routes struct {
	log        logr.Logger
	clock      clock.PassiveClock
	maxAge     time.Duration
	pairsAge   time.Duration
	extensions *capability.Fact[capability.NetworkExtensions]
	router     *routerCache
	finder     *portFinder
	pairs      *addressPairs
	writes     *batch.Batches[*call]
	record     *record
	project    func(context.Context) (string, error)
	// server and lastServer are those of Config.
	server     func(context.Context, *v1.Node) (instances.Server, error)
	lastServer func(*v1.Node) (instances.Server, bool)

	// confirming protects the next two fields, also during requests.
	confirming sync.Mutex
	// occupied is the latest result of a check of recorded routes.
	occupied *occupancy
	// keptReasons are the reasons in the log for which recorded routes are not confirmed.
	keptReasons string

	mu         sync.Mutex
	lister     corelisters.NodeLister
	isSelected func(*v1.Node) bool
	synced     func() bool
	// known maps the routes that this cluster owned since the process started, or that are
	// confirmed to have been its own before, to their nodes.
	known map[route]string
	// recorded maps the routes that an earlier process recorded, and that are not confirmed, to
	// their nodes.
	recorded map[route]string
	// paired reports for routes whether the port of the next hop has their address pair. Routes
	// that this process has neither created nor looked at are missing.
	paired map[route]pairing

	// nameForeign logs the foreign routes of the first list. Leftovers are among them: later, the
	// routes of the cluster are known.
	nameForeign sync.Once
}

// pairing reports whether a port had the address pair of a route.
type pairing struct {
	complete bool
	// port is the ID of the port; "" if it is unknown.
	port string
	at   time.Time
}

var _ cloudprovider.Routes = (*Routes)(nil)

// New sends no request. The caller must Close the Routes.
func New(c Config) *Routes {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	a := &api{network: c.Network, routerID: c.RouterID}
	r := &Routes{
		log: c.Logger, clock: c.Clock,
		maxAge: max(listAge, c.MaxAge), pairsAge: max(pairsAge, c.MaxAge),
		project: c.Project, server: c.Server, lastServer: c.LastServer,
		known: map[route]string{}, recorded: map[route]string{}, paired: map[route]pairing{},
	}
	r.record = &record{
		routerID: c.RouterID, clock: c.Clock, log: c.Logger, trouble: c.Trouble,
		learn: r.learnRecord, wanted: r.wantedRecord, busy: semaphore.NewWeighted(1),
	}
	r.extensions = capability.Network(c.Network,
		capability.Options{Clock: c.Clock, Share: c.Share})
	r.router = newRouterCache(a, c.Clock)
	r.finder = newPortFinder(a, r.router, c.Clock)
	r.pairs = newAddressPairs(a, r.finder)
	w := &writer{
		api: a, router: r.router, hasAtomicRoutes: r.hasAtomicRoutes,
		ownerOf: r.ownerOf, recordCreations: r.recordCreations, log: c.Logger,
	}
	r.writes = batch.NewSerial(errClosed, w.run)
	return r
}

// Close cancels all operations, waits for them and refuses new ones. It takes as long as requests
// need to be canceled, or 10 s if conflicting routes must be removed.
func (r *Routes) Close() {
	r.writes.Close()
	r.finder.asked.Close()
}

// SetNodes sets the node lister. The routes of nodes that are not selected are foreign, also those
// that were the cluster's. All methods fail until synced returns true.
func (r *Routes) SetNodes(
	lister corelisters.NodeLister, isSelected func(*v1.Node) bool, synced func() bool,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lister, r.isSelected, r.synced = lister, isSelected, synced
}

// SetKube sets the source of the client of the API server, with which the routes are recorded in a
// ConfigMap. Call it before the other methods. Without it, nothing is recorded.
func (r *Routes) SetKube(kube func() (kubernetes.Interface, error)) { r.record.kube = kube }

// ListRoutes implements cloudprovider.Routes. It omits foreign routes and ignores the cluster name.
// The log names them once. An idle cluster costs one request every 5 minutes, or per Config.MaxAge
// if that is longer. The ports of own routes are listed every 9 minutes, 64 at a time. While a
// recorded route of a former node is kept, networks, subnets and ports are listed every 5 minutes.
func (r *Routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	listed, err := r.list(ctx)
	if err != nil {
		return nil, r.explain(err)
	}
	return listed, nil
}

// explain returns the error for people. The errors of this package are for people already.
func (r *Routes) explain(err error) error {
	f := failure.Of(err)
	switch {
	case f == nil:
	case f.Type == "RouterNotFound":
		return events.ValueRefused.Explain(err, f.Cause(), "option router-id of cloud.conf")
	case f.Type == "AllowedAddressPairExhausted":
		return events.PairsUsedUp.Explain(err, f.Cause(),
			"address pairs of the port of the next hop")
	case isFull(err):
		refusal := events.RoutesUsedUp
		if f.IsQuota() {
			refusal = events.QuotaUsedUp
		}
		return refusal.Explain(err, f.Cause(), "routes of router "+r.router.api.routerID)
	}
	return events.Explain(err)
}

// neutronError is an error for people about what Neutron has.
func neutronError(format string, args ...any) error {
	return fmt.Errorf("Neutron: "+format, args...)
}

// kubernetesError is an error for people about a node.
func kubernetesError(format string, args ...any) error {
	return fmt.Errorf("Kubernetes: "+format, args...)
}

func (r *Routes) list(ctx context.Context) ([]*cloudprovider.Route, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	found, err := r.router.get(ctx, r.maxAge)
	if err != nil {
		return nil, err
	}
	r.record.read(ctx)
	k, err := r.knowledge()
	if err != nil {
		return nil, err
	}
	r.confirmRecorded(ctx, found.entries, k)
	unchecked := k.unchecked(found.entries, r.clock.Now().Add(-r.pairsAge))
	if err := r.lookAtPairs(ctx, unchecked); err != nil {
		return nil, err
	}
	// Requests take time, so read the nodes again.
	if k, err = r.knowledge(); err != nil {
		return nil, err
	}
	r.keepKnown(found.entries, k)
	r.record.write(ctx)
	r.nameForeign.Do(func() { r.logForeign(k.foreign(found.entries)) })
	return listing(found.entries, k), nil
}

// CreateRoute implements cloudprovider.Routes. The next hop is the node's first InternalIP of the
// destination's family that its server has, at a subnet of the router if there are several. An own
// route to the destination with another next hop is replaced; a foreign one is an error.
func (r *Routes) CreateRoute(ctx context.Context, _, _ string, wanted *cloudprovider.Route) error {
	arrived := r.writes.Expect()
	defer arrived()
	if err := r.create(ctx, wanted, arrived); err != nil {
		return r.explain(err)
	}
	return nil
}

func (r *Routes) create(ctx context.Context, wanted *cloudprovider.Route, arrived func()) error {
	c, node, err := r.creation(wanted)
	if err != nil {
		return err
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	nextHops, server, err := r.nextHops(ctx, node, c.destination)
	if err != nil {
		return err
	}
	if c.nextHop, err = r.finder.nearest(ctx, nextHops); err != nil {
		return err
	}
	found, err := r.router.get(ctx, maxAge)
	if err != nil {
		return err
	}
	// Refuse a conflict before anything is written.
	alone := &call{change: c}
	_, steps, refused := plan([]*call{alone}, found.entries, r.ownerOf)
	if refused[alone] != nil {
		return refused[alone]
	}
	hasPairs, err := r.hasPairs(ctx)
	if err != nil {
		return err
	}
	sender, err := r.sender(ctx, c, server, hasPairs)
	if err != nil {
		return err
	}
	isReplaced := slices.ContainsFunc(steps, func(s *step) bool { return len(s.remove) > 0 })
	if hasPairs && isReplaced {
		if err := r.revokeReplaced(ctx, steps); err != nil {
			return err
		}
		// The port may be the same one, and has changed.
		if sender, err = r.pairs.port(ctx, c.route); err != nil {
			return err
		}
	}
	r.learn(c, pairing{complete: !hasPairs, port: sender.ID})
	if err := r.write(ctx, c, arrived); err != nil || !hasPairs {
		return err
	}
	if err := r.pairs.allow(ctx, sender, c.route); err != nil {
		return err
	}
	r.learn(c, pairing{complete: true, port: sender.ID})
	return nil
}

// revokeReplaced removes the address pairs of the own routes that a creation replaces.
func (r *Routes) revokeReplaced(ctx context.Context, creations []*step) error {
	for _, s := range creations {
		for _, e := range s.remove {
			if o := r.ownerOf(e.route).standing; o == ours || o == orphan {
				if err := r.revoke(ctx, e.route, o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// learn records a route of the cluster and its address pair.
func (r *Routes) learn(c change, p pairing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.at = r.clock.Now()
	r.known[c.route], r.paired[c.route] = c.node, p
}

// revoke removes the address pair of a route that is to be removed. If the node is gone, the
// address may be another server's by now, so only the port that had it before loses the pair.
func (r *Routes) revoke(ctx context.Context, one route, relation standing) error {
	r.mu.Lock()
	had := r.paired[one].port
	r.paired[one] = pairing{port: had, at: r.clock.Now()}
	r.mu.Unlock()
	return r.pairs.revoke(ctx, one, func(p port) bool {
		return relation != orphan || p.ID == had
	})
}

// lookAtPairs records whether the routes have their address pairs.
func (r *Routes) lookAtPairs(ctx context.Context, routes []route) error {
	hasPairs, err := r.hasPairs(ctx)
	if err != nil || !hasPairs || len(routes) == 0 {
		return err
	}
	now := r.clock.Now()
	found, err := r.pairs.lookAt(ctx, routes, r.maxAge)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range routes {
		// A creation or deletion in the meantime knows better. The port stays the first one: when
		// the server is gone, another one may get the address before the node is deleted.
		if last := r.paired[one]; last.at.Before(now) {
			r.paired[one] = pairing{found[one].complete, cmp.Or(last.port, found[one].port), now}
		}
	}
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

// creation returns the route to create without its next hop, and its node, which has a possible
// next hop.
func (r *Routes) creation(wanted *cloudprovider.Route) (change, *v1.Node, error) {
	destination, err := parseDestination(wanted.DestinationCIDR)
	if err != nil {
		return change{}, nil, err
	}
	nodes, err := r.nodes()
	if err != nil {
		return change{}, nil, err
	}
	node, err := nodes.Get(string(wanted.TargetNode))
	if err != nil {
		return change{}, nil, kubernetesError("%w; retrying", err)
	}
	if _, err := nextHopsTo(node, destination); err != nil {
		return change{}, nil, err
	}
	return change{route{destination: destination}, node.Name}, node, nil
}

// nextHops returns the possible next hops to a node: those that its server has. A node reports its
// addresses itself, and the port of another server must not send from its pod CIDR. The server has
// no ID if each node has what it reports.
func (r *Routes) nextHops(
	ctx context.Context, node *v1.Node, destination netip.Prefix,
) ([]netip.Addr, instances.Server, error) {
	reported, err := nextHopsTo(node, destination)
	if err != nil || r.server == nil {
		return reported, instances.Server{}, err
	}
	server, err := r.server(ctx, node)
	if err != nil {
		return nil, server, err
	}
	own := slices.DeleteFunc(slices.Clone(reported),
		func(a netip.Addr) bool { return !hasAddress(server, a) })
	if len(own) == 0 {
		return nil, server, kubernetesError("node %s reports %s, which its server does not have; "+
			"correct the addresses of the Node", node.Name, reported[0])
	}
	return own, server, nil
}

// sender returns the port of the next hop, if hasPairs. It refuses one of another server: two
// networks may have the same range. Neutron shows no device of a port in a VLAN of a trunk.
func (r *Routes) sender(
	ctx context.Context, c change, server instances.Server, hasPairs bool,
) (sender port, err error) {
	var found []port
	switch {
	case hasPairs:
		sender, err = r.pairs.port(ctx, c.route)
		found = []port{sender}
	case server.ID != "":
		found, err = r.finder.find(ctx, c.nextHop)
	}
	if err != nil {
		return port{}, err
	}
	if server.ID != "" && slices.ContainsFunc(found, func(p port) bool {
		return p.DeviceID != "" && p.DeviceID != server.ID
	}) {
		return port{}, neutronError("the next hop %s of node %s is the address of another server "+
			"in the networks of router %s; correct the addresses of the Node", c.nextHop, c.node,
			r.router.api.routerID)
	}
	return sender, nil
}

// DeleteRoute implements cloudprovider.Routes. A missing route is no error, and a foreign one is.
// The address pair of a blackhole stays, because the port that has the address now may belong to
// anyone.
func (r *Routes) DeleteRoute(ctx context.Context, _ string, listed *cloudprovider.Route) error {
	arrived := r.writes.Expect()
	defer arrived()
	if err := r.delete(ctx, listed, arrived); err != nil {
		return r.explain(err)
	}
	return nil
}

func (r *Routes) delete(ctx context.Context, listed *cloudprovider.Route, arrived func()) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	all, err := r.targets(ctx, listed)
	if err != nil {
		return err
	}
	hasPairs, err := r.hasPairs(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		relation := r.ownerOf(one).standing
		if relation == foreign {
			if err := r.refuseForeign(ctx, one); err != nil {
				return err
			}
			continue
		}
		if hasPairs && !listed.Blackhole {
			if err := r.revoke(ctx, one, relation); err != nil {
				return err
			}
		}
		if err := r.write(ctx, change{route: one}, arrived); err != nil {
			return err
		}
	}
	return nil
}

// targets are the routes to delete: the route that ListRoutes named or, without a name, those of
// the node to the destination.
func (r *Routes) targets(ctx context.Context, listed *cloudprovider.Route) ([]route, error) {
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
		if !e.foreign && e.destination == destination && r.ownerOf(e.route).
			node == string(listed.TargetNode) {
			all = append(all, e.route)
		}
	}
	return all, nil
}

// refuseForeign returns an error if the router has a foreign route. Without it, the route was
// deleted before and is not known any more.
func (r *Routes) refuseForeign(ctx context.Context, one route) error {
	found, err := r.router.get(ctx, planAge)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.entries, func(e entry) bool { return e.route == one }) {
		return nil
	}
	return neutronError("the route does not belong to this cluster: its next hop %s is no address "+
		"of a node; remove the route from router %s if nothing uses it", one.nextHop,
		r.router.api.routerID)
}

// logForeign names the foreign routes.
func (r *Routes) logForeign(routes []route) {
	if len(routes) == 0 {
		return
	}
	r.log.Info("Leaving routes of the router alone: no node has the address of the next hop",
		"router", r.router.api.routerID, "count", len(routes), "routes", names(routes))
}

// namedRoutes limits the routes that a line of the log names.
const namedRoutes = 20

func names(routes []route) (all []string) {
	for _, one := range routes[:min(len(routes), namedRoutes)] {
		all = append(all, one.String())
	}
	return all
}

// hasPairs reports whether the cloud supports address pairs.
func (r *Routes) hasPairs(ctx context.Context) (bool, error) {
	has, err := r.extensions.Get(ctx)
	return has[extensionAddressPairs], err
}

// ready returns an error if routes cannot be served.
func (r *Routes) ready(ctx context.Context) error {
	if _, err := r.nodes(); err != nil {
		return err
	}
	_, err := r.hasAtomicRoutes(ctx)
	return err
}

// hasAtomicRoutes returns an error if routers do not support routes.
func (r *Routes) hasAtomicRoutes(ctx context.Context) (bool, error) {
	has, err := r.extensions.Get(ctx)
	if err == nil && !has[extensionExtraRoute] && !has[extensionExtraRouteAtomic] {
		err = neutronError("the cloud has neither the extension %s nor %s (option router-id of "+
			"cloud.conf); enable one in the cloud, or remove the option", extensionExtraRoute,
			extensionExtraRouteAtomic)
	}
	return has[extensionExtraRouteAtomic], err
}

func (r *Routes) nodes() (corelisters.NodeLister, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lister == nil || !r.synced() {
		return nil, kubernetesError("the nodes are not synced yet; retrying")
	}
	return r.lister, nil
}

// knowledge is a snapshot of the data that decides on ownership.
func (r *Routes) knowledge() (knowledge, error) {
	lister, err := r.nodes()
	if err != nil {
		return knowledge{}, err
	}
	all, err := lister.List(labels.Everything())
	if err != nil {
		return knowledge{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var selected []*v1.Node
	others := map[string]bool{}
	for _, node := range all {
		if r.isSelected(node) {
			selected = append(selected, node)
		} else {
			others[node.Name] = true
		}
	}
	isOthers := func(_ route, node string) bool { return others[node] }
	k := knowledge{
		nodes: indexNodes(selected, r.lastServer), known: maps.Clone(r.known),
		recorded: maps.Clone(r.recorded), paired: maps.Clone(r.paired),
	}
	maps.DeleteFunc(k.known, isOthers)
	maps.DeleteFunc(k.recorded, isOthers)
	return k, nil
}

// ownerOf determines the owner of one route with current data.
func (r *Routes) ownerOf(one route) owner {
	k, err := r.knowledge()
	if err != nil {
		return owner{standing: foreign}
	}
	return k.owner(one)
}

// keepKnown records the owned routes and forgets those that the router no longer has.
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
	maps.DeleteFunc(r.known, func(one route, _ string) bool { return !there[one] })
	maps.DeleteFunc(r.recorded, func(one route, _ string) bool {
		return !there[one] || r.known[one] != ""
	})
	maps.DeleteFunc(r.paired, func(one route, _ pairing) bool { return !there[one] })
}
