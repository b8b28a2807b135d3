package instances

import (
	"context"
	"fmt"
	"net/url"
)

// link is an entry of <collection>_links.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// page is a part of a list.
type page[T any] struct {
	// items is nil if the answer had none at all, not even an empty list: it is not the API's.
	items *[]T
	links []link
}

// allPages follows the links of a list. It ends with a page that holds nothing new, as a loop of links does. Of a link only the
// query is followed: its host is what the API believes to be its own, which may be wrong behind a proxy, and gets no token.
func allPages[T any](
	ctx context.Context, query url.Values, get func(context.Context, url.Values) (page[T], error), id func(T) string,
) ([]T, error) {
	var all []T
	known := map[string]bool{}
	for {
		p, err := get(ctx, query)
		if err != nil {
			return nil, err
		}
		if p.items == nil {
			return nil, errNoAnswer
		}
		before := len(all)
		for _, item := range *p.items {
			if id(item) == "" {
				return nil, fmt.Errorf("%w: an item has no id", errNoAnswer)
			}
			if !known[id(item)] {
				known[id(item)] = true
				all = append(all, item)
			}
		}
		next, err := nextQuery(p.links)
		if err != nil {
			return nil, err
		}
		if next == nil || len(all) == before {
			return all, nil
		}
		query = next
	}
}

// nextQuery is nil on the last page.
func nextQuery(links []link) (url.Values, error) {
	for _, l := range links {
		if l.Rel != "next" {
			continue
		}
		to, err := url.Parse(l.Href)
		if err != nil {
			return nil, fmt.Errorf("link to the next page: %w", err)
		}
		return to.Query(), nil
	}
	return nil, nil
}
