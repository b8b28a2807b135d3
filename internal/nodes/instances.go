package nodes

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// instances are the instances of a provider with either interface. As upstream, InstancesV2 is
// preferred.
type instances struct {
	cloud cloudprovider.Interface
	// calls counts the calls by operation and result. Nil: they are not counted.
	calls *prometheus.CounterVec
}

// errNoInstances is returned for each node of a provider with neither interface.
var errNoInstances = errors.New("the cloud provider serves no instances, so it cannot initialize " +
	"nodes; start the kubelets without --cloud-provider=external, or run another cloud controller " +
	"manager that initializes them")

// Serve reports whether the provider can look up instances.
func Serve(cloud cloudprovider.Interface) bool {
	_, v2 := cloud.InstancesV2()
	_, v1 := cloud.Instances()
	return v1 || v2
}

// metadata looks up an instance. Nil without an error: the node is not the provider's. With
// onlyAddresses the rest may be missing, which takes fewer calls of the older interface.
func (i instances) metadata(
	ctx context.Context, node *v1.Node, onlyAddresses bool,
) (*cloudprovider.InstanceMetadata, error) {
	node = node.DeepCopy()
	var found *cloudprovider.InstanceMetadata
	var err error
	if v2, ok := i.cloud.InstancesV2(); ok {
		found, err = v2.InstanceMetadata(ctx, node)
	} else if older, ok := i.cloud.Instances(); ok {
		found, err = i.metadataV1(ctx, older, node, onlyAddresses)
	} else {
		return nil, errNoInstances
	}
	if errors.Is(err, cloudprovider.ImplementedElsewhere) {
		return nil, nil
	}
	return found, err
}

// metadataV1 is metadata with the older interfaces. A provider without provider IDs is one whose
// nodes have none.
func (i instances) metadataV1(
	ctx context.Context, older cloudprovider.Instances, node *v1.Node, onlyAddresses bool,
) (*cloudprovider.InstanceMetadata, error) {
	id, name := node.Spec.ProviderID, types.NodeName(node.Name)
	var err error
	if id == "" && !onlyAddresses {
		id, err = cloudprovider.GetInstanceProviderID(ctx, i.cloud, name)
		if err != nil && !errors.Is(err, cloudprovider.NotImplemented) {
			return nil, err
		}
	}
	found := &cloudprovider.InstanceMetadata{ProviderID: id}
	found.NodeAddresses, err = byIDOrName(ctx, id, name, older.NodeAddressesByProviderID,
		older.NodeAddresses)
	if err != nil || onlyAddresses {
		return found, err
	}
	found.InstanceType, err = byIDOrName(ctx, id, name, older.InstanceTypeByProviderID,
		older.InstanceType)
	if err != nil {
		return nil, err
	}
	if zones, ok := i.cloud.Zones(); ok {
		zone, err := byIDOrName(ctx, id, name, zones.GetZoneByProviderID, zones.GetZoneByNodeName)
		if err != nil {
			return nil, err
		}
		found.Zone, found.Region = zone.FailureDomain, zone.Region
	}
	return found, nil
}

func byIDOrName[T any](
	ctx context.Context, id string, name types.NodeName,
	byID func(context.Context, string) (T, error),
	byName func(context.Context, types.NodeName) (T, error),
) (T, error) {
	found, errOfID := byID(ctx, id)
	if errOfID == nil {
		return found, nil
	}
	found, err := byName(ctx, name)
	if err != nil {
		return found, fmt.Errorf("look up by provider ID: %w; by name: %w", errOfID, err)
	}
	return found, nil
}

// exists reports whether the instance of a node exists.
func (i instances) exists(ctx context.Context, node *v1.Node) (bool, error) {
	node = node.DeepCopy()
	if v2, ok := i.cloud.InstancesV2(); ok {
		exists, err := v2.InstanceExists(ctx, node)
		i.count("instance_exists", absent(exists, err))
		return exists, err
	}
	older, _ := i.cloud.Instances()
	id, err := i.providerID(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	exists, err := older.InstanceExistsByProviderID(ctx, id)
	i.count("instance_exists", absent(exists, err))
	return exists, err
}

// isShutdown reports whether the instance of a node is shut down. The error of a provider that
// cannot tell is [cloudprovider.NotImplemented].
func (i instances) isShutdown(ctx context.Context, node *v1.Node) (is bool, err error) {
	node = node.DeepCopy()
	if v2, ok := i.cloud.InstancesV2(); ok {
		is, err = v2.InstanceShutdown(ctx, node)
	} else {
		var id string
		if id, err = i.providerID(ctx, node); err != nil {
			return false, err
		}
		older, _ := i.cloud.Instances()
		is, err = older.InstanceShutdownByProviderID(ctx, id)
	}
	i.count("instance_shutdown", err)
	return is, err
}

func (i instances) providerID(ctx context.Context, node *v1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	id, err := cloudprovider.GetInstanceProviderID(ctx, i.cloud, types.NodeName(node.Name))
	i.count("instance_metadata", err)
	return id, err
}

func absent(exists bool, err error) error {
	if err == nil && !exists {
		return cloudprovider.InstanceNotFound
	}
	return err
}

// count counts a call with upstream's words.
func (i instances) count(operation string, err error) {
	if i.calls == nil {
		return
	}
	result := "success"
	switch {
	case errors.Is(err, cloudprovider.NotImplemented):
		result = "not_implemented"
	case errors.Is(err, cloudprovider.InstanceNotFound):
		result = "instance_not_found"
	case errors.Is(err, context.Canceled):
		result = "canceled"
	case err != nil:
		result = "error"
	}
	i.calls.WithLabelValues(operation, result).Inc()
}
