package octavia

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// listItem is an item of a list: its view, and the IDs that filter it but are not in the view.
type listItem struct {
	shown   object
	parents map[string]string
}

// page answers with the page that the query selects (octavia/api/common/pagination.py).
func (r *request) page(items []listItem) (answer, error) {
	if project := r.Query.Get("project_id"); project != "" {
		if err := admitCaller(r, project); err != nil {
			return answer{}, err
		}
	}
	items, err := filterItems(r, r.kind.filters, items)
	if err != nil {
		return answer{}, err
	}
	page, links, err := api.Paginate(r.Request, api.ServiceLoadBalancer, items,
		func(i listItem) string { return fmt.Sprint(i.shown["id"]) })
	if err != nil {
		return answer{}, err
	}
	shown := []object{}
	for _, item := range page {
		shown = append(shown, selectFields(item.shown, r.Query["fields"]))
	}
	name := r.kind.name + "s"
	return api.OK(object{name: shown, name + "_links": api.NonNil(links)}), nil
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

// filterItems refuses a filter that is not an attribute (InvalidFilterArgument).
func filterItems(r *request, attributes []string, items []listItem) ([]listItem, error) {
	auxiliary := []string{"limit", "marker", "fields"}
	for _, key := range api.SortedKeys(r.Query) {
		if slices.Contains(auxiliary, key) {
			continue
		}
		value := r.Query.Get(key)
		var passes func(listItem) bool
		tags := resource.TagFilter(key, r.Query[key])
		switch {
		case tags != nil:
			passes = func(i listItem) bool {
				shown, _ := i.shown["tags"].([]string)
				return tags(shown)
			}
		case slices.Contains(attributes, key):
			passes = func(i listItem) bool {
				if parent, is := i.parents[key]; is {
					return parent == value
				}
				return sameValue(i.shown[key], value)
			}
		default:
			return nil, api.Refuse(http.StatusBadRequest,
				"One or more arguments are either duplicate or invalid")
		}
		items = slices.DeleteFunc(items, func(i listItem) bool { return !passes(i) })
	}
	return items, nil
}

func sameValue(value any, wanted string) bool {
	if truth, isBool := value.(bool); isBool {
		parsed, err := strconv.ParseBool(strings.ToLower(wanted))
		return err == nil && parsed == truth
	}
	return value != nil && fmt.Sprint(value) == wanted
}

// filterable are the names of the parents, and of the attributes that are neither lists nor
// objects.
func filterable[T any](fields resource.Fields[T], parents ...string) []string {
	names := parents
	for _, f := range fields {
		_, isList := f.Get(new(T)).([]string)
		if !isList && !f.Unfiltered && f.Name != "tenant_id" {
			names = append(names, f.Name)
		}
	}
	return names
}
