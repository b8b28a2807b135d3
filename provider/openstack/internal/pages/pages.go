// Package pages reads paginated lists of OpenStack services to their end.
package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/internal/pagedlist"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// ErrNoAnswer is a response that the service did not send, whatever its status. Treating it as an
// empty list would mean "no such objects exist".
const ErrNoAnswer = failure.BodyError("")

// OctaviaLimit is the parameter "limit" of Octavia's lists: the most items that Octavia returns at
// once, unless its operator has configured another limit (pagination_max_limit). If neither the
// request nor the configuration has one, a list would end with the link limit=None, which Octavia
// itself refuses (octavia/api/common/pagination.py).
const OctaviaLimit = "1000"

// Reader requests one page and returns the members of its body.
type Reader func(ctx context.Context, query url.Values) (map[string]json.RawMessage, error)

// From reads the list at a path of a service. gophercloud's own pagers are no alternative, because
// they send the token to the host of a link.
func From(client func(context.Context) (*gophercloud.ServiceClient, error), path ...string) Reader {
	return func(
		ctx context.Context, query url.Values,
	) (body map[string]json.RawMessage, err error) {
		service, err := client(ctx)
		if err != nil {
			return nil, err
		}
		address := service.ServiceURL(path...)
		if len(query) > 0 {
			address += "?" + query.Encode()
		}
		_, err = service.Get(ctx, address, &body,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
		return body, err
	}
}

// All reads all pages of a list and returns each item once, in order. name is the member of the
// body with the items; id returns the ID of an item.
//
// Only the marker of a link to the next page is used. The links of some services lack the filters,
// so they lead to the items of all projects. Their host is what the service believes to be its own,
// which may be wrong behind a proxy, and must not get the token. A list that cannot be read to its
// end is an error.
func All[T any](ctx context.Context, name string, query url.Values, id func(*T) string,
	read Reader,
) ([]T, error) {
	ctx = pagedlist.Begin(ctx)
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	var all []T
	known := map[string]bool{}
	for {
		body, err := read(ctx, query)
		if err != nil {
			return nil, err
		}
		items, err := itemsOf(body[name], id)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for i := range items {
			if key := id(&items[i]); !known[key] {
				known[key] = true
				all = append(all, items[i])
			}
		}
		marker, err := nextMarker(body[name+"_links"])
		switch {
		case err != nil:
			return nil, err
		case marker == "":
			return all, nil
		case len(all) == before:
			return nil, fmt.Errorf("%w: a page repeats the previous one", ErrNoAnswer)
		}
		query.Set("marker", marker)
	}
}

// AllBy is All for the objects whose attribute has one of the values: Neutron treats a repeated
// filter as "or". Each request has as many values as its URL allows. Without values, AllBy sends no
// request.
func AllBy[T any](ctx context.Context, name, attribute string, values []string, query url.Values,
	id func(*T) string, read Reader,
) ([]T, error) {
	ctx = pagedlist.Begin(ctx)
	var all []T
	for _, some := range chunks(attribute, values) {
		asked := url.Values{attribute: some}
		maps.Copy(asked, query)
		found, err := All(ctx, name, asked, id, read)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// queryLimit keeps a query below 2,000 bytes: the usual limits of servers and proxies start at
// 4,000.
const queryLimit = 1800

// chunks splits the values into queries of at most queryLimit bytes, or of a single value.
func chunks(attribute string, values []string) [][]string {
	var parts [][]string
	length := 0
	for _, value := range values {
		adds := len(attribute) + len(url.QueryEscape(value)) + len("=&")
		if len(parts) == 0 || length+adds > queryLimit {
			parts = append(parts, nil)
			length = 0
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], value)
		length += adds
	}
	return parts
}

func itemsOf[T any](raw json.RawMessage, id func(*T) string) ([]T, error) {
	if raw == nil {
		return nil, fmt.Errorf("%w: the list is missing", ErrNoAnswer)
	}
	var items []T
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	// null is not an empty list.
	if items == nil {
		return nil, ErrNoAnswer
	}
	for i := range items {
		if id(&items[i]) == "" {
			return nil, fmt.Errorf("%w: an item has no id", ErrNoAnswer)
		}
	}
	return items, nil
}

// nextMarker is "" on the last page. A service without pagination sends no links.
func nextMarker(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", nil
	}
	var links []struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	if err := json.Unmarshal(raw, &links); err != nil {
		return "", fmt.Errorf("%w: links: %w", ErrNoAnswer, err)
	}
	for _, link := range links {
		if link.Rel != "next" {
			continue
		}
		to, err := url.Parse(link.Href)
		if err != nil {
			return "", fmt.Errorf("%w: link to the next page: %w", ErrNoAnswer, err)
		}
		marker := to.Query().Get("marker")
		if marker == "" {
			return "", fmt.Errorf("%w: the link to the next page has no marker", ErrNoAnswer)
		}
		return marker, nil
	}
	return "", nil
}
