package serving

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/inflight"
)

// trust is whom to believe: who signs client certificates, and which front proxy names users. What is nil is not believed.
type trust struct {
	clients *caBundle
	proxy   *proxyTrust
}

type proxyTrust struct {
	ca *caBundle
	// allowedNames are the proxy's own; empty: any that ca has signed.
	allowedNames                                                   []string
	usernameHeaders, uidHeaders, groupHeaders, extraHeaderPrefixes []string
}

// identities finds out who asks, and whether he may. It belongs to one run.
type identities struct {
	settings *settings
	// cluster is nil when nothing has to be read from the cluster.
	cluster *clusterTrust
	chain   authenticator.Request
	access  *accessReviews
	clients []*http.Client
}

// identities builds what a run needs. No request is made.
func (s *settings) identities(tasks *inflight.Set, background context.Context) (*identities, error) {
	i := &identities{settings: s}
	forTokens, err := i.client(s.authentication)
	if err != nil {
		return nil, fmt.Errorf("serving: client for authentication: %w", err)
	}
	forAccess, err := i.client(s.authorization)
	if err != nil {
		return nil, fmt.Errorf("serving: client for authorization: %w", err)
	}
	if !s.cfg.Authentication.SkipLookup && (s.clientCA == nil || s.proxyCA == nil) {
		i.cluster = newClusterTrust(forTokens, s.log)
	}
	tokens := &tokenReviews{client: forTokens.AuthenticationV1().TokenReviews(), tasks: tasks, background: background}
	ttl := s.cfg.Authentication.TokenCacheTTL.Duration
	i.chain = group.NewAuthenticatedGroupAdder(chain{
		authenticator.RequestFunc(i.byProxy),
		x509request.NewDynamic(i.verifyClient, x509request.CommonNameUserConversion),
		bearertoken.New(cache.New(tokens, false, ttl, ttl)),
	})
	i.access = newAccessReviews(forAccess.AuthorizationV1().SubjectAccessReviews(), s.cfg.Authorization)
	return i, nil
}

func (i *identities) client(config *rest.Config) (kubernetes.Interface, error) {
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	i.clients = append(i.clients, transport)
	return kubernetes.NewForConfigAndClient(config, transport)
}

// close gives back idle connections. client-go may share them with other clients of the same configuration, which open new ones.
func (i *identities) close() {
	for _, client := range i.clients {
		closeIdle(client.Transport)
	}
}

func closeIdle(transport http.RoundTripper) {
	switch t := transport.(type) {
	case interface{ CloseIdleConnections() }:
		t.CloseIdleConnections()
	case utilnet.RoundTripperWrapper:
		closeIdle(t.WrappedRoundTripper())
	}
}

// missing says why nobody can be known yet; "" if all is there.
func (i *identities) missing() string {
	if i.cluster == nil || i.settings.cfg.Authentication.TolerateLookupFailure {
		return ""
	}
	return i.cluster.missing()
}

// who returns the one who asks. An error that is an [unavailable] says that it could not be found out; any other that a credential is
// no good.
func (i *identities) who(r *http.Request) (user.Info, error) {
	answer, ok, err := i.chain.AuthenticateRequest(r)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, nil
	}
	return answer.User, nil
}

// trusted is whom to believe at this moment: files come first, the cluster fills in.
func (i *identities) trusted() trust {
	var t trust
	if i.cluster != nil {
		t = i.cluster.trusted()
	}
	if i.settings.clientCA != nil {
		t.clients = i.settings.clientCA.get()
	}
	if i.settings.proxyCA != nil {
		cfg := i.settings.cfg.Authentication.RequestHeader
		t.proxy = &proxyTrust{
			ca:                  i.settings.proxyCA.get(),
			allowedNames:        cfg.AllowedNames,
			usernameHeaders:     cfg.UsernameHeaders,
			uidHeaders:          cfg.UIDHeaders,
			groupHeaders:        cfg.GroupHeaders,
			extraHeaderPrefixes: cfg.ExtraHeaderPrefixes,
		}
	}
	return t
}

// byProxy believes the headers of a front proxy. The authenticator is made for each request, so that its CA and the names it allows are of
// one moment.
func (i *identities) byProxy(r *http.Request) (*authenticator.Response, bool, error) {
	p := i.trusted().proxy
	if p == nil {
		return nil, false, nil
	}
	list := func(values []string) headerrequest.StringSliceProvider {
		return headerrequest.StaticStringSlice(values)
	}
	return headerrequest.NewDynamicVerifyOptionsSecure(x509request.StaticVerifierFn(p.ca.verify()),
		list(p.allowedNames), list(p.usernameHeaders), list(p.uidHeaders), list(p.groupHeaders), list(p.extraHeaderPrefixes),
	).AuthenticateRequest(r)
}

func (i *identities) verifyClient() (x509.VerifyOptions, bool) {
	clients := i.trusted().clients
	if clients == nil {
		return x509.VerifyOptions{}, false
	}
	return clients.verify(), true
}

func (b *caBundle) verify() x509.VerifyOptions {
	return x509.VerifyOptions{Roots: b.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

func (i *identities) asksForCertificates() bool {
	return i.cluster != nil || i.settings.clientCA != nil || i.settings.proxyCA != nil
}

// hint tells clients whose certificates would be believed, so that one with several can choose.
func (i *identities) hint() *x509.CertPool {
	t := i.trusted()
	pool := x509.NewCertPool()
	if t.clients != nil {
		for _, c := range t.clients.certificates {
			pool.AddCert(c)
		}
	}
	if t.proxy != nil {
		for _, c := range t.proxy.ca.certificates {
			pool.AddCert(c)
		}
	}
	return pool
}

// chain asks one authenticator after the other; the first that knows the caller decides. Other than k8s.io/apiserver's union its error
// can be looked into.
type chain []authenticator.Request

// AuthenticateRequest implements authenticator.Request.
func (c chain) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	var errs []error
	for _, a := range c {
		answer, ok, err := a.AuthenticateRequest(r)
		if ok && err == nil {
			return answer, true, nil
		}
		errs = append(errs, err)
	}
	return nil, false, errors.Join(errs...)
}
