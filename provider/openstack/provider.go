package openstack

import (
	"context"
	"errors"
	"fmt"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Name is the name of the provider: --cloud-provider=openstack.
const Name = "openstack"

// An Option changes what [Provider] and [Module] make.
type Option func(*source)

// WithConfig gives the configuration as data, instead of a file. It is an error to name a file in ccm.Config, too. Credentials do not
// change then while the provider lives, but certificates and keys are read anew when their files change.
func WithConfig(cfg cloudconf.Config) Option { return func(s *source) { s.given = &cfg } }

// WithEnvironment lets the variables that OCCM heeds count, see [cloudconf.Options]: os.Getenv in a program of its own. Default: none
// are read, since the environment is the host's.
func WithEnvironment(getenv func(string) string) Option {
	return func(s *source) { s.environment = getenv }
}

// Provider is OpenStack as the provider of a [ccm.Manager]. Its configuration is the cloud.conf that ccm.Config names
// (--cloud-config), or that of [WithConfig]. It is checked by ccm.New, and read anew in each term and when it changes.
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

// source is where the configuration comes from.
type source struct {
	given       *cloudconf.Config
	environment func(string) string
}

// load reads the configuration. The error tells all that is wrong with it, and no secret.
func (s source) load(path string, strict bool) (cloudconf.Loaded, error) {
	switch {
	case s.given != nil && path != "":
		return cloudconf.Loaded{}, fmt.Errorf("the host has given a configuration, and a file is named too (%s): there can be only one", path)
	case s.given != nil:
		warnings, err := cloudconf.Classify(cloudconf.Validate(*s.given), strict)
		return cloudconf.Loaded{Config: *s.given, Warnings: warnings}, err
	case path == "":
		return cloudconf.Loaded{}, errors.New("there is no configuration: name a cloud.conf with --cloud-config (cloudProvider.configFile)")
	}
	return cloudconf.Load(path, cloudconf.Options{Strict: strict, Environment: s.environment})
}
