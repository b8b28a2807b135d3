package octavia

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Version returns the minor number of the newest version of the API, 2.minor. It is cached for an
// hour. If Octavia did not answer, the error wraps capability.ErrUnknown, because the version must
// not be guessed.
func (a *API) Version(ctx context.Context) (minor int, err error) {
	minor, err = a.minor.Get(ctx)
	if err != nil {
		return 0, fmt.Errorf("version of Octavia's API: %w", err)
	}
	return minor, nil
}

// askVersion reads the list of versions at the root, above the path of the API itself.
func (a *API) askVersion(ctx context.Context) (int, error) {
	client, err := a.client(ctx)
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
