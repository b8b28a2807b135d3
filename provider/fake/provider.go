package fake

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
)

// backend is where a provider's calls go: a Cloud in this process, or a Client.
type backend interface {
	call(ctx context.Context, caller string, method Method, args arguments) (results, error)
}

// provider is one view of a cloud. It turns the interfaces' methods into calls, and answers into
// their results; all else happens in the Cloud.
type provider struct {
	backend backend
	info    info

	caller       string
	initialize   func(cloudprovider.ControllerClientBuilder, <-chan struct{})
	setInformers func(informers.SharedInformerFactory)
}

// A ProviderOption configures one provider; see [Cloud.Provider] and [Client.Provider].
type ProviderOption func(*provider)

// WithCaller sets who calls: the Caller of the provider's calls in the record. Give each term of
// each process a name of its own, such as "replica-a/term-3". The default is "".
func WithCaller(caller string) ProviderOption { return func(p *provider) { p.caller = caller } }

// WithInitialize runs f in Initialize, after the call is recorded. It is the place to start what a
// test wants its provider to run until stop is closed.
func WithInitialize(
	f func(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}),
) ProviderOption {
	return func(p *provider) { p.initialize = f }
}

// WithSetInformers runs f in SetInformers, after the call is recorded. It is the place to register
// event handlers.
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
	// Callers find these two by type assertion, so there is a type for each combination.
	informerUser, volumeLabeler := informerUser{p}, volumeLabeler{p}
	switch {
	case i.supports(InformerUser) && i.supports(PVLabeler):
		return struct {
			*provider
			cloudprovider.InformerUser
			cloudprovider.PVLabeler
		}{p, informerUser, volumeLabeler}
	case i.supports(InformerUser):
		return struct {
			*provider
			cloudprovider.InformerUser
		}{p, informerUser}
	case i.supports(PVLabeler):
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

// offer answers cloudprovider.Interface's questions for the other interfaces.
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

// Initialize implements cloudprovider.Interface. It cannot report an error: after one, what
// [WithInitialize] gave is not run.
func (p *provider) Initialize(builder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	_, err := p.call(wait.ContextForChannel(stop), Initialize, arguments{})
	if err == nil && p.initialize != nil {
		p.initialize(builder, stop)
	}
}

// informerUser is what a provider has more when InformerUser is served.
type informerUser struct{ user *provider }

// SetInformers implements cloudprovider.InformerUser. It cannot report an error: after one, what
// [WithSetInformers] gave is not run.
func (u informerUser) SetInformers(factory informers.SharedInformerFactory) {
	// The interface has no context to offer.
	_, err := u.user.call(context.Background(), SetInformers, arguments{})
	if err == nil && u.user.setInformers != nil {
		u.user.setInformers(factory)
	}
}
