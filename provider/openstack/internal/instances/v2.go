package instances

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// V2 implements the interface that upstream's controllers use.
func (i *Instances) V2() cloudprovider.InstancesV2 { return instancesV2{i} }

type instancesV2 struct{ *Instances }

// InstanceExists returns false only if the instance certainly does not exist: upstream then deletes
// the node. An error keeps the node.
func (i instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return false, err
	}
	return i.exists(ctx, s)
}

// InstanceShutdown tells whether the instance is not running; see [States].
func (i instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return false, err
	}
	return i.shutdown(ctx, s)
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i instancesV2) InstanceMetadata(ctx context.Context,
	node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	s, err := i.subjectOf(node)
	var found *cloudprovider.InstanceMetadata
	if err == nil {
		found, err = i.metadata(ctx, s)
	}
	i.NoteResult(ctx, node, found, err)
	return found, err
}

// Has tells whether Nova shows a server for the node. Unlike with [Instances.V2], a denial has no
// consequences: with several regions, the node may belong to another one.
func (i *Instances) Has(ctx context.Context, node *v1.Node) (bool, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return false, err
	}
	found, err := i.search(ctx, s, status)
	return len(found.servers) > 0, err
}

func (i *Instances) exists(ctx context.Context, s subject) (bool, error) {
	_, err := i.locate(ctx, s, status)
	if errors.Is(err, errAbsent) {
		return false, nil
	}
	return err == nil, err
}

func (i *Instances) shutdown(ctx context.Context, s subject) (bool, error) {
	found, err := i.locate(ctx, s, status)
	if err != nil {
		return false, asUpstream(err)
	}
	return found.servers[0].shutdown(), nil
}

func (i *Instances) metadata(ctx context.Context,
	s subject,
) (*cloudprovider.InstanceMetadata, error) {
	p := refresh
	if s.new {
		p = initialise
	}
	found, err := i.locate(ctx, s, p)
	if err != nil {
		return nil, asUpstream(err)
	}
	server := found.servers[0]
	kind, err := i.types.of(ctx, server)
	if err != nil {
		if p == initialise {
			return nil, err
		}
		// For an initialized node, upstream uses only the addresses.
		i.logger.V(2).Info("Instance type unknown", "node", s.name, "server", server.ID,
			"error", err.Error())
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    i.providerID(server).String(),
		InstanceType:  kind,
		NodeAddresses: nodeAddresses(server, found.ports, i.networking),
		Zone:          labelValue(server.Zone),
		Region:        i.region,
	}, nil
}

func (i *Instances) providerID(s *server) ProviderID {
	if i.options.Regional {
		return ProviderID{Region: i.region, ID: s.ID}
	}
	return ProviderID{ID: s.ID}
}

// asUpstream returns the sentinel error that upstream compares with.
func asUpstream(err error) error {
	if errors.Is(err, errAbsent) {
		return cloudprovider.InstanceNotFound
	}
	return err
}
