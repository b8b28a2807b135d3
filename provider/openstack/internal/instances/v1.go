package instances

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// These interfaces are older, for hosts that still use them.
var (
	_ cloudprovider.Instances = (*Instances)(nil)
	_ cloudprovider.Zones     = (*Instances)(nil)
)

// NodeAddresses implements cloudprovider.Instances.
func (i *Instances) NodeAddresses(ctx context.Context,
	name types.NodeName,
) ([]v1.NodeAddress, error) {
	return i.addresses(ctx, subject{name: string(name)})
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (i *Instances) NodeAddressesByProviderID(ctx context.Context,
	providerID string,
) ([]v1.NodeAddress, error) {
	s, err := i.subjectWithID(providerID)
	return ask(ctx, s, err, i.addresses)
}

func (i *Instances) addresses(ctx context.Context, s subject) ([]v1.NodeAddress, error) {
	metadata, err := i.metadata(ctx, s)
	if err != nil {
		return nil, err
	}
	return metadata.NodeAddresses, nil
}

// InstanceID implements cloudprovider.Instances: the provider ID without openstack://, which
// upstream adds again (cloudprovider.GetInstanceProviderID).
func (i *Instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	found, err := i.locate(ctx, subject{name: string(name)}, status)
	if err != nil {
		return "", err
	}
	return i.providerID(found.servers[0]).path(), nil
}

// InstanceType implements cloudprovider.Instances.
func (i *Instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return i.instanceType(ctx, subject{name: string(name)})
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (i *Instances) InstanceTypeByProviderID(ctx context.Context,
	providerID string,
) (string, error) {
	s, err := i.subjectWithID(providerID)
	return ask(ctx, s, err, i.instanceType)
}

func (i *Instances) instanceType(ctx context.Context, s subject) (string, error) {
	found, err := i.locate(ctx, s, describe)
	if err != nil {
		return "", err
	}
	return i.types.of(ctx, found.servers[0])
}

// AddSSHKeyToAllInstances implements cloudprovider.Instances. Nova accepts keys only for new
// servers.
func (i *Instances) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName implements cloudprovider.Instances: the hostname.
func (i *Instances) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	return types.NodeName(hostname), nil
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (i *Instances) InstanceExistsByProviderID(ctx context.Context,
	providerID string,
) (bool, error) {
	s, err := i.subjectWithID(providerID)
	return ask(ctx, s, err, i.exists)
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (i *Instances) InstanceShutdownByProviderID(ctx context.Context,
	providerID string,
) (bool, error) {
	s, err := i.subjectWithID(providerID)
	return ask(ctx, s, err, i.shutdown)
}

// GetZone implements cloudprovider.Zones. It is not supported: this process may not run in the
// cloud. Only kubelets with an in-tree provider used it.
func (i *Instances) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{},
		fmt.Errorf("get the zone of this process, which may not run in the cloud: %w",
			cloudprovider.NotImplemented)
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (i *Instances) GetZoneByProviderID(ctx context.Context,
	providerID string,
) (cloudprovider.Zone, error) {
	s, err := i.subjectWithID(providerID)
	return ask(ctx, s, err, i.zone)
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (i *Instances) GetZoneByNodeName(ctx context.Context,
	name types.NodeName,
) (cloudprovider.Zone, error) {
	return i.zone(ctx, subject{name: string(name)})
}

func (i *Instances) zone(ctx context.Context, s subject) (cloudprovider.Zone, error) {
	found, err := i.locate(ctx, s, describe)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return cloudprovider.Zone{
		FailureDomain: labelValue(found.servers[0].Zone), Region: i.config.Region,
	}, nil
}
