package resource

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// Select returns the rows that pass the filters of a query: each of them must match one of its
// values.
func (fields Fields[T]) Select(rows []*T, query url.Values, refusals Refusals) ([]*T, error) {
	for _, name := range api.SortedKeys(query) {
		switch name {
		case "fields", "limit", "marker":
			continue
		}
		passes, err := fields.filter(name, query[name], refusals)
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(row *T) bool { return !passes(row) })
	}
	return rows, nil
}

func (fields Fields[T]) filter(
	name string, values []string, refusals Refusals,
) (func(*T) bool, error) {
	if tags := fields.Field("tags"); tags != nil {
		if passes := tagFilter(name, values); passes != nil {
			return func(row *T) bool { return passes(tags.Get(row).([]string)) }, nil
		}
	}
	f := fields.Field(name)
	switch {
	case f == nil, f.Unfiltered:
		return nil, refusals.UnknownFilter(name)
	case f.Filter != nil:
		return f.Filter(values)
	case f.isBool:
		wanted, err := truths(values, refusals)
		return func(row *T) bool { return slices.Contains(wanted, f.Get(row).(bool)) }, err
	}
	return func(row *T) bool { return fits(f.Get(row), values) }, nil
}

func truths(values []string, refusals Refusals) (all []bool, err error) {
	for _, text := range values {
		switch strings.ToLower(text) {
		case "true", "1":
			all = append(all, true)
		case "false", "0":
			all = append(all, false)
		default:
			return nil, refusals.NotBool(text)
		}
	}
	return all, nil
}

func fits(value any, values []string) bool {
	switch value := value.(type) {
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

// tagFilter is a filter of lists by tags; nil for another name. Several values are the same as one
// with commas.
func tagFilter(name string, values []string) func(tags []string) bool {
	wanted := strings.Split(strings.Join(values, ","), ",")
	all := func(tags []string) bool {
		return !slices.ContainsFunc(wanted,
			func(tag string) bool { return !slices.Contains(tags, tag) })
	}
	some := func(tags []string) bool {
		return slices.ContainsFunc(wanted,
			func(tag string) bool { return slices.Contains(tags, tag) })
	}
	switch name {
	case "tags":
		return all
	case "tags-any":
		return some
	case "not-tags":
		return func(tags []string) bool { return !all(tags) }
	case "not-tags-any":
		return func(tags []string) bool { return !some(tags) }
	}
	return nil
}
