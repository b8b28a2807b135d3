package neutron

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
)

// errNoAnswer is for an answer that is not Neutron's, whatever its status. An empty one would be taken for "there are none".
var errNoAnswer = errors.New("the answer is not a list of Neutron's")

// queryLimit keeps a request's query below 2,000 bytes, whatever it asks for: the usual limits of servers and proxies begin at 4,000.
const queryLimit = 1800

// item is a resource that is listed.
type item interface{ identifier() string }

// list reads all pages of a list, in the order of the ids. That is the order in which Neutron lists (it ends each sort with the primary
// key), but it promises none. path and collection are the names in the URL and in the body.
//
// Of a link to the next page only the marker is followed: the host is what Neutron believes to be its own, which may be wrong behind a
// proxy, and gets no token. A list that cannot be read to its end is an error.
func list[T item](ctx context.Context, a *API, path, collection string, query url.Values) ([]T, error) {
	client, err := a.config.Client(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	query = maps.Clone(query)
	var all []T
	known := map[string]bool{}
	for {
		page, marker, err := onePage[T](ctx, client, path, collection, query)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		before := len(all)
		for _, found := range page {
			if id := found.identifier(); !known[id] {
				known[id] = true
				all = append(all, found)
			}
		}
		if marker == "" {
			break
		}
		if len(all) == before {
			return nil, fmt.Errorf("list %s: %w: a page repeats what was before it", path, errNoAnswer)
		}
		query.Set("marker", marker)
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(a.identifier(), b.identifier()) })
	return all, nil
}

// onePage returns a page, and the marker of the next one; "" if it is the last.
//
// Its errors are not told apart: a 404 is for the marker, which somebody has deleted meanwhile, and not for what is asked for.
func onePage[T item](ctx context.Context, client *gophercloud.ServiceClient, path, collection string, query url.Values) ([]T, string, error) {
	var body map[string]json.RawMessage
	resp, err := client.Get(ctx, client.ServiceURL(path)+"?"+query.Encode(), &body, nil)
	if _, _, err = gophercloud.ParseResponse(resp, err); err != nil {
		return nil, "", err
	}
	var page []T
	if err := json.Unmarshal(body[collection], &page); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	// An empty list is not null.
	if page == nil {
		return nil, "", errNoAnswer
	}
	for _, found := range page {
		if found.identifier() == "" {
			return nil, "", fmt.Errorf("%w: an item has no id", errNoAnswer)
		}
	}
	marker, err := nextMarker(body[collection+"_links"])
	return page, marker, err
}

// nextMarker reads the links of a page. A cloud that cuts nothing into pages has none.
func nextMarker(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", nil
	}
	var links []gophercloud.Link
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

// listBy lists what has one of the values of an attribute: Neutron takes a filter that is repeated for "or". It asks for as many at a time as
// a URL may hold.
func listBy[T item](ctx context.Context, a *API, path, collection, attribute string, values []string, query url.Values) ([]T, error) {
	var all []T
	for _, some := range chunks(attribute, values) {
		asked := maps.Clone(query)
		asked[attribute] = some
		found, err := list[T](ctx, a, path, collection, asked)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

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

// extract reads the resource of an answer, which must have an id: else it is not Neutron's answer.
func extract[T item](result gophercloud.Result, member string) (T, error) {
	var body map[string]T
	if err := result.ExtractInto(&body); err != nil {
		return body[member], err
	}
	if body[member].identifier() == "" {
		return body[member], fmt.Errorf("the answer has no %s", member)
	}
	return body[member], nil
}
