package ccm

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/guard"
)

// ClientSource gives the configuration of the client of a name, for a host that decides by name which identity, limits or transport a
// client has. Names are the controllers' ("cloud-node-controller", "service-controller", …: upstream's client names, or what a host's
// controller asks for), and those of the Manager itself: "cloud-controller-manager" (events, tokens), "leader-election" and
// "shared-informers". It is asked for configurations, not for clients, since each client of a term passes the term's fence.
//
// It must be safe for concurrent use, must not call back into the Manager, and should be quick. What it returns is copied.
type ClientSource func(name string) (*rest.Config, error)

// clientConfigs derives the configuration of each client. Own requests of the Manager pass no fence.
type clientConfigs struct {
	source ClientSource
	common ClientConnectionConfig
}

// The Manager's own clients.
const (
	ownClient       = "cloud-controller-manager"
	leaseClient     = "leader-election"
	informersClient = "shared-informers"
)

// newClientConfigs chooses where configurations come from: the host's source, the host's configuration, or the one that cfg describes.
func newClientConfigs(source ClientSource, host *rest.Config, cfg ClientConnectionConfig) (*clientConfigs, error) {
	if source == nil {
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
	return &clientConfigs{source: source, common: cfg}, nil
}

func loadConfig(host *rest.Config, cfg ClientConnectionConfig) (*rest.Config, error) {
	if host != nil {
		return rest.CopyConfig(host), nil
	}
	path := field.NewPath("clientConnection", "kubeconfig")
	if cfg.Kubeconfig == "" && cfg.Master == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, &ConfigError{Fields: field.ErrorList{field.Required(path,
				"no API server: hand in a *rest.Config, set --kubeconfig or --master, or run in a pod ("+err.Error()+")")}}
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags(cfg.Master, cfg.Kubeconfig)
	if err != nil {
		return nil, &ConfigError{Fields: field.ErrorList{field.Invalid(path, cfg.Kubeconfig, "--kubeconfig: "+err.Error())}}
	}
	return config, nil
}

// named returns the configuration of one client, which is the caller's to change. What the host has left open is as Config says.
func (c *clientConfigs) named(name string) (*rest.Config, error) {
	given, err := c.source(name)
	if err != nil {
		return nil, fmt.Errorf("client %q: %w", name, err)
	}
	if given == nil {
		return nil, fmt.Errorf("client %q: the host's ClientSource returned neither a configuration nor an error", name)
	}
	config := rest.CopyConfig(given)
	if config.ContentType == "" {
		config.ContentType = c.common.ContentType
		config.AcceptContentTypes = c.common.ContentType + ",application/json"
	}
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = c.common.QPS, c.common.Burst
		if c.common.QPS <= 0 {
			config.QPS = -1 // client-go's word for no limit; its 0 is 5 a second
		}
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent() + "/" + name
	}
	return config, nil
}

// termClients makes the clients of one term. All of them pass its fence. It is safe for concurrent
// use.
type termClients struct {
	configs *clientConfigs
	fence   func(http.RoundTripper) http.RoundTripper
	asUser  func(config *rest.Config, name string) (*rest.Config, error)

	mu      sync.Mutex
	clients map[string]kubernetes.Interface
	dialers []*connrotation.Dialer
}

var _ cloudprovider.ControllerClientBuilder = (*termClients)(nil)

// Config implements cloudprovider.ControllerClientBuilder.
func (c *termClients) Config(name string) (*rest.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config(name)
}

// config is called with the lock held.
func (c *termClients) config(name string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("a client needs a name")
	}
	config, err := c.configs.named(name)
	if err != nil {
		return nil, err
	}
	// What all controllers read together is read as the Manager, as upstream does.
	asUser := c.asUser != nil && name != informersClient
	if asUser {
		if config, err = c.asUser(config, name); err != nil {
			return nil, fmt.Errorf("client %q: %w", name, err)
		}
	}
	// client-go keeps one transport for all clients whose settings are the same, the Manager's own among them. Clients of other
	// settings, and with functions, which it cannot compare, have connections that nobody else uses.
	if asUser || config.Dial != nil || config.Proxy != nil {
		c.ownConnections(config)
	}
	config.Wrap(c.fence)
	return config, nil
}

// ownConnections gives a client connections of its own, to be closed with the term. The lock is held.
func (c *termClients) ownConnections(config *rest.Config) {
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // client-go's default
	}
	dialer := connrotation.NewDialer(dial)
	config.Dial = dialer.DialContext
	c.dialers = append(c.dialers, dialer)
}

// closeConnections closes the connections that only the term's clients can use.
func (c *termClients) closeConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dialers {
		d.CloseAll()
	}
}

// Client implements cloudprovider.ControllerClientBuilder. Clients of one name are one.
func (c *termClients) Client(name string) (kubernetes.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.clients[name]; ok {
		return client, nil
	}
	config, err := c.config(name)
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

// ConfigOrDie implements cloudprovider.ControllerClientBuilder. Upstream's ends the process; this
// one panics with an error that the guard turns into the term's.
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
