package fake

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// ownZone returns the zone of the machine that calls, which has no instance.
func (c *Cloud) ownZone(arguments) (results, error) {
	return results{Instance: &Instance{Zone: c.zone, Region: c.region}}, nil
}

// Zones implements cloudprovider.Interface.
func (p *provider) Zones() (cloudprovider.Zones, bool) {
	return offer[cloudprovider.Zones](p, "Zones", p)
}

// GetZone implements cloudprovider.Zones.
func (p *provider) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return p.zone(ctx, "GetZone", arguments{})
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (p *provider) GetZoneByProviderID(
	ctx context.Context, providerID string,
) (cloudprovider.Zone, error) {
	return p.zone(ctx, "GetZoneByProviderID", identified(providerID))
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (p *provider) GetZoneByNodeName(
	ctx context.Context, nodeName types.NodeName,
) (cloudprovider.Zone, error) {
	return p.zone(ctx, "GetZoneByNodeName", named(nodeName))
}

func (p *provider) zone(ctx context.Context, m Method, args arguments) (cloudprovider.Zone, error) {
	r, err := p.call(ctx, m, args)
	return cloudprovider.Zone{FailureDomain: r.instance().Zone, Region: r.instance().Region}, err
}
