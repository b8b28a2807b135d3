// Package pages reads lists that OpenStack's services cut into pages, to their end.
package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
)

// ErrNoAnswer is of an answer that is not the service's, whatever its status. An empty one would be taken for "there are none".
var ErrNoAnswer = errors.New("the answer is not a list of the service's")

// A Reader makes the request for one page, and returns the members of the answer's body.
type Reader func(ctx context.Context, query url.Values) (map[string]json.RawMessage, error)

// All reads all pages of a list, and returns each item once, in the order of the pages. name is the member of the body that holds the
// items, id returns an item's, which none lacks.
//
// Of a link to the next page only the marker is followed. The links of some services have none of the filters, so that they lead to
// everybody's items; and their host is what the service believes to be its own, which may be wrong behind a proxy, and gets no token. A
// list that cannot be read to its end is an error.
func All[T any](ctx context.Context, name string, query url.Values, id func(*T) string, read Reader) ([]T, error) {
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
			return nil, fmt.Errorf("%w: a page repeats what was before it", ErrNoAnswer)
		}
		query.Set("marker", marker)
	}
}

// AllBy is All of what has one of the values of an attribute: Neutron takes a filter that is repeated for "or". It asks for as many values
// at a time as a URL may hold, and without values it asks nothing.
func AllBy[T any](ctx context.Context, name, attribute string, values []string, query url.Values, id func(*T) string, read Reader) ([]T, error) {
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

// queryLimit keeps a request's query below 2,000 bytes, whatever it asks for: the usual limits of servers and proxies begin at 4,000.
const queryLimit = 1800

// chunks are the values in parts, each of which makes a query of at most queryLimit bytes, or is a single value.
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
	var items []T
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	// An empty list is not null.
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

// nextMarker reads the links of a page; "" on the last. A service that cuts nothing into pages has none.
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
