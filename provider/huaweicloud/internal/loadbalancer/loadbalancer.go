// Package loadbalancer serves Services of type LoadBalancer with ELB load balancers and EIPs.
//
// A pass observes the objects that carry the mark of the Service, compares them with the desired
// ones, and applies the difference. An existing load balancer that the Service names gets listeners
// and pools with the mark, but no mark itself: they record that the Service uses it, so each change
// to it is recorded.
package loadbalancer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/client"
)

// poll is the pause before a load balancer is read again for which the cloud is not ready.
const poll = 5 * time.Second

// Config is the input of [New].
type Config struct {
	Client   *client.Client
	VPC      string
	SubnetID string
	// MemberSubnets are the subnets of nodes. Nodes in none of them are in SubnetID.
	MemberSubnets map[netip.Prefix]string
	// Zones are the zones of new load balancers. Empty: all that ELB offers.
	Zones []string
	// L4Flavor and L7Flavor may be empty.
	L4Flavor, L7Flavor string
	// RemovalTaints are further keys of taints. A node with one of them is no member.
	RemovalTaints []string
	Logger        logr.Logger
}

// memberSubnet returns the subnet of a member: the smallest that contains the address.
func (c Config) memberSubnet(address netip.Addr) string {
	subnet, bits := c.SubnetID, -1
	for prefix, id := range c.MemberSubnets {
		if prefix.Contains(address) && prefix.Bits() > bits {
			subnet, bits = id, prefix.Bits()
		}
	}
	return subnet
}

// Balancers implements cloudprovider.LoadBalancer. It is safe for concurrent use for different
// Services.
type Balancers struct{ config Config }

// New sends no request.
func New(c Config) *Balancers { return &Balancers{c} }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (b *Balancers) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. A load balancer exists as long as any
// object of the Service does.
func (b *Balancers) GetLoadBalancer(ctx context.Context, cluster string,
	service *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	p, err := b.begin(ctx, cluster, service)
	if err != nil {
		return nil, false, err
	}
	p.observe()
	if p.err != nil {
		return nil, false, p.err
	}
	isLeft := func(b model.LoadBalancer) bool { return !isDeleting(b) }
	isOwned := func(ip publicIP) bool { return ip.port != "" || !p.keepsEIP }
	exists := len(p.listeners)+len(p.pools)+len(p.groups) > 0 ||
		slices.ContainsFunc(p.balancers, isLeft) || slices.ContainsFunc(p.publicIPs, isOwned)
	return &service.Status.LoadBalancer, exists, nil
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
	p, err := b.begin(ctx, cluster, service)
	if err != nil {
		return nil, err
	}
	s, err := parse(service)
	if err != nil {
		return nil, err
	}
	// The service controller leaves out the nodes with the marks that it knows. It calls again when
	// a taint of a node changes.
	staying := members.Staying(nodes, b.config.RemovalTaints...)
	ports, err := desire(p.owner, service, staying, s)
	if err != nil {
		return nil, err
	}
	p.observe()
	if p.err != nil {
		return nil, p.err
	}
	named, err := p.showNamedEIP()
	if err != nil {
		return nil, err
	}
	balancer, err := p.findOrCreate(s.balancer)
	if err != nil {
		return nil, err
	}
	if err := p.checkPublicIPs(balancer, s, named); err != nil {
		return nil, err
	}
	p.limitListeners(balancer.Id, s.sources, ports)
	p.applyPorts(balancer.Id, ports)
	address := p.applyPublicIPs(balancer, s, named)
	p.deleteBalancers(balancer.Id)
	if p.err != nil {
		return nil, p.err
	}
	if address == "" {
		return nil, api.NewRetryError(fmt.Sprintf("load balancer %s has no address yet; retrying "+
			"in %s", balancer.Id, poll), poll)
	}
	ingress := v1.LoadBalancerIngress{IP: address}
	if len(s.protocols) > 0 {
		// kube-proxy must not bypass a load balancer that ends TLS or changes headers.
		ingress.IPMode = ptr.To(v1.LoadBalancerIPModeProxy)
	}
	return &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{ingress}}, nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. It deletes the objects with the
// mark, and no other.
func (b *Balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string,
	service *v1.Service,
) error {
	p, err := b.begin(ctx, cluster, service)
	if err != nil {
		return err
	}
	p.observe()
	p.applyPorts("", nil)
	for _, g := range p.groups {
		remove(p, "delete IP address group "+g.Id, p.elb.DeleteIpGroup,
			&model.DeleteIpGroupRequest{IpgroupId: g.Id})
	}
	p.unbindNamedEIP(annotation(service, annotationID))
	p.releasePublicIPs(p.publicIPs, p.keepsEIP)
	p.deleteBalancers("")
	return p.err
}
