package fake

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
)

// backend handles a provider's calls: a Cloud in this process, or a Client.
type backend interface {
	call(ctx context.Context, caller string, method Method, args arguments) (results, error)
}

// provider is one view of a cloud. It turns the interfaces' methods into calls, and answers into
// their results. The Cloud does everything else.
type provider struct {
	backend backend
	info    info

	caller       string
	initialize   func(cloudprovider.ControllerClientBuilder, <-chan struct{})
	setInformers func(informers.SharedInformerFactory)
}

// A ProviderOption configures one provider; see [Cloud.Provider] and [Client.Provider].
type ProviderOption func(*provider)

// WithCaller sets the Caller of the provider's calls in the record. Give each term of each process
// a name of its own, such as "replica-a/term-3". The default is "".
func WithCaller(caller string) ProviderOption { return func(p *provider) { p.caller = caller } }

// WithInitialize runs f in Initialize, after the call is recorded. A test can start work there that
// runs until stop is closed.
func WithInitialize(
	f func(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}),
) ProviderOption {
	return func(p *provider) { p.initialize = f }
}

// WithSetInformers runs f in SetInformers, after the call is recorded. A test can register event
// handlers there.
func WithSetInformers(f func(informers.SharedInformerFactory)) ProviderOption {
	return func(p *provider) { p.setInformers = f }
}

// Provider opens a provider on the cloud: one for each CCM, or each of its terms. It is a
// cloudprovider.InformerUser and a cloudprovider.PVLabeler if the cloud serves these.
func (c *Cloud) Provider(opts ...ProviderOption) cloudprovider.Interface {
	return newProvider(c, c.info(), opts)
}

func newProvider(b backend, i info, opts []ProviderOption) cloudprovider.Interface {
	p := &provider{backend: b, info: i}
	for _, opt := range opts {
		opt(p)
	}
	// Callers find these two by a type assertion, so each combination needs a type.
	informerUser, volumeLabeler := informerUser{p}, volumeLabeler{p}
	switch {
	case i.supports("InformerUser") && i.supports("PVLabeler"):
		return struct {
			*provider
			cloudprovider.InformerUser
			cloudprovider.PVLabeler
		}{p, informerUser, volumeLabeler}
	case i.supports("InformerUser"):
		return struct {
			*provider
			cloudprovider.InformerUser
		}{p, informerUser}
	case i.supports("PVLabeler"):
		return struct {
			*provider
			cloudprovider.PVLabeler
		}{p, volumeLabeler}
	default:
		return p
	}
}

func (p *provider) call(ctx context.Context, m Method, args arguments) (results, error) {
	return p.backend.call(ctx, p.caller, m, args)
}

// offer is the getter of cloudprovider.Interface for another interface.
func offer[T any](p *provider, which Interface, impl T) (T, bool) {
	if !p.info.supports(which) {
		var none T
		return none, false
	}
	return impl, true
}

// ProviderName implements cloudprovider.Interface.
func (p *provider) ProviderName() string { return p.info.ProviderName }

// HasClusterID implements cloudprovider.Interface.
func (p *provider) HasClusterID() bool { return p.info.HasClusterID }

// Initialize implements cloudprovider.Interface. It cannot report an error; after one, the function
// of [WithInitialize] is not run.
func (p *provider) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	_, err := p.call(wait.ContextForChannel(stop), "Initialize", arguments{})
	if err == nil && p.initialize != nil {
		p.initialize(builder, stop)
	}
}

// informerUser is added to a provider when InformerUser is served.
type informerUser struct{ user *provider }

// SetInformers implements cloudprovider.InformerUser. It cannot report an error; after one, the
// function of [WithSetInformers] is not run.
func (u informerUser) SetInformers(factory informers.SharedInformerFactory) {
	// The interface has no context.
	_, err := u.user.call(context.Background(), "SetInformers", arguments{})
	if err == nil && u.user.setInformers != nil {
		u.user.setInformers(factory)
	}
}
