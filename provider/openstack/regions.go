package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/instances"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// regions are several clouds in one term, each with its own clients, caches and mass deletion
// guard. They find the region of a node, a route or a Service, and call it. The outage of a region
// affects only the calls of that region.
type regions struct {
	// all has the default region first.
	all    []*cloud
	logger logr.Logger

	mu    sync.Mutex
	nodes corelisters.NodeLister
	// synced reports whether nodes are complete. It is nil without informers.
	synced func() bool
	// found are the regions of nodes whose provider ID does not name one, by the UIDs of the nodes.
	found map[types.UID]*cloud
	// unlisted is why the routes of a region are not listed.
	unlisted map[*cloud]string
	// balancing are the regions in which a load balancer of a Service may exist, by the UIDs.
	balancing map[types.UID]string
}

var (
	_ cloudprovider.Interface    = (*regions)(nil)
	_ cloudprovider.InformerUser = (*regions)(nil)
	_ cloudprovider.InstancesV2  = regionalInstances{}
	_ ccm.ObjectReporter         = (*regions)(nil)
)

// apiServer is the name of the API server in texts.
const apiServer = "Kubernetes"

// regionTimeout limits requests to several regions, of which one may not answer.
const regionTimeout = 15 * time.Second

// nodesAtATime limits the nodes that are looked up together: each lookup has a goroutine for each
// region, and the API server of a tenant may report a hundred thousand nodes.
const nodesAtATime = 250

func newRegions(all []*cloud, logger logr.Logger) *regions {
	r := &regions{
		all: all, logger: logger,
		found: map[types.UID]*cloud{}, balancing: map[types.UID]string{},
		unlisted: map[*cloud]string{},
	}
	for _, c := range all {
		c.regions = r
	}
	return r
}

// setRegions sets the regions of all load balancers. names are those of cloud.conf, the default
// region first, and balancings has the regions with load balancers. A single region without a name
// serves each Service.
func setRegions(names []string, balancings map[string]*balancing) {
	if len(names) == 1 && names[0] == "" {
		return
	}
	serving := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return balancings[name] == nil
	})
	for _, name := range serving {
		balancings[name].balancers.InRegion(settings.Regions{
			Here: name, Default: names[0], All: serving,
		})
	}
}

// ProviderName implements cloudprovider.Interface.
func (r *regions) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (r *regions) HasClusterID() bool { return true }

// Initialize implements cloudprovider.Interface.
func (r *regions) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	for _, c := range r.all {
		c.Initialize(clients, stop)
	}
}

// SetInformers implements cloudprovider.InformerUser. Each region gets the nodes that may be its
// own.
func (r *regions) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	synced := nodes.Informer().HasSynced
	r.mu.Lock()
	r.nodes, r.synced = nodes.Lister(), synced
	r.mu.Unlock()
	for _, c := range r.all {
		c.setNodes(factory, nodes.Lister(), synced, func(node *v1.Node) bool {
			return r.mayHave(c, node)
		})
	}
}

// ownNodes lists those of the nodes that are own.
type ownNodes struct {
	corelisters.NodeLister
	isOwn func(*v1.Node) bool
}

// List implements corelisters.NodeLister.
func (n ownNodes) List(selector labels.Selector) ([]*v1.Node, error) {
	all, err := n.NodeLister.List(selector)
	return slices.DeleteFunc(slices.Clone(all), func(node *v1.Node) bool {
		return !n.isOwn(node)
	}), err
}

// possible returns the regions in which the server of a node may be: those that the provider ID
// names, or all.
func (r *regions) possible(node *v1.Node) ([]*cloud, error) {
	id, err := instances.ParseProviderID(node.Spec.ProviderID)
	if err != nil || id.Region == "" {
		// The default region returns the error of a malformed provider ID.
		return r.all, nil
	}
	named := r.where(func(c *cloud) bool { return c.region == id.Region })
	if len(named) == 0 {
		return nil, fmt.Errorf("%s: provider ID %q of node %s names the region %q, "+
			"which cloud.conf does not have; add it",
			apiServer, node.Spec.ProviderID, node.Name, id.Region)
	}
	return named, nil
}

func (r *regions) where(is func(*cloud) bool) []*cloud {
	return slices.DeleteFunc(slices.Clone(r.all), func(c *cloud) bool { return !is(c) })
}

// known returns the region of a node as far as it is known without a request, or nil.
func (r *regions) known(node *v1.Node) *cloud {
	possible, err := r.possible(node)
	if err != nil {
		return nil
	}
	if c := r.hinted(node, possible); c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found[node.UID]
}

// mayHave reports whether a node is in a region or, if its region is unknown, may be in it. The
// default region has the new nodes without a provider ID.
func (r *regions) mayHave(c *cloud, node *v1.Node) bool {
	known := r.known(node)
	switch {
	case known != nil:
		return known == c
	case node.Spec.ProviderID == "":
		return c == r.all[0]
	}
	possible, err := r.possible(node)
	return err == nil && slices.Contains(possible, c)
}

// learn looks up the nodes whose region is unknown. It stays unknown if no region has the server of
// the node, or if none has it and one does not answer.
func (r *regions) learn(ctx context.Context, nodes []*v1.Node) {
	unknown := slices.DeleteFunc(slices.Clone(nodes), func(node *v1.Node) bool {
		return r.known(node) != nil
	})
	ctx, cancel := context.WithTimeout(ctx, regionTimeout)
	defer cancel()
	// Lookups at the same moment share their requests.
	_ = batch.InParallel(unknown, nodesAtATime, func(node *v1.Node) error {
		_, err := r.place(ctx, node)
		return err
	})
}

// sort returns the nodes of a region, and those whose region is unknown after a lookup.
func (r *regions) sort(
	ctx context.Context, in *cloud, nodes []*v1.Node,
) (here, unknown []*v1.Node) {
	r.learn(ctx, nodes)
	for _, node := range nodes {
		switch r.known(node) {
		case in:
			here = append(here, node)
		case nil:
			unknown = append(unknown, node)
		}
	}
	return here, unknown
}

// hinted returns the region that the provider ID names, in which the server with this ID was found,
// or that the region label names, in this order; or nil. Several projects of a region share the
// name of the region. A server with another ID may have the name of a node later.
func (r *regions) hinted(node *v1.Node, possible []*cloud) *cloud {
	if len(possible) == 1 {
		return possible[0]
	}
	r.mu.Lock()
	known := r.found[node.UID]
	r.mu.Unlock()
	if known != nil && node.Spec.ProviderID != "" {
		return known
	}
	label, ok := node.Labels[v1.LabelTopologyRegion]
	labeled := slices.DeleteFunc(slices.Clone(possible), func(c *cloud) bool {
		return !ok || c.region != label
	})
	if len(labeled) == 1 {
		return labeled[0]
	}
	return nil
}

// place finds the region of a node: by its provider ID, its label, or by search.
func (r *regions) place(ctx context.Context, node *v1.Node) (*cloud, error) {
	possible, err := r.possible(node)
	if err != nil {
		return nil, err
	}
	if c := r.hinted(node, possible); c != nil {
		return c, nil
	}
	return r.search(ctx, node, possible)
}

// search looks up the node's server in several regions concurrently. If all of them have answered
// and none has it, the first one decides.
func (r *regions) search(
	ctx context.Context, node *v1.Node, possible []*cloud,
) (*cloud, error) {
	ctx, cancel := context.WithTimeout(ctx, regionTimeout)
	defer cancel()
	has := make([]bool, len(possible))
	indexes := make([]int, len(possible))
	for i := range indexes {
		indexes[i] = i
	}
	errs := batch.InParallel(indexes, len(possible), func(i int) (err error) {
		if has[i], err = possible[i].instances.Has(ctx, node); err != nil {
			return possible[i].explain(err)
		}
		return nil
	})
	var found []*cloud
	var names []string
	for i, c := range possible {
		if has[i] {
			found, names = append(found, c), append(names, c.name)
		}
	}
	failed := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	switch {
	case len(found) > 1:
		return nil, fmt.Errorf("%w %s in the regions %q; set --provider-id of the kubelet",
			instances.ErrSeveral, node.Name, names)
	case len(found) == 1:
		r.remember(node, found[0])
		return found[0], nil
	case failed >= 0:
		return nil, errs[failed]
	}
	return possible[0], nil
}

// explain adds the region to an error about a request to it.
func (c *cloud) explain(err error) error { return fmt.Errorf("%w (region %s)", err, c.name) }

// remember keeps the region of a node until the end of the term. The map has room for the nodes of
// the cluster and many deleted ones.
func (r *regions) remember(node *v1.Node, in *cloud) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 20_000
	if len(r.found) >= most {
		clear(r.found)
	}
	r.found[node.UID] = in
}

// InstancesV2 implements cloudprovider.Interface.
func (r *regions) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return regionalInstances{r}, true
}

// Instances implements cloudprovider.Interface: InstancesV2 replaces it.
func (r *regions) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones implements cloudprovider.Interface: InstancesV2 replaces it.
func (r *regions) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (r *regions) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

type regionalInstances struct{ *regions }

// InstanceExists returns false only if each region in which the instance may be has confirmed its
// absence. A label may be wrong. Only the provider ID, or an earlier answer with the server of this
// ID, proves that one region is responsible.
func (i regionalInstances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	first, err := i.place(ctx, node)
	if err != nil {
		return false, err
	}
	possible, err := i.possible(node)
	if err != nil {
		return false, err
	}
	others := slices.DeleteFunc(slices.Clone(possible), func(c *cloud) bool { return c == first })
	i.mu.Lock()
	if node.Spec.ProviderID != "" && i.found[node.UID] == first {
		others = nil
	}
	i.mu.Unlock()
	if i.known(node) == nil {
		// No region has the server. In the guards, nodes of an unknown region are missing in each.
		i.learn(ctx, i.allNodes())
	}
	for _, c := range append([]*cloud{first}, others...) {
		exists, err := c.instances.InstanceExists(ctx, node)
		if err != nil {
			return false, c.explain(err)
		}
		if exists {
			i.remember(node, c)
			return true, nil
		}
	}
	return false, nil
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (i regionalInstances) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	c, err := i.place(ctx, node)
	if err != nil {
		return false, err
	}
	return c.instances.InstanceShutdown(ctx, node)
}

// InstanceMetadata implements cloudprovider.InstancesV2. The errors are the region's own, because
// controllers compare them.
func (i regionalInstances) InstanceMetadata(
	ctx context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	c, err := i.place(ctx, node)
	if err != nil {
		i.all[0].instances.NoteResult(ctx, node, nil, err)
		return nil, err
	}
	return c.instances.InstanceMetadata(ctx, node)
}

// LoadBalancerStatus implements ccm.ObjectReporter.
func (r *regions) LoadBalancerStatus() []status.LoadBalancer {
	var all []status.LoadBalancer
	for _, c := range r.all {
		all = append(all, c.LoadBalancerStatus()...)
	}
	return all
}

// NodeStatus implements ccm.ObjectReporter. Several regions may report a node of an unknown region.
func (r *regions) NodeStatus() []status.Node {
	var all []status.Node
	for _, c := range r.all {
		for _, current := range c.NodeStatus() {
			if !slices.ContainsFunc(all, func(other status.Node) bool {
				return other.Name == current.Name
			}) {
				all = append(all, current)
			}
		}
	}
	return all
}

// Close ends the background work of all regions.
func (r *regions) Close() error {
	var errs []error
	for _, c := range r.all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// named returns the region of this name, or nil.
func (r *regions) named(name string) *cloud {
	if found := r.where(func(c *cloud) bool { return c.name == name }); len(found) > 0 {
		return found[0]
	}
	return nil
}

// node returns the node of this name from the informers.
func (r *regions) node(name string) (*v1.Node, error) {
	r.mu.Lock()
	nodes, synced := r.nodes, r.synced
	r.mu.Unlock()
	if nodes == nil || !synced() {
		return nil, errors.New("the nodes are not synced yet")
	}
	return nodes.Get(name)
}

// allNodes returns the nodes from the informers, or none without them.
func (r *regions) allNodes() []*v1.Node {
	r.mu.Lock()
	lister := r.nodes
	r.mu.Unlock()
	if lister == nil {
		return nil
	}
	nodes, err := lister.List(labels.Everything())
	if err != nil {
		return nil
	}
	return nodes
}

// nodesIn returns the nodes that are, or may be, in a region.
func (r *regions) nodesIn(in *cloud, nodes []*v1.Node) []*v1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node *v1.Node) bool {
		return !r.mayHave(in, node)
	})
}

// nameOr returns the name of a region, or the name of the default region.
func (r *regions) nameOr(name string) string { return cmp.Or(name, r.all[0].name) }
