package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	"k8s.io/utils/ptr"
)

// step is one change in the cloud. Steps of a plan run in order; after a failure, the next pass
// plans again from what it observes.
type step struct {
	what string
	run  func(context.Context, *pass) error
}

// planPorts returns the changes to listeners, pools, members and health checks: first those that
// free ports of the load balancer, and last the removal of objects that are no longer used.
func planPorts(balancer string, ports []port, o observed) []step {
	var early, main, late []step
	keep := map[string]bool{}
	for _, p := range ports {
		l, q := findListener(o, balancer, p), findPool(o, balancer, p)
		main = append(main, planPool(p, q)...)
		main = append(main, planMonitor(p, q)...)
		main = append(main, planListener(p, l, q)...)
		if l != nil {
			keep[l.Id] = true
		}
		if q != nil {
			keep[q.Id] = true
		}
	}
	for _, l := range o.listeners {
		switch {
		case keep[l.Id]:
		case isOn(l.Loadbalancers, balancer):
			early = append(early, deleteListener(l))
		default:
			late = append(late, deleteListener(l))
		}
	}
	for _, q := range o.pools {
		if !keep[q.Id] {
			late = append(late, deletePool(q))
		}
	}
	return slices.Concat(early, main, late)
}

func isOn(refs []model.LoadBalancerRef, balancer string) bool {
	return slices.ContainsFunc(refs, func(r model.LoadBalancerRef) bool {
		return ptr.Deref(r.Id, "") == balancer
	})
}

func findListener(o observed, balancer string, p port) *model.Listener {
	for _, l := range o.listeners {
		if isOn(l.Loadbalancers, balancer) && l.ProtocolPort == p.number &&
			l.Protocol == p.protocol {
			return &l
		}
	}
	return nil
}

// findPool returns no pool if its protocol or session persistence differs, because these cannot be
// changed: it is replaced.
func findPool(o observed, balancer string, p port) *pool {
	for _, q := range o.pools {
		var minutes int32
		if s := q.SessionPersistence; s != nil {
			minutes = ptr.Deref(s.PersistenceTimeout, 0)
		}
		if isOn(q.Loadbalancers, balancer) && q.Name == p.name && q.Protocol == p.poolProtocol &&
			minutes == p.persistence {
			return &q
		}
	}
	return nil
}

func planPool(p port, q *pool) []step {
	var steps []step
	members := map[string]string{}
	switch {
	case q == nil:
		steps = append(steps, createPool(p))
	case q.LbAlgorithm != p.algorithm:
		steps = append(steps, updatePool(p, q.Id))
		fallthrough
	default:
		members = q.members
	}
	var missing, extra []string
	for _, key := range slices.Sorted(maps.Keys(p.members)) {
		if members[key] == "" {
			missing = append(missing, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if _, ok := p.members[key]; !ok {
			extra = append(extra, members[key])
		}
	}
	for chunk := range slices.Chunk(missing, maxMembers) {
		steps = append(steps, addMembers(p, q, chunk))
	}
	for chunk := range slices.Chunk(extra, maxMembers) {
		steps = append(steps, removeMembers(p, q, chunk))
	}
	return steps
}

func planMonitor(p port, q *pool) []step {
	var observed *monitor
	var steps []step
	if q != nil && q.monitor != nil {
		m := q.monitor
		observed = &monitor{
			kind: m.Type, delay: m.Delay, timeout: m.Timeout, maxRetries: m.MaxRetries,
			port: m.MonitorPort,
		}
		if m.Type == "HTTP" {
			observed.path = m.UrlPath
		}
	}
	if ptr.Equal(observed, p.monitor) {
		return nil
	}
	if observed != nil {
		steps = append(steps, deleteMonitor(p, q.monitor.Id))
	}
	if p.monitor != nil {
		steps = append(steps, createMonitor(p, q))
	}
	return steps
}

func planListener(p port, l *model.Listener, q *pool) []step {
	switch {
	case l == nil:
		return []step{createListener(p, q)}
	case q == nil || l.DefaultPoolId != q.Id || l.DefaultTlsContainerRef != p.certificate:
		return []step{updateListener(p, l.Id, q)}
	}
	return nil
}

// planPublicIP returns the changes to EIPs. existing is the EIP that the Service names.
func planPublicIP(s settings, balancer model.LoadBalancer, mine []publicIP,
	existing *publicIP,
) ([]step, error) {
	isMine := func(id string) bool {
		return slices.ContainsFunc(mine, func(ip publicIP) bool { return ip.id == id })
	}
	wanted := ""
	if existing != nil {
		wanted = existing.id
	}
	var foreign string
	for _, bound := range balancer.Publicips {
		if bound.PublicipId != wanted && !isMine(bound.PublicipId) {
			foreign = bound.PublicipAddress
		}
	}
	if foreign != "" && (existing != nil || s.newPublicIP != nil) {
		return nil, fmt.Errorf("load balancer %s already has EIP %s, which does not belong to the "+
			"Service: unbind it, or remove the annotation that asks for another EIP", balancer.Id,
			foreign)
	}
	var steps []step
	switch {
	case existing != nil && existing.port != "" && existing.port != balancer.VipPortId:
		return nil, fmt.Errorf("EIP %s of annotation %s is bound to port %s: unbind it first",
			existing.id, annotationEIP, existing.port)
	case existing != nil:
		steps = releasePublicIPs(mine, s.keepPublicIP)
		if existing.port == "" {
			steps = append(steps, bindPublicIP(*existing, balancer.VipPortId))
		}
	case s.newPublicIP == nil:
		steps = releasePublicIPs(mine, s.keepPublicIP)
	case len(mine) == 0:
		steps = []step{createPublicIP(*s.newPublicIP, balancer.VipPortId)}
	default:
		// A creation whose response was lost may have been repeated.
		steps = releasePublicIPs(mine[1:], false)
		switch mine[0].port {
		case balancer.VipPortId:
		case "":
			steps = append(steps, bindPublicIP(mine[0], balancer.VipPortId))
		default:
			steps = append(steps, unbindPublicIP(mine[0].id),
				bindPublicIP(mine[0], balancer.VipPortId))
		}
	}
	return steps, nil
}

// releasePublicIPs unbinds EIPs, and deletes them unless they are to be kept.
func releasePublicIPs(mine []publicIP, keep bool) []step {
	var steps []step
	for _, ip := range mine {
		if ip.port != "" {
			steps = append(steps, unbindPublicIP(ip.id))
		}
		if !keep {
			steps = append(steps, deletePublicIP(ip.id))
		}
	}
	return steps
}

// planBalancers deletes load balancers that carry the mark. A load balancer with listeners or pools
// of others is kept.
func planBalancers(balancers []model.LoadBalancer, o observed,
	publicIPs []publicIP,
) (steps []step, kept []string) {
	isMine := map[string]bool{}
	for _, l := range o.listeners {
		isMine[l.Id] = true
	}
	for _, q := range o.pools {
		isMine[q.Id] = true
	}
	for _, b := range balancers {
		if isDeleting(b) {
			continue
		}
		isShared := slices.ContainsFunc(b.Listeners,
			func(ref model.ListenerRef) bool { return !isMine[ref.Id] }) ||
			slices.ContainsFunc(b.Pools,
				func(ref model.PoolRef) bool { return !isMine[ref.Id] })
		if isShared {
			kept = append(kept, b.Id)
			continue
		}
		for _, bound := range b.Publicips {
			isHandled := slices.ContainsFunc(publicIPs, func(ip publicIP) bool {
				return ip.id == bound.PublicipId
			})
			if !isHandled {
				steps = append(steps, unbindPublicIP(bound.PublicipId))
			}
		}
		steps = append(steps, deleteBalancer(b.Id))
	}
	return steps, kept
}

func isDeleting(b model.LoadBalancer) bool { return b.ProvisioningStatus == "PENDING_DELETE" }
