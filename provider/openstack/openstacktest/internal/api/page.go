package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// novaPageSize is Nova's [api] max_limit. Neutron and Octavia have no such limit by default
// (pagination_max_limit).
const novaPageSize = 1000

// Paginate returns the page of all, which is sorted, that the query selects with limit and marker
// (the ID of the item before the page). The page size of the cloud also limits the page. The links
// are those for <resources>_links: only to the next page.
//
// Without a limit, of the query or the cloud, Neutron returns all items and ignores the marker
// (neutron/api/api_common.py, PaginationNativeHelper).
//
// As with the real services, each full page has a link to the next one, which may be empty.
func Paginate[T any](
	r *Request, service string, all []T, id func(T) string,
) (page []T, links []Object, err error) {
	limit, err := r.Limit(service)
	if err != nil {
		return nil, nil, err
	}
	marker := r.Query.Get("marker")
	if marker != "" && (limit > 0 || service != ServiceNetwork) {
		at := slices.IndexFunc(all, func(item T) bool { return id(item) == marker })
		if at < 0 {
			return nil, nil, Refuse(http.StatusBadRequest, "marker [%s] not found", marker)
		}
		all = all[at+1:]
	}
	if limit == 0 || len(all) < limit {
		return all, nil, nil
	}
	page = all[:limit]
	query := r.URL.Query()
	if service == ServiceLoadBalancer {
		// Octavia's links omit filters and fields, and have the limit that was used
		// (octavia/api/common/pagination.py, _make_links).
		query = url.Values{"limit": {strconv.Itoa(limit)}}
	}
	query.Set("marker", id(page[limit-1]))
	return page, []Object{{
		"rel": "next", "href": r.State.URL + r.URL.Path + "?" + query.Encode(),
	}}, nil
}

// Limit is the maximum number of items of a page; 0: any number.
func (r *Request) Limit(service string) (int, error) {
	limit := 0
	if text := r.Query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return 0, Refuse(http.StatusBadRequest,
				"Invalid input for field/attribute limit. Value: %s.", text)
		}
	}
	most := r.State.PageSize
	if most <= 0 && service == ServiceLoadBalancer {
		most = octaviaPageSize
	}
	if most < 0 && service == ServiceCompute {
		most = novaPageSize
	}
	if most > 0 && (limit == 0 || limit > most) {
		limit = most
	}
	return limit, nil
}

// octaviaPageSize is the maximum number of items of a page (octavia/common/constants.py,
// DEFAULT_PAGE_SIZE).
const octaviaPageSize = 1000
