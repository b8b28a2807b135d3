package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Name is the name of the provider: --cloud-provider=openstack.
const Name = "openstack"

// Option configures [Provider] and [Module].
type Option func(*source)

// WithConfig sets the configuration as data. A file in ccm.Config, too, is an error. Credentials
// then never change, but certificates and keys are read again when their files change.
func WithConfig(cfg cloudconf.Config) Option { return WithLiveConfig(NewLiveConfig(cfg)) }

// WithLiveConfig is like [WithConfig], with a configuration whose credentials can be replaced.
func WithLiveConfig(cfg *LiveConfig) Option { return func(s *source) { s.given = cfg } }

// WithEnvironment supports the environment variables of OCCM, see [cloudconf.Options]. Pass
// os.Getenv in a program of its own. By default no variable is read, because the environment
// belongs to the host.
func WithEnvironment(getenv func(string) string) Option {
	return func(s *source) { s.environment = getenv }
}

// WithTransport lets guard change each new HTTP transport before its first request, such as to
// restrict its connections, and wrap it, such as to limit the responses: see
// fleet.Cluster.GuardTransport. Providers that share by [WithShared] must have equal guards, or
// none.
func WithTransport(guard func(*http.Transport) http.RoundTripper) Option {
	return func(s *source) { s.guard = guard }
}

// Provider is OpenStack as the provider of a [ccm.Manager]. Its configuration is the cloud.conf in
// ccm.Config (--cloud-config), or that of [WithConfig]. ccm.New validates it. The provider reads it
// at the start of each term and when the file changes.
func Provider(opts ...Option) ccm.Provider {
	var s source
	for _, opt := range opts {
		opt(&s)
	}
	return ccm.Provider{
		Name: Name,
		New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return open(s, env)
		},
		Validate: func(cfg ccm.Config) error {
			_, err := s.load(cfg.CloudProvider.ConfigFile, cfg.CloudProvider.ConfigStrict)
			return err
		},
	}
}

// source holds the origin of the configuration, and the shared state.
type source struct {
	given       *LiveConfig
	environment func(string) string
	// shared is nil unless [WithShared] sets it.
	shared *Shared
	// guard is nil unless [WithTransport] sets it.
	guard func(*http.Transport) http.RoundTripper
}

// load reads the configuration. The error contains all problems and no secret.
func (s source) load(path string, strict bool) (cloudconf.Loaded, error) {
	switch {
	case s.given != nil && path != "":
		return cloudconf.Loaded{},
			fmt.Errorf("the host set a configuration and the file %s, but only one of them is "+
				"allowed", path)
	case s.given != nil:
		config := s.given.read()
		warnings, err := cloudconf.Validate(config, strict)
		return cloudconf.Loaded{Config: config, Warnings: warnings}, err
	case path == "":
		return cloudconf.Loaded{},
			errors.New("no configuration: set --cloud-config (cloudProvider.configFile) to a " +
				"cloud.conf")
	}
	return cloudconf.Load(path, cloudconf.Options{Strict: strict, Environment: s.environment})
}
