package octavia

import (
	"context"
	"encoding/json"
	"net/url"
	"reflect"
	"strconv"

	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// pageSize is the most items that Octavia returns, unless its operator has configured another limit
// (pagination_max_limit). A list without a limit would end with a link that Octavia itself refuses,
// limit=None, where no limit is configured (octavia/api/common/pagination.py).
const pageSize = 1000

// list reads all pages of a collection. name is its key in the answers, id that of an item.
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

// fieldsOf are the fields of T in Octavia's API: a request names them, so that the others are not
// sent.
func fieldsOf[T any]() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name := field.Tag.Get("json"); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
