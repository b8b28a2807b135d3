package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// novaPageSize is Nova's [api] max_limit. Neutron and Octavia have no such limit unless they are
// given one (pagination_max_limit).
const novaPageSize = 1000

// Paginate cuts out of all, which is in the list's order, the page that the query asks for with
// limit, marker (the id of the item before the page) and page_reverse (the page before the marker).
// A page holds at most as many items as the server allows. The links are those for
// <resources>_links; none if there is nothing to link to.
//
// Without a limit, of the query's or the server's, Neutron gives all: no links, and the marker is
// not looked at (neutron/api/api_common.py, get_pagination_links and PaginationNativeHelper).
//
// As with the real services a full page has a link to the next one, also when nothing is left: the
// next page is empty then. Nova's view builder, Neutron's get_pagination_links and Octavia's
// pagination helper all compare the number of items with the limit.
func Paginate[T any](
	r *Request, service string, all []T, id func(T) string,
) (page []T, links []Object, refusal *Answer) {
	limit, refusal := r.Limit(service)
	if refusal != nil {
		return nil, nil, refusal
	}
	if limit == 0 && service == ServiceNetwork {
		return all, nil, nil
	}
	reverse := r.reversed(service)
	page = all
	if marker := r.Query.Get("marker"); marker != "" {
		at := slices.IndexFunc(all, func(item T) bool { return id(item) == marker })
		if at < 0 {
			bad := Failure(service, http.StatusBadRequest, "marker ["+marker+"] not found")
			return nil, nil, &bad
		}
		page = all[at+1:]
		if reverse {
			page = all[:at]
		}
	}
	if limit == 0 {
		return page, nil, nil
	}
	if reverse && service != ServiceLoadBalancer {
		page = page[max(0, len(page)-limit):]
	} else {
		// Octavia begins with the first item, not with the one that is next to the marker, when it
		// goes back, too.
		page = page[:min(limit, len(page))]
	}
	return page, pageLinks(r, service, page, id, limit, reverse), nil
}

// reversed tells whether the request wants the page before the marker. Octavia knows True only.
func (r *Request) reversed(service string) bool {
	asked := r.Query.Get("page_reverse")
	switch service {
	case ServiceNetwork:
		return strings.EqualFold(asked, "true")
	case ServiceLoadBalancer:
		return asked == "True"
	}
	return false
}

func pageLinks[T any](
	r *Request, service string, page []T, id func(T) string, limit int, reverse bool,
) (links []Object) {
	full, query := len(page) == limit, r.URL.Query()
	if len(page) == 0 {
		return emptyPageLinks(r, service, query, reverse)
	}
	if service == ServiceLoadBalancer {
		return octaviaPageLinks(r, id(page[0]), id(page[len(page)-1]), limit, full)
	}
	if full || reverse {
		links = append(links, r.pageLink(query, "next", id(page[len(page)-1]), false))
	}
	if service == ServiceNetwork && (full || !reverse) {
		links = append(links, r.pageLink(query, "previous", id(page[0]), true))
	}
	return links
}

// emptyPageLinks lead from beyond an end to the list's other side: Neutron's do, without a marker.
func emptyPageLinks(r *Request, service string, query url.Values, reverse bool) []Object {
	if service != ServiceNetwork {
		return nil
	}
	if reverse {
		return []Object{r.pageLink(query, "next", "", false)}
	}
	return []Object{r.pageLink(query, "previous", "", true)}
}

// Limit is how many items a page may have; 0: any number.
func (r *Request) Limit(service string) (int, *Answer) {
	limit := 0
	if text := r.Query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			bad := Failure(service, http.StatusBadRequest,
				"Invalid input for field/attribute limit. Value: "+text+".")
			return 0, &bad
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

// pageLink is a link to another page of the same list: a query with another marker.
func (r *Request) pageLink(query url.Values, rel, marker string, reverse bool) Object {
	query.Del("marker")
	if marker != "" {
		query.Set("marker", marker)
	}
	query.Del("page_reverse")
	if reverse {
		query.Set("page_reverse", "True")
	}
	return Object{"rel": rel, "href": r.State.URL + r.URL.Path + "?" + query.Encode()}
}

// octaviaPageSize is how many items a page has at most (octavia/common/constants.py,
// DEFAULT_PAGE_SIZE).
const octaviaPageSize = 1000

// octaviaPageLinks: the links lose the filters and the fields, and have the limit that was used
// (octavia/api/common/pagination.py, _make_links). They are not escaped.
func octaviaPageLinks(r *Request, first, last string, limit int, full bool) (links []Object) {
	query := "limit=" + strconv.Itoa(limit)
	for _, key := range []string{"sort", "sort_key"} {
		if asked := r.Query.Get(key); asked != "" {
			query += "&" + key + "=" + asked
		}
	}
	address := r.State.URL + r.URL.Path + "?" + query + "&marker="
	if r.Query.Has("marker") {
		links = append(links,
			Object{"rel": "previous", "href": address + first + "&page_reverse=True"})
	}
	if full {
		links = append(links, Object{"rel": "next", "href": address + last})
	}
	return links
}
