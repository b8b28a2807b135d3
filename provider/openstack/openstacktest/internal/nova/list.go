package nova

import (
	"cmp"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listServers(r *request) (answer, error) { return r.listServers((*instance).brief) }

func listServersInDetail(r *request) (answer, error) { return r.listServers((*instance).view) }

func (r *request) listServers(view func(*instance, *request) object) (answer, error) {
	// Nova uses the last value of a repeated parameter, except for statuses.
	for name, values := range r.Query {
		if name != "status" {
			r.Query[name] = values[len(values)-1:]
		}
	}
	wanted, err := r.serverFilter()
	if err != nil {
		return answer{}, err
	}
	if limit := r.Query.Get("limit"); limit != "" && strings.Trim(limit, "0") == "" {
		return api.OK(object{"servers": []object{}}), nil
	}
	// The marker is a position in the list, even if it does not pass the filters or was deleted.
	isMarker := func(i *instance) bool { return i.ID == r.Query.Get("marker") && r.sees(i) }
	all := slices.Concat(r.nova.deleted, slices.Collect(maps.Values(r.nova.servers)))
	all = slices.DeleteFunc(all, func(i *instance) bool { return !wanted(i) && !isMarker(i) })
	// Nova's default order: created_at and id, both descending.
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(b.number, a.number) })
	page, links, err := api.Paginate(r.Request, api.ServiceCompute, all,
		func(i *instance) string { return i.ID })
	if err != nil {
		return answer{}, err
	}
	views := make([]object, 0, len(page))
	for _, i := range page {
		views = append(views, view(i, r))
	}
	body := object{"servers": views}
	if len(links) > 0 {
		body["servers_links"] = links
	}
	return api.OK(body), nil
}

// serverFilter supports the filters all_tenants, name, status and uuid. Others are ignored, but
// since microversion 2.75 unknown ones are refused.
func (r *request) serverFilter() (func(*instance) bool, error) {
	for name := range r.Query {
		if r.Version.AtLeast(75) && !slices.Contains(serverParameters(), name) {
			return nil, refuse(http.StatusBadRequest,
				"'"+name+"' does not match any of the regexes: '^_'")
		}
	}
	all := r.Query.Get("all_tenants")
	everyProject := all != "" && all != "0" && !strings.EqualFold(all, "false")
	if everyProject {
		if err := r.byComputeAdmin("servers:detail:get_all_tenants"); err != nil {
			return nil, err
		}
	}
	// Nova passes the pattern to MySQL, whose usual collation ignores case. It matches anywhere.
	name := r.Query.Get("name")
	pattern, err := regexp.Compile("(?i)" + name)
	if err != nil || r.Query.Has("name") && name == "" {
		return nil, refuse(http.StatusBadRequest,
			"Invalid input for query parameters name. Value: "+name+". '"+name+"' is not a 'regex'")
	}
	statuses, id := r.Query["status"], r.Query.Get("uuid")
	project := cmp.Or(r.Query.Get("project_id"), r.Query.Get("tenant_id"))
	return func(i *instance) bool {
		return r.nova.servers[i.ID] != nil && (i.ProjectID == r.ProjectID() && !everyProject ||
			everyProject && (project == "" || i.ProjectID == project)) &&
			pattern.MatchString(i.Name) && (id == "" || !r.IsAdmin() || i.ID == id) &&
			(len(statuses) == 0 || slices.ContainsFunc(statuses,
				func(status string) bool { return strings.EqualFold(status, i.Status) }))
	}, nil
}

// serverParameters are the parameters of a server list that clients use
// (nova/api/openstack/compute/schemas/servers.py).
func serverParameters() []string {
	return []string{
		"all_tenants", "availability_zone", "changes-before", "changes-since", "deleted", "flavor",
		"host", "hostname", "image", "ip", "ip6", "limit", "locked", "marker", "name", "not-tags",
		"not-tags-any", "power_state", "project_id", "sort_dir", "sort_key", "status", "tags",
		"tags-any", "task_state", "tenant_id", "user_id", "uuid", "vm_state",
	}
}

func refuse(status int, message string) error { return api.Refuse(status, "%s", message) }
