package instances

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// Zones implements the older interface, before [Instances.V2].
func (i *Instances) Zones() cloudprovider.Zones { return zones{i} }

type zones struct{ *Instances }

// GetZone is not supported: this process may not run in the cloud. Only kubelets with an in-tree
// provider used it.
func (z zones) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{},
		fmt.Errorf("get the zone of this process, which may not run in the cloud: %w",
			cloudprovider.NotImplemented)
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (z zones) GetZoneByProviderID(ctx context.Context,
	providerID string,
) (cloudprovider.Zone, error) {
	s, err := z.subjectWithID(providerID)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.zone(ctx, s)
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (z zones) GetZoneByNodeName(ctx context.Context,
	name types.NodeName,
) (cloudprovider.Zone, error) {
	return z.zone(ctx, subject{name: string(name)})
}

func (z zones) zone(ctx context.Context, s subject) (cloudprovider.Zone, error) {
	found, err := z.locate(ctx, s, describe)
	if err != nil {
		return cloudprovider.Zone{}, asUpstream(err)
	}
	return cloudprovider.Zone{FailureDomain: labelValue(found.servers[0].Zone), Region: z.region},
		nil
}
