package fleet

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// retirement is how long requests with replaced credentials may go on. Watches never end by
// themselves; the clients start them again with
// the new credentials then.
const retirement = 10 * time.Second

// access is the transport to one cluster's API server. Its credentials can be replaced while
// clients use it. It is safe for concurrent use.
type access struct {
	mu      sync.Mutex
	current http.RoundTripper
	dialer  *connrotation.Dialer
	// retired ends the connections of replaced credentials.
	retired map[*time.Timer]*connrotation.Dialer
}

// newAccess returns a configuration like given whose requests go through the access.
func newAccess(given *rest.Config) (*access, *rest.Config, error) {
	a := &access{retired: map[*time.Timer]*connrotation.Dialer{}}
	address, _, err := rest.DefaultServerUrlFor(given)
	if err != nil {
		return nil, nil, fmt.Errorf("client configuration: %w", err)
	}
	if err := a.replace(given); err != nil {
		return nil, nil, err
	}
	return a, &rest.Config{
		Host:                      address.String(),
		APIPath:                   given.APIPath,
		ContentConfig:             given.ContentConfig,
		UserAgent:                 given.UserAgent,
		QPS:                       given.QPS,
		Burst:                     given.Burst,
		RateLimiter:               given.RateLimiter,
		WarningHandler:            given.WarningHandler,
		WarningHandlerWithContext: given.WarningHandlerWithContext,
		Timeout:                   given.Timeout,
		Transport:                 a,
	}, nil
}

// replace makes new requests use the credentials of another configuration of the same server.
func (a *access) replace(given *rest.Config) error {
	config := rest.CopyConfig(given)
	config.UserAgent, config.Timeout = "", 0
	dial := config.Dial
	if dial == nil {
		// client-go's default
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	dialer := connrotation.NewDialer(dial)
	config.Dial = dialer.DialContext
	if config.Proxy == nil {
		// The default, given as a function, keeps the transport out of client-go's cache, which
		// never forgets one.
		config.Proxy = http.ProxyFromEnvironment
	}
	next, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("client configuration: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.dialer; old != nil {
		var timer *time.Timer
		timer = time.AfterFunc(retirement, func() {
			a.mu.Lock()
			delete(a.retired, timer)
			a.mu.Unlock()
			old.CloseAll()
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
	a.dialer.CloseAll()
	for timer, dialer := range a.retired {
		timer.Stop()
		dialer.CloseAll()
	}
	clear(a.retired)
}
