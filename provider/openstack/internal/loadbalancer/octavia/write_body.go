package octavia

import (
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
)

// These are the bodies of requests. The API refuses attributes that its version does not know, so
// attributes that are nil or have the default value are left out. admin_state_up is always left
// out, because it belongs to the operator.

// minorBackup is the version of the API that added backup members (its reference, "API version
// history").
const minorBackup = 1

func loadBalancerCreation(
	lb LoadBalancer, ports []Port,
) loadbalancers.CreateOpts {
	opts := loadbalancers.CreateOpts{
		Name: lb.Name, Description: lb.Description, Tags: lb.Tags,
		Provider: lb.Provider, FlavorID: lb.FlavorID, AvailabilityZone: lb.AvailabilityZone,
		VipAddress: lb.VIP.Address, VipPortID: lb.VIP.PortID, VipSubnetID: lb.VIP.SubnetID,
		VipNetworkID: lb.VIP.NetworkID,
	}
	for _, vip := range lb.AdditionalVIPs {
		opts.AdditionalVips = append(opts.AdditionalVips,
			loadbalancers.AdditionalVip{SubnetID: vip.SubnetID, IPAddress: vip.Address})
	}
	for _, port := range ports {
		listener, pool := listenerCreation(port.Listener), wholePool(port.Pool)
		listener.DefaultPool = &pool
		opts.Listeners = append(opts.Listeners, listener)
	}
	return opts
}

func listenerCreation(l Listener) listeners.CreateOpts {
	opts := listeners.CreateOpts{
		Name: l.Name, Tags: l.Tags, Protocol: listeners.Protocol(l.Protocol), ProtocolPort: l.Port,
		ConnLimit:     &l.ConnectionLimit,
		InsertHeaders: l.InsertHeaders, AllowedCIDRs: l.AllowedCIDRs,
		DefaultTlsContainerRef: l.TLSContainer,
	}
	if t := l.Timeouts; t != nil {
		opts.TimeoutClientData, opts.TimeoutMemberConnect = &t.ClientData, &t.MemberConnect
		opts.TimeoutMemberData, opts.TimeoutTCPInspect = &t.MemberData, &t.TCPInspect
	}
	return opts
}

func listenerChange(l Listener, poolID string) listeners.UpdateOpts {
	opts := listeners.UpdateOpts{
		Name: given(l.Name), ConnLimit: &l.ConnectionLimit,
		DefaultTlsContainerRef: given(l.TLSContainer), DefaultPoolID: given(poolID),
	}
	if l.Tags != nil {
		opts.Tags = &l.Tags
	}
	if t := l.Timeouts; t != nil {
		opts.TimeoutClientData, opts.TimeoutMemberConnect = &t.ClientData, &t.MemberConnect
		opts.TimeoutMemberData, opts.TimeoutTCPInspect = &t.MemberData, &t.TCPInspect
	}
	// Other listeners have no headers, and a provider may refuse the attribute.
	if l.Protocol == HTTP || l.Protocol == TerminatedHTTPS {
		headers := map[string]string{}
		if l.InsertHeaders != nil {
			headers = l.InsertHeaders
		}
		opts.InsertHeaders = &headers
	}
	if l.AllowedCIDRs != nil {
		opts.AllowedCIDRs = &l.AllowedCIDRs
	}
	return opts
}

func poolCreation(p Pool) pools.CreateOpts {
	opts := pools.CreateOpts{
		Name: p.Name, Tags: p.Tags, Protocol: pools.Protocol(p.Protocol),
		LBMethod: pools.LBMethod(p.Algorithm),
	}
	if p.Persistence != "" {
		opts.Persistence = &pools.SessionPersistence{Type: p.Persistence}
	}
	return opts
}

// wholePool is the pool in the creation of a whole load balancer.
func wholePool(p Pool) pools.CreateOpts {
	opts := poolCreation(p)
	for _, member := range p.Members {
		opts.Members = append(opts.Members, memberCreation(member))
	}
	if p.Monitor != nil {
		opts.Monitor = monitorCreation(*p.Monitor)
	}
	return opts
}

func poolChange(p Pool) pools.UpdateOpts {
	opts := pools.UpdateOpts{
		Name: given(p.Name), LBMethod: pools.LBMethod(p.Algorithm),
		// gophercloud sends null for an empty persistence.
		Persistence: &pools.SessionPersistence{Type: p.Persistence},
	}
	if p.Tags != nil {
		opts.Tags = &p.Tags
	}
	return opts
}

func memberCreation(m Member) pools.CreateMemberOpts {
	return pools.CreateMemberOpts{
		Name: m.Name, Address: m.Address, ProtocolPort: m.Port, SubnetID: m.SubnetID,
		Weight: &m.Weight, MonitorPort: given(m.MonitorPort), Backup: given(m.Backup),
	}
}

// memberBatch sets all fields of a member: Octavia resets missing ones of an existing member to
// their defaults, except name and subnet (octavia/api/v2/controllers/member.py,
// MembersController.put).
func memberBatch(members []Member) []pools.BatchUpdateMemberOpts {
	opts := []pools.BatchUpdateMemberOpts{}
	for _, m := range members {
		opts = append(opts, pools.BatchUpdateMemberOpts{
			Name: &m.Name, Address: m.Address, ProtocolPort: m.Port, SubnetID: given(m.SubnetID),
			Weight: &m.Weight, MonitorPort: given(m.MonitorPort), Backup: given(m.Backup),
		})
	}
	return opts
}

// memberChange updates a single member, and leaves omitted fields unchanged. gophercloud's type
// cannot send null.
type memberChange struct {
	Member
	minor int
}

// ToMemberUpdateMap implements pools.UpdateMemberOptsBuilder.
func (c memberChange) ToMemberUpdateMap() (map[string]any, error) {
	fields := map[string]any{
		"name": c.Name, "weight": c.Weight,
		"monitor_port": given(c.MonitorPort),
	}
	if c.minor >= minorBackup {
		fields["backup"] = c.Backup
	}
	return map[string]any{"member": fields}, nil
}

func monitorCreation(m Monitor) monitors.CreateOpts {
	return monitors.CreateOpts{
		Name: m.Name, Type: m.Type, Delay: m.Delay, Timeout: m.Timeout, MaxRetries: m.MaxRetries,
		MaxRetriesDown: m.MaxRetriesDown,
		HTTPMethod:     m.HTTPMethod, URLPath: m.URLPath, ExpectedCodes: m.ExpectedCodes,
	}
}

func monitorChange(m Monitor) monitors.UpdateOpts {
	return monitors.UpdateOpts{
		Name: given(m.Name), Delay: m.Delay, Timeout: m.Timeout, MaxRetries: m.MaxRetries,
		MaxRetriesDown: m.MaxRetriesDown,
		HTTPMethod:     m.HTTPMethod, URLPath: m.URLPath, ExpectedCodes: m.ExpectedCodes,
	}
}

// given returns nil for the zero value.
func given[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
