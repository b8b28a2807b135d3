package octavia

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// pageSize is the most items that Octavia returns, unless its operator has configured another limit
// (pagination_max_limit). If no limit is configured, a list without one would end with the link
// limit=None, which Octavia itself refuses (octavia/api/common/pagination.py).
const pageSize = 1000

// list reads all pages of a collection. name is its key in the answers, id returns the ID of an
// item.
func list[T any](
	ctx context.Context, a *API, path, name string, query url.Values, id func(*T) string,
) ([]T, error) {
	query.Set("limit", strconv.Itoa(pageSize))
	return pages.All(ctx, name, query, id,
		func(ctx context.Context, query url.Values) (body map[string]json.RawMessage, err error) {
			err = a.get(ctx, path, query, &body)
			return body, err
		})
}

// fieldsOf returns the names of T's fields in Octavia's API. A request names them, so that Octavia
// omits the others. The parts of a pool, which may be larger than the rest, are read elsewhere.
func fieldsOf[T any]() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !slices.Contains([]string{"", "-", "members", "healthmonitor"}, name) &&
			!slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
