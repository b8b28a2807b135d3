package octavia

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func createLoadBalancer(r *request) (answer, error) {
	s, given := r.octavia, r.given
	t, err := s.readTree(given, r.kind.argument)
	if err != nil {
		return answer{}, err
	}
	t.ProjectID = r.ProjectID()
	for _, key := range []string{"tenant_id", "project_id"} {
		var project string
		if present(given, key) && json.Unmarshal(given[key], &project) == nil {
			t.ProjectID = project
		}
	}
	if err := admitCaller(r, t.ProjectID); err != nil {
		return answer{}, err
	}
	// The IDs of the pools are still their names.
	for p := range each(t.Pools) {
		listeners := t.listenersOf(p)
		p.ID = s.NewID()
		for _, l := range listeners {
			l.DefaultPoolID = p.ID
		}
	}
	if err := s.createTree(r.Caller, t); err != nil {
		return answer{}, err
	}
	s.startWork(t, StatusPendingCreate)
	return api.Created(object{"loadbalancer": s.showWhole(t)}), nil
}

func updateLoadBalancer(r *request) (answer, error) {
	return update(r, r.octavia.types.loadBalancer, &r.tree.LoadBalancer,
		func(*LoadBalancer) error { return r.tree.allows(StatusActive) })
}

// deleteLoadBalancer refuses to delete a load balancer with children, with 400 instead of 409.
func deleteLoadBalancer(r *request) (answer, error) {
	t := r.tree
	if !isTrue(r.Query.Get("cascade")) && len(t.Listeners)+len(t.Pools) > 0 {
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
	t := r.tree
	if !r.IsAdmin() && !r.octavia.options.OwnersFailOver {
		return answer{}, forbidden()
	}
	if err := t.allows(StatusActive, StatusError); err != nil {
		return answer{}, err
	}
	t.healing = true
	r.octavia.startWork(t, StatusPendingUpdate)
	return answer{Status: http.StatusAccepted}, nil
}

func getStatus(r *request) (answer, error) {
	return api.OK(object{"statuses": object{"loadbalancer": r.tree.statuses()}}), nil
}
