package octavia

import (
	"fmt"
	"slices"
	"time"
)

// ProvisioningRule changes how Octavia's work on load balancers goes on: creations, changes and
// deletions of a load balancer and of all below it. Without a rule it takes as long as
// [WithProvisioning] says, and succeeds.
type ProvisioningRule struct {
	// LoadBalancer is the id or the name of the load balancer. Empty: all.
	LoadBalancer string
	// Times is how often the rule is used, and then no more. 0: always.
	Times int
	// Duration is how long the work takes. 0: as usual.
	Duration time.Duration
	// Never: the work does not end; see [Cloud.SetProvisioningStatus].
	Never bool
	// Fail: what was to be made, changed or deleted ends in ERROR. If that is below a load
	// balancer, the load balancer is ACTIVE then.
	Fail bool
}

type provisioningRule struct {
	ProvisioningRule
	used int
}

// Provision lets a rule apply to all work that begins from now on. Of several rules for a load
// balancer the first is used.
func (s *Service) Provision(rule ProvisioningRule) (remove func()) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	added := &provisioningRule{ProvisioningRule: rule}
	s.rules = append(s.rules, added)
	return func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.rules = slices.DeleteFunc(s.rules,
			func(r *provisioningRule) bool { return r == added })
	}
}

// takeProvisioningRule is nil for none.
func (s *Service) takeProvisioningRule(t *tree) *provisioningRule {
	for _, rule := range s.rules {
		named := rule.LoadBalancer == "" || rule.LoadBalancer == t.ID || rule.LoadBalancer == t.Name
		if named && (rule.Times == 0 || rule.used < rule.Times) {
			rule.used++
			return rule
		}
	}
	return nil
}

// SetProvisioningStatus puts a load balancer, or a listener, pool, member or health monitor, into a
// state, with no rule asked. Work that is under way on the load balancer is given up; it stays in a
// state PENDING until the state is set again.
func (s *Service) SetProvisioningStatus(id, status string) error {
	return s.changeResource(id, func(t *tree, resource *OctaviaResource) {
		t.set(resource, status, s.Clock.Now())
		if resource == &t.OctaviaResource {
			t.work = nil
		}
	})
}

// SetOperatingStatus sets the operating status of a load balancer, a listener, a pool, a member or
// a health monitor: ONLINE, OFFLINE, DEGRADED, ERROR, DRAINING or NO_MONITOR. The next change of
// the load balancer sets it back.
func (s *Service) SetOperatingStatus(id, status string) error {
	return s.changeResource(id,
		func(_ *tree, resource *OctaviaResource) { resource.OperatingStatus = status })
}

func (s *Service) changeResource(id string, change func(*tree, *OctaviaResource)) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Settle()
	for _, t := range s.trees {
		for _, resource := range t.resources() {
			if resource.ID == id {
				change(t, resource)
				return nil
			}
		}
	}
	return fmt.Errorf("load balancing: no resource %s", id)
}
