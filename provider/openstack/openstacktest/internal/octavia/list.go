package octavia

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// listItem is what a list may hold: how it is shown, and by what else it is found.
type listItem struct {
	shown  object
	parent map[string]string
}

func (i listItem) id() string { return fmt.Sprint(i.shown["id"]) }

// list answers with the page that the query asks for (octavia/api/common/pagination.py).
// attributes are those that can be filtered and sorted by; parents are filters beside them.
func list(
	r *request, name string, attributes object, items []listItem, parents ...string,
) (answer, error) {
	project := r.Query.Get("project_id")
	if project != "" && admitCaller(r, project) != nil {
		return answer{}, forbidden()
	}
	items, err := filterItems(r, attributes, items, parents)
	if err != nil {
		return answer{}, err
	}
	if err := sortItems(r, attributes, items); err != nil {
		return answer{}, err
	}
	if err := admitPaging(r, items); err != nil {
		return answer{}, err
	}
	page, links, refusal := api.Paginate(r.Request, api.ServiceLoadBalancer, items, listItem.id)
	if refusal != nil {
		return *refusal, nil
	}
	shown := []object{}
	for _, item := range page {
		shown = append(shown, selectFields(item.shown, r.Query["fields"]))
	}
	if links == nil {
		links = []object{}
	}
	return api.OK(object{name: shown, name + "_links": links}), nil
}

// admitPaging checks limit and marker.
func admitPaging(r *request, items []listItem) error {
	if limit := r.Query.Get("limit"); limit != "" {
		number, err := strconv.Atoi(limit)
		if err != nil {
			return refuseEarly(http.StatusBadRequest,
				"Supplied pagination limit '%s' is not valid.", limit)
		}
		if number < 1 {
			// It is to mean no limit, and then breaks where the links are made.
			return refuse(http.StatusInternalServerError,
				"'>=' not supported between instances of 'int' and 'NoneType'")
		}
	}
	marker := r.Query.Get("marker")
	if marker != "" &&
		!slices.ContainsFunc(items, func(i listItem) bool { return i.id() == marker }) {
		return refuse(http.StatusBadRequest,
			"Supplied pagination marker '%s' is not valid.", marker)
	}
	return nil
}

func selectFields(shown object, fields []string) object {
	if len(fields) == 0 {
		return shown
	}
	selected := object{}
	for _, field := range fields {
		if value, has := shown[field]; has {
			selected[field] = value
		}
	}
	return selected
}

// filterItems refuses a filter that is no attribute, and so does Octavia (InvalidFilterArgument).
func filterItems(
	r *request, attributes object, items []listItem, parents []string,
) ([]listItem, error) {
	auxiliary := []string{
		"limit", "marker", "sort", "sort_key", "sort_dir", "fields",
		"page_reverse",
	}
	for _, key := range api.SortedKeys(r.Query) {
		if slices.Contains(auxiliary, key) {
			continue
		}
		var passes func(listItem) bool
		values := r.Query[key]
		_, isAttribute := attributes[key]
		switch {
		case strings.HasSuffix(key, "tags") || strings.HasSuffix(key, "tags-any"):
			passes = tagFilter(key, values)
		case slices.Contains(parents, key):
			passes = func(i listItem) bool { return i.parent[key] == values[0] }
		case isAttribute && len(values) > 1:
			// A list reaches the database as it is.
			return nil,
				refuse(http.StatusInternalServerError,
					"Illegal parameter data types varchar and row for operation '='")
		case isAttribute && key != "tenant_id":
			passes = func(i listItem) bool { return sameValue(i.shown[key], values[0]) }
		}
		if passes == nil {
			return nil,
				refuse(http.StatusBadRequest,
					"One or more arguments are either duplicate or invalid")
		}
		items = slices.DeleteFunc(items, func(i listItem) bool { return !passes(i) })
	}
	return items, nil
}

// tagFilter is nil for an unknown key. The values may be lists with commas.
func tagFilter(key string, values []string) func(listItem) bool {
	wanted := strings.Split(strings.Join(values, ","), ",")
	count := func(i listItem) (has int) {
		tags, _ := i.shown["tags"].([]string)
		for _, tag := range wanted {
			if slices.Contains(tags, tag) {
				has++
			}
		}
		return has
	}
	switch key {
	case "tags":
		return func(i listItem) bool { return count(i) == len(wanted) }
	case "tags-any":
		return func(i listItem) bool { return count(i) > 0 }
	case "not-tags":
		return func(i listItem) bool { return count(i) < len(wanted) }
	case "not-tags-any":
		return func(i listItem) bool { return count(i) == 0 }
	}
	return nil
}

func sameValue(value any, wanted string) bool {
	if truth, isBool := value.(bool); isBool {
		parsed, err := strconv.ParseBool(strings.ToLower(wanted))
		return err == nil && parsed == truth
	}
	return value != nil && fmt.Sprint(value) == wanted
}

// sortItems sorts by sort=key:dir,... or by sort_key and sort_dir. The order in which the resources
// were made comes last, as the real service's created_at.
func sortItems(r *request, attributes object, items []listItem) error {
	keys, err := sortKeys(r, attributes)
	if err != nil {
		return err
	}
	slices.SortStableFunc(items, func(a, b listItem) int {
		for _, k := range keys {
			if order := compareShown(a.shown[k.name], b.shown[k.name]); order != 0 {
				return order * k.sign
			}
		}
		return 0
	})
	return nil
}

type sortKey struct {
	name string
	sign int
}

func sortKeys(r *request, attributes object) ([]sortKey, error) {
	var pairs [][2]string
	for _, pair := range splitList(r.Query.Get("sort")) {
		name, direction, _ := strings.Cut(pair, ":")
		pairs = append(pairs, [2]string{name, direction})
	}
	if len(pairs) == 0 {
		directions := splitList(r.Query.Get("sort_dir"))
		for i, name := range splitList(r.Query.Get("sort_key")) {
			direction := ""
			if i < len(directions) {
				direction = directions[i]
			}
			pairs = append(pairs, [2]string{name, direction})
		}
	}
	var keys []sortKey
	for _, pair := range pairs {
		if _, known := attributes[pair[0]]; !known {
			return nil,
				refuse(http.StatusBadRequest, "Supplied sort key '%s' is not valid.",
					pair[0])
		}
		sign, known := map[string]int{"": 1, "asc": 1, "desc": -1}[strings.ToLower(pair[1])]
		if !known {
			return nil,
				refuseEarly(http.StatusBadRequest, "Supplied sort direction '%s' is not valid.",
					pair[1])
		}
		keys = append(keys, sortKey{pair[0], sign})
	}
	return keys, nil
}

func splitList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func compareShown(a, b any) int {
	x, isInt := a.(int)
	y, bothInts := b.(int)
	if isInt && bothInts {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// filterable are the attributes of a resource that are no lists or objects.
func filterable[T any](fields octaviaType[T], minor int) object {
	attributes := fields.show(new(T), minor)
	for name, value := range attributes {
		switch value.(type) {
		case []string, []object, object:
			delete(attributes, name)
		}
	}
	return attributes
}
