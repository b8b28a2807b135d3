package octavia

import (
	"net/http"
	"strings"

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

// counted are the resources that a quota counts, in the order in which Octavia checks a whole load
// balancer. The names are those in refusals.
func counted() []struct{ resource, name string } {
	return []struct{ resource, name string }{
		{QuotaLoadBalancer, "Load Balancer"},
		{QuotaPool, "Pool"},
		{QuotaHealthMonitor, "Health Monitor"},
		{QuotaMember, "Member"},
		{QuotaListener, "Listener"},
	}
}

// SetLoadBalancerQuota implements Cloud.SetLoadBalancerQuota.
func (s *Service) SetLoadBalancerQuota(resource string, limit int) {
	defer s.Enter()()
	s.quotas[resource] = limit
}

// getQuota shows each limit under its current name in the API, such as health_monitor.
func getQuota(r *request) (answer, error) {
	if err := admitCaller(r, r.PathValue("project")); err != nil {
		return answer{}, err
	}
	quota := object{}
	for _, of := range counted() {
		limit, limited := r.octavia.quotas[of.resource]
		if !limited {
			limit = -1
		}
		quota[strings.ReplaceAll(strings.ToLower(of.name), " ", "_")] = limit
	}
	return api.OK(object{"quota": quota}), nil
}

// admitMore refuses more resources than the quota allows.
func (s *Service) admitMore(project, resource string, more int) error {
	limit, limited := s.quotas[resource]
	if !limited || limit < 0 || more <= 0 {
		return nil
	}
	count := more
	for _, t := range s.trees {
		if t.ProjectID == project {
			count += t.count(resource)
		}
	}
	for _, of := range counted() {
		if of.resource == resource && count > limit {
			return api.Refuse(http.StatusForbidden, "Quota has been met for resources: %s",
				of.name)
		}
	}
	return nil
}

func (t *tree) count(resource string) (count int) {
	switch resource {
	case QuotaLoadBalancer:
		return 1
	case QuotaListener:
		return len(t.Listeners)
	case QuotaPool:
		return len(t.Pools)
	}
	for _, p := range t.Pools {
		switch {
		case resource == QuotaMember:
			count += len(p.Members)
		case p.Monitor != nil:
			count++
		}
	}
	return count
}

// admitQuotas checks all resources of a new load balancer.
func (s *Service) admitQuotas(t *tree) error {
	for _, of := range counted() {
		if err := s.admitMore(t.ProjectID, of.resource, t.count(of.resource)); err != nil {
			return err
		}
	}
	return nil
}
