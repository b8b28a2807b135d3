package neutron

import (
	"net/http"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// quotaResources are what there are quotas for, by their names in the API.
func quotaResources() []string {
	return []string{
		"floatingip", "network", "port", "router", "security_group",
		"security_group_rule", "subnet", "trunk",
	}
}

// quotaOf is how many of a resource a project may have; below 0: any number.
func (n *Service) quotaOf(project, resource string) int {
	if limit, given := n.projectQuotas[project][resource]; given {
		return limit
	}
	if limit, limited := n.quotas[resource]; limited {
		return limit
	}
	return -1
}

func (n *Service) getQuota(r *request) (answer, error) {
	project := r.PathValue("project")
	if c := callerOf(r); !c.admin && c.project != project {
		return answer{}, neutronForbidden("rule:get_quota")
	}
	return api.OK(object{"quota": n.quotasOf(project)}), nil
}

func (n *Service) quotasOf(project string) map[string]int {
	quotas := map[string]int{}
	for _, resource := range quotaResources() {
		quotas[resource] = n.quotaOf(project, resource)
	}
	return quotas
}

func (n *Service) updateQuota(r *request) (answer, error) {
	if !callerOf(r).admin {
		return answer{}, neutronForbidden("rule:update_quota")
	}
	var given struct {
		Quota map[string]int `json:"quota"`
	}
	if err := r.Decode(&given); err != nil {
		return answer{}, err
	}
	project := r.PathValue("project")
	if n.projectQuotas[project] == nil {
		n.projectQuotas[project] = map[string]int{}
	}
	for resource, limit := range given.Quota {
		n.projectQuotas[project][resource] = limit
	}
	return api.OK(object{"quota": n.quotasOf(project)}), nil
}

func (n *Service) deleteQuota(r *request) (answer, error) {
	if !callerOf(r).admin {
		return answer{}, neutronForbidden("rule:delete_quota")
	}
	delete(n.projectQuotas, r.PathValue("project"))
	return answer{Status: http.StatusNoContent}, nil
}
