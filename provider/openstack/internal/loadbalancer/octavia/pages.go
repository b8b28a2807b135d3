package octavia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// pageSize is the number of items that is asked for. It is the most that Octavia gives, unless its operator has set another limit
// (pagination_max_limit), which holds then. A list without a limit would end with a link that Octavia itself refuses, limit=None, where
// there is no such limit (octavia/api/common/pagination.py).
const pageSize = 1000

// errRepeats is a list that would never end.
var errRepeats = errors.New("a page of the list repeats what was before it")

// list reads all pages of a collection. name is its key in the answers, id that of an item.
//
// Of a link to the next page only the marker is followed. Octavia's links have none of the filters, so that they lead to everybody's
// items; and their host is what the API believes to be its own, which may be wrong behind a proxy, and gets no token.
func list[T any](ctx context.Context, a *API, path, name string, query url.Values, id func(*T) string) ([]T, error) {
	query.Set("limit", strconv.Itoa(pageSize))
	var all []T
	known := map[string]bool{}
	for {
		items, marker, err := page[T](ctx, a, path, name, query)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for i := range items {
			key := id(&items[i])
			if key == "" {
				return nil, fmt.Errorf("%w: an item has no id", errNoAnswer)
			}
			if !known[key] {
				known[key] = true
				all = append(all, items[i])
			}
		}
		switch {
		case marker == "":
			return all, nil
		case len(all) == before:
			return nil, errRepeats
		}
		query.Set("marker", marker)
	}
}

// page reads one page. The marker is "" on the last.
func page[T any](ctx context.Context, a *API, path, name string, query url.Values) (items []T, marker string, err error) {
	var body map[string]json.RawMessage
	if err := a.get(ctx, path, query, &body); err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(body[name], &items); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	// An empty list is not null.
	if items == nil {
		return nil, "", errNoAnswer
	}
	marker, err = nextMarker(body[name+"_links"])
	return items, marker, err
}

func nextMarker(raw json.RawMessage) (string, error) {
	// A cloud that cuts nothing into pages has no links.
	if raw == nil {
		return "", nil
	}
	var links []struct {
		Rel  string `json:"rel"`
		Href string `json:"href"`
	}
	if err := json.Unmarshal(raw, &links); err != nil {
		return "", fmt.Errorf("%w: links: %w", errNoAnswer, err)
	}
	for _, link := range links {
		if link.Rel != "next" {
			continue
		}
		to, err := url.Parse(link.Href)
		if err != nil {
			return "", fmt.Errorf("%w: link to the next page: %w", errNoAnswer, err)
		}
		marker := to.Query().Get("marker")
		if marker == "" {
			return "", fmt.Errorf("%w: the link to the next page has no marker", errNoAnswer)
		}
		return marker, nil
	}
	return "", nil
}
