package instances

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// V1 implements the older interface, before [Instances.V2], for hosts that still use it.
func (i *Instances) V1() cloudprovider.Instances { return instancesV1{i} }

type instancesV1 struct{ *Instances }

// NodeAddresses implements cloudprovider.Instances.
func (i instancesV1) NodeAddresses(ctx context.Context,
	name types.NodeName,
) ([]v1.NodeAddress, error) {
	metadata, err := i.metadata(ctx, subject{name: string(name)})
	if err != nil {
		return nil, err
	}
	return metadata.NodeAddresses, nil
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (i instancesV1) NodeAddressesByProviderID(ctx context.Context,
	providerID string,
) ([]v1.NodeAddress, error) {
	metadata, err := i.metadataByProviderID(ctx, providerID)
	if err != nil {
		return nil, err
	}
	return metadata.NodeAddresses, nil
}

// InstanceID implements cloudprovider.Instances: the provider ID without openstack://, which
// upstream adds again (cloudprovider.GetInstanceProviderID).
func (i instancesV1) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	found, err := i.locate(ctx, subject{name: string(name)}, status)
	if err != nil {
		return "", asUpstream(err)
	}
	return i.providerID(found.servers[0]).path(), nil
}

// InstanceType implements cloudprovider.Instances.
func (i instancesV1) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return i.instanceType(ctx, subject{name: string(name)})
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (i instancesV1) InstanceTypeByProviderID(ctx context.Context,
	providerID string,
) (string, error) {
	s, err := i.subjectWithID(providerID)
	if err != nil {
		return "", err
	}
	return i.instanceType(ctx, s)
}

func (i *Instances) instanceType(ctx context.Context, s subject) (string, error) {
	found, err := i.locate(ctx, s, describe)
	if err != nil {
		return "", asUpstream(err)
	}
	return i.types.of(ctx, found.servers[0])
}

// AddSSHKeyToAllInstances implements cloudprovider.Instances. Nova accepts keys only for new
// servers.
func (i instancesV1) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName implements cloudprovider.Instances: the hostname.
func (i instancesV1) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	return types.NodeName(hostname), nil
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (i instancesV1) InstanceExistsByProviderID(ctx context.Context,
	providerID string,
) (bool, error) {
	s, err := i.subjectWithID(providerID)
	if err != nil {
		return false, err
	}
	return i.exists(ctx, s)
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (i instancesV1) InstanceShutdownByProviderID(ctx context.Context,
	providerID string,
) (bool, error) {
	s, err := i.subjectWithID(providerID)
	if err != nil {
		return false, err
	}
	return i.shutdown(ctx, s)
}

func (i *Instances) metadataByProviderID(ctx context.Context,
	providerID string,
) (*cloudprovider.InstanceMetadata, error) {
	s, err := i.subjectWithID(providerID)
	if err != nil {
		return nil, err
	}
	return i.metadata(ctx, s)
}
