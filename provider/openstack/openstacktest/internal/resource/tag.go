package resource

import (
	"slices"
	"strings"
)

// TagFilter is a filter of lists by tags; nil for another name. Several values are the same as one
// with commas.
func TagFilter(name string, values []string) func(tags []string) bool {
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
