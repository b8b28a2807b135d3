package desired

import (
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/namepattern"
)

// subnetFilter matches subnets by name and tags; an empty argument matches all.
func subnetFilter(pattern, tags string) (func(neutron.Subnet) bool, error) {
	hasName := func(string) bool { return true }
	if pattern != "" {
		var err error
		if hasName, err = namepattern.Compile(pattern); err != nil {
			return nil, err
		}
	}
	hasTags := func([]string) bool { return true }
	if tags != "" {
		hasTags = tagFilter(tags)
	}
	return func(s neutron.Subnet) bool { return hasName(s.Name) && hasTags(s.Tags) }, nil
}

// tagFilter parses floating-subnet-tags, a list of tags with commas between them. A subnet must
// have one of them or, after "&", all; "!" before both negates. So "!a,b" selects subnets that have
// neither, and "!&a,b" subnets that lack at least one. OCCM documents it so, but confuses the two
// in its queries to Neutron.
func tagFilter(text string) func([]string) bool {
	rest, negated := strings.CutPrefix(text, "!")
	rest, all := strings.CutPrefix(rest, "&")
	var wanted []string
	for tag := range strings.SplitSeq(rest, ",") {
		wanted = append(wanted, strings.TrimSpace(tag))
	}
	return func(tags []string) bool {
		has := func(tag string) bool { return slices.Contains(tags, tag) }
		fits := slices.ContainsFunc(wanted, has)
		if all {
			fits = !slices.ContainsFunc(wanted, func(tag string) bool { return !has(tag) })
		}
		return fits != negated
	}
}
