package neutron

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// queryLimit keeps a request's query below 2,000 bytes, whatever it asks for: the usual limits of servers and proxies begin at 4,000.
const queryLimit = 1800

// item is a resource that is listed.
type item interface{ identifier() string }

// list reads all pages of a list, in the order of the ids. That is the order in which Neutron lists (it ends each sort with the primary
// key), but it promises none. path and collection are the names in the URL and in the body.
//
// Its errors are not told apart: a 404 is for the marker, which somebody has deleted meanwhile, and not for what is asked for.
func list[T item](ctx context.Context, a *API, path, collection string, query url.Values) ([]T, error) {
	client, err := a.config.Client(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	id := func(found *T) string { return (*found).identifier() }
	all, err := pages.All(ctx, collection, query, id, func(ctx context.Context, query url.Values) (body map[string]json.RawMessage, err error) {
		resp, err := client.Get(ctx, client.ServiceURL(path)+"?"+query.Encode(), &body, nil)
		_, _, err = gophercloud.ParseResponse(resp, err)
		return body, err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(a.identifier(), b.identifier()) })
	return all, nil
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
