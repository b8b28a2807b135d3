package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/apiconn"
)

// retirement is how long requests with replaced credentials may take to end. Watches never end by
// themselves; their clients restart them with the new credentials.
const retirement = 10 * time.Second

// access is the transport to one cluster's API server. Its credentials can be replaced while
// clients use it. It is safe for concurrent use.
type access struct {
	mu      sync.Mutex
	current http.RoundTripper
	dialer  *apiconn.Dialer
	// wire limits how fast the connections are read, if it is set.
	wire *wireLimit
	// address is the address of the API server.
	address string
	// retired ends the connections of replaced credentials.
	retired map[*time.Timer]*apiconn.Dialer
}

// newAccess returns a copy of the given configuration whose requests use the access.
func newAccess(given *rest.Config) (*access, *rest.Config, error) {
	a := &access{retired: map[*time.Timer]*apiconn.Dialer{}, wire: &wireLimit{}}
	if err := a.replace(given); err != nil {
		return nil, nil, err
	}
	config, err := apiconn.Config(given, a)
	if err != nil { // the error has the address, with its password
		return nil, nil, errors.New("client configuration: the address is not a valid URL")
	}
	a.address = strings.TrimSuffix(config.Host, "/")
	return a, config, nil
}

// replace makes new requests use the credentials of another configuration of the same server.
func (a *access) replace(given *rest.Config) error {
	limited := rest.CopyConfig(given)
	limited.Dial = a.wire.dial(given.Dial)
	next, dialer, err := apiconn.Transport(limited)
	if err != nil {
		return fmt.Errorf("client configuration: %w", boundedError{err})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.dialer; old != nil {
		var timer *time.Timer
		timer = time.AfterFunc(retirement, func() {
			a.mu.Lock()
			delete(a.retired, timer)
			a.mu.Unlock()
			old.Close()
		})
		a.retired[timer] = old
	}
	a.current, a.dialer = next, dialer
	return nil
}

// RoundTrip implements http.RoundTripper.
func (a *access) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	current := a.current
	a.mu.Unlock()
	return current.RoundTrip(r)
}

// reset closes all connections. The next request opens a new one.
func (a *access) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dialer.Reset()
	for timer, dialer := range a.retired {
		timer.Stop()
		dialer.Close()
	}
	clear(a.retired)
}

// probeTimeout limits a probe of an API server.
const probeTimeout = 10 * time.Second

// probe returns nil if the API server answers, even with an error.
func (a *access) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.address+"/version", nil)
	if err != nil {
		return err
	}
	response, err := a.RoundTrip(request)
	if err != nil {
		return boundedError{err}
	}
	_ = response.Body.Close()
	if isOutage(response.StatusCode) {
		return outageStatus(response)
	}
	return nil
}
