package neutron

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"

// quotaDetails shows each limit of a project and its use (the extension "quota_details").
func (n *Service) quotaDetails(r *request) (answer, error) {
	project := r.PathValue("project")
	quota := object{}
	for resource, used := range map[string]int{
		"network": n.Networks.count(project), "subnet": n.Subnets.count(project),
		"port": n.Ports.count(project), "router": n.Routers.count(project),
		"floatingip":          n.FloatingIPs.count(project),
		"security_group":      n.SecurityGroups.count(project),
		"security_group_rule": n.SecurityGroupRules.count(project),
	} {
		limit, limited := n.quotas[resource]
		if !limited {
			limit = -1
		}
		quota[resource] = object{"limit": limit, "used": used, "reserved": 0}
	}
	return api.OK(object{"quota": quota}), nil
}
