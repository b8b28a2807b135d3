package project

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The services, by their types in the catalog.
const (
	Identity     = "identity"
	Compute      = "compute"
	Network      = "network"
	LoadBalancer = "load-balancer"
	KeyManager   = "key-manager"
)

// Object is a JSON object of a request or an answer.
type Object = map[string]any

// API sends plain requests to OpenStack as one user, without the provider's client. It is safe for
// concurrent use.
type API struct {
	login Object
	auth  string
	http  *http.Client

	mu     sync.Mutex
	token  string
	bases  map[string]string
	userID string
}

// An Answer is an answer of OpenStack.
type Answer struct {
	Request string
	Status  int
	Header  http.Header
	Body    []byte
}

// Object is the body as a JSON object; nil if it is another type.
func (a Answer) Object() Object {
	var o Object
	if json.Unmarshal(a.Body, &o) != nil {
		return nil
	}
	return o
}

// Inner is the only object, or list of objects, in the body: {"server": {...}}.
func (a Answer) Inner(key string) Object {
	o, _ := a.Object()[key].(Object)
	return o
}

// String formats request, status and body for a test's messages. A test's cloud has no secrets.
func (a Answer) String() string {
	return fmt.Sprintf("%s: %d %s", a.Request, a.Status, bytes.TrimSpace(a.Body))
}

// newAPI is the API for the user in the body of POST /v3/auth/tokens.
func newAPI(authURL string, login Object) *API {
	return &API{
		login: login, auth: strings.TrimRight(authURL, "/"),
		http: &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: 4},
			Timeout:   answerLimit,
		},
	}
}

func byPassword(userID, password, projectID string) Object {
	return Object{"auth": Object{
		"identity": Object{
			"methods":  []string{"password"},
			"password": Object{"user": Object{"id": userID, "password": password}},
		},
		"scope": Object{"project": Object{"id": projectID}},
	}}
}

// close closes connections.
func (a *API) close() { a.http.CloseIdleConnections() }

// versions are appended to the addresses in the catalog, unless they end with a version.
var versions = map[string]string{Network: "/v2.0", LoadBalancer: "/v2.0"}

var version = regexp.MustCompile(`/v[0-9.]+/?$`)

// session logs in, once.
func (a *API) session(
	ctx context.Context, again bool,
) (token string, bases map[string]string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && !again {
		return a.token, a.bases, nil
	}
	answer, err := a.send(ctx, http.MethodPost, a.auth+"/auth/tokens", a.login, nil)
	if err != nil {
		return "", nil, a.silence(ctx, Identity, a.auth, err)
	}
	if answer.Status != http.StatusCreated {
		return "", nil, fmt.Errorf("log in: %s", answer)
	}
	var body struct {
		Token struct {
			User    struct{ ID string }
			Catalog []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	if err := json.Unmarshal(answer.Body, &body); err != nil {
		return "", nil, fmt.Errorf("log in: %w", err)
	}
	a.token, a.userID, a.bases = answer.Header.Get("X-Subject-Token"), body.Token.User.ID,
		map[string]string{Identity: a.auth}
	for _, service := range body.Token.Catalog {
		for _, e := range service.Endpoints {
			if e.Interface == "public" && service.Type != Identity {
				base := strings.TrimRight(e.URL, "/")
				if v := versions[service.Type]; v != "" {
					base = version.ReplaceAllString(base, "") + v
				}
				a.bases[service.Type] = base
			}
		}
	}
	return a.token, a.bases, nil
}

// Do sends a request to a service: path is below the service's version ("/servers/detail",
// "/ports?device_id=...", "/lbaas/loadbalancers", "/users/..."), or a whole address. A nil body
// means no body; []byte and string are sent unchanged, and other types as JSON. headers are pairs.
// With X-Auth-Token among them, the request is sent once, with that token. Only a connection
// failure is an error; every answer of the service is an Answer.
func (a *API) Do(
	ctx context.Context, method, service, path string, body any, headers ...string,
) (Answer, error) {
	for again := false; ; again = true {
		if err, found := silent.Load(service); found {
			return Answer{}, err.(error)
		}
		token, bases, err := a.session(ctx, again)
		if err != nil {
			return Answer{}, err
		}
		target := path
		if !strings.HasPrefix(path, "http") {
			base, found := bases[service]
			if !found {
				return Answer{}, fmt.Errorf("no %s in the catalog", service)
			}
			target = base + path
		}
		answer, err := a.send(ctx, method, target, body,
			append([]string{"X-Auth-Token", token}, headers...))
		if err != nil {
			return answer, a.silence(ctx, service, target, err)
		}
		if answer.Status != http.StatusUnauthorized || again ||
			slices.Contains(headers, "X-Auth-Token") {
			return answer, nil
		}
	}
}

func (a *API) send(
	ctx context.Context, method, target string, body any, headers []string,
) (Answer, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(b)
	case string:
		reader = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return Answer{}, err
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return Answer{}, err
	}
	if reader != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := a.http.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return Answer{
		Request: method + " " + target, Status: response.StatusCode,
		Header: response.Header, Body: text,
	}, err
}

// In returns the API for a test. A request without an answer ends the test.
func (a *API) In(t T) Requests { return Requests{api: a, t: t} }

// Requests are the requests of one test.
type Requests struct {
	api *API
	t   T
}

// API is for other goroutines than the test's, which can only return errors.
func (r Requests) API() *API { return r.api }

// Try sends a request and returns any answer. See [API.Do].
func (r Requests) Try(method, service, path string, body any, headers ...string) Answer {
	r.t.Helper()
	answer, err := r.api.Do(r.t.Context(), method, service, path, body, headers...)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// Must sends a request that must succeed.
func (r Requests) Must(method, service, path string, body any, headers ...string) Answer {
	r.t.Helper()
	answer := r.Try(method, service, path, body, headers...)
	if answer.Status/100 != 2 {
		r.t.Fatalf("%s", answer)
	}
	return answer
}

// Create creates an object: Create(Network, "/ports", "port", Object{...}) sends {"port": {...}}
// and returns the object in the answer.
func (r Requests) Create(service, path, key string, attributes Object, headers ...string) Object {
	r.t.Helper()
	answer := r.Must(http.MethodPost, service, path, Object{key: attributes}, headers...)
	made := answer.Inner(key)
	if made == nil {
		r.t.Fatalf("%s: no %q", answer, key)
	}
	return made
}

// Update changes an object, with arguments like Create's.
func (r Requests) Update(service, path, key string, attributes Object, headers ...string) Object {
	r.t.Helper()
	return r.Must(http.MethodPut, service, path, Object{key: attributes}, headers...).Inner(key)
}

// Get reads an object.
func (r Requests) Get(service, path, key string, headers ...string) Object {
	r.t.Helper()
	return r.Must(http.MethodGet, service, path, nil, headers...).Inner(key)
}

// List reads all pages of a list.
func (r Requests) List(service, path, key string, headers ...string) []Object {
	r.t.Helper()
	all, err := r.api.List(r.t.Context(), service, path, key, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// List reads all pages of a list.
func (a *API) List(
	ctx context.Context, service, path, key string, headers ...string,
) (all []Object, err error) {
	for path != "" {
		answer, err := a.Do(ctx, http.MethodGet, service, path, nil, headers...)
		if err != nil {
			return nil, err
		}
		if answer.Status != http.StatusOK {
			return nil, fmt.Errorf("%s", answer)
		}
		body := answer.Object()
		items, found := body[key].([]any)
		if !found {
			return nil, fmt.Errorf("%s: no list %q", answer, key)
		}
		for _, item := range items {
			o, _ := item.(Object)
			all = append(all, o)
		}
		path = ""
		links, _ := body[key+"_links"].([]any)
		for _, l := range links {
			if link, _ := l.(Object); link["rel"] == "next" {
				path, _ = link["href"].(string)
			}
		}
	}
	return all, nil
}

// Delete deletes an object, which may already be deleted.
func (r Requests) Delete(service, path string) {
	r.t.Helper()
	if answer := r.Try(http.MethodDelete, service, path, nil); answer.Status/100 != 2 &&
		answer.Status != http.StatusNotFound {
		r.t.Fatalf("%s", answer)
	}
}

// Endpoint is the address of a service, with the version.
func (r Requests) Endpoint(service string) string {
	r.t.Helper()
	_, bases, err := r.api.session(r.t.Context(), false)
	if err != nil {
		r.t.Fatal(err)
	}
	return maps.Clone(bases)[service]
}

// ID is the id of an object.
func ID(o Object) string { id, _ := o["id"].(string); return id }

// Text is a text in an object; "" if it is another type.
func Text(o Object, key string) string { s, _ := o[key].(string); return s }
