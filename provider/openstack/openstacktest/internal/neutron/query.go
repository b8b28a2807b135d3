package neutron

import (
	"cmp"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// choose filters and pages the rows of a list, which are in the order of their IDs.
func (k *kind[T]) choose(r *request, rows []*T) ([]*T, []object, error) {
	rows, err := k.enabled().Select(rows, r.Query, words{})
	if err != nil {
		return nil, nil, err
	}

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
