package initfunc

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

// The limits of upstream's builder for discovery clients, which send many requests at once, but
// seldom: requests a second, and at once.
const (
	discoveryQPS   = 20
	discoveryBurst = 200
)

// clients gives an InitFunc the clients of its term. The methods ...OrDie, with which upstream ends
// the process, return a client whose requests all fail. It is safe for concurrent use.
type clients struct {
	term term

	mu       sync.Mutex
	failures []error
}

var _ clientbuilder.ControllerClientBuilder = (*clients)(nil)

// Config implements clientbuilder.ControllerClientBuilder.
func (c *clients) Config(name string) (*rest.Config, error) { return c.term.RESTConfig(name) }

// Client implements clientbuilder.ControllerClientBuilder.
func (c *clients) Client(name string) (kubernetes.Interface, error) { return c.term.Client(name) }

// DiscoveryClient implements clientbuilder.ControllerClientBuilder.
func (c *clients) DiscoveryClient(name string) (discovery.DiscoveryInterface, error) {
	cfg, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	if cfg.QPS >= 0 { // a negative value is no limit
		cfg.QPS, cfg.Burst = max(cfg.QPS, discoveryQPS), max(cfg.Burst, discoveryBurst)
	}
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client %q for discovery: %w", name, err)
	}
	return client, nil
}

// ConfigOrDie implements clientbuilder.ControllerClientBuilder.
func (c *clients) ConfigOrDie(name string) *rest.Config {
	cfg, err := c.Config(name)
	if err != nil {
		return c.failing(err)
	}
	return cfg
}

// ClientOrDie implements clientbuilder.ControllerClientBuilder.
func (c *clients) ClientOrDie(name string) kubernetes.Interface {
	client, err := c.Client(name)
	if err != nil {
		// this configuration is always valid
		return kubernetes.NewForConfigOrDie(c.failing(err))
	}
	return client
}

// DiscoveryClientOrDie implements clientbuilder.ControllerClientBuilder.
func (c *clients) DiscoveryClientOrDie(name string) discovery.DiscoveryInterface {
	client, err := c.DiscoveryClient(name)
	if err != nil {
		return discovery.NewDiscoveryClientForConfigOrDie(c.failing(err))
	}
	return client
}

// failing returns the configuration of a client whose requests fail with err.
func (c *clients) failing(err error) *rest.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, err)
	return &rest.Config{Transport: roundTripper(func(*http.Request) (*http.Response,
		error,
	) {
		return nil, err
	})}
}

// failure joins the errors of the methods ...OrDie.
func (c *clients) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.failures...)
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
