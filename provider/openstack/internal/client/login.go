package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
)

// LoginError explains why Keystone issued no token. It contains no secret.
//
// It unwraps to the cause, such as a network error, but never to gophercloud's error for a status:
// Keystone's 404 must not count as the 404 of a server.
type LoginError struct {
	// URL is the address of Keystone, Who the user.
	URL, Who string
	// Status is the status of Keystone's response; 0 without a response.
	Status int
	// Message is Keystone's message, or describes its response.
	Message string
	// Err is why there was no response; nil if there was one.
	Err error

	// issued: the token of the configuration was refused.
	issued bool
}

// Error implements error.
func (e *LoginError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "log in to Keystone (%s) as %s", e.URL, e.Who)
	if e.Status != 0 {
		fmt.Fprintf(&text, ": %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Message != "" {
		text.WriteString(": " + e.Message)
	}
	if e.Refused() && e.issued {
		text.WriteString(" (the token in the configuration cannot be renewed and may have expired)")
	}
	return text.String()
}

// Unwrap returns Err.
func (e *LoginError) Unwrap() error { return e.Err }

// Refused reports whether Keystone refused the login, so that a retry does not help.
func (e *LoginError) Refused() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests &&
		e.Status != http.StatusRequestTimeout
}

// keystone logs in with one set of credentials.
type keystone struct {
	credentials credentials

	// endpoint is the address of Keystone's API with a trailing /, once it is known.
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

// find discovers the address of API version 3, once, if auth-url has no version.
func (k *keystone) find(ctx context.Context, provider *gophercloud.ProviderClient) (string, error) {
	k.mu.Lock()
	known := k.endpoint
	k.mu.Unlock()
	if known != "" {
		return known, nil
	}
	v3 := &utils.Version{ID: "v3", Priority: 30, Suffix: "/v3/"}
	_, endpoint, err := utils.ChooseVersion(ctx, provider, []*utils.Version{v3})
	if err != nil {
		return "", err
	}
	// Keystone behind a TLS proxy often reports its address with http: the password must not go
	// there.
	if k.credentials.authURL.Scheme == "https" && !strings.HasPrefix(endpoint, "https:") {
		endpoint = provider.IdentityBase + "v3/"
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.endpoint = endpoint
	return endpoint, nil
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
	e := &LoginError{
		URL: k.credentials.authURL.Redacted(), Who: k.credentials.who,
		issued: k.credentials.options.TokenID != "",
	}
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) {
		e.Status = answered.Actual
		e.Message = k.credentials.scrub(keystoneMessage(answered.Body))
		return e
	}
	e.Err = err
	e.Message = k.credentials.scrub(err.Error())
	return e
}

// keystoneMessage is the message of Keystone's error body.
func keystoneMessage(body []byte) string {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil {
		return "the response is not from Keystone: check auth-url and proxies"
	}
	const longest = 500
	message := strings.TrimSpace(said.Error.Message)
	return message[:min(len(message), longest)]
}
