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
		all = append(all, resource.Clone(t.LoadBalancer))
	}
	return all
}

// LoadBalancer finds a load balancer by its ID, or by its name if that is unique.
func (s *Service) LoadBalancer(idOrName string) (LoadBalancer, error) {
	defer s.Enter()()
	var named []*tree
	for _, t := range s.trees {
		if t.ID == idOrName {
			return resource.Clone(t.LoadBalancer), nil
		}
		if t.Name == idOrName {
			named = append(named, t)
		}
	}
	if len(named) != 1 {
		return LoadBalancer{},
			fmt.Errorf("load balancing: %d load balancers %s", len(named), idOrName)
	}
	return resource.Clone(named[0].LoadBalancer), nil
}

// AddLoadBalancer implements Cloud.AddLoadBalancer.
func (s *Service) AddLoadBalancer(lb LoadBalancer) string {
	defer s.Enter()()
	if lb.ProjectID == "" {
		lb.ProjectID = s.DefaultProject
	}
	t := &tree{LoadBalancer: resource.Clone(lb)}
	s.completeNew(t)
	if err := s.createTree(api.Caller{ProjectID: lb.ProjectID, Admin: true}, t); err != nil {
		panic(fmt.Sprintf("openstacktest: add load balancer %s: %v", lb.Name, err))
	}
	t.complete(s.Clock.Now(), nil)
	return t.ID
}

// ChangeLoadBalancer implements Cloud.ChangeLoadBalancer.
func (s *Service) ChangeLoadBalancer(id string, change func(*LoadBalancer)) error {
	return s.onTree(id, func(t *tree) {
		changed := resource.Clone(t.LoadBalancer)
		change(&changed)
		t.LoadBalancer = resource.Clone(changed)
		s.completeNew(t)
		for _, row := range t.resources() {
			if row.ID == "" {
				s.add(t, row)
				row.ProvisioningStatus, row.OperatingStatus = StatusActive, statusOnline
			}
		}
	})
}

// DeleteLoadBalancer implements Cloud.DeleteLoadBalancer.
func (s *Service) DeleteLoadBalancer(id string) error { return s.onTree(id, s.forgetTree) }

// onTree applies do to a load balancer, for a caller without the lock.
func (s *Service) onTree(id string, do func(*tree)) error {
	defer s.Enter()()
	i := slices.IndexFunc(s.trees, func(t *tree) bool { return t.ID == id })
	if i < 0 {
		return fmt.Errorf("load balancing: no load balancer %s", id)
	}
	do(s.trees[i])
	return nil
}

// completeNew gives the new resources below a load balancer their defaults.
func (s *Service) completeNew(t *tree) {
	for l := range each(t.Listeners) {
		complete(l, l.ID, s.types.listener)
	}
	for p := range each(t.Pools) {
		if p.Monitor != nil {
			complete(p.Monitor, p.Monitor.ID, s.types.monitor)
		}
		for m := range each(p.Members) {
			complete(m, m.ID, s.types.member)
		}
	}
}

func complete[T any](row *T, id string, fields resource.Fields[T]) {
	if id == "" {
		fields.Complete(row)
	}
}
