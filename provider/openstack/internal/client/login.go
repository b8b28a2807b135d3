package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// keystone logs in with one set of credentials.
type keystone struct {
	credentials credentials

	// endpoint is the address of Keystone's API with a trailing /; "" if it must be discovered.
	mu       sync.Mutex
	endpoint string
}

func (k *keystone) login(
	ctx context.Context, via http.RoundTripper, agent gophercloud.UserAgent,
) (*identity, error) {
	provider, err := openstack.NewClient(k.credentials.authURL.String())
	if err != nil {
		return nil, k.failure(err)
	}
	provider.HTTPClient = http.Client{Transport: toKeystone{via}, CheckRedirect: sameService}
	provider.UserAgent = agent
	endpoint, err := k.find(ctx, provider)
	if err != nil {
		return nil, k.failure(err)
	}
	issued, err := k.issue(ctx,
		&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: endpoint})
	if err != nil {
		if !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			// Keystone may have moved, or may have listed a wrong address.
			k.remember("")
		}
		return nil, k.failure(err)
	}
	return issued, nil
}

// toKeystone adds the call to the requests of a login.
type toKeystone struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t toKeystone) RoundTrip(req *http.Request) (*http.Response, error) {
	what := call{serviceIdentity, operation(serviceIdentity, req.Method, req.URL.Path)}
	return t.next.RoundTrip(req.WithContext(withCall(req.Context(), what)))
}

// find discovers the address of API version 3 if auth-url has no version. It is discovered again
// after a login that was neither accepted nor refused.
func (k *keystone) find(ctx context.Context, provider *gophercloud.ProviderClient) (string, error) {
	k.mu.Lock()
	known := k.endpoint
	k.mu.Unlock()
	if known != "" {
		return known, nil
	}
	v3 := &utils.Version{ID: "v3", Priority: 30, Suffix: "/v3/"}
	_, endpoint, err := utils.ChooseVersion(ctx, provider, []*utils.Version{v3})
	switch {
	case failure.Of(err) != nil:
		return "", err
	case err != nil:
		// gophercloud's text has the URL.
		return "", errors.New("auth-url has no version 3 of the API")
	}
	// Keystone behind a TLS proxy often reports its address with http: the password must not go
	// there.
	if k.credentials.authURL.Scheme == "https" && !strings.HasPrefix(endpoint, "https:") {
		endpoint = provider.IdentityBase + "v3/"
	}
	k.remember(endpoint)
	return endpoint, nil
}

func (k *keystone) remember(endpoint string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endpoint = endpoint
}

func (k *keystone) issue(ctx context.Context, v3 *gophercloud.ServiceClient) (*identity, error) {
	options := k.credentials.options
	if options.TokenID != "" && options.Scope == (tokens.Scope{}) {
		// Without a scope the token is used as it is, if Keystone accepts it.
		v3.SetToken(options.TokenID)
		result := tokens.Get(ctx, v3, options.TokenID)
		return read(options.TokenID, result.Err, result)
	}
	result := tokens.Create(ctx, v3, &options)
	return read(result.Header.Get("X-Subject-Token"), result.Err, result)
}

// issuedToken is Keystone's description of a token.
type issuedToken interface {
	ExtractToken() (*tokens.Token, error)
	ExtractProject() (*tokens.Project, error)
	ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
}

func read(id string, err error, result issuedToken) (*identity, error) {
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, errors.New("the response has no token")
	}
	token, err := result.ExtractToken()
	if err != nil {
		return nil, errors.New("the response is not from Keystone")
	}
	project, err := result.ExtractProject()
	if err != nil {
		return nil, errors.New("the project in the response is unreadable")
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return nil, errors.New("the catalog in the response is unreadable")
	}
	made := &identity{token: id, expires: token.ExpiresAt, catalog: catalog.Entries}
	if project != nil {
		made.project = project.ID
	}
	return made, nil
}

func (k *keystone) failure(err error) error {
	e := &failure.LoginError{User: k.credentials.who}
	var answered gophercloud.ErrUnexpectedResponseCode
	switch {
	case errors.As(err, &answered):
		e.Status = answered.Actual
		e.Message = keystoneMessage(answered.Actual, answered.Body)
	default:
		e.Err, e.Message = err, failure.Reason(err)
	}
	e.Message = k.credentials.scrub(e.Message)
	if e.Refused() && k.credentials.options.TokenID != "" {
		e.User += ", which cannot be renewed and may have expired"
	}
	return e
}

// keystoneMessage is the message of Keystone's error body; "" for a service that fails without one.
func keystoneMessage(status int, body []byte) string {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil && status < http.StatusInternalServerError {
		return http.StatusText(status) +
			", the response is not from Keystone: check auth-url and proxies"
	}
	return said.Error.Message
}
