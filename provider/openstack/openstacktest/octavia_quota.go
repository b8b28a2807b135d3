package openstacktest

import (
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// The resources that a quota counts, as the API names them.
const (
	QuotaLoadBalancer  = "loadbalancer"
	QuotaListener      = "listener"
	QuotaPool          = "pool"
	QuotaMember        = "member"
	QuotaHealthMonitor = "healthmonitor"
)

// SetLoadBalancerQuota limits how many resources, such as [QuotaListener], each project may have;
// -1 for any number, as it is at first.
func (s *Cloud) SetLoadBalancerQuota(resource string, limit int) {
	s.state.Mu.Lock()
	defer s.state.Mu.Unlock()
	s.loadBalancer.quotas[resource] = limit
}

// admitMore refuses so many more of a resource. name is how the refusal calls it.
func (o *loadBalancer) admitMore(project, resource, name string, more int) error {
	limit, limited := o.quotas[resource]
	if !limited || limit < 0 || more <= 0 || o.count(project, resource)+more <= limit {
		return nil
	}
	return octaviaQuotaMet(name)
}

func (o *loadBalancer) count(project, resource string) int {
	count := 0
	for _, t := range o.trees {
		if t.ProjectID == project {
			count += t.count(resource)
		}
	}
	return count
}

func (t *tree) count(resource string) int {
	count := 0
	switch resource {
	case QuotaLoadBalancer:
		return 1
	case QuotaListener:
		return len(t.listeners)
	case QuotaPool:
		return len(t.pools)
	case QuotaMember:
		for _, p := range t.pools {
			count += len(p.members)
		}
	case QuotaHealthMonitor:
		for _, p := range t.pools {
			if p.monitor != nil {
				count++
			}
		}
	}
	return count
}

// admitTree asks for all that a new load balancer brings, in Octavia's order.
func (o *loadBalancer) admitTree(t *tree) error {
	for _, resource := range []struct{ quota, name string }{
		{QuotaLoadBalancer, "Load Balancer"},
		{QuotaPool, "Pool"},
		{QuotaHealthMonitor, "Health Monitor"},
		{QuotaMember, "Member"},
		{QuotaListener, "Listener"},
	} {
		if err := o.admitMore(t.ProjectID, resource.quota, resource.name,
			t.count(resource.quota)); err != nil {
			return err
		}
	}
	return nil
}

func getLoadBalancerQuota(r *request) (answer, error) {
	project := r.PathValue("project")
	if admitCaller(r, project) != nil {
		return answer{}, octaviaForbidden()
	}
	quota := object{"l7policy": -1, "l7rule": -1}
	for _, resource := range []string{
		QuotaLoadBalancer, QuotaListener, QuotaPool, QuotaMember,
		QuotaHealthMonitor,
	} {
		limit, limited := r.server.loadBalancer.quotas[resource]
		if !limited {
			limit = -1
		}
		quota[shownQuota(resource)] = limit
	}
	return api.OK(object{"quota": quota}), nil
}

// shownQuota: two names have an underscore here, and only here.
func shownQuota(resource string) string {
	switch resource {
	case QuotaLoadBalancer:
		return "load_balancer"
	case QuotaHealthMonitor:
		return "health_monitor"
	}
	return resource
}
