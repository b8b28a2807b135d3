package octavia

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/pages"
)

// errNoAnswer means that the body of a successful response is not the API's.
const errNoAnswer = failure.BodyError("Octavia")

// get sends one request. Invalid or truncated JSON is an error.
func (a *API) get(ctx context.Context, path string, query url.Values, into any) error {
	client, err := a.config.Client(ctx)
	if err != nil {
		return err
	}
	address := client.ServiceURL("lbaas", path)
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	_, err = client.Get(ctx, address, into, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if gophercloud.ResponseCodeIs(err, http.StatusForbidden) {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}

// isNotFound reports whether a 404 comes from Octavia itself.
func isNotFound(err error) bool {
	f := failure.Of(err)
	return f != nil && f.IsNotFound()
}

// list reads all pages of a collection. name is its key in the answers, id returns the ID of an
// item.
func list[T any](
	ctx context.Context, a *API, path, name string, query url.Values, id func(*T) string,
) ([]T, error) {
	query.Set("limit", pages.OctaviaLimit)
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
	for _, f := range FieldsOf[T]() {
		if !slices.Contains([]string{"members", "healthmonitor"}, f.name) &&
			!slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// Version returns the minor number of the newest version of the API, 2.minor. It is cached for an
// hour. If Octavia did not answer, the error wraps capability.ErrUnknown, because the version must
// not be guessed.
func (a *API) Version(ctx context.Context) (minor int, err error) {
	minor, err = a.minor.Get(ctx)
	if err != nil {
		return 0, fmt.Errorf("learn the version of Octavia's API: %w", err)
	}
	return minor, nil
}

// askVersion reads the list of versions at the root, above the path of the API itself.
func (a *API) askVersion(ctx context.Context) (int, error) {
	client, err := a.config.Client(ctx)
	if err != nil {
		return 0, err
	}
	var body struct {
		Versions []struct {
			ID string `json:"id"`
		} `json:"versions"`
	}
	_, err = client.Get(ctx, client.Endpoint, &body, &gophercloud.RequestOpts{
		// Some services answer 300, Multiple Choices, to a request for their versions.
		OkCodes: []int{http.StatusOK, http.StatusMultipleChoices},
	})
	if err != nil {
		return 0, err
	}
	newest := -1
	for _, version := range body.Versions {
		if minor, ok := minorOf(version.ID); ok {
			newest = max(newest, minor)
		}
	}
	if newest < 0 {
		return 0, fmt.Errorf("%w: it has no version 2", errNoAnswer)
	}
	return newest, nil
}

// minorOf parses v2.27. Releases before Rocky have only v2.0, or v1 beside it.
func minorOf(id string) (int, bool) {
	number, ok := strings.CutPrefix(id, "v2.")
	if !ok {
		return 0, false
	}
	minor, err := strconv.ParseUint(number, 10, 16)
	return int(minor), err == nil
}
