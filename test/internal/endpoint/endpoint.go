package endpoint

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/netfault"
)

// An Endpoint serves one part of a cluster at its own address. Its faults are those of the proxy.
// Its methods are safe for concurrent use.
type Endpoint struct {
	*netfault.Proxy
	part            part
	serviceAccounts bool
	cluster         http.Handler
	release         func()

	mu       sync.Mutex
	token    string
	inFlight int
	refused  []string
}

// An Option changes an [Endpoint].
type Option func(*options)

type options struct {
	serviceAccounts bool
	wrap            func(http.Handler) http.Handler
}

// WithServiceAccounts allows clients to create tokens of the ServiceAccounts in kube-system, which
// all parts share. A request with such a token is forwarded with it.
func WithServiceAccounts() Option {
	return func(o *options) { o.serviceAccounts = true }
}

// WithHandler puts a handler of the test in front of the endpoint's own.
func WithHandler(wrap func(http.Handler) http.Handler) Option {
	return func(o *options) { o.wrap = wrap }
}

// Start opens an endpoint for the named part, at a loopback address and a free port. Its requests
// reach the API server of cluster with cluster's identity. It must be closed.
func Start(cluster *rest.Config, name string, opts ...Option) (*Endpoint, error) {
	o := options{wrap: func(own http.Handler) http.Handler { return own }}
	for _, opt := range opts {
		opt(&o)
	}
	e := &Endpoint{part: part(name), token: rand.Text(), serviceAccounts: o.serviceAccounts}
	var err error
	if e.cluster, e.release, err = netfault.APIHandler(cluster); err != nil {
		return nil, fmt.Errorf("open an endpoint for %s: %w", name, err)
	}
	if e.Proxy, err = netfault.ListenHTTP(o.wrap(http.HandlerFunc(e.serve))); err != nil {
		e.release()
		return nil, fmt.Errorf("open an endpoint for %s: %w", name, err)
	}
	return e, nil
}

// RESTConfig is the client configuration for the endpoint: address, certificate authority and
// token. Like all configurations for tests, it has no client-side throttling.
func (e *Endpoint) RESTConfig() *rest.Config {
	config := e.Proxy.RESTConfig()
	e.mu.Lock()
	defer e.mu.Unlock()
	config.BearerToken = e.token
	return config
}

// Rotate replaces the token. New requests with the previous one are refused; open watches continue,
// as with an API server.
func (e *Endpoint) Rotate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.token = rand.Text()
}

// InFlight is the number of requests that are being answered, watches included.
func (e *Endpoint) InFlight() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inFlight
}

// Refused are the requests that were not for this part, with the reason, in order.
func (e *Endpoint) Refused() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.refused)
}

// Close closes the port and its connections, and cancels their requests.
func (e *Endpoint) Close() error {
	err := e.Proxy.Close()
	e.release()
	if err != nil {
		return fmt.Errorf("close the endpoint of %s: %w", e.part, err)
	}
	return nil
}

func (e *Endpoint) count(change int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight += change
}

func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request) {
	e.count(1)
	defer e.count(-1)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	e.mu.Lock()
	own := e.token
	e.mu.Unlock()
	switch {
	case subtle.ConstantTimeCompare([]byte(token), []byte(own)) == 1:
		r.Header.Del("Authorization")
	case !e.serviceAccounts || token == "":
		e.refuse(r, "it has another token")
		answer(w, apierrors.NewUnauthorized("the token is not one of "+string(e.part)))
		return
	}
	if !e.serviceAccounts || !requestsToken(r) {
		method, asked := r.Method, *r.URL
		if err := e.part.confine(method, r.URL); err != nil {
			r.URL = &asked
			e.refuse(r, err.Error())
			answer(w, apierrors.NewForbidden(schema.GroupResource{}, "", err))
			return
		}
	}
	e.cluster.ServeHTTP(w, r)
}

func (e *Endpoint) refuse(r *http.Request, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused = append(e.refused, fmt.Sprintf("%s %s: %s", r.Method, r.URL.Path, reason))
}

// answer sends an error like the API server.
func answer(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, marshalErr := json.Marshal(status)
	if marshalErr != nil {
		http.Error(w, marshalErr.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(body)
}
