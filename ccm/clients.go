package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/guard"
)

// baseConfig is the client configuration that all others derive from: the host's, or the one that
// cfg describes.
func baseConfig(host *rest.Config, cfg ClientConnectionConfig) (*rest.Config, error) {
	config, err := loadConfig(host, cfg)
	if err != nil {
		return nil, err
	}
	if config.ContentType == "" {
		config.ContentType = cfg.ContentType
		config.AcceptContentTypes = cfg.ContentType + ",application/json"
	}
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = cfg.QPS, cfg.Burst
		if cfg.QPS <= 0 {
			config.QPS = -1 // client-go's word for no limit; its 0 is 5 a second
		}
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return config, nil
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

// named derives the configuration of one client.
func named(base *rest.Config, name string) *rest.Config {
	config := rest.CopyConfig(base)
	config.UserAgent += "/" + name
	return config
}

// termClients makes the clients of one term. All of them pass its fence. It is safe for concurrent
// use.
type termClients struct {
	base   *rest.Config
	fence  func(http.RoundTripper) http.RoundTripper
	asUser func(config *rest.Config, name string) (*rest.Config, error)

	mu      sync.Mutex
	clients map[string]kubernetes.Interface
}

var _ cloudprovider.ControllerClientBuilder = (*termClients)(nil)

// Config implements cloudprovider.ControllerClientBuilder.
func (c *termClients) Config(name string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("a client needs a name")
	}
	config := named(c.base, name)
	if c.asUser != nil {
		var err error
		if config, err = c.asUser(config, name); err != nil {
			return nil, fmt.Errorf("client %q: %w", name, err)
		}
	}
	config.Wrap(c.fence)
	return config, nil
}

// Client implements cloudprovider.ControllerClientBuilder. Clients of one name are one.
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
