package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/internal/guard"
)

// ClientBuilder returns the configuration of the named client, for a host that decides by name
// which identity, limits or transport a client has. The names are upstream's client names, such as
// "cloud-node-controller" and "service-controller", and the names that a host's controller
// requests. The Manager's own are "cloud-controller-manager" (events, tokens), "leader-election"
// and "shared-informers". The result is a configuration, not a client, because the term's fence
// checks each of its clients.
//
// It must be safe for concurrent use, must not call back into the Manager, and should be quick. The
// result is copied.
type ClientBuilder func(name string) (*rest.Config, error)

// clientConfigs derives the configuration of each client, without the fence.
type clientConfigs struct {
	source ClientBuilder
	common ClientConnectionConfig
	// sameIdentity reports whether all clients have the same credentials.
	sameIdentity bool
}

// The Manager's own clients.
const (
	ownClient       = "cloud-controller-manager"
	leaseClient     = "leader-election"
	informersClient = "shared-informers"
)

// newClientConfigs uses the host's builder, the host's configuration, or the one in cfg.
func newClientConfigs(
	source ClientBuilder, host *rest.Config, cfg ClientConnectionConfig,
) (*clientConfigs, error) {
	sameIdentity := source == nil
	if sameIdentity {
		base, err := loadConfig(host, cfg)
		if err != nil {
			return nil, err
		}
		if base.UserAgent == "" {
			base.UserAgent = rest.DefaultKubernetesUserAgent()
		}
		source = func(name string) (*rest.Config, error) {
			config := rest.CopyConfig(base)
			config.UserAgent += "/" + name
			return config, nil
		}
	}
	return &clientConfigs{source: source, common: cfg, sameIdentity: sameIdentity}, nil
}

// identity distinguishes the credentials of clients.
func (c *clientConfigs) identity(client string) string {
	if c.sameIdentity {
		return ""
	}
	return client
}

func loadConfig(host *rest.Config, cfg ClientConnectionConfig) (*rest.Config, error) {
	if host != nil {
		return rest.CopyConfig(host), nil
	}
	path := field.NewPath("clientConnection", "kubeconfig")
	if cfg.Kubeconfig == "" && cfg.Master == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, configError(field.Required(path,
				fmt.Sprintf("no API server: supply a *rest.Config, set --kubeconfig or --master, "+
					"or run in a pod (%v)", err)))
		}
		return config, nil
	}
	config, err := apiconn.FromFlags(cfg.Master, cfg.Kubeconfig)
	if err != nil {
		return nil, configError(field.Invalid(path, cfg.Kubeconfig, "--kubeconfig: "+err.Error()))
	}
	return config, nil
}

// named returns a copy of one client's configuration. ClientConnectionConfig sets the fields that
// the host left empty.
func (c *clientConfigs) named(name string) (*rest.Config, error) {
	given, err := c.source(name)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	if given == nil {
		return nil, fmt.Errorf("client %q: the host's ClientBuilder returned neither "+
			"a configuration nor an error", name)
	}
	config := rest.CopyConfig(given)
	if config.ContentType == "" {
		config.ContentType = c.common.ContentType
		config.AcceptContentTypes = c.common.ContentType + ",application/json"
	}
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = c.common.QPS, c.common.Burst
		if c.common.QPS <= 0 {
			config.QPS = -1 // no limit for client-go; 0 is 5 a second
		}
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + name
	}
	return config, nil
}

// termClients makes the clients of one term. The term's fence checks all of them, and their
// connections end with the term. It is safe for concurrent use.
type termClients struct {
	configs *clientConfigs
	fence   func(http.RoundTripper) http.RoundTripper

	// accounts gives clients the credentials of ServiceAccounts. Nil: the Manager's credentials.
	accounts *serviceAccounts

	connections connections

	// isTraced: the requests that belong to a span have spans.
	isTraced bool

	mu      sync.Mutex
	clients map[string]kubernetes.Interface
}

var _ cloudprovider.ControllerClientBuilder = (*termClients)(nil)

// Config implements cloudprovider.ControllerClientBuilder.
func (c *termClients) Config(name string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("a client needs a name")
	}
	config, err := c.config(name)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	config.Wrap(c.fence)
	if c.isTraced {
		config.Wrap(traced)
	}
	return config, nil
}

func (c *termClients) config(name string) (*rest.Config, error) {
	config, err := c.configs.named(name)
	if err != nil {
		return nil, err
	}
	// All controllers share the informers, which read as the Manager, as upstream's do. The Manager
	// also requests the tokens.
	if c.accounts == nil || name == informersClient || name == ownClient {
		return c.connections.client(config, c.configs.identity(name))
	}
	anonymous := rest.AnonymousClientConfig(config)
	anonymous.QPS, anonymous.Burst = config.QPS, config.Burst
	anonymous.RateLimiter = config.RateLimiter
	config, err = c.connections.client(anonymous, "anonymous "+c.configs.identity(name))
	if err != nil {
		return nil, err
	}
	config.Wrap(c.accounts.authenticate(name))
	return config, nil
}

// Client implements cloudprovider.ControllerClientBuilder. It returns one client for each name.
func (c *termClients) Client(name string) (kubernetes.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.clients[name]; ok {
		return client, nil
	}
	config, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	c.clients[name] = client
	return client, nil
}

// ConfigOrDie implements cloudprovider.ControllerClientBuilder. Upstream ends the process on an
// error; this method panics with an error that the guard turns into the term's error.
func (c *termClients) ConfigOrDie(name string) *rest.Config {
	config, err := c.Config(name)
	if err != nil {
		panic(&guard.ClientError{Client: name, Err: err})
	}
	return config
}

// ClientOrDie implements cloudprovider.ControllerClientBuilder, like ConfigOrDie.
func (c *termClients) ClientOrDie(name string) kubernetes.Interface {
	client, err := c.Client(name)
	if err != nil {
		panic(&guard.ClientError{Client: name, Err: err})
	}
	return client
}
