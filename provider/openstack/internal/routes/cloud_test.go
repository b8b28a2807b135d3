package routes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// site is a cloud with a router between a network of the cluster and a foreign one.
type site struct {
	*openstacktest.Cloud
	t       *testing.T
	network string
	router  string
	v4, v6  string
}

func newSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	s := &site{Cloud: openstacktest.NewCloud(options...), t: t}
	t.Cleanup(s.Close)
	s.network = s.AddNetwork(openstacktest.Network{Name: "nodes"})
	s.v4 = s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "10.0.0.0/16"})
	s.v6 = s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
	s.router = s.AddRouter(openstacktest.Router{Name: "router", Subnets: []string{s.v4, s.v6}})
	return s
}

// addPort adds the port of a server with these addresses, and returns its ID.
func (s *site) addPort(server string, addresses ...string) string {
	s.t.Helper()
	p := openstacktest.Port{
		NetworkID: s.network, DeviceID: server,
		DeviceOwner: openstacktest.OwnerCompute, FixedIPs: []openstacktest.FixedIP{},
	}
	for _, a := range addresses {
		subnet := s.v4
		if strings.Contains(a, ":") {
			subnet = s.v6
		}
		p.FixedIPs = append(p.FixedIPs, openstacktest.FixedIP{SubnetID: subnet, Address: a})
	}
	return s.AddPort(p)
}

// pairs returns the allowed address pairs of the port with the address.
func (s *site) pairs(address string) []string {
	pairs := []string{}
	for _, p := range s.Ports() {
		if slices.ContainsFunc(p.FixedIPs, func(ip openstacktest.FixedIP) bool {
			return ip.Address == address
		}) {
			for _, pair := range p.AllowedPairs {
				pairs = append(pairs, pair.Address)
			}
		}
	}
	return pairs
}

// changePort changes the port of a server.
func (s *site) changePort(server string, change func(*openstacktest.Port)) {
	s.t.Helper()
	for _, p := range s.Ports() {
		if p.DeviceID != server {
			continue
		}
		if err := s.UpdatePort(p.ID, change); err != nil {
			s.t.Fatal(err)
		}
	}
}

// deletePort deletes the port of a server.
func (s *site) deletePort(server string) {
	s.t.Helper()
	for _, p := range s.Ports() {
		if p.DeviceID == server {
			if err := s.DeletePort(p.ID); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// strangersPorts are the ports that belong to no node.
func (s *site) strangersPorts() []openstacktest.Port {
	return slices.DeleteFunc(s.Ports(), func(p openstacktest.Port) bool {
		return strings.HasPrefix(p.DeviceID, "server-of-")
	})
}

// hang makes the next request of an operation hang. arrived waits for the request.
func (s *site) hang(operation string) (arrived func()) {
	s.Inject(openstacktest.Fault{Operation: operation, Hang: true, Times: 1})
	return func() {
		s.t.Helper()
		if _, err := s.WaitForCall(s.t.Context(), func(call openstacktest.Call) bool {
			return call.Operation == operation
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// wantRoutes compares the router's routes, in any order.
func (s *site) wantRoutes(names ...string) {
	s.t.Helper()
	got := []string{}
	for _, r := range s.Routes(s.router) {
		got = append(got, r.Destination+via+r.NextHop)
	}
	slices.Sort(got)
	names = slices.Sorted(slices.Values(names))
	if !slices.Equal(got, names) {
		s.t.Errorf("the router has\n%s\nwant\n%s", strings.Join(got, "\n"),
			strings.Join(names, "\n"))
	}
}

func (s *site) setRoutes(names ...string) {
	s.t.Helper()
	var routes []openstacktest.Route
	for _, name := range names {
		destination, nextHop, _ := strings.Cut(name, via)
		routes = append(routes, openstacktest.Route{Destination: destination, NextHop: nextHop})
	}
	if err := s.SetRoutes(s.router, routes...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) wantCounts(want map[string]int) {
	s.t.Helper()
	got := s.Counts()
	for operation, n := range want {
		if got[operation] != n {
			s.t.Errorf("%s was called %d times, want %d; all calls: %v", operation,
				got[operation], n, got)
		}
	}
}

func (s *site) routerWrites() int {
	c := s.Counts()
	return c["router_add_extraroutes"] + c["router_remove_extraroutes"] + c["router_update"]
}

// cluster is a cluster on a site.
type cluster struct {
	*Routes
	*site
	nodes  cache.Indexer
	synced bool
	// servers are those of nodes, by name. Nil: each node has the addresses that it reports.
	servers map[string]instances.Server
	kube    *fake.Clientset
	clock   clock.Clock
	logger  logr.Logger
	trouble *trouble.Report
}

func newCluster(t *testing.T, s *site, c clock.Clock) *cluster {
	t.Helper()
	cl := &cluster{
		site: s, nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		synced: true, kube: fake.NewClientset(), clock: c, logger: testr.New(t),
	}
	cl.start()
	return cl
}

// start starts a term. The record of routes and the nodes are those of the term before.
func (c *cluster) start() {
	c.t.Helper()
	if c.Routes != nil {
		c.Routes.Close()
	}
	clients := simclient.Login(c.t, c.Credentials(), nil)
	config := Config{
		Network: clients.Network, Project: clients.Project,
		RouterID: c.site.router, Clock: c.clock, Logger: c.logger, Trouble: c.trouble,
	}
	if c.servers != nil {
		config.LastServer = func(n *v1.Node) (instances.Server, bool) {
			server, known := c.servers[n.Name]
			return server, known
		}
		config.Server = func(_ context.Context, n *v1.Node) (instances.Server, error) {
			server, known := config.LastServer(n)
			if !known {
				return server, instances.ErrUnmatched
			}
			return server, nil
		}
	}
	c.Routes = New(config)
	c.t.Cleanup(c.Routes.Close)
	c.SetKube(func() (kubernetes.Interface, error) { return c.kube, nil })
	c.SetNodes(corelisters.NewNodeLister(c.nodes), func(n *v1.Node) bool {
		_, isEdge := n.Labels["edge"]
		return !isEdge
	}, func() bool { return c.synced })
}

// Close closes the routes of the cluster, not the site.
func (c *cluster) Close() { c.Routes.Close() }

func (c *cluster) setNode(n *v1.Node) {
	c.t.Helper()
	if err := c.nodes.Update(n); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) removeNode(name string) {
	c.t.Helper()
	if err := c.nodes.Delete(node(name, nil)); err != nil {
		c.t.Fatal(err)
	}
}

// addNode adds a node with a port.
func (c *cluster) addNode(name string, addresses []string, podCIDRs ...string) {
	c.t.Helper()
	c.addPort("server-of-"+name, addresses...)
	c.setNode(node(name, addresses, podCIDRs...))
}

// addNodes adds nodes, and returns one route to create for each.
func (c *cluster) addNodes(n int) []*cloudprovider.Route {
	c.t.Helper()
	var wanted []*cloudprovider.Route
	address, pods := netip.MustParseAddr("10.0.10.1"), netip.MustParseAddr("10.244.0.0").As4()
	for i := range n {
		pods[1], pods[2] = byte(244+i/256), byte(i)
		cidr := netip.PrefixFrom(netip.AddrFrom4(pods), 24).String()
		name := fmt.Sprintf("node-%03d", i)
		c.addNode(name, []string{address.String()}, cidr)
		wanted = append(wanted, routeTo(name, cidr))
		address = address.Next()
	}
	return wanted
}

func routeTo(node, cidr string) *cloudprovider.Route {
	return &cloudprovider.Route{TargetNode: types.NodeName(node), DestinationCIDR: cidr}
}

func (c *cluster) create(node, cidr string) error {
	return c.CreateRoute(c.t.Context(), "cluster", "", routeTo(node, cidr))
}

// list returns the result of ListRoutes, by name.
func (c *cluster) list() map[string]*cloudprovider.Route {
	c.t.Helper()
	routes, err := c.ListRoutes(c.t.Context(), "cluster")
	if err != nil {
		c.t.Fatal(err)
	}
	byName := map[string]*cloudprovider.Route{}
	for _, r := range routes {
		byName[r.Name] = r
	}
	return byName
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// createAll creates routes with as many workers as upstream's controller, and returns the errors in
// order.
func (c *cluster) createAll(routes []*cloudprovider.Route) []error {
	errs := make([]error, len(routes))
	tokens := make(chan struct{}, 200)
	var callers sync.WaitGroup
	for i, r := range routes {
		callers.Go(func() {
			tokens <- struct{}{}
			defer func() { <-tokens }()
			errs[i] = c.CreateRoute(c.t.Context(), "cluster", "", r)
		})
	}
	callers.Wait()
	return errs
}

// wantText compares the whole text of an error.
func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %q", err, want)
	}
}

func says(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func failures(errs []error) (failed []int) {
	for i, err := range errs {
		if err != nil {
			failed = append(failed, i)
		}
	}
	return failed
}

// withoutAtomic is a cloud that accepts only whole lists of routes.
func withoutAtomic() openstacktest.Option {
	return openstacktest.WithoutExtensions(extensionExtraRouteAtomic)
}

// onBoth runs a test on a cloud that accepts single routes, and on one that accepts only whole
// lists.
func onBoth(t *testing.T, test func(*testing.T, *site)) {
	t.Helper()
	t.Run("atomic", func(t *testing.T) { test(t, newSite(t)) })
	t.Run("plain", func(t *testing.T) { test(t, newSite(t, withoutAtomic())) })
}
