package huaweicloud

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
)

// Name is the name of the provider: --cloud-provider=huaweicloud.
const Name = "huaweicloud"

// Option configures [Provider].
type Option func(*source)

// WithConfig sets the configuration as data. Naming a file in ccm.Config, too, is an error.
func WithConfig(cfg Config) Option { return func(s *source) { s.given = &cfg } }

// WithEnvironment reads the configuration from environment variables if no file is named, see
// [Config]. Pass os.Getenv in a program of its own. By default no variable is read, because the
// environment belongs to the host.
func WithEnvironment(getenv func(string) string) Option {
	return func(s *source) { s.getenv = getenv }
}

// Provider is Huawei Cloud as the provider of a [ccm.Manager]. Its configuration is the file in
// ccm.Config (--cloud-config), that of [WithConfig] or that of [WithEnvironment]. ccm.New validates
// it without a request; each term reads it again.
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
			_, _, err := s.load(cfg.CloudProvider.ConfigFile, cfg.CloudProvider.ConfigStrict)
			return err
		},
	}
}

// source is the origin of the configuration.
type source struct {
	given  *Config
	getenv func(string) string
}

// load reads the configuration. The error contains all problems and no secret.
func (s source) load(path string, strict bool) (c Config, warnings []string, err error) {
	switch {
	case s.given != nil && path != "":
		return Config{}, nil, fmt.Errorf("the host set a configuration and the file %s, but only "+
			"one of them is allowed", path)
	case s.given != nil:
		c = *s.given
	case path != "":
		if c, warnings, err = fromFile(path, strict); err != nil {
			return Config{}, nil, err
		}
	case s.getenv != nil:
		c = fromEnvironment(s.getenv)
	default:
		return Config{}, nil, errors.New("no configuration: set --cloud-config " +
			"(cloudProvider.configFile) to the file of the Huawei Cloud provider")
	}
	if problems := c.problems(); len(problems) > 0 {
		return Config{}, nil, fmt.Errorf("invalid configuration of Huawei Cloud: %s",
			strings.Join(problems, "; "))
	}
	return c, warnings, nil
}
