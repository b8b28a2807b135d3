package loadbalancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/utils/ptr"
)

// maxMembers is the number of members that one request may add or remove.
const maxMembers = 200

// applyPorts changes listeners, pools, members and health checks of a load balancer. First it
// deletes listeners that occupy its ports, and last all other objects that are no longer used.
func (p *pass) applyPorts(balancer string, ports []port) {
	used := map[string]bool{}
	for _, port := range ports {
		used[p.findListener(balancer, port).Id] = true
		used[p.findPool(balancer, port).Id] = true
	}
	var elsewhere []model.Listener
	for _, l := range p.listeners {
		switch {
		case used[l.Id]:
		case isOn(l.Loadbalancers, balancer):
			p.deleteListener(l)
		default:
			elsewhere = append(elsewhere, l)
		}
	}
	for _, port := range ports {
		pool := p.applyPool(balancer, port)
		p.applyListener(balancer, port, pool)
	}
	for _, l := range elsewhere {
		p.deleteListener(l)
	}
	for _, q := range p.pools {
		if !used[q.Id] {
			remove(p, "delete pool "+q.Name, p.elb.DeletePoolCascade,
				&model.DeletePoolCascadeRequest{PoolId: q.Id})
		}
	}
}

func (p *pass) deleteListener(l model.Listener) {
	// Without force, a listener with a pool or a policy is not deleted.
	remove(p, fmt.Sprintf("delete listener %s %d", l.Protocol, l.ProtocolPort),
		p.elb.DeleteListenerForce, &model.DeleteListenerForceRequest{ListenerId: l.Id})
}

func isOn(refs []model.LoadBalancerRef, balancer string) bool {
	return slices.ContainsFunc(refs, func(r model.LoadBalancerRef) bool {
		return ptr.Deref(r.Id, "") == balancer
	})
}

// findListener returns the listener of a port, or a zero one.
func (o *observed) findListener(balancer string, want port) model.Listener {
	for _, l := range o.listeners {
		if isOn(l.Loadbalancers, balancer) && l.ProtocolPort == want.number &&
			l.Protocol == want.protocol {
			return l
		}
	}
	return model.Listener{}
}

// findPool returns the pool of a port, or a zero one. A pool whose protocol or session persistence
// differs does not count, because these cannot be changed: it is replaced.
func (o *observed) findPool(balancer string, want port) pool {
	for _, q := range o.pools {
		persistence := ptr.Deref(q.SessionPersistence, model.SessionPersistence{})
		if isOn(q.Loadbalancers, balancer) && q.Name == want.name &&
			q.Protocol == want.poolProtocol &&
			ptr.Deref(persistence.PersistenceTimeout, 0) == want.persistence {
			return q
		}
	}
	return pool{}
}

// applyListener creates or changes the listener of a port.
func (p *pass) applyListener(balancer string, want port, poolID string) {
	switch l := p.findListener(balancer, want); {
	case l.Id == "":
		option := &model.CreateListenerOption{
			Name: &want.name, Description: &p.owner.mark, LoadbalancerId: balancer,
			Protocol: want.protocol, ProtocolPort: &want.number, DefaultPoolId: &poolID,
			DefaultTlsContainerRef: unlessZero(want.certificate),
		}
		if p.group != "" {
			option.Ipgroup = &model.CreateListenerIpGroupOption{
				IpgroupId: p.group, EnableIpgroup: ptr.To(true),
				Type: ptr.To(model.GetCreateListenerIpGroupOptionTypeEnum().WHITE),
			}
		}
		send(p, "create listener "+want.String(), p.elb.CreateListener,
			&model.CreateListenerRequest{
				Body: &model.CreateListenerRequestBody{Listener: option},
			})
	case l.DefaultPoolId != poolID || l.DefaultTlsContainerRef != want.certificate:
		p.updateListener("update listener "+want.String(), l.Id, &model.UpdateListenerOption{
			DefaultPoolId: &poolID, DefaultTlsContainerRef: unlessZero(want.certificate),
		})
	}
}

func (p *pass) updateListener(what, id string, option *model.UpdateListenerOption) {
	send(p, what, p.elb.UpdateListener, &model.UpdateListenerRequest{
		ListenerId: id, Body: &model.UpdateListenerRequestBody{Listener: option},
	})
}

// applyPool creates or changes the pool of a port, and returns its ID.
func (p *pass) applyPool(balancer string, want port) (id string) {
	q := p.findPool(balancer, want)
	switch {
	case q.Id == "":
		q.Id = p.createPool(balancer, want)
	case q.LbAlgorithm != want.algorithm:
		send(p, "set the algorithm of pool "+want.name, p.elb.UpdatePool, &model.UpdatePoolRequest{
			PoolId: q.Id, Body: &model.UpdatePoolRequestBody{
				Pool: &model.UpdatePoolOption{LbAlgorithm: &want.algorithm},
			},
		})
	}
	p.applyMembers(q, want)
	if q.monitor == want.monitor {
		return q.Id
	}
	if q.HealthmonitorId != "" {
		remove(p, "delete the health check of "+want.name, p.elb.DeleteHealthMonitor,
			&model.DeleteHealthMonitorRequest{HealthmonitorId: q.HealthmonitorId})
	}
	if m := want.monitor; m.kind != "" {
		send(p, "create the health check of "+want.name, p.elb.CreateHealthMonitor,
			&model.CreateHealthMonitorRequest{Body: &model.CreateHealthMonitorRequestBody{
				Healthmonitor: &model.CreateHealthMonitorOption{
					Name: &want.name, PoolId: q.Id, Type: m.kind,
					Delay: m.delay, Timeout: m.timeout, MaxRetries: m.maxRetries,
					MonitorPort: unlessZero(m.port), UrlPath: unlessZero(m.path),
				},
			}})
	}
	return q.Id
}

func (p *pass) createPool(balancer string, want port) (id string) {
	option := &model.CreatePoolOption{
		Name: &want.name, Description: &p.owner.mark, LoadbalancerId: &balancer,
		Protocol: want.poolProtocol, LbAlgorithm: want.algorithm,
	}
	if want.persistence > 0 {
		option.SessionPersistence = &model.CreatePoolSessionPersistenceOption{
			Type:               model.GetCreatePoolSessionPersistenceOptionTypeEnum().SOURCE_IP,
			PersistenceTimeout: &want.persistence,
		}
	}
	return create(p, "create pool "+want.name, p.elb.CreatePool,
		&model.CreatePoolRequest{Body: &model.CreatePoolRequestBody{Pool: option}},
		func(r *model.CreatePoolResponse) *model.Pool { return r.Pool }).Id
}

// applyMembers adds and removes members.
func (p *pass) applyMembers(q pool, want port) {
	var missing []model.BatchCreateMembersOption
	var extra []model.BatchDeleteMembersOption
	for _, member := range slices.SortedFunc(maps.Keys(want.members), netip.AddrPort.Compare) {
		if q.members[member] == "" {
			missing = append(missing, model.BatchCreateMembersOption{
				Name: ptr.To(want.members[member]), Address: member.Addr().String(),
				ProtocolPort: int32(member.Port()),
				SubnetCidrId: ptr.To(p.config.memberSubnet(member.Addr())),
			})
		}
	}
	for _, member := range slices.SortedFunc(maps.Keys(q.members), netip.AddrPort.Compare) {
		if _, isWanted := want.members[member]; !isWanted {
			extra = append(extra, model.BatchDeleteMembersOption{Id: ptr.To(q.members[member])})
		}
	}
	for chunk := range slices.Chunk(missing, maxMembers) {
		send(p, fmt.Sprintf("add %d members to pool %s", len(chunk), want.name),
			p.elb.BatchCreateMembers, &model.BatchCreateMembersRequest{
				PoolId: q.Id, Body: &model.BatchCreateMembersRequestBody{Members: chunk},
			})
	}
	for chunk := range slices.Chunk(extra, maxMembers) {
		remove(p, fmt.Sprintf("remove %d members from pool %s", len(chunk), want.name),
			p.elb.BatchDeleteMembers, &model.BatchDeleteMembersRequest{
				PoolId: q.Id, Body: &model.BatchDeleteMembersRequestBody{Members: chunk},
			})
	}
}

// unlessZero returns nil for a value that the request omits.
func unlessZero[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}
