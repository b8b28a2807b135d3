package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// item is a listed resource.
type item interface{ identifier() string }

// list reads all pages of a list, sorted by ID. Neutron adds the primary key to each sort, but does
// not promise it. path and collection are the names in the URL and in the body.
//
// Its errors are not classified: a 404 means that the marker was deleted meanwhile.
func list[T item](
	ctx context.Context, a *API, path, collection string, query url.Values,
) ([]T, error) {
	all, err := pages.All(ctx, collection, query, id[T], pages.From(a.config.Client, path))
	return sorted(path, all, err)
}

// listBy lists the resources with one of the values of an attribute.
func listBy[T item](
	ctx context.Context, a *API, path, collection, attribute string, values []string,
	query url.Values,
) ([]T, error) {
	all, err := pages.AllBy(ctx, collection, attribute, values, query, id[T],
		pages.From(a.config.Client, path))
	return sorted(path, all, err)
}

func id[T item](found *T) string { return (*found).identifier() }

func sorted[T item](path string, all []T, err error) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(a.identifier(), b.identifier()) })
	return all, nil
}

// extract reads the resource from a response. A response without an ID is not Neutron's.
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
