package instances

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// Zones returns where instances are, in the form that came before [Instances.V2].
func (i *Instances) Zones() cloudprovider.Zones { return zones{i} }

type zones struct{ *Instances }

// GetZone would be of the machine that asks, which need not be a server of this cloud. Only kubelets with a cloud provider of their
// own asked for it.
func (z zones) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, fmt.Errorf("the zone of a process that need not run in the cloud: %w", cloudprovider.NotImplemented)
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (z zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	s, err := z.subjectWithID(providerID)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.zone(ctx, s)
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (z zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return z.zone(ctx, subject{name: string(name)})
}

func (z zones) zone(ctx context.Context, s subject) (cloudprovider.Zone, error) {
	found, err := z.locate(ctx, s, describe)
	if err != nil {
		return cloudprovider.Zone{}, asUpstream(err)
	}
	return cloudprovider.Zone{FailureDomain: labelValue(found.servers[0].Zone), Region: z.region}, nil
}
