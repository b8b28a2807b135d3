package ccmtest

import (
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// An Option changes the CCM of [StartApp] and [StartManager].
type Option func(*options)

type options struct {
	configure   []func(*ccm.Config)
	identity    *rest.Config
	elector     election.Elector
	lease       bool
	provider    *ccm.Provider
	controllers []ccm.Controller
	extra       []fx.Option
	host        []fx.Option
	unstarted   bool
}

// WithConfig changes the configuration: [Config], or with [WithHost] the host's own. It may be
// given several times.
func WithConfig(change func(*ccm.Config)) Option {
	return func(o *options) { o.configure = append(o.configure, change) }
}

// WithIdentity sets the CCM's client configuration, with the rights that RBAC gives it: see
// [ApplyRBAC]. The default is a separate user with all rights.
func WithIdentity(cfg *rest.Config) Option { return func(o *options) { o.identity = cfg } }

// WithElector lets e decide when the CCM leads. The default is a [ManualElector] that lets it lead
// at once.
func WithElector(e election.Elector) Option { return func(o *options) { o.elector = e } }

// WithLease lets the CCM campaign for its lease, as in production.
func WithLease() Option { return func(o *options) { o.lease = true } }

// WithProvider replaces the fake cloud, which may be nil then, by the provider p.
func WithProvider(p ccm.Provider) Option { return func(o *options) { o.provider = &p } }

// WithControllers adds controllers to the four cloud controllers.
func WithControllers(controllers ...ccm.Controller) Option {
	return func(o *options) { o.controllers = append(o.controllers, controllers...) }
}

// WithFx adds options to the app: fx.Populate, fx.Supply of a test double, …. It is not for
// [StartManager].
func WithFx(opts ...fx.Option) Option {
	return func(o *options) { o.extra = append(o.extra, opts...) }
}

// WithHost builds the app from a host's options: those that its main function gives to fx.New, with
// ccm.Module among them. The fake cloud replaces its providers, which are not built. The test's
// *rest.Config and election.Elector replace the host's, if it has any. The host's configuration
// stays, except the name and the file of the cloud provider and the identity in the election;
// WithConfig changes more.
//
// A replaced type must be visible at the root of the app: fx.Private hides the types that a module
// provides. WithHost is not for [StartManager].
func WithHost(opts ...fx.Option) Option {
	return func(o *options) { o.host = append(o.host, opts...) }
}

// WithoutStart creates the CCM without starting it; the test calls [CCM.Start].
func WithoutStart() Option { return func(o *options) { o.unstarted = true } }

// config is the configuration for an app without [WithHost].
func (o *options) config(identity string) ccm.Config {
	cfg := Config()
	cfg.LeaderElection.Identity = identity
	for _, change := range o.configure {
		change(&cfg)
	}
	return cfg
}

// hostConfig changes a host's configuration.
func (o *options) hostConfig(cfg ccm.Config, identity string, provider ccm.Provider) ccm.Config {
	cfg.CloudProvider.Name, cfg.CloudProvider.ConfigFile = provider.Name, ""
	cfg.LeaderElection.Identity = identity
	for _, change := range o.configure {
		change(&cfg)
	}
	return cfg
}

// chooseElector returns nil for the lease.
func (o *options) chooseElector() election.Elector {
	switch {
	case o.elector != nil:
		return o.elector
	case o.lease:
		return nil
	}
	e := NewManualElector()
	e.Lead()
	return e
}

func (o *options) chooseProvider(cloud *fake.Cloud) ccm.Provider {
	if o.provider != nil {
		return *o.provider
	}
	return cloud.CCMProvider()
}
