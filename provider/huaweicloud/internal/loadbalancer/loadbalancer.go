// Package loadbalancer serves Services of type LoadBalancer with ELB load balancers and EIPs.
//
// A pass observes the objects that carry the mark of the Service, compares them with those that the
// Service should have, and applies the difference in steps. An existing load balancer that the
// Service names gets listeners with the mark, but no mark itself: the listeners are the record that
// the Service uses it, so there is no change to it without a record.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	eipmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// poll is the pause before a load balancer is read again for which the cloud is not ready.
const poll = 5 * time.Second

var errEmpty = errors.New("the response is empty")

// Config is the input of [New].
type Config struct {
	Client   *client.Client
	VPC      string
	SubnetID string
	// MemberSubnets are the subnets of nodes. Nodes in none of them are in SubnetID.
	MemberSubnets map[netip.Prefix]string
	// Zones are those of new load balancers. Empty: all that ELB offers.
	Zones []string
	// L4Flavor and L7Flavor may be empty.
	L4Flavor, L7Flavor string
	Logger             logr.Logger
}

// memberSubnet returns the subnet of a member: the smallest that contains the address.
func (c Config) memberSubnet(address string) string {
	subnet, bits := c.SubnetID, -1
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return subnet
	}
	for prefix, id := range c.MemberSubnets {
		if prefix.Contains(parsed) && prefix.Bits() > bits {
			subnet, bits = id, prefix.Bits()
		}
	}
	return subnet
}

// Balancers implements cloudprovider.LoadBalancer. It is safe for concurrent use for different
// Services.
type Balancers struct {
	config Config
	client *client.Client
}

// New sends no request.
func New(c Config) *Balancers { return &Balancers{config: c, client: c.Client} }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (b *Balancers) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func ownerOf(cluster string, service *v1.Service) (owner, error) {
	return newOwner(cluster, cloudprovider.DefaultLoadBalancerName(service), service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. A load balancer exists as long as any
// object of the Service does.
func (b *Balancers) GetLoadBalancer(ctx context.Context, cluster string,
	service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	who, err := ownerOf(cluster, service)
	if err != nil {
		return nil, false, err
	}
	o, err := b.observe(ctx, who)
	if err != nil {
		return nil, false, err
	}
	o.balancers = slices.DeleteFunc(o.balancers, isDeleting)
	o.publicIPs = without(o.publicIPs, service.Annotations[annotationEIP])
	if keepsPublicIP(service) {
		o.publicIPs = slices.DeleteFunc(o.publicIPs,
			func(ip publicIP) bool { return ip.port == "" })
	}
	return &service.Status.LoadBalancer, !o.isEmpty(), nil
}

func keepsPublicIP(service *v1.Service) bool {
	return service.Annotations[annotationKeepEIP] == "true"
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b *Balancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *v1.Service,
	nodes []*v1.Node,
) error {
	_, err := b.EnsureLoadBalancer(ctx, cluster, service, nodes)
	return err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b *Balancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *v1.Service,
	nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	who, err := ownerOf(cluster, service)
	if err != nil {
		return nil, err
	}
	s, err := parse(service)
	if err != nil {
		return nil, err
	}
	ports, err := desire(who, service, nodes, s)
	if err != nil {
		return nil, err
	}
	o, err := b.observe(ctx, who)
	if err != nil {
		return nil, err
	}
	existing, err := b.namedPublicIP(ctx, s.publicIP)
	if err != nil {
		return nil, err
	}
	o.publicIPs = without(o.publicIPs, s.publicIP)
	balancer, err := b.balancer(ctx, who, s, o)
	if err != nil {
		return nil, err
	}
	steps := slices.Concat(planAccess(balancer.Id, s.sources, ports, o),
		planPorts(balancer.Id, ports, o))
	public, err := planPublicIP(s, balancer, o.publicIPs, existing)
	if err != nil {
		return nil, err
	}
	stale := slices.DeleteFunc(slices.Clone(o.balancers), func(other model.LoadBalancer) bool {
		return other.Id == balancer.Id
	})
	cleanup, kept := planBalancers(stale, o, o.publicIPs)
	p := &pass{Balancers: b, who: who, balancer: balancer.Id, created: map[string]string{}}
	if len(s.sources) > 0 && len(o.groups) > 0 {
		p.group = o.groups[0].Id
	}
	if err := p.apply(ctx, slices.Concat(steps, public, cleanup)); err != nil {
		return nil, err
	}
	b.logKept(who, kept)
	address := p.publicAddress(s, balancer, o.publicIPs, existing)
	if address == "" {
		return nil, api.NewRetryError(fmt.Sprintf("load balancer %s has no address yet; retrying "+
			"in %s", balancer.Id, poll), poll)
	}
	return status(address, s), nil
}

// without drops an EIP that the Service names: even if fxccm created it, it is now the operator's.
func without(ips []publicIP, named string) []publicIP {
	return slices.DeleteFunc(ips, func(ip publicIP) bool { return ip.id == named })
}

// publicAddress is the EIP of the load balancer, or its private address.
func (p *pass) publicAddress(s settings, balancer model.LoadBalancer, mine []publicIP,
	existing *publicIP,
) string {
	switch {
	case existing != nil:
		return existing.address
	case s.newPublicIP != nil && len(mine) > 0:
		return mine[0].address
	case s.newPublicIP != nil:
		return p.address
	}
	for _, bound := range balancer.Publicips {
		isReleased := slices.ContainsFunc(mine, func(ip publicIP) bool {
			return ip.id == bound.PublicipId
		})
		if !isReleased && bound.IpVersion != 6 {
			return bound.PublicipAddress
		}
	}
	return balancer.VipAddress
}

func status(address string, s settings) *v1.LoadBalancerStatus {
	ingress := v1.LoadBalancerIngress{IP: address}
	if len(s.protocols) > 0 {
		// kube-proxy must not bypass a load balancer that ends TLS or changes headers.
		ingress.IPMode = ptr.To(v1.LoadBalancerIPModeProxy)
	}
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{ingress}}
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. It deletes the objects with the
// mark, and no other.
func (b *Balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string,
	service *v1.Service,
) error {
	who, err := ownerOf(cluster, service)
	if err != nil {
		return err
	}
	o, err := b.observe(ctx, who)
	if err != nil {
		return err
	}
	bound, err := b.boundByName(ctx, service)
	if err != nil {
		return err
	}
	steps := slices.Concat(planPorts("", nil, o), deleteGroups(o.groups))
	o.publicIPs = without(o.publicIPs, service.Annotations[annotationEIP])
	balancers, kept := planBalancers(o.balancers, o, append(bound, o.publicIPs...))
	for _, ip := range bound {
		steps = append(steps, unbindPublicIP(ip.id))
	}
	steps = slices.Concat(steps, releasePublicIPs(o.publicIPs, keepsPublicIP(service)), balancers)
	if err := (&pass{Balancers: b, who: who}).apply(ctx, steps); err != nil {
		return err
	}
	b.logKept(who, kept)
	return nil
}

// boundByName returns the EIP that the Service names if it is bound to the Service's load balancer.
func (b *Balancers) boundByName(ctx context.Context, service *v1.Service) ([]publicIP, error) {
	ip, err := b.namedPublicIP(ctx, service.Annotations[annotationEIP])
	id := service.Annotations[annotationID]
	if err != nil || ip == nil || ip.port == "" || id == "" {
		return nil, unlessGone(err)
	}
	adopted, err := b.show(ctx, id)
	if err != nil || adopted.VipPortId != ip.port {
		return nil, unlessGone(err)
	}
	return []publicIP{*ip}, nil
}

func (b *Balancers) logKept(who owner, kept []string) {
	for _, id := range kept {
		b.config.Logger.Info("Load balancer kept, because others have listeners on it",
			"loadBalancer", id, "owner", who.mark)
	}
}

// apply runs the steps until one fails.
func (p *pass) apply(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.run(ctx, p); err != nil {
			return client.Describe(err, "%s", s.what)
		}
		p.config.Logger.Info("Load balancer changed", "change", s.what, "owner", p.who.mark)
	}
	return nil
}

// balancer returns the load balancer that the Service names or owns, or creates one.
func (b *Balancers) balancer(ctx context.Context, who owner, s settings,
	o observed,
) (model.LoadBalancer, error) {
	if s.balancer != "" {
		adopted, err := b.show(ctx, s.balancer)
		switch {
		case err != nil:
			return adopted, fmt.Errorf("annotation %s: %w", annotationID, err)
		case adopted.VpcId != b.config.VPC:
			return adopted, fmt.Errorf("annotation %s: load balancer %s is in VPC %s, and the "+
				"nodes are in %s", annotationID, adopted.Id, adopted.VpcId, b.config.VPC)
		}
		return adopted, waitIfDeleting(adopted)
	}
	for _, own := range o.balancers {
		if !isDeleting(own) {
			return own, nil
		}
	}
	if len(o.balancers) > 0 {
		return model.LoadBalancer{}, waitIfDeleting(o.balancers[0])
	}
	return b.create(ctx, who)
}

func waitIfDeleting(balancer model.LoadBalancer) error {
	if !isDeleting(balancer) {
		return nil
	}
	return api.NewRetryError(fmt.Sprintf("load balancer %s is PENDING_DELETE; retrying in %s",
		balancer.Id, poll), poll)
}

func (b *Balancers) show(ctx context.Context, id string) (model.LoadBalancer, error) {
	r, err := b.client.ELB(ctx).ShowLoadBalancer(
		&model.ShowLoadBalancerRequest{LoadbalancerId: id})
	if err == nil && r.Loadbalancer == nil {
		err = errEmpty
	}
	if err != nil {
		return model.LoadBalancer{}, client.Describe(err, "get load balancer %s", id)
	}
	return *r.Loadbalancer, nil
}

func (b *Balancers) create(ctx context.Context, who owner) (model.LoadBalancer, error) {
	zones, err := b.zones(ctx)
	if err != nil {
		return model.LoadBalancer{}, err
	}
	option := &model.CreateLoadBalancerOption{
		Name: &who.name, Description: &who.mark, VpcId: &b.config.VPC,
		VipSubnetCidrId: &b.config.SubnetID, AvailabilityZoneList: zones,
		L4FlavorId: unlessZero(b.config.L4Flavor), L7FlavorId: unlessZero(b.config.L7Flavor),
	}
	r, err := b.client.ELB(ctx).CreateLoadBalancer(&model.CreateLoadBalancerRequest{
		Body: &model.CreateLoadBalancerRequestBody{Loadbalancer: option},
	})
	if err == nil && r.Loadbalancer == nil {
		err = errEmpty
	}
	if err != nil {
		return model.LoadBalancer{}, client.Describe(err, "create load balancer %s", who.name)
	}
	b.config.Logger.Info("Load balancer created", "loadBalancer", r.Loadbalancer.Id,
		"owner", who.mark)
	return *r.Loadbalancer, nil
}

// zones returns the configured zones, or the available ones of the first set that has any: a load
// balancer cannot span sets.
func (b *Balancers) zones(ctx context.Context) ([]string, error) {
	if len(b.config.Zones) > 0 {
		return b.config.Zones, nil
	}
	r, err := b.client.ELB(ctx).ListAvailabilityZones(&model.ListAvailabilityZonesRequest{})
	if err != nil {
		return nil, client.Describe(err, "list availability zones of ELB")
	}
	for _, set := range deref(r.AvailabilityZones) {
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

// namedPublicIP returns an EIP by ID, and nil for no ID.
func (b *Balancers) namedPublicIP(ctx context.Context, id string) (*publicIP, error) {
	if id == "" {
		return nil, nil
	}
	r, err := b.client.EIP(ctx).ShowPublicip(&eipmodel.ShowPublicipRequest{PublicipId: id})
	if err == nil && r.Publicip == nil {
		err = errEmpty
	}
	if err != nil {
		return nil, client.Describe(err, "annotation %s: get EIP %s", annotationEIP, id)
	}
	found := newPublicIPOf(*r.Publicip)
	return &found, nil
}
