package openstacktest

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// paginate cuts out of all, which is in the list's order, the page that the query asks for with limit, marker (the id of the
// item before the page) and page_reverse (the page before the marker). A page holds at most as many items as the server
// allows. The links are those for <resources>_links; none if there is nothing to link to.
//
// As with the real services a full page has a link to the next one, also when nothing is left: the next page is empty then.
// Nova's view builder, Neutron's get_pagination_links and Octavia's pagination helper all compare the number of items
// with the limit.
func paginate[T any](r *request, service string, all []T, id func(T) string) (page []T, links []object, refusal *answer) {
	limit, refusal := r.limit(service)
	if refusal != nil {
		return nil, nil, refusal
	}
	reverse := (service == ServiceNetwork || service == ServiceLoadBalancer) && strings.EqualFold(r.query.Get("page_reverse"), "true")
	page = all
	if marker := r.query.Get("marker"); marker != "" {
		at := slices.IndexFunc(all, func(item T) bool { return id(item) == marker })
		if at < 0 {
			bad := failure(service, http.StatusBadRequest, "marker ["+marker+"] not found")
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
	if reverse {
		page = page[max(0, len(page)-limit):]
	} else {
		page = page[:min(limit, len(page))]
	}
	return page, pageLinks(r, service, page, id, limit, reverse), nil
}

func pageLinks[T any](r *request, service string, page []T, id func(T) string, limit int, reverse bool) (links []object) {
	if len(page) == 0 {
		return nil
	}
	full, query := len(page) == limit, r.URL.Query()
	if service == ServiceLoadBalancer {
		query = octaviaLinkQuery(query, limit)
	}
	if full || reverse {
		links = append(links, r.pageLink(query, "next", id(page[len(page)-1]), false))
	}
	switch {
	case service == ServiceNetwork && (full || !reverse), service == ServiceLoadBalancer && r.query.Has("marker"):
		links = append(links, r.pageLink(query, "previous", id(page[0]), true))
	}
	return links
}

// limit is how many items a page may have; 0: any number.
func (r *request) limit(service string) (int, *answer) {
	limit := 0
	if text := r.query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			bad := failure(service, http.StatusBadRequest, "Invalid input for field/attribute limit. Value: "+text+".")
			return 0, &bad
		}
	}
	if most := r.server.pageSize; most > 0 && (limit == 0 || limit > most) {
		limit = most
	}
	return limit, nil
}

// octaviaLinkQuery: Octavia's links lose the filters, and have the limit that was used (octavia/api/common/pagination.py, _make_links).
func octaviaLinkQuery(asked url.Values, limit int) url.Values {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for _, key := range []string{"sort", "sort_key"} {
		if asked.Has(key) {
			query.Set(key, asked.Get(key))
		}
	}
	return query
}

// pageLink is a link to another page of the same list: a query with another marker.
func (r *request) pageLink(query url.Values, rel, marker string, reverse bool) object {
	query.Set("marker", marker)
	query.Del("page_reverse")
	if reverse {
		query.Set("page_reverse", "True")
	}
	return object{"rel": rel, "href": r.server.URL() + r.URL.Path + "?" + query.Encode()}
}
