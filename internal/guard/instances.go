package guard

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

type instancesV2 struct {
	real cloudprovider.InstancesV2
	caller
}

func (i instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	return call(ctx, i.caller, reads("InstancesV2.InstanceExists", nodeName(node)),
		func(ctx context.Context) (bool, error) {
			return i.real.InstanceExists(ctx, node)
		})
}

func (i instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	return call(ctx, i.caller, reads("InstancesV2.InstanceShutdown", nodeName(node)),
		func(ctx context.Context) (bool, error) {
			return i.real.InstanceShutdown(ctx, node)
		})
}

func (i instancesV2) InstanceMetadata(
	ctx context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	return call(ctx, i.caller, reads("InstancesV2.InstanceMetadata", nodeName(node)),
		func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
			return i.real.InstanceMetadata(ctx, node)
		})
}

// podCIDRReporter is nodeipam.PodCIDRReporter.
type podCIDRReporter interface {
	PodCIDRs(ctx context.Context, node *v1.Node) ([]string, error)
}

// reportingInstances are instances that also report the pod ranges of nodes.
type reportingInstances struct {
	instancesV2
	reporter podCIDRReporter
}

func (i reportingInstances) PodCIDRs(ctx context.Context, node *v1.Node) ([]string, error) {
	return call(ctx, i.caller, reads("InstancesV2.PodCIDRs", nodeName(node)),
		func(ctx context.Context) ([]string, error) {
			return i.reporter.PodCIDRs(ctx, node)
		})
}

type instances struct {
	real cloudprovider.Instances
	caller
}

func (i instances) NodeAddresses(
	ctx context.Context, name types.NodeName,
) ([]v1.NodeAddress, error) {
	return call(ctx, i.caller, reads("Instances.NodeAddresses", string(name)),
		func(ctx context.Context) ([]v1.NodeAddress, error) {
			return i.real.NodeAddresses(ctx, name)
		})
}

func (i instances) NodeAddressesByProviderID(
	ctx context.Context, providerID string,
) ([]v1.NodeAddress, error) {
	return call(ctx, i.caller, reads("Instances.NodeAddressesByProviderID", providerID),
		func(ctx context.Context) ([]v1.NodeAddress, error) {
			return i.real.NodeAddressesByProviderID(ctx, providerID)
		})
}

func (i instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return call(ctx, i.caller, reads("Instances.InstanceID", string(name)),
		func(ctx context.Context) (string, error) {
			return i.real.InstanceID(ctx, name)
		})
}

func (i instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return call(ctx, i.caller, reads("Instances.InstanceType", string(name)),
		func(ctx context.Context) (string, error) {
			return i.real.InstanceType(ctx, name)
		})
}

func (i instances) InstanceTypeByProviderID(
	ctx context.Context, providerID string,
) (string, error) {
	return call(ctx, i.caller, reads("Instances.InstanceTypeByProviderID", providerID),
		func(ctx context.Context) (string, error) {
			return i.real.InstanceTypeByProviderID(ctx, providerID)
		})
}

func (i instances) AddSSHKeyToAllInstances(ctx context.Context, user string, keyData []byte) error {
	return do(ctx, i.caller, writes("Instances.AddSSHKeyToAllInstances", ""),
		func(ctx context.Context) error {
			return i.real.AddSSHKeyToAllInstances(ctx, user, keyData)
		})
}

func (i instances) CurrentNodeName(ctx context.Context, hostname string) (types.NodeName, error) {
	return call(ctx, i.caller, reads("Instances.CurrentNodeName", hostname),
		func(ctx context.Context) (types.NodeName, error) {
			return i.real.CurrentNodeName(ctx, hostname)
		})
}

func (i instances) InstanceExistsByProviderID(
	ctx context.Context, providerID string,
) (bool, error) {
	return call(ctx, i.caller, reads("Instances.InstanceExistsByProviderID", providerID),
		func(ctx context.Context) (bool, error) {
			return i.real.InstanceExistsByProviderID(ctx, providerID)
		})
}

func (i instances) InstanceShutdownByProviderID(
	ctx context.Context, providerID string,
) (bool, error) {
	return call(ctx, i.caller, reads("Instances.InstanceShutdownByProviderID", providerID),
		func(ctx context.Context) (bool, error) {
			return i.real.InstanceShutdownByProviderID(ctx, providerID)
		})
}

type zones struct {
	real cloudprovider.Zones
	caller
}

func (z zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return call(ctx, z.caller, reads("Zones.GetZone", ""), z.real.GetZone)
}

func (z zones) GetZoneByProviderID(
	ctx context.Context, providerID string,
) (cloudprovider.Zone, error) {
	return call(ctx, z.caller, reads("Zones.GetZoneByProviderID", providerID),
		func(ctx context.Context) (cloudprovider.Zone, error) {
			return z.real.GetZoneByProviderID(ctx, providerID)
		})
}

func (z zones) GetZoneByNodeName(
	ctx context.Context, name types.NodeName,
) (cloudprovider.Zone, error) {
	return call(ctx, z.caller, reads("Zones.GetZoneByNodeName", string(name)),
		func(ctx context.Context) (cloudprovider.Zone, error) {
			return z.real.GetZoneByNodeName(ctx, name)
		})
}

func nodeName(node *v1.Node) string {
	if node == nil {
		return ""
	}
	return node.Name
}
