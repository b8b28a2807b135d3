package instances

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// V2 returns the instances as upstream's controllers use them.
func (i *Instances) V2() cloudprovider.InstancesV2 { return instancesV2{i} }

type instancesV2 struct{ *Instances }

// InstanceExists is false only if the instance is certainly gone: upstream deletes the node then. An error leaves it.
func (i instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return false, err
	}
	return i.exists(ctx, s)
}

// InstanceShutdown tells whether the instance does not run; see [States].
func (i instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return false, err
	}
	return i.shutdown(ctx, s)
}

// InstanceMetadata tells what the node is to know of its instance.
func (i instancesV2) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	s, err := i.subjectOf(node)
	if err != nil {
		return nil, err
	}
	return i.metadata(ctx, s)
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

func (i *Instances) metadata(ctx context.Context, s subject) (*cloudprovider.InstanceMetadata, error) {
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
		// Of a node that is initialised upstream takes only the addresses, and they are worth more than the type.
		i.logger.V(2).Info("The instance type is unknown", "node", s.name, "server", server.ID, "error", err.Error())
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

// asUpstream returns the very error that upstream and others compare with.
func asUpstream(err error) error {
	if errors.Is(err, errAbsent) {
		return cloudprovider.InstanceNotFound
	}
	return err
}
