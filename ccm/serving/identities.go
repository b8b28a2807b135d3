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

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/internal/inflight"
)

// trust holds the CAs of client certificates and the front proxy. A nil field disables that way to
// authenticate.
type trust struct {
	clients *caBundle
	proxy   *proxyTrust
}

type proxyTrust struct {
	ca *caBundle
	// allowedNames are common names of the proxy's certificate; empty allows all that ca signed.
	allowedNames []string

	usernameHeaders, uidHeaders, groupHeaders, extraHeaderPrefixes []string
}

// identities authenticates and authorizes clients. It belongs to one run.
type identities struct {
	settings *settings
	// cluster is nil if the configuration does not need the ConfigMap.
	cluster *clusterTrust
	chain   authenticator.Request
	access  *accessReviews
	clients []*http.Client
}

// identities returns the identities of a run. It sends no request.
func (s *settings) identities(
	tasks *inflight.Set, background context.Context,
) (*identities, error) {
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
	tokens := &tokenReviews{
		client: forTokens.AuthenticationV1().TokenReviews(), tasks: tasks, background: background,
	}
	ttl := s.cfg.Authentication.TokenCacheTTL.Duration
	i.chain = group.NewAuthenticatedGroupAdder(chain{
		authenticator.RequestFunc(i.byProxy),
		x509request.NewDynamic(i.verifyClient, x509request.CommonNameUserConversion),
		bearertoken.New(cache.New(tokens, false, ttl, ttl)),
	})
	reviews := forAccess.AuthorizationV1().SubjectAccessReviews()
	i.access = newAccessReviews(reviews, s.cfg.Authorization)
	return i, nil
}

func (i *identities) client(config *rest.Config) (kubernetes.Interface, error) {
	config = apiconn.WithoutRedirects(config)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	i.clients = append(i.clients, transport)
	return kubernetes.NewForConfigAndClient(config, transport)
}

// close closes idle connections. client-go may share them with other clients of the same
// configuration, which then open new ones.
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

// missing explains why clients cannot be authenticated yet, or returns "".
func (i *identities) missing() string {
	if i.cluster == nil || i.settings.cfg.Authentication.TolerateLookupFailure {
		return ""
	}
	return i.cluster.missing()
}

// authenticate returns the user of a request. An [unavailable] error means that the API server did
// not review the credentials, any other error that the credentials are invalid.
func (i *identities) authenticate(r *http.Request) (user.Info, error) {
	answer, ok, err := i.chain.AuthenticateRequest(r)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return &user.DefaultInfo{
			Name: user.Anonymous, Groups: []string{user.AllUnauthenticated},
		}, nil
	}
	return answer.User, nil
}

// trusted returns the current trust. Files override the ConfigMap of the cluster.
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

// byProxy authenticates by the headers of a front proxy. It creates an authenticator for each
// request, so that the CA and the allowed names are consistent.
func (i *identities) byProxy(r *http.Request) (*authenticator.Response, bool, error) {
	p := i.trusted().proxy
	if p == nil {
		return nil, false, nil
	}
	list := func(values []string) headerrequest.StringSliceProvider {
		return headerrequest.StaticStringSlice(values)
	}
	return headerrequest.NewDynamicVerifyOptionsSecure(
		x509request.StaticVerifierFn(p.ca.verify()), list(p.allowedNames), list(p.usernameHeaders),
		list(p.uidHeaders), list(p.groupHeaders), list(p.extraHeaderPrefixes),
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
	return x509.VerifyOptions{
		Roots: b.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func (i *identities) asksForCertificates() bool {
	return i.cluster != nil || i.settings.clientCA != nil || i.settings.proxyCA != nil
}

// acceptedCAs returns the CAs of client certificates, so that a client with several certificates
// can choose.
func (i *identities) acceptedCAs() *x509.CertPool {
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

// chain calls one authenticator after the other; the first success decides. Unlike the error of
// k8s.io/apiserver's union, its error works with errors.As.
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
