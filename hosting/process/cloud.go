package process

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/internal/optional"
	"github.com/fxccm/fxccm/internal/rescue"
)

// reportTimeout limits the wait for a report of the child, which may be frozen. A scrape of the
// metrics waits for it.
const reportTimeout = time.Second

// These are the interfaces that callers find by a type assertion, as names on the wire.
const (
	labelerName  = "PVLabeler"
	reporterName = "ObjectReporter"
	// podCIDRsName is nodeipam.PodCIDRReporter, which InstancesV2 may implement.
	podCIDRsName = "InstancesV2.PodCIDRs"
	// endpointsName is ccm.EndpointBalancer, which LoadBalancer may implement.
	endpointsName = "LoadBalancer.WantsEndpoints"
)

// cloud is the provider on the host's side.
type cloud struct {
	parent       *parent
	name         string
	hasClusterID bool
}

// newCloud returns the cloud with the interfaces of the child's provider.
func newCloud(p *parent, built results) cloudprovider.Interface {
	c := &cloud{parent: p, name: built.Text, hasClusterID: built.Yes}
	var labels cloudprovider.PVLabeler
	if slices.Contains(built.Names, labelerName) {
		labels = volumeLabeler{c}
	}
	var reports ccm.ObjectReporter
	if slices.Contains(built.Names, reporterName) {
		reports = &objectReporter{cloud: c}
	}
	return optional.Add(c, labels, reports)
}

// Initialize starts the provider in the child, which has its own clients and informers.
func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	if _, err := c.parent.request(context.Background(), message{Kind: initialize}); err != nil {
		c.parent.env.Fail(err)
	}
}

// Close waits for the end of the child, which ends with the term.
func (c *cloud) Close() error {
	<-c.parent.ended
	return nil
}

func (c *cloud) serves(name string) bool {
	got, err := c.parent.request(context.Background(), message{Kind: serves, Method: name})
	if err != nil {
		// A missing answer must not look like a provider that does not serve the interface.
		c.parent.env.Fail(err)
	}
	return got.Yes
}

func (c *cloud) call(ctx context.Context, method string, args arguments) (results, error) {
	deadline, _ := ctx.Deadline()
	return c.parent.request(ctx, message{
		Kind: call, Method: method, Time: deadline.Round(0), Args: args,
	})
}

func (c *cloud) ProviderName() string { return c.name }
func (c *cloud) HasClusterID() bool   { return c.hasClusterID }

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	isServed := c.serves("LoadBalancer")
	if isServed && c.serves(endpointsName) {
		return endpointBalancer{loadBalancer{c}}, true
	}
	return loadBalancer{c}, isServed
}

func (c *cloud) Instances() (cloudprovider.Instances, bool) {
	return instances{c}, c.serves("Instances")
}

func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	isServed := c.serves("InstancesV2")
	if isServed && c.serves(podCIDRsName) {
		return podCIDRReporter{instancesV2{c}}, true
	}
	return instancesV2{c}, isServed
}

func (c *cloud) Zones() (cloudprovider.Zones, bool) { return zones{c}, c.serves("Zones") }

func (c *cloud) Clusters() (cloudprovider.Clusters, bool) {
	return clusters{c}, c.serves("Clusters")
}

func (c *cloud) Routes() (cloudprovider.Routes, bool) { return routes{c}, c.serves("Routes") }

// CleanUpCluster implements ccm.ClusterCleaner.
func (c *cloud) CleanUpCluster(ctx context.Context, uid string) ([]string, error) {
	got, err := c.call(ctx, "Cloud.CleanUpCluster", arguments{ID: uid})
	return got.Names, err
}

type volumeLabeler struct{ cloud *cloud }

func (l volumeLabeler) GetLabelsForVolume(
	ctx context.Context, volume *v1.PersistentVolume,
) (map[string]string, error) {
	data, err := encode(volume)
	if err != nil {
		return nil, err
	}
	got, err := l.cloud.call(ctx, "PVLabeler.GetLabelsForVolume", arguments{Volume: data})
	return got.Labels, err
}

// objectReporter keeps the last report of the child.
type objectReporter struct {
	cloud *cloud
	// requests limits the requests to a child that does not answer to one.
	requests singleflight.Group
	last     atomic.Pointer[results]
}

func (r *objectReporter) LoadBalancerStatus() []status.LoadBalancer {
	return slices.Clone(r.report().LoadBalancers)
}

func (r *objectReporter) NodeStatus() []status.Node {
	return slices.Clone(r.report().WaitingNodes)
}

// report returns the report of the child, or the last one if the child does not answer.
func (r *objectReporter) report() results {
	answer := r.requests.DoChan("", func() (any, error) {
		return nil, rescue.Panic(func() error {
			got, err := r.cloud.parent.request(context.Background(), message{Kind: report})
			if err == nil {
				r.last.Store(&got)
			}
			return err
		})
	})
	limit := time.NewTimer(reportTimeout)
	defer limit.Stop()
	select {
	case <-answer:
	case <-limit.C:
	}
	if last := r.last.Load(); last != nil {
		return *last
	}
	return results{}
}

type loadBalancer struct{ cloud *cloud }

// service makes a call about a Service.
func (l loadBalancer) service(
	ctx context.Context, method, cluster string, service *v1.Service, nodes []*v1.Node,
	endpoints ...*discoveryv1.EndpointSlice,
) (results, error) {
	args := arguments{Cluster: cluster}
	var err error
	if args.Service, err = encode(service); err != nil {
		return results{}, err
	}
	if args.Nodes, err = encodeAll(nodes); err != nil {
		return results{}, err
	}
	if args.Endpoints, err = encodeAll(endpoints); err != nil {
		return results{}, err
	}
	return l.cloud.call(ctx, "LoadBalancer."+method, args)
}

func (l loadBalancer) GetLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	got, err := l.service(ctx, "GetLoadBalancer", cluster, service, nil)
	return got.Status, got.Yes, err
}

func (l loadBalancer) GetLoadBalancerName(
	ctx context.Context, cluster string, service *v1.Service,
) string {
	// The method has no error; a dead child ends the term.
	got, _ := l.service(ctx, "GetLoadBalancerName", cluster, service, nil)
	return got.Text
}

func (l loadBalancer) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	got, err := l.service(ctx, "EnsureLoadBalancer", cluster, service, nodes)
	return got.Status, err
}

func (l loadBalancer) UpdateLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
) error {
	_, err := l.service(ctx, "UpdateLoadBalancer", cluster, service, nodes)
	return err
}

func (l loadBalancer) EnsureLoadBalancerDeleted(
	ctx context.Context, cluster string, service *v1.Service,
) error {
	_, err := l.service(ctx, "EnsureLoadBalancerDeleted", cluster, service, nil)
	return err
}

// endpointBalancer is a load balancer whose members may be endpoints.
type endpointBalancer struct{ loadBalancer }

var _ ccm.EndpointBalancer = endpointBalancer{}

func (e endpointBalancer) WantsEndpoints(service *v1.Service) bool {
	// The method has no error; a dead child ends the term.
	got, _ := e.service(context.Background(), "WantsEndpoints", "", service, nil)
	return got.Yes
}

func (e endpointBalancer) EnsureEndpointLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	got, err := e.service(ctx, "EnsureEndpointLoadBalancer", cluster, service, nodes, endpoints...)
	return got.Status, err
}

func (e endpointBalancer) UpdateEndpointLoadBalancer(
	ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) error {
	_, err := e.service(ctx, "UpdateEndpointLoadBalancer", cluster, service, nodes, endpoints...)
	return err
}

type instancesV2 struct{ cloud *cloud }

func (i instancesV2) node(ctx context.Context, method string, node *v1.Node) (results, error) {
	data, err := encode(node)
	if err != nil {
		return results{}, err
	}
	return i.cloud.call(ctx, "InstancesV2."+method, arguments{Nodes: [][]byte{data}})
}

func (i instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	got, err := i.node(ctx, "InstanceExists", node)
	return got.Yes, err
}

func (i instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	got, err := i.node(ctx, "InstanceShutdown", node)
	return got.Yes, err
}

func (i instancesV2) InstanceMetadata(
	ctx context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	got, err := i.node(ctx, "InstanceMetadata", node)
	return got.Metadata, err
}

// podCIDRReporter are instances that also report the pod ranges of nodes.
type podCIDRReporter struct{ instancesV2 }

func (i podCIDRReporter) PodCIDRs(ctx context.Context, node *v1.Node) ([]string, error) {
	got, err := i.node(ctx, "PodCIDRs", node)
	return got.Names, err
}

type instances struct{ cloud *cloud }

func (i instances) call(ctx context.Context, method string, args arguments) (results, error) {
	return i.cloud.call(ctx, "Instances."+method, args)
}

func (i instances) NodeAddresses(
	ctx context.Context, name types.NodeName,
) ([]v1.NodeAddress, error) {
	got, err := i.call(ctx, "NodeAddresses", arguments{Name: string(name)})
	return got.Addresses, err
}

func (i instances) NodeAddressesByProviderID(
	ctx context.Context, id string,
) ([]v1.NodeAddress, error) {
	got, err := i.call(ctx, "NodeAddressesByProviderID", arguments{ID: id})
	return got.Addresses, err
}

func (i instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	got, err := i.call(ctx, "InstanceID", arguments{Name: string(name)})
	return got.Text, err
}

func (i instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	got, err := i.call(ctx, "InstanceType", arguments{Name: string(name)})
	return got.Text, err
}

func (i instances) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	got, err := i.call(ctx, "InstanceTypeByProviderID", arguments{ID: id})
	return got.Text, err
}

func (i instances) AddSSHKeyToAllInstances(ctx context.Context, user string, key []byte) error {
	_, err := i.call(ctx, "AddSSHKeyToAllInstances", arguments{Name: user, Data: key})
	return err
}

func (i instances) CurrentNodeName(ctx context.Context, host string) (types.NodeName, error) {
	got, err := i.call(ctx, "CurrentNodeName", arguments{Name: host})
	return types.NodeName(got.Text), err
}

func (i instances) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	got, err := i.call(ctx, "InstanceExistsByProviderID", arguments{ID: id})
	return got.Yes, err
}

func (i instances) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	got, err := i.call(ctx, "InstanceShutdownByProviderID", arguments{ID: id})
	return got.Yes, err
}

type zones struct{ cloud *cloud }

func (z zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	got, err := z.cloud.call(ctx, "Zones.GetZone", arguments{})
	return got.Zone, err
}

func (z zones) GetZoneByProviderID(
	ctx context.Context, id string,
) (cloudprovider.Zone, error) {
	got, err := z.cloud.call(ctx, "Zones.GetZoneByProviderID", arguments{ID: id})
	return got.Zone, err
}

func (z zones) GetZoneByNodeName(
	ctx context.Context, name types.NodeName,
) (cloudprovider.Zone, error) {
	got, err := z.cloud.call(ctx, "Zones.GetZoneByNodeName", arguments{Name: string(name)})
	return got.Zone, err
}

type clusters struct{ cloud *cloud }

func (c clusters) ListClusters(ctx context.Context) ([]string, error) {
	got, err := c.cloud.call(ctx, "Clusters.ListClusters", arguments{})
	return got.Names, err
}

func (c clusters) Master(ctx context.Context, cluster string) (string, error) {
	got, err := c.cloud.call(ctx, "Clusters.Master", arguments{Cluster: cluster})
	return got.Text, err
}

type routes struct{ cloud *cloud }

func (r routes) ListRoutes(
	ctx context.Context, cluster string,
) ([]*cloudprovider.Route, error) {
	got, err := r.cloud.call(ctx, "Routes.ListRoutes", arguments{Cluster: cluster})
	var all []*cloudprovider.Route
	for i := range got.Routes {
		all = append(all, &got.Routes[i])
	}
	return all, err
}

func (r routes) CreateRoute(
	ctx context.Context, cluster, hint string, route *cloudprovider.Route,
) error {
	_, err := r.cloud.call(ctx, "Routes.CreateRoute",
		arguments{Cluster: cluster, Name: hint, Route: *route})
	return err
}

func (r routes) DeleteRoute(
	ctx context.Context, cluster string, route *cloudprovider.Route,
) error {
	_, err := r.cloud.call(ctx, "Routes.DeleteRoute",
		arguments{Cluster: cluster, Route: *route})
	return err
}

// remaining returns the time until a deadline by the clock that leaves less: Go's monotonic clock
// stands still while the machine is suspended.
func remaining(until time.Time) time.Duration {
	now := time.Now()
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}
