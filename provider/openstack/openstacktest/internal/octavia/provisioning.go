package octavia

import (
	"fmt"
	"slices"
	"time"
)

// ProvisioningRule changes duration and result of Octavia's work on load balancers: creations,
// updates and deletions of a load balancer and of all resources below it. Without a rule, work
// takes as long as [WithProvisioning] says, and succeeds.
type ProvisioningRule struct {
	// LoadBalancer is the ID or the name of the load balancer. Empty: all.
	LoadBalancer string
	// Times is how often the rule is used. 0: always.
	Times int
	// Duration is the duration of the work. 0: the usual one.
	Duration time.Duration
	// Never means that the work does not end; see [Cloud.SetProvisioningStatus].
	Never bool
	// Fail makes the created, changed or deleted resource end in ERROR. If it is below a load
	// balancer, the load balancer becomes ACTIVE.
	Fail bool
}

type provisioningRule struct {
	ProvisioningRule
	used int
}

// Provision implements Cloud.Provision.
func (s *Service) Provision(rule ProvisioningRule) (remove func()) {
	defer s.Enter()()
	added := &provisioningRule{ProvisioningRule: rule}
	s.rules = append(s.rules, added)
	return func() {
		defer s.Enter()()
		s.rules = slices.DeleteFunc(s.rules,
			func(r *provisioningRule) bool { return r == added })
	}
}

// takeProvisioningRule returns the rule for the load balancer, or nil.
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

// SetProvisioningStatus implements Cloud.SetProvisioningStatus.
func (s *Service) SetProvisioningStatus(id, status string) error {
	defer s.Enter()()
	for _, t := range s.trees {
		for _, resource := range t.resources() {
			if resource.ID != id {
				continue
			}
			t.set(resource, status, s.Clock.Now())
			if resource == &t.OctaviaResource {
				t.work = nil
			}
			return nil
		}
	}
	return fmt.Errorf("load balancing: no resource %s", id)
}
