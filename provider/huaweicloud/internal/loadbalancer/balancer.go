package loadbalancer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// findOrCreate returns the load balancer that the Service names or owns, or creates one.
func (p *pass) findOrCreate(named string) (model.LoadBalancer, error) {
	if named != "" {
		adopted, err := p.show(named)
		switch {
		case err != nil:
			return adopted, fmt.Errorf("annotation %s: %w", annotationID, err)
		case adopted.VpcId != p.config.VPC:
			return adopted, fmt.Errorf("annotation %s: load balancer %s is in VPC %s, and the "+
				"nodes are in %s", annotationID, adopted.Id, adopted.VpcId, p.config.VPC)
		}
		return adopted, waitIfDeleting(adopted)
	}
	for _, own := range p.balancers {
		if !isDeleting(own) {
			return own, nil
		}
	}
	if len(p.balancers) > 0 {
		return model.LoadBalancer{}, waitIfDeleting(p.balancers[0])
	}
	return p.createBalancer()
}

func isDeleting(b model.LoadBalancer) bool { return b.ProvisioningStatus == "PENDING_DELETE" }

func waitIfDeleting(b model.LoadBalancer) error {
	if !isDeleting(b) {
		return nil
	}
	return api.NewRetryError(fmt.Sprintf("load balancer %s is PENDING_DELETE; retrying in %s",
		b.Id, poll), poll)
}

func (p *pass) show(id string) (model.LoadBalancer, error) {
	return client.Get("get load balancer "+id, p.elb.ShowLoadBalancer,
		&model.ShowLoadBalancerRequest{LoadbalancerId: id},
		func(r *model.ShowLoadBalancerResponse) *model.LoadBalancer { return r.Loadbalancer })
}

func (p *pass) createBalancer() (model.LoadBalancer, error) {
	zones, err := p.zones()
	if err != nil {
		return model.LoadBalancer{}, err
	}
	created, err := client.Get("create load balancer "+p.owner.name, p.elb.CreateLoadBalancer,
		&model.CreateLoadBalancerRequest{Body: &model.CreateLoadBalancerRequestBody{
			Loadbalancer: &model.CreateLoadBalancerOption{
				Name: &p.owner.name, Description: &p.owner.mark, VpcId: &p.config.VPC,
				VipSubnetCidrId: &p.config.SubnetID, AvailabilityZoneList: zones,
				L4FlavorId: unlessZero(p.config.L4Flavor),
				L7FlavorId: unlessZero(p.config.L7Flavor),
			},
		}}, func(r *model.CreateLoadBalancerResponse) *model.LoadBalancer { return r.Loadbalancer })
	if err == nil {
		p.config.Logger.Info("Load balancer created", "loadBalancer", created.Id,
			"owner", p.owner.mark)
	}
	return created, err
}

// zones returns the configured zones, or the available ones of the first set that has any: a load
// balancer cannot span sets.
func (p *pass) zones() ([]string, error) {
	if len(p.config.Zones) > 0 {
		return p.config.Zones, nil
	}
	r, err := client.Call("list availability zones of ELB", p.elb.ListAvailabilityZones,
		&model.ListAvailabilityZonesRequest{})
	if err != nil {
		return nil, err
	}
	for _, set := range ptr.Deref(r.AvailabilityZones, nil) {
		var zones []string
		for _, zone := range set {
			if zone.State == "ACTIVE" {
				zones = append(zones, zone.Code)
			}
		}
		if len(zones) > 0 {
			return zones, nil
		}
	}
	return nil, errors.New("ELB has no available zone for a new load balancer")
}

// deleteBalancers deletes the load balancers that carry the mark, except one. A load balancer with
// listeners or pools of others is kept.
func (p *pass) deleteBalancers(except string) {
	isMine := map[string]bool{}
	for _, l := range p.listeners {
		isMine[l.Id] = true
	}
	for _, q := range p.pools {
		isMine[q.Id] = true
	}
	for _, b := range p.balancers {
		isShared := slices.ContainsFunc(b.Listeners,
			func(ref model.ListenerRef) bool { return !isMine[ref.Id] }) ||
			slices.ContainsFunc(b.Pools, func(ref model.PoolRef) bool { return !isMine[ref.Id] })
		switch {
		case b.Id == except || isDeleting(b) || p.err != nil:
		case isShared:
			p.config.Logger.Info("Load balancer kept, because others have listeners or pools on it",
				"loadBalancer", b.Id, "owner", p.owner.mark)
		default:
			for _, bound := range b.Publicips {
				p.unbindPublicIP(bound.PublicipId)
			}
			remove(p, "delete load balancer "+b.Id, p.elb.DeleteLoadBalancer,
				&model.DeleteLoadBalancerRequest{LoadbalancerId: b.Id})
		}
	}
}
