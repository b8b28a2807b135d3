package octavia

import (
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// LoadBalancers implements Cloud.LoadBalancers.
func (s *Service) LoadBalancers() []LoadBalancer {
	defer s.Enter()()
	var all []LoadBalancer
	for _, t := range s.trees {
		all = append(all, t.snapshot())
	}
	return all
}

// LoadBalancer finds a load balancer by its ID, or by its name if that is unique.
func (s *Service) LoadBalancer(idOrName string) (LoadBalancer, error) {
	var named []LoadBalancer
	for _, lb := range s.LoadBalancers() {
		if lb.ID == idOrName {
			return lb, nil
		}
		if lb.Name == idOrName {
			named = append(named, lb)
		}
	}
	if len(named) != 1 {
		return LoadBalancer{},
			fmt.Errorf("load balancing: %d load balancers %s", len(named), idOrName)
	}
	return named[0], nil
}

// AddLoadBalancer implements Cloud.AddLoadBalancer.
func (s *Service) AddLoadBalancer(lb LoadBalancer) string {
	defer s.Enter()()
	if lb.ProjectID == "" {
		lb.ProjectID = s.DefaultProject
	}
	t := s.treeOf(lb)
	if err := s.createTree(api.Caller{ProjectID: lb.ProjectID, Admin: true}, t); err != nil {
		panic(fmt.Sprintf("openstacktest: add load balancer %s: %v", lb.Name, err))
	}
	t.complete(s.Clock.Now(), nil)
	return t.ID
}

// ChangeLoadBalancer implements Cloud.ChangeLoadBalancer.
func (s *Service) ChangeLoadBalancer(id string, change func(*LoadBalancer)) error {
	defer s.Enter()()
	for i, t := range s.trees {
		if t.ID != id {
			continue
		}
		lb := t.snapshot()
		change(&lb)
		changed := s.treeOf(lb)
		changed.ownsPort, changed.work = t.ownsPort, t.work
		for _, row := range changed.resources() {
			if row.ID == "" {
				s.add(changed, row)
				row.ProvisioningStatus, row.OperatingStatus = StatusActive, statusOnline
			}
		}
		s.trees[i] = changed
		return nil
	}
	return fmt.Errorf("load balancing: no load balancer %s", id)
}

// DeleteLoadBalancer implements Cloud.DeleteLoadBalancer.
func (s *Service) DeleteLoadBalancer(id string) error {
	defer s.Enter()()
	for _, t := range s.trees {
		if t.ID == id {
			s.forgetTree(t)
			return nil
		}
	}
	return fmt.Errorf("load balancing: no load balancer %s", id)
}

// snapshot copies the whole tree.
func (t *tree) snapshot() LoadBalancer {
	lb := t.LoadBalancer
	lb.Tags, lb.AdditionalVIPs = slices.Clone(lb.Tags), slices.Clone(lb.AdditionalVIPs)
	for _, l := range t.listeners {
		lb.Listeners = append(lb.Listeners, l.clone())
	}
	for _, p := range t.pools {
		pool := p.Pool.clone()
		for _, m := range p.members {
			member := *m
			member.Tags = slices.Clone(m.Tags)
			pool.Members = append(pool.Members, member)
		}
		if p.monitor != nil {
			monitor := *p.monitor
			monitor.Tags = slices.Clone(monitor.Tags)
			pool.Monitor = &monitor
		}
		lb.Pools = append(lb.Pools, pool)
	}
	return lb
}

// treeOf is the inverse of snapshot.
func (s *Service) treeOf(lb LoadBalancer) *tree {
	t := &tree{LoadBalancer: lb}
	t.Listeners, t.Pools = nil, nil
	for _, given := range lb.Listeners {
		l := given.clone()
		complete(&l, l.ID, s.types.listener)
		t.listeners = append(t.listeners, &l)
	}
	for _, given := range lb.Pools {
		p := &poolTree{Pool: given.clone()}
		p.Members, p.Monitor = nil, nil
		if given.Monitor != nil {
			monitor := *given.Monitor
			complete(&monitor, monitor.ID, s.types.monitor)
			p.monitor = &monitor
		}
		for _, m := range given.Members {
			complete(&m, m.ID, s.types.member)
			p.members = append(p.members, &m)
		}
		t.pools = append(t.pools, p)
	}
	return t
}

// complete gives a new row its defaults.
func complete[T any](row *T, id string, fields resource.Fields[T]) {
	if id == "" {
		fields.Complete(row)
	}
}
