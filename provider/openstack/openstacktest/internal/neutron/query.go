package neutron

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// filterer is the value of an attribute with its own filter.
type filterer interface {
	// passes reports whether one of the values given for the filter matches.
	passes(values []string) bool
}

// filterChecker refuses invalid values of a filter.
type filterChecker interface{ check(values []string) error }

// choose filters and pages the rows of a list, which are in the order of their IDs.
func (k *kind[T]) choose(r *request, rows []*T) ([]*T, []object, error) {
	passes, err := k.filter(r.Query)
	if err != nil {
		return nil, nil, err
	}
	rows = slices.DeleteFunc(rows, func(row *T) bool { return !passes(row) })

	// The marker is a position in the sorted list, even if it does not pass the filters (any more).
	// A deleted marker is not found. Without a limit, the marker is ignored.
	limit, _ := r.Limit(api.ServiceNetwork)
	if id := r.Query.Get("marker"); id != "" && limit > 0 {
		marker, err := k.findFor(callerOf(r), id)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(rows, marker) {
			at, _ := slices.BinarySearchFunc(rows, id,
				func(row *T, id string) int { return cmp.Compare(k.id(row), id) })
			rows = slices.Insert(rows, at, marker)
		}
	}
	page, links, err := api.Paginate(r, api.ServiceNetwork, rows, k.id)
	if err != nil {
		err = neutronBadRequest("BadRequest",
			"Bad limit request: Limit must be an integer 0 or greater and not '%s'.",
			r.Query.Get("limit"))
	}
	return page, links, err
}

// filter is the filter of the query: each of its filters must match at least one of its values.
func (k *kind[T]) filter(query url.Values) (passes func(*T) bool, err error) {
	var tests []func(*T) bool
	for _, name := range api.SortedKeys(query) {
		values := query[name]
		switch name {
		case "fields", "limit", "marker":
			continue
		}
		test, err := k.filterBy(name, values)
		if err != nil {
			return nil, err
		}
		tests = append(tests, test)
	}
	return func(row *T) bool {
		for _, test := range tests {
			if !test(row) {
				return false
			}
		}
		return true
	}, nil
}

func (k *kind[T]) filterBy(name string, values []string) (func(*T) bool, error) {
	hasTags := k.standard(new(T)).tags != nil && k.network.has("standard-attr-tag")
	if test := resource.TagFilter(name, values); test != nil && hasTags {
		return func(row *T) bool { return test(*k.standard(row).tags) }, nil
	}
	for _, f := range k.enabled() {
		if f.Name != name || f.Unfiltered {
			continue
		}
		shown := f.Get(new(T))
		if _, isBool := shown.(bool); isBool {
			return filterByBool(f, values)
		}
		if checked, checks := shown.(filterChecker); checks {
			if err := checked.check(values); err != nil {
				return nil, err
			}
		}
		return func(row *T) bool { return fits(f.Get(row), values) }, nil
	}
	return nil,
		neutronBadRequest("HTTPBadRequest", "['%s'] is invalid attribute for filtering", name)
}

func fits(value any, values []string) bool {
	switch value := value.(type) {
	case filterer:
		return value.passes(values)
	case []string:
		return slices.ContainsFunc(value,
			func(one string) bool { return slices.Contains(values, one) })
	case nil:
		return slices.Contains(values, "")
	case string:
		return slices.Contains(values, value)
	}
	text, err := json.Marshal(value)
	return err == nil && slices.Contains(values, string(text))
}

func filterByBool[T any](f resource.Field[T], values []string) (func(*T) bool, error) {
	wanted := map[bool]bool{}
	for _, text := range values {
		switch strings.ToLower(text) {
		case "true", "1":
			wanted[true] = true
		case "false", "0":
			wanted[false] = true
		default:
			return nil,
				neutronBadRequest("InvalidInput",
					"Invalid input for operation: '%s' cannot be converted to boolean.", text)
		}
	}
	return func(row *T) bool { return wanted[f.Get(row).(bool)] }, nil
}
