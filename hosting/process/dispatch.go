package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// podCIDRs is nodeipam.PodCIDRReporter.
type podCIDRs interface {
	PodCIDRs(ctx context.Context, node *v1.Node) ([]string, error)
}

// offered are the interfaces of a provider. Each getter is called once, as in a Manager, because
// the getters of some providers send requests.
type offered struct {
	cloud        cloudprovider.Interface
	loadBalancer func() (cloudprovider.LoadBalancer, bool)
	instances    func() (cloudprovider.Instances, bool)
	instancesV2  func() (cloudprovider.InstancesV2, bool)
	zones        func() (cloudprovider.Zones, bool)
	clusters     func() (cloudprovider.Clusters, bool)
	routes       func() (cloudprovider.Routes, bool)
}

func offer(cloud cloudprovider.Interface) *offered {
	return &offered{
		cloud:        cloud,
		loadBalancer: sync.OnceValues(cloud.LoadBalancer),
		instances:    sync.OnceValues(cloud.Instances),
		instancesV2:  sync.OnceValues(cloud.InstancesV2),
		zones:        sync.OnceValues(cloud.Zones),
		clusters:     sync.OnceValues(cloud.Clusters),
		routes:       sync.OnceValues(cloud.Routes),
	}
}

// serves reports whether the provider serves an interface.
func (o *offered) serves(name string) (yes bool) {
	switch name {
	case "LoadBalancer":
		_, yes = o.loadBalancer()
	case endpointsName:
		balancer, _ := o.loadBalancer()
		_, yes = balancer.(ccm.EndpointBalancer)
	case "Instances":
		_, yes = o.instances()
	case "InstancesV2":
		_, yes = o.instancesV2()
	case podCIDRsName:
		instances, _ := o.instancesV2()
		_, yes = instances.(podCIDRs)
	case "Zones":
		_, yes = o.zones()
	case "Clusters":
		_, yes = o.clusters()
	case "Routes":
		_, yes = o.routes()
	}
	return yes
}

// dispatch makes one call to the provider.
func (o *offered) dispatch(
	ctx context.Context, name string, a arguments,
) (r results, err error) {
	iface, method, _ := strings.Cut(name, ".")
	switch iface {
	case "LoadBalancer":
		if balancer, ok := o.loadBalancer(); ok {
			return dispatchLoadBalancer(ctx, balancer, method, a)
		}
	case "Instances":
		if instances, ok := o.instances(); ok {
			return dispatchInstances(ctx, instances, method, a)
		}
	case "InstancesV2":
		if instances, ok := o.instancesV2(); ok {
			return dispatchInstancesV2(ctx, instances, method, a)
		}
	case "Zones":
		if zones, ok := o.zones(); ok {
			switch method {
			case "GetZone":
				r.Zone, err = zones.GetZone(ctx)
				return r, err
			case "GetZoneByProviderID":
				r.Zone, err = zones.GetZoneByProviderID(ctx, a.ID)
				return r, err
			case "GetZoneByNodeName":
				r.Zone, err = zones.GetZoneByNodeName(ctx, types.NodeName(a.Name))
				return r, err
			}
		}
	case "Clusters":
		if clusters, ok := o.clusters(); ok {
			switch method {
			case "ListClusters":
				r.Names, err = clusters.ListClusters(ctx)
				return r, err
			case "Master":
				r.Text, err = clusters.Master(ctx, a.Cluster)
				return r, err
			}
		}
	case "Routes":
		if routes, ok := o.routes(); ok {
			return dispatchRoutes(ctx, routes, method, a)
		}
	case "Cloud":
		cleaner, ok := o.cloud.(ccm.ClusterCleaner)
		if !ok {
			return r, fmt.Errorf("the cloud provider %s cannot clean up after a deleted cluster: %w",
				o.cloud.ProviderName(), errors.ErrUnsupported)
		}
		r.Names, err = cleaner.CleanUpCluster(ctx, a.ID)
		return r, err
	case "PVLabeler":
		if labeler, ok := o.cloud.(cloudprovider.PVLabeler); ok {
			volume, err := decode[v1.PersistentVolume](a.Volume)
			if err != nil {
				return r, err
			}
			r.Labels, err = labeler.GetLabelsForVolume(ctx, volume)
			return r, err
		}
	}
	return r, cloudprovider.NotImplemented
}

func dispatchLoadBalancer(
	ctx context.Context, balancer cloudprovider.LoadBalancer, method string, a arguments,
) (r results, err error) {
	service, err := decode[v1.Service](a.Service)
	if err != nil {
		return r, err
	}
	nodes, err := decodeAll[v1.Node](a.Nodes)
	if err != nil {
		return r, err
	}
	if endpoints, ok := balancer.(ccm.EndpointBalancer); ok {
		slices, err := decodeAll[discoveryv1.EndpointSlice](a.Endpoints)
		if err != nil {
			return r, err
		}
		switch method {
		case "WantsEndpoints":
			r.Yes = endpoints.WantsEndpoints(service)
			return r, nil
		case "EnsureEndpointLoadBalancer":
			r.Status, err = endpoints.EnsureEndpointLoadBalancer(ctx, a.Cluster, service, nodes,
				slices)
			return r, err
		case "UpdateEndpointLoadBalancer":
			return r, endpoints.UpdateEndpointLoadBalancer(ctx, a.Cluster, service, nodes, slices)
		}
	}
	switch method {
	case "GetLoadBalancer":
		r.Status, r.Yes, err = balancer.GetLoadBalancer(ctx, a.Cluster, service)
	case "GetLoadBalancerName":
		r.Text = balancer.GetLoadBalancerName(ctx, a.Cluster, service)
	case "EnsureLoadBalancer":
		r.Status, err = balancer.EnsureLoadBalancer(ctx, a.Cluster, service, nodes)
	case "UpdateLoadBalancer":
		err = balancer.UpdateLoadBalancer(ctx, a.Cluster, service, nodes)
	case "EnsureLoadBalancerDeleted":
		err = balancer.EnsureLoadBalancerDeleted(ctx, a.Cluster, service)
	default:
		err = cloudprovider.NotImplemented
	}
	return r, err
}

func dispatchInstances(
	ctx context.Context, instances cloudprovider.Instances, method string, a arguments,
) (r results, err error) {
	name := types.NodeName(a.Name)
	switch method {
	case "NodeAddresses":
		r.Addresses, err = instances.NodeAddresses(ctx, name)
	case "NodeAddressesByProviderID":
		r.Addresses, err = instances.NodeAddressesByProviderID(ctx, a.ID)
	case "InstanceID":
		r.Text, err = instances.InstanceID(ctx, name)
	case "InstanceType":
		r.Text, err = instances.InstanceType(ctx, name)
	case "InstanceTypeByProviderID":
		r.Text, err = instances.InstanceTypeByProviderID(ctx, a.ID)
	case "AddSSHKeyToAllInstances":
		err = instances.AddSSHKeyToAllInstances(ctx, a.Name, a.Data)
	case "CurrentNodeName":
		name, err = instances.CurrentNodeName(ctx, a.Name)
		r.Text = string(name)
	case "InstanceExistsByProviderID":
		r.Yes, err = instances.InstanceExistsByProviderID(ctx, a.ID)
	case "InstanceShutdownByProviderID":
		r.Yes, err = instances.InstanceShutdownByProviderID(ctx, a.ID)
	default:
		err = cloudprovider.NotImplemented
	}
	return r, err
}

func dispatchInstancesV2(
	ctx context.Context, instances cloudprovider.InstancesV2, method string, a arguments,
) (r results, err error) {
	nodes, err := decodeAll[v1.Node](a.Nodes)
	if err != nil {
		return r, err
	}
	if len(nodes) != 1 {
		return r, fmt.Errorf("%s received %d nodes, want 1", method, len(nodes))
	}
	switch method {
	case "InstanceExists":
		r.Yes, err = instances.InstanceExists(ctx, nodes[0])
	case "InstanceShutdown":
		r.Yes, err = instances.InstanceShutdown(ctx, nodes[0])
	case "InstanceMetadata":
		r.Metadata, err = instances.InstanceMetadata(ctx, nodes[0])
	case "PodCIDRs":
		reporter, ok := instances.(podCIDRs)
		if !ok {
			return r, cloudprovider.NotImplemented
		}
		r.Names, err = reporter.PodCIDRs(ctx, nodes[0])
	default:
		err = cloudprovider.NotImplemented
	}
	return r, err
}

func dispatchRoutes(
	ctx context.Context, routes cloudprovider.Routes, method string, a arguments,
) (r results, err error) {
	switch method {
	case "ListRoutes":
		all, err := routes.ListRoutes(ctx, a.Cluster)
		for _, route := range all {
			if route == nil {
				return r, errors.New("cloud provider returned a route that is nil")
			}
			r.Routes = append(r.Routes, *route)
		}
		return r, err
	case "CreateRoute":
		return r, routes.CreateRoute(ctx, a.Cluster, a.Name, &a.Route)
	case "DeleteRoute":
		return r, routes.DeleteRoute(ctx, a.Cluster, &a.Route)
	}
	return r, cloudprovider.NotImplemented
}
