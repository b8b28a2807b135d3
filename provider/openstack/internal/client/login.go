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

// A LoginError tells why Keystone issued no token. It holds no secret.
//
// It unwraps to what went wrong on the way, such as an error of the network, and never to gophercloud's error for a status: a 404 of
// Keystone must not be taken for the 404 of a server.
type LoginError struct {
	// URL is where, and Who as whom.
	URL, Who string
	// Status is what Keystone answered; 0 if it did not.
	Status int
	// Message is Keystone's, or tells what is wrong with its answer.
	Message string
	// Err is why there was no answer; nil if there was one.
	Err error

	// issued tells that the token in the configuration is what did not do.
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
		text.WriteString(" (a token that is given in the configuration cannot be renewed: it may have expired)")
	}
	return text.String()
}

// Unwrap returns Err.
func (e *LoginError) Unwrap() error { return e.Err }

// Refused tells whether Keystone said no, so that trying again is of no use before something changes.
func (e *LoginError) Refused() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout
}

// keystone logs in, with the same credentials each time.
type keystone struct {
	credentials credentials
	http        http.RoundTripper
	userAgent   gophercloud.UserAgent

	// endpoint is the address of Keystone's API once it is known, with / at its end.
	mu       sync.Mutex
	endpoint string
}

func (k *keystone) login(ctx context.Context) (*identity, error) {
	provider, err := openstack.NewClient(k.credentials.authURL.String())
	if err != nil {
		return nil, k.failure(err)
	}
	provider.HTTPClient = http.Client{Transport: toKeystone{k.http}, CheckRedirect: sameService}
	provider.UserAgent = k.userAgent
	endpoint, err := k.find(ctx, provider)
	if err != nil {
		return nil, k.failure(err)
	}
	v3, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		return nil, k.failure(err)
	}
	v3.Endpoint = endpoint
	issued, err := k.issue(ctx, v3)
	if err != nil {
		return nil, k.failure(err)
	}
	return issued, nil
}

// toKeystone says what the requests of a login are.
type toKeystone struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t toKeystone) RoundTrip(req *http.Request) (*http.Response, error) {
	what := call{serviceIdentity, operation(serviceIdentity, req.Method, req.URL.Path)}
	return t.next.RoundTrip(req.WithContext(withCall(req.Context(), what)))
}

// find asks Keystone for the address of version 3, once, if auth-url has no version.
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
	// Keystone behind a proxy that ends TLS often tells its address without: the password must not go there.
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
		// There is nothing to ask for: the token is good as it is, if Keystone says so.
		v3.SetToken(options.TokenID)
		result := tokens.Get(ctx, v3, options.TokenID)
		return read(options.TokenID, result.Err, result)
	}
	result := tokens.Create(ctx, v3, &options)
	return read(result.Header.Get("X-Subject-Token"), result.Err, result)
}

// issuedToken is what Keystone tells of a token.
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
		return nil, errors.New("the answer has no token")
	}
	token, err := result.ExtractToken()
	if err != nil {
		return nil, errors.New("the answer is not that of Keystone")
	}
	project, err := result.ExtractProject()
	if err != nil {
		return nil, errors.New("the answer's project cannot be read")
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return nil, errors.New("the answer's catalog cannot be read")
	}
	made := &identity{token: id, expires: token.ExpiresAt, catalog: catalog.Entries}
	if project != nil {
		made.project = project.ID
	}
	return made, nil
}

func (k *keystone) failure(err error) error {
	e := &LoginError{URL: k.credentials.authURL.Redacted(), Who: k.credentials.who, issued: k.credentials.options.TokenID != ""}
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

// keystoneMessage is what Keystone said, or "" if the answer is somebody else's.
func keystoneMessage(body []byte) string {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil {
		return "not an answer of Keystone's: look at auth-url, and what is between"
	}
	const longest = 500
	message := strings.TrimSpace(said.Error.Message)
	return message[:min(len(message), longest)]
}
