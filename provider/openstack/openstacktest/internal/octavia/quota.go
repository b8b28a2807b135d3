package octavia

import (
	"net/http"

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

// SetLoadBalancerQuota implements Cloud.SetLoadBalancerQuota.
func (s *Service) SetLoadBalancerQuota(resource string, limit int) {
	defer s.Enter()()
	s.quotas[resource] = limit
}

// getQuota shows each limit under its current name in the API.
func getQuota(r *request) (answer, error) {
	if err := admitCaller(r, r.PathValue("project")); err != nil {
		return answer{}, err
	}
	quota := object{}
	for resource, name := range map[string]string{
		QuotaLoadBalancer: "load_balancer", QuotaListener: "listener", QuotaPool: "pool",
		QuotaMember: "member", QuotaHealthMonitor: "health_monitor",
	} {
		limit, limited := r.octavia.quotas[resource]
		if !limited {
			limit = -1
		}
		quota[name] = limit
	}
	return api.OK(object{"quota": quota}), nil
}

// admitMore refuses more resources than the quota allows. name is the resource's name in the
// refusal.
func (s *Service) admitMore(project, resource, name string, more int) error {
	limit, limited := s.quotas[resource]
	if !limited || limit < 0 || more <= 0 || s.count(project, resource)+more <= limit {
		return nil
	}
	return refuse(http.StatusForbidden, "Quota has been met for resources: %s", name)
}

func (s *Service) count(project, resource string) int {
	count := 0
	for _, t := range s.trees {
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

// admitQuotas checks all resources of a new load balancer, in Octavia's order.
func (s *Service) admitQuotas(t *tree) error {
	for _, resource := range []struct{ quota, name string }{
		{QuotaLoadBalancer, "Load Balancer"},
		{QuotaPool, "Pool"},
		{QuotaHealthMonitor, "Health Monitor"},
		{QuotaMember, "Member"},
		{QuotaListener, "Listener"},
	} {
		if err := s.admitMore(t.ProjectID, resource.quota, resource.name,
			t.count(resource.quota)); err != nil {
			return err
		}
	}
	return nil
}
