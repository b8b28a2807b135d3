package apply

import (
	"errors"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// reportCreation reports whether a quota keeps a step from being taken.
func (e *Executor) reportCreation(step plan.Step, err error) {
	if counted := countedBy(step); counted != "" {
		e.trouble.Creation(counted, err,
			errors.Is(err, octavia.ErrQuota) || errors.Is(err, neutron.ErrQuota))
	}
}

// countedBy is what a step creates that there are quotas for; "" for nothing.
func countedBy(step plan.Step) string {
	switch step.(type) {
	case plan.CreateLoadBalancer:
		return "load balancers"
	case plan.CreateListener:
		return "listeners"
	case plan.CreatePool:
		return "pools"
	case plan.CreateMember, plan.SetMembers:
		return "members"
	case plan.CreateMonitor:
		return "health monitors"
	case plan.CreateFloatingIP:
		return "floating IPs"
	case plan.CreateSecurityGroup:
		return "security groups"
	case plan.CreateRule:
		return "security group rules"
	}
	return ""
}
