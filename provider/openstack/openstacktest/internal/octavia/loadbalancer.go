package octavia

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listLoadBalancers(r *request) (answer, error) {
	view, items := viewOf(r), []listItem{}
	for _, t := range visibleTrees(r) {
		items = append(items, listItem{shown: view.loadBalancer(t)})
	}
	return list(r, "loadbalancers", filterable(loadBalancerFields(), view.minor), items)
}

func getLoadBalancer(r *request) (answer, error) {
	t, err := findTree(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(
		object{"loadbalancer": selectFields(viewOf(r).loadBalancer(t), r.Query["fields"])}), nil
}

func createLoadBalancer(r *request) (answer, error) {
	given, err := bodyOf(r, "loadbalancer")
	if err != nil {
		return answer{}, err
	}
	view := viewOf(r)
	t, err := readTree(given, view.minor)
	if err != nil {
		return answer{}, err
	}
	t.ProjectID = r.ProjectID()
	for _, key := range []string{"tenant_id", "project_id"} {
		if raw, present := given[key]; present && !isJSONNull(raw) {
			_ = json.Unmarshal(raw, &t.ProjectID)
		}
	}
	if err := admitCaller(r, t.ProjectID); err != nil {
		return answer{}, err
	}
	givePoolIDs(r.octavia, t)
	if err := r.octavia.createTree(r.Caller, t); err != nil {
		return answer{}, err
	}
	r.octavia.startWork(t, StatusPendingCreate)
	view.full = true
	return api.Created(object{"loadbalancer": view.loadBalancer(t)}), nil
}

// givePoolIDs gives the pools, which have their names for ids so far, ids of their own.
func givePoolIDs(s *Service, t *tree) {
	for _, p := range t.pools {
		listeners := t.listenersOf(p)
		p.ID = s.NewID()
		for _, l := range listeners {
			l.DefaultPoolID = p.ID
		}
	}
}

func updateLoadBalancer(r *request) (answer, error) {
	given, err := bodyOf(r, "loadbalancer")
	if err != nil {
		return answer{}, err
	}
	t, err := findTree(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view, changed := viewOf(r), t.LoadBalancer
	if err := loadBalancerFields().read(&changed, given, false, view.minor,
		"load_balancer.loadbalancer"); err != nil {
		return answer{}, err
	}
	if err := t.allows(StatusActive); err != nil {
		return answer{}, err
	}
	t.LoadBalancer = changed
	r.octavia.startWork(t, StatusPendingUpdate)
	return api.OK(object{"loadbalancer": view.loadBalancer(t)}), nil
}

// deleteLoadBalancer refuses one with children with 400, not with 409.
func deleteLoadBalancer(r *request) (answer, error) {
	t, err := findTree(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if !isTrue(r.Query.Get("cascade")) && len(t.listeners)+len(t.pools) > 0 {
		return answer{}, invalid("Cannot delete Load Balancer %s - it has children", t.ID)
	}
	if err := t.allows(StatusActive, StatusError); err != nil {
		return answer{}, err
	}
	r.octavia.startWork(t, StatusPendingDelete)
	return api.NoContent(), nil
}

// isTrue is oslo_utils.strutils.bool_from_string.
func isTrue(text string) bool {
	return slices.Contains([]string{"1", "t", "true", "on", "y", "yes"},
		strings.ToLower(strings.TrimSpace(text)))
}

// failOver is for administrators, unless the policy says otherwise
// (octavia/policies/loadbalancer.py, RULE_API_ADMIN).
func failOver(r *request) (answer, error) {
	t, err := findTree(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if !r.IsAdmin() && !r.octavia.options.OwnersFailOver {
		return answer{}, forbidden()
	}
	if err := t.allows(StatusActive, StatusError); err != nil {
		return answer{}, err
	}
	if err := r.octavia.options.provider(t.Provider).admitFailover(); err != nil {
		return answer{}, err
	}
	t.healing = true
	r.octavia.startWork(t, StatusPendingUpdate)
	return answer{Status: http.StatusAccepted}, nil
}

func getStatus(r *request) (answer, error) {
	t, err := findTree(r, r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return api.OK(object{"statuses": object{"loadbalancer": t.statuses()}}), nil
}

// getStatistics: nothing ever flows through a simulated load balancer.
func getStatistics(r *request) (answer, error) {
	if _, err := findTree(r, r.PathValue("id")); err != nil {
		return answer{}, err
	}
	return noTraffic(), nil
}

func getListenerStatistics(r *request) (answer, error) {
	if _, _, err := findListener(r, r.PathValue("id")); err != nil {
		return answer{}, err
	}
	return noTraffic(), nil
}

func noTraffic() answer {
	return api.OK(object{"stats": object{
		"active_connections": 0, "bytes_in": 0, "bytes_out": 0, "request_errors": 0,
		"total_connections": 0,
	}})
}

func listL7Policies(r *request) (answer, error) {
	return list(r, "l7policies", object{"id": nil, "name": nil, "listener_id": nil}, nil)
}

func noL7Policies(*request) (answer, error) { return answer{}, noPolicies() }
