package instances

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
)

var _ cloudprovider.InstancesV2 = (*Instances)(nil)

// InstanceExists implements cloudprovider.InstancesV2. It returns false only if the instance
// certainly does not exist: then its node is deleted. An error keeps the node.
func (i *Instances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := i.locate(ctx, node, status)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, explain(err)
}

// InstanceShutdown implements cloudprovider.InstancesV2. It reports whether the instance is not
// running; see [States].
func (i *Instances) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	found, err := i.locate(ctx, node, status)
	if err != nil {
		return false, explain(err)
	}
	return found.servers[0].shutdown(), nil
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i *Instances) InstanceMetadata(ctx context.Context,
	node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	found, kind, err := i.metadata(ctx, node)
	err = explain(err)
	i.NoteResult(ctx, node, found, err)
	if err == nil && kind.refused != "" {
		i.noteRefusedType(node, kind)
	}
	return found, err
}

// Has reports whether Nova shows a server for the node. Unlike with [Instances.InstanceExists], a
// denial has no consequences: with several regions, the node may belong to another one.
func (i *Instances) Has(ctx context.Context, node *v1.Node) (bool, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return false, err
	}
	found, err := i.search(ctx, s, status)
	return len(found.servers) > 0, events.Explain(err)
}

func (i *Instances) metadata(
	ctx context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, instanceType, error) {
	p := metadataOf(node)
	found, err := i.locate(ctx, node, p)
	if err != nil {
		return nil, instanceType{}, err
	}
	server := found.servers[0]
	kind, err := i.types.of(ctx, server)
	if err != nil {
		if p == initialize {
			return nil, instanceType{}, err
		}
		// Without --update-node-labels, an initialized node needs only the addresses.
		i.config.Logger.V(2).Info("Instance type unknown", "node", node.Name, "server", server.ID,
			"error", err.Error())
	}
	addresses := nodeAddresses(server, found.ports, node.Status.Addresses, i.config.Networking)
	s, _ := i.subjectOf(node) // it has led to the server
	i.tell(s, found)
	return &cloudprovider.InstanceMetadata{
		ProviderID:    i.providerID(server).String(),
		InstanceType:  kind.label,
		NodeAddresses: addresses,
		Zone:          server.Zone,
		Region:        i.config.Region,
	}, kind, nil
}

// metadataOf is the purpose of a lookup of the server of a node, with its addresses.
func metadataOf(node *v1.Node) purpose {
	if members.IsNew(node) {
		return initialize
	}
	return refresh
}

func (i *Instances) providerID(s *server) ProviderID {
	if i.config.Options.Regional {
		return ProviderID{Region: i.config.Region, ID: s.ID}
	}
	return ProviderID{ID: s.ID}
}
