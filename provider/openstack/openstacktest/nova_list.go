package openstacktest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

func listServers(r *request) answer { return r.listServers((*instance).brief) }

func listServersInDetail(r *request) answer { return r.listServers((*instance).view) }

func (r *request) listServers(view func(*instance, *request) object) answer {
	wanted, refusal := r.serverFilter()
	if refusal != nil {
		return *refusal
	}
	// The marker is a place in the list, also if it does not pass the filters (any more).
	isMarker := func(i *instance) bool { return i.ID == r.query.Get("marker") && r.sees(i) }
	all := slices.DeleteFunc(r.server.serversByAge(), func(i *instance) bool { return !wanted(i) && !isMarker(i) })
	// Nova's default order: created_at and id, both descending.
	slices.Reverse(all)
	page, links, refusal := paginate(r, ServiceCompute, all, func(i *instance) string { return i.ID })
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
	return ok(body)
}

// serverFilter is what the query selects. Since microversion 2.75 an unknown parameter is refused; before, it is ignored.
func (r *request) serverFilter() (func(*instance) bool, *answer) {
	if r.version.atLeast(75) {
		for name := range r.query {
			if !slices.Contains(serverParameters(), name) {
				return nil, refuse(http.StatusBadRequest, "Additional properties are not allowed ('"+name+"' was unexpected)")
			}
		}
	}
	inProject, refusal := r.projectFilter()
	if refusal != nil {
		return nil, refusal
	}
	filters := []func(*instance) bool{inProject, r.statusFilter(), r.changesFilter(), r.tagFilter()}
	for name, values := range r.valueFilters() {
		if given := r.query[name]; len(given) > 0 {
			filters = append(filters, func(i *instance) bool {
				return slices.ContainsFunc(values(i), func(v string) bool { return v == given[0] })
			})
		}
	}
	for name, values := range r.patternFilters() {
		if !r.query.Has(name) {
			continue
		}
		// Nova hands the pattern to MySQL, whose usual collation is blind to case. It may match anywhere in the value.
		pattern, err := regexp.Compile("(?i)" + r.query.Get(name))
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "Invalid input for query parameters "+name+". Value: "+
				r.query.Get(name)+". '"+r.query.Get(name)+"' is not a 'regex'")
		}
		filters = append(filters, func(i *instance) bool { return slices.ContainsFunc(values(i), pattern.MatchString) })
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

func refuse(status int, message string) *answer {
	refusal := failure(ServiceCompute, status, message)
	return &refusal
}

// serverParameters are those that have a meaning here, and those of Nova's that have none.
func serverParameters() []string {
	return []string{
		"all_tenants", "availability_zone", "changes-before", "changes-since", "deleted", "flavor", "host", "image", "ip", "ip6",
		"limit", "locked", "marker", "name", "not-tags", "not-tags-any", "power_state", "project_id", "sort_dir", "sort_key",
		"status", "tags", "tags-any", "task_state", "tenant_id", "user_id", "uuid", "vm_state",
	}
}

// projectFilter shows a caller its project; an administrator all of them if it asks for all.
func (r *request) projectFilter() (func(*instance) bool, *answer) {
	own := func(i *instance) bool { return i.ProjectID == r.projectID() }
	all := r.query.Get("all_tenants")
	if !r.query.Has("all_tenants") || all == "0" || strings.EqualFold(all, "false") {
		return own, nil
	}
	if !r.isAdmin() {
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed.")
	}
	for _, name := range []string{"project_id", "tenant_id"} {
		if wanted := r.query.Get(name); wanted != "" {
			return func(i *instance) bool { return i.ProjectID == wanted }, nil
		}
	}
	return func(*instance) bool { return true }, nil
}

// statusFilter takes several statuses, in any case.
func (r *request) statusFilter() func(*instance) bool {
	wanted := r.query["status"]
	return func(i *instance) bool {
		return len(wanted) == 0 || slices.ContainsFunc(wanted, func(s string) bool { return strings.EqualFold(s, i.Status) })
	}
}

// changesFilter ignores what is not a time.
func (r *request) changesFilter() func(*instance) bool {
	since, err := time.Parse(time.RFC3339, r.query.Get("changes-since"))
	before, err2 := time.Parse(time.RFC3339, r.query.Get("changes-before"))
	return func(i *instance) bool {
		return (err != nil || !i.Updated.Before(since)) && (err2 != nil || !i.Updated.After(before))
	}
}

// tagFilter is there since microversion 2.26; before, the parameters are ignored.
func (r *request) tagFilter() func(*instance) bool {
	if !r.version.atLeast(26) {
		return func(*instance) bool { return true }
	}
	// fits tells whether the server has all of the tags, or any of them.
	fits := func(parameter string, i *instance) (all, any bool) {
		all = true
		for tag := range strings.SplitSeq(r.query.Get(parameter), ",") {
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
			if r.query.Has(parameter) && !passes(fits(parameter, i)) {
				return false
			}
		}
		return true
	}
}

func (r *request) valueFilters() map[string]func(*instance) []string {
	return map[string]func(*instance) []string{
		"uuid":              func(i *instance) []string { return []string{i.ID} },
		"flavor":            func(i *instance) []string { return []string{i.flavor.ID} },
		"availability_zone": func(i *instance) []string { return []string{i.AvailabilityZone} },
		"vm_state":          func(i *instance) []string { return []string{stateOf(i.Status).vm} },
	}
}

func (r *request) patternFilters() map[string]func(*instance) []string {
	return map[string]func(*instance) []string{
		"name": func(i *instance) []string { return []string{i.Name} },
		"ip":   func(i *instance) []string { return r.server.fixedAddresses(i, 4) },
		"ip6":  func(i *instance) []string { return r.server.fixedAddresses(i, 6) },
	}
}

func (s *Server) fixedAddresses(i *instance, version int) (texts []string) {
	for _, a := range slices.Concat(s.portAddresses(i.ID), i.Addresses) {
		if !a.Floating && a.version() == version {
			texts = append(texts, a.Address)
		}
	}
	return texts
}
