package octavia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// errNoAnswer means that the body of a successful response is not the API's.
var errNoAnswer = errors.New("unexpected response body")

// get sends one request. Invalid or truncated JSON is an error.
func (a *API) get(ctx context.Context, path string, query url.Values, into any) error {
	client, err := a.client(ctx)
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

// isNotFound reports whether a 404 comes from Octavia itself: in the form of its errors, which is
// WSME's, or, if the pool of members is missing (PoolsController._lookup), in the form of
// oslo.middleware's with the text "Pool ... not found.". A 404 of a proxy, or of an address without
// Octavia ("The resource could not be found."), proves nothing.
func isNotFound(err error) bool {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) || unexpected.Actual != http.StatusNotFound {
		return false
	}
	var body struct {
		Fault       string `json:"faultstring"`
		Description string `json:"description"`
	}
	return json.Unmarshal(unexpected.Body, &body) == nil &&
		(body.Fault != "" || strings.HasSuffix(body.Description, " not found."))
}
