package nova

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func listServers(r *request) answer { return r.listServers((*instance).brief) }

func listServersInDetail(r *request) answer { return r.listServers((*instance).view) }

func (r *request) listServers(view func(*instance, *request) object) answer {
	r.takeLast()
	if refusal := r.checkServerQuery(); refusal != nil {
		return *refusal
	}
	wanted, refusal := r.serverFilter()
	if refusal != nil {
		return *refusal
	}
	if limit := r.Query.Get("limit"); limit != "" && strings.Trim(limit, "0") == "" {
		return api.OK(object{"servers": []object{}})
	}
	// The marker is a place in the list, also if it does not pass the filters (any more), and even
	// if it was deleted meanwhile.
	isMarker := func(i *instance) bool { return i.ID == r.Query.Get("marker") && r.sees(i) }
	all := slices.DeleteFunc(r.nova.allServersByAge(),
		func(i *instance) bool { return !wanted(i) && !isMarker(i) })
	// Nova's default order: created_at and id, both descending.
	slices.Reverse(all)
	page, links, refusal := api.Paginate(r.Request, api.ServiceCompute, all,
		func(i *instance) string { return i.ID })
	if refusal != nil {
		return *refusal
	}
	views := make([]object, 0, len(page))
	for _, i := range page {
		views = append(views, view(i, r))
	}
	body := object{"servers": views}
	if len(links) > 0 {
		body["servers_links"] = links
	}
	return api.OK(body)
}

// takeLast: of a parameter that is given several times Nova takes the last, but for the few that
// may have several values.
func (r *request) takeLast() {
	for name, values := range r.Query {
		if !slices.Contains([]string{"status", "sort_key", "sort_dir"}, name) {
			r.Query[name] = values[len(values)-1:]
		}
	}
}

// allServersByAge includes the deleted ones.
func (s *Service) allServersByAge() []*instance {
	all := slices.Concat(s.deleted, s.serversByAge())
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(a.number, b.number) })
	return all
}

// serverFilter is what the query selects.
func (r *request) serverFilter() (func(*instance) bool, *answer) {
	inProject, refusal := r.projectFilter()
	if refusal != nil {
		return nil, refusal
	}
	filters := []func(*instance) bool{
		inProject, r.statusFilter(), r.deletedFilter(),
		r.changesFilter(), r.tagFilter(),
	}
	for name, values := range r.valueFilters() {
		if given, has := r.Query[name]; has && r.mayFilterBy(name) {
			filters = append(filters,
				func(i *instance) bool { return slices.Contains(values(i), given[0]) })
		}
	}
	if r.Query.Has("name") {
		pattern, err := compilePattern(r.Query.Get("name"))
		if err != nil {
			return nil, r.noPattern("name")
		}
		filters = append(filters, func(i *instance) bool { return pattern.MatchString(i.Name) })
	}
	for name, version := range map[string]int{"ip": 4, "ip6": 6} {
		if r.Query.Has(name) && r.mayFilterBy(name) {
			filters = append(filters, r.addressFilter(r.Query.Get(name), version))
		}
	}
	return func(i *instance) bool {
		for _, passes := range filters {
			if !passes(i) {
				return false
			}
		}
		return true
	}, nil
}

// projectFilter shows a caller its project; an administrator all of them if it asks for all.
func (r *request) projectFilter() (func(*instance) bool, *answer) {
	own := func(i *instance) bool { return i.ProjectID == r.ProjectID() }
	all := r.Query.Get("all_tenants")
	if !r.Query.Has("all_tenants") || all == "0" || strings.EqualFold(all, "false") {
		return own, nil
	}
	if refusal := r.byComputeAdmin("servers:detail:get_all_tenants"); refusal != nil {
		return nil, refusal
	}
	for _, name := range []string{"project_id", "tenant_id"} {
		if wanted := r.Query.Get(name); wanted != "" {
			return func(i *instance) bool { return i.ProjectID == wanted }, nil
		}
	}
	return func(*instance) bool { return true }, nil
}

// statusFilter takes several statuses, in any case.
func (r *request) statusFilter() func(*instance) bool {
	wanted := r.Query["status"]
	return func(i *instance) bool {
		return len(wanted) == 0 ||
			slices.ContainsFunc(wanted,
				func(s string) bool { return strings.EqualFold(s, i.Status) })
	}
}

// deletedFilter leaves out what is deleted, unless the query is for changes, or an administrator
// asks for it.
func (r *request) deletedFilter() func(*instance) bool {
	deleted := r.Query.Get("deleted")
	only := r.IsAdmin() && (deleted == "1" || strings.EqualFold(deleted, "true"))
	too := r.Query.Has("changes-since") || r.Query.Has("changes-before") &&
		r.mayFilterBy("changes-before") || r.asksForDeleted()
	return func(i *instance) bool {
		gone := r.nova.servers[i.ID] == nil
		return gone && (only || too) || !gone && !only
	}
}

func (r *request) asksForDeleted() bool {
	return slices.ContainsFunc(r.Query["status"],
		func(s string) bool { return strings.EqualFold(s, "DELETED") })
}

// changesFilter: the times were checked before.
func (r *request) changesFilter() func(*instance) bool {
	since, err := time.Parse(time.RFC3339, r.Query.Get("changes-since"))
	before, err2 := time.Parse(time.RFC3339, r.Query.Get("changes-before"))
	upTo := err2 == nil && r.mayFilterBy("changes-before")
	return func(i *instance) bool {
		// Nova's database knows whole seconds.
		updated := i.Updated.Truncate(time.Second)
		return (err != nil || !updated.Before(since)) && (!upTo || !updated.After(before))
	}
}

// tagFilter is there since microversion 2.26; before, the parameters are ignored.
func (r *request) tagFilter() func(*instance) bool {
	if !r.Version.AtLeast(26) {
		return func(*instance) bool { return true }
	}
	// fits tells whether the server has all of the tags, or any of them.
	fits := func(parameter string, i *instance) (all, any bool) {
		all = true
		for tag := range strings.SplitSeq(r.Query.Get(parameter), ",") {
			has := slices.Contains(i.Tags, tag)
			all, any = all && has, any || has
		}
		return all, any
	}
	return func(i *instance) bool {
		for parameter, passes := range map[string]func(all, any bool) bool{
			"tags":         func(all, _ bool) bool { return all },
			"tags-any":     func(_, any bool) bool { return any },
			"not-tags":     func(all, _ bool) bool { return !all },
			"not-tags-any": func(_, any bool) bool { return !any },
		} {
			if r.Query.Has(parameter) && !passes(fits(parameter, i)) {
				return false
			}
		}
		return true
	}
}

// mayFilterBy tells whether the caller's filter counts: an administrator's does, others' only if it
// is one of a few, which have become more with the microversions. All else is ignored, not refused
// (nova/api/openstack/compute/servers.py, _get_server_search_options).
func (r *request) mayFilterBy(name string) bool {
	if r.IsAdmin() {
		return true
	}
	since, known := map[string]int{
		"name": 1, "status": 1, "image": 1, "flavor": 1, "ip": 1, "changes-since": 1, "ip6": 5,
		"changes-before": 66, "locked": 73,
		"availability_zone": 83, "power_state": 83, "task_state": 83, "vm_state": 83, "user_id": 83,
		"hostname": 90,
	}[name]
	return known && r.Version.AtLeast(since)
}

func (r *request) valueFilters() map[string]func(*instance) []string {
	return map[string]func(*instance) []string{
		"uuid":              func(i *instance) []string { return []string{i.ID} },
		"flavor":            func(i *instance) []string { return []string{i.flavor.ID} },
		"availability_zone": func(i *instance) []string { return []string{i.AvailabilityZone} },
		"vm_state":          func(i *instance) []string { return []string{i.state().vm} },
		"locked": func(i *instance) []string {
			if i.Locked {
				return []string{"true", "True", "1"}
			}
			return []string{"false", "False", "0"}
		},
	}
}

// addressFilter: Nova hands it to Neutron, which looks for the text anywhere in the addresses
// (extension ip-substring-filtering).
func (r *request) addressFilter(text string, version int) func(*instance) bool {
	return func(i *instance) bool {
		return slices.ContainsFunc(r.nova.fixedAddresses(i, version),
			func(a string) bool { return strings.Contains(a, text) })
	}
}

func (s *Service) fixedAddresses(i *instance, version int) (texts []string) {
	for _, a := range slices.Concat(s.portAddresses(i), i.Addresses) {
		if !a.Floating && a.version() == version {
			texts = append(texts, a.Address)
		}
	}
	return texts
}

func refuse(status int, message string) *answer {
	refusal := api.Failure(api.ServiceCompute, status, message)
	return &refusal
}
