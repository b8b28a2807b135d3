package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/apply"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// floatingIPQuery is for the floating IPs of the load balancer, those that are tagged as the Service's, and the one that is asked for.
func (p *pass) floatingIPQuery() *neutron.FloatingIPQuery {
	query := &neutron.FloatingIPQuery{Tag: p.identity.ServiceTag()}
	if lb := p.claim.balancer; lb != nil && lb.VIP.PortID != "" {
		query.PortIDs = []string{lb.VIP.PortID}
	}
	if !p.settings.Internal {
		query.Address = p.settings.Address
	}
	return query
}

// readFloatingIPs asks for them. A Service that never had a load balancer has none, and is not asked about.
func (p *pass) readFloatingIPs(ctx context.Context) error {
	query := p.floatingIPQuery()
	if p.claim.balancer == nil && !wasServed(p.service) && query.Address == "" && p.memory.balancer == "" {
		return nil
	}
	lb := p.claim.balancer
	if lb != nil && !p.create && !p.repair && p.memory.floating != nil && p.memory.balancer == lb.ID {
		// That nodes have changed is nothing to floating IPs.
		p.floating = *p.memory.floating
		return nil
	}
	var since time.Time
	if lb != nil && !p.repair {
		since = p.changes.latest(p.identity.UID, p.config.Clock.Now().Add(-listMaxAge))
	}
	var err error
	p.floating, err = p.config.Neutron.FloatingIPsOf(ctx, query, since)
	p.memory.floating = nil
	if err == nil {
		p.memory.floating = &p.floating
	}
	return err
}

// attached are the floating IPs that lead to the load balancer.
func (p *pass) attached() []balancer.FloatingIP {
	lb := p.claim.balancer
	if lb == nil || lb.VIP.PortID == "" {
		return nil
	}
	var found []balancer.FloatingIP
	for _, ip := range p.floating {
		if ip.PortID == lb.VIP.PortID {
			found = append(found, ip)
		}
	}
	return found
}

// hasFloatingIP tells whether there is one that leads to the load balancer, or can be made to, so that none has to be made.
func (p *pass) hasFloatingIP() bool {
	for _, ip := range p.floating {
		own := slices.Contains(ip.Tags, p.identity.ServiceTag())
		asked := ip.Address == p.settings.Address
		if p.claim.balancer != nil && ip.PortID != "" && ip.PortID == p.claim.balancer.VIP.PortID || ip.PortID == "" && (own || asked) {
			return true
		}
	}
	return false
}

func (p *pass) checkCertificate(ctx context.Context) error {
	if p.settings.TLSContainer == "" || !p.settings.CheckCertificates {
		return nil
	}
	err := p.config.Neutron.CheckCertificate(ctx, p.settings.TLSContainer)
	if errors.Is(err, neutron.ErrNoCertificate) {
		return p.refuse(aboutPlaces, &refusal{"CertificateNotFound", err.Error()})
	}
	return err
}

// observe reads what there is. What has not changed since it was as it should be is not read again.
//
// The wish that it returns is that part of it which is to be compared.
func (p *pass) observe(ctx context.Context) (balancer.Desired, error) {
	lb := p.claim.balancer
	p.observed = balancer.Observed{LoadBalancer: lb, Role: p.claim.role, FloatingIPs: p.floating}
	if lb != nil {
		p.observed.OtherServices = sharers(p.identity, lb)
		p.observed.NeverServed = len(p.service.Status.LoadBalancer.Ingress) == 0 && p.claim.role == balancer.Owner
	}
	if lb == nil {
		p.inherit()
		return p.desired, p.observeWantedGroup(ctx)
	}
	settled := p.memory.asSettled(lb, p.wish) && (!p.deep || p.memory.compared)
	is, err := p.lookBelow(ctx, lb, settled)
	if err != nil {
		return balancer.Desired{}, err
	}
	p.observed.Listeners, p.observed.Pools = is.listeners, is.pools
	if settled && !p.repair {
		// With no group on either side there is nothing to compare.
		want := p.desired
		want.SecurityGroup = nil
		return want, nil
	}
	return p.desired, p.observeWantedGroup(ctx)
}

// observeWantedGroup looks for the Service's security group if one is wanted, and in a repair also if none is: the option may have been
// turned off.
func (p *pass) observeWantedGroup(ctx context.Context) error {
	if p.desired.SecurityGroup == nil && !p.repair {
		return nil
	}
	return p.observeSecurityGroup(ctx)
}

// lookBelow tells what lies below the load balancer, without a request if that is known.
func (p *pass) lookBelow(ctx context.Context, lb *balancer.LoadBalancer, settled bool) (contents, error) {
	switch {
	case settled && p.memory.contents == nil:
		return asWished(p.desired), nil
	case settled, p.memory.unchanged(lb) && p.memory.contents != nil && !p.repair && !p.closely:
		p.contents = p.memory.contents
		return *p.contents, nil
	}
	depth := octavia.InPart
	if p.deep || p.closely || p.repair && p.memory.settled != "" {
		// Others have changed something.
		depth = octavia.Full
	}
	read, err := p.config.Octavia.Contents(ctx, lb.ID, depth, p.upTo(lb))
	if err != nil {
		return contents{}, err
	}
	p.contents, p.looked = &contents{read.Listeners, read.Pools}, true
	return *p.contents, nil
}

// upTo is what tells that lists from before the pass are good enough; the zero time if none are.
func (p *pass) upTo(lb *balancer.LoadBalancer) time.Time {
	if p.repair {
		return time.Time{}
	}
	return lb.UpdatedAt
}

// observeSecurityGroup finds the Service's group and the ports that bear it, or are to.
func (p *pass) observeSecurityGroup(ctx context.Context) error {
	group, err := p.config.Neutron.SecurityGroup(ctx, p.identity.SecurityGroupName())
	if err != nil {
		return err
	}
	p.observed.SecurityGroup = group
	if group == nil && p.desired.SecurityGroup == nil {
		return nil
	}
	var servers []string
	for _, backend := range p.desired.Backends {
		if backend.ServerID != "" && p.desired.SecurityGroup != nil {
			servers = append(servers, backend.ServerID)
		}
	}
	id := ""
	if group != nil {
		id = group.ID
	}
	p.observed.NodePorts, err = p.config.Neutron.NodePorts(ctx, servers, id)
	return err
}

// adopt takes over what a run has made.
func (p *pass) adopt(done apply.Result) {
	p.claim.balancer = done.LoadBalancer
	if lb := done.LoadBalancer; lb != nil {
		p.memory.balancer = lb.ID
	}
	// What was changed is read again.
	p.memory.floating = nil
	for _, step := range done.Done {
		switch s := step.(type) {
		case plan.DeleteFloatingIP:
			p.dropFloatingIP(s.ID)
		case plan.DetachFloatingIP:
			p.dropFloatingIP(s.ID)
		}
	}
	if ip := done.FloatingIP; ip != nil {
		p.dropFloatingIP(ip.ID)
		p.floating = append(p.floating, *ip)
	}
}

func (p *pass) dropFloatingIP(id string) {
	p.floating = slices.DeleteFunc(slices.Clone(p.floating), func(ip balancer.FloatingIP) bool { return ip.ID == id })
}

// announce writes to the Service which load balancer and which address it has, as OCCM does.
func (p *pass) announce(ctx context.Context) error {
	lb := p.claim.balancer
	if lb == nil {
		return nil
	}
	address := p.address()
	return p.annotate(ctx, p.service, map[string]*string{settings.AnnotationLoadBalancerID: &lb.ID, settings.AnnotationLoadBalancerAddress: &address})
}

// address is where the Service is reached: the floating IP's, or the VIP's.
func (p *pass) address() string {
	if p.settings.Internal && p.claim.role == balancer.Guest {
		return p.claim.balancer.VIP.Address
	}
	for _, ip := range p.attached() {
		return ip.Address
	}
	return p.claim.balancer.VIP.Address
}

func (p *pass) status() *v1.LoadBalancerStatus {
	addresses := []string{p.address()}
	for _, vip := range p.claim.balancer.AdditionalVIPs {
		addresses = append(addresses, vip.Address)
	}
	return desired.Status(p.service, p.settings, addresses...)
}

// dropDuplicates deletes what was made twice, when the first is in service.
func (p *pass) dropDuplicates(ctx context.Context) error {
	for i := range p.claim.duplicates {
		duplicate := &p.claim.duplicates[i]
		p.config.Logger.Info("Deleting a duplicate load balancer", "service", p.identity.Namespace+"/"+p.identity.Name, "loadBalancer", duplicate.ID)
		if err := p.removeOne(ctx, duplicate); err != nil {
			return fmt.Errorf("delete duplicate load balancer %s: %w", duplicate.ID, err)
		}
	}
	return nil
}
