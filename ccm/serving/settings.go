package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/apiconn"
)

// settings is a validated Config with the content of its files.
type settings struct {
	cfg servingconfig.Config
	log logr.Logger

	minVersion uint16
	ciphers    []uint16
	curves     []tls.CurveID

	// main is the serving certificate from files, or nil.
	main *reloaded[*tls.Certificate]
	sni  []namedCertificate

	// clientCA and proxyCA are nil without files; then the ConfigMap of the cluster has the CAs.
	clientCA, proxyCA *reloaded[*caBundle]

	// authentication and authorization configure the clients for reviews.
	authentication, authorization *rest.Config

	open openPaths
}

// check validates cfg and reads its files. Reviews use client, unless cfg names another
// configuration. The error names every invalid field.
func check(client *rest.Config, cfg servingconfig.Config, log logr.Logger) (*settings, error) {
	c := &checker{settings: &settings{cfg: cfg, log: log}, path: field.NewPath("serving")}
	c.errs = cfg.Validate(c.path)
	c.checkTLS()
	c.checkCertificates()
	c.checkSockets()
	c.checkAuthentication(client)
	c.checkAuthorization(client)
	if len(c.errs) > 0 {
		return nil, &ccm.ConfigError{Fields: c.errs}
	}
	return c.settings, nil
}

type checker struct {
	*settings
	path *field.Path
	errs field.ErrorList
}

// invalid adds an error that also names the flag, because most users set the field with the flag.
func (c *checker) invalid(path *field.Path, value any, flag string, err error) {
	c.errs = append(c.errs, field.Invalid(path, value, "--"+flag+": "+err.Error()))
}

func (c *checker) checkTLS() {
	var err error
	if c.minVersion, err = cliflag.TLSVersion(c.cfg.MinTLSVersion); err != nil {
		c.invalid(c.path.Child("minTLSVersion"), c.cfg.MinTLSVersion, "tls-min-version",
			fmt.Errorf("not one of %s", strings.Join(cliflag.TLSPossibleVersions(), ", ")))
	}
	for i, name := range c.cfg.CipherSuites {
		ids, err := cliflag.TLSCipherSuites([]string{name})
		if err != nil {
			c.invalid(c.path.Child("cipherSuites").Index(i), name, "tls-cipher-suites",
				fmt.Errorf("unknown; secure ones are %s",
					strings.Join(cliflag.PreferredTLSCipherNames(), ", ")))
		}
		c.ciphers = append(c.ciphers, ids...)
		if slices.Contains(cliflag.InsecureTLSCipherNames(), name) {
			c.log.Info("Insecure cipher suite is allowed", "cipherSuite", name)
		}
	}
	if c.curves, err = cliflag.TLSCurvePreferences(c.cfg.CurvePreferences); err != nil {
		c.invalid(c.path.Child("curvePreferences"), c.cfg.CurvePreferences,
			"tls-curve-preferences", err)
	}
	if c.lacksHTTP2Cipher() {
		c.invalid(c.path.Child("cipherSuites"), c.cfg.CipherSuites, "tls-cipher-suites", errors.New(
			"HTTP/2 needs TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256; add one, or set --disable-http2-serving"))
	}
	if c.cfg.HTTP2MaxStreams < 0 {
		c.errs = append(c.errs, field.Invalid(
			c.path.Child("http2MaxStreams"), c.cfg.HTTP2MaxStreams,
			"must not be negative; 0 is Go's default"))
	}
}

// lacksHTTP2Cipher reports whether net/http would refuse to serve (RFC 9113, 9.2.2). TLS 1.3 has
// its own suites.
func (c *checker) lacksHTTP2Cipher() bool {
	return !c.cfg.DisableHTTP2 && c.minVersion < tls.VersionTLS13 &&
		len(c.ciphers) > 0 && len(c.ciphers) == len(c.cfg.CipherSuites) &&
		!slices.Contains(c.ciphers, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) &&
		!slices.Contains(c.ciphers, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
}

func (c *checker) checkCertificates() {
	var err error
	switch {
	case c.cfg.CertFile != "" && c.cfg.KeyFile != "":
		if c.main, err = loadKeyPair(c.log, c.cfg.CertFile, c.cfg.KeyFile); err != nil {
			c.invalid(c.path.Child("certFile"), c.cfg.CertFile,
				"tls-cert-file, --tls-private-key-file", err)
		}
	case c.cfg.CertFile != "" || c.cfg.KeyFile != "": // Config.Validate reports it
	case c.cfg.CertDirectory != "":
		if c.main, err = c.pairInDirectory(); err != nil {
			c.invalid(c.path.Child("certDirectory"), c.cfg.CertDirectory, "cert-dir", err)
		}
	}
	for i, text := range c.cfg.SNICertKeys {
		path := c.path.Child("sniCertKeys").Index(i)
		named, err := parseNamedCertificate(text)
		if err != nil {
			c.invalid(path, text, "tls-sni-cert-key", err)
			continue
		}
		pair, err := loadKeyPair(c.log, named.CertFile, named.KeyFile)
		if err != nil {
			c.invalid(path, text, "tls-sni-cert-key", err)
			continue
		}
		c.sni = append(c.sni, namedCertificate{pair: pair, names: named.Names})
	}
}

// pairInDirectory reads an existing certificate of the directory; nil if it has no certificate.
func (s *settings) pairInDirectory() (*reloaded[*tls.Certificate], error) {
	certFile, keyFile := pairFiles(s.cfg.CertDirectory)
	there, err := certutil.CanReadCertAndKey(certFile, keyFile)
	if err != nil || !there {
		return nil, err
	}
	return loadKeyPair(s.log, certFile, keyFile)
}

func (c *checker) checkSockets() {
	if canShare {
		return
	}
	if c.cfg.PermitPortSharing {
		c.errs = append(c.errs, field.Forbidden(c.path.Child("permitPortSharing"),
			"--permit-port-sharing: this operating system cannot share a port"))
	}
	if c.cfg.PermitAddressSharing {
		c.errs = append(c.errs, field.Forbidden(c.path.Child("permitAddressSharing"),
			"--permit-address-sharing: this operating system cannot share an address"))
	}
}

func (c *checker) checkAuthentication(client *rest.Config) {
	cfg, path := c.cfg.Authentication, c.path.Child("authentication")
	var err error
	if cfg.ClientCAFile != "" {
		if c.clientCA, err = loadCAs(c.log, cfg.ClientCAFile); err != nil {
			c.invalid(path.Child("clientCAFile"), cfg.ClientCAFile, "client-ca-file", err)
		}
	}
	c.authentication = c.client(
		client, path.Child("kubeconfig"), cfg.Kubeconfig, "authentication-kubeconfig")
	c.notNegative(path.Child("tokenCacheTTL"), cfg.TokenCacheTTL.Duration)
	c.checkRequestHeader(cfg.RequestHeader, path.Child("requestHeader"))
}

func (c *checker) checkRequestHeader(cfg servingconfig.RequestHeader, path *field.Path) {
	for _, list := range []struct {
		name, flag string
		values     []string
	}{
		{"allowedNames", "requestheader-allowed-names", cfg.AllowedNames},
		{"usernameHeaders", "requestheader-username-headers", cfg.UsernameHeaders},
		{"uidHeaders", "requestheader-uid-headers", cfg.UIDHeaders},
		{"groupHeaders", "requestheader-group-headers", cfg.GroupHeaders},
		{"extraHeaderPrefixes", "requestheader-extra-headers-prefix", cfg.ExtraHeaderPrefixes},
	} {
		for i, value := range list.values {
			if strings.TrimSpace(value) == "" {
				c.errs = append(c.errs, field.Required(
					path.Child(list.name).Index(i), "--"+list.flag+": an empty value"))
			}
		}
	}
	if cfg.ClientCAFile == "" {
		return
	}
	if len(cfg.UsernameHeaders) == 0 {
		c.errs = append(c.errs, field.Required(path.Child("usernameHeaders"),
			"--requestheader-username-headers: --requestheader-client-ca-file needs at least one"))
	}
	var err error
	if c.proxyCA, err = loadCAs(c.log, cfg.ClientCAFile); err != nil {
		c.invalid(path.Child("clientCAFile"), cfg.ClientCAFile, "requestheader-client-ca-file", err)
	}
}

func (c *checker) checkAuthorization(client *rest.Config) {
	cfg, path := c.cfg.Authorization, c.path.Child("authorization")
	c.authorization = c.client(
		client, path.Child("kubeconfig"), cfg.Kubeconfig, "authorization-kubeconfig")
	c.notNegative(path.Child("authorizedCacheTTL"), cfg.AuthorizedCacheTTL.Duration)
	c.notNegative(path.Child("unauthorizedCacheTTL"), cfg.UnauthorizedCacheTTL.Duration)
	for i, text := range cfg.AlwaysAllowPaths {
		if err := c.open.add(text); err != nil {
			c.invalid(path.Child("alwaysAllowPaths").Index(i), text,
				"authorization-always-allow-paths", err)
		}
	}
}

func (c *checker) notNegative(path *field.Path, d time.Duration) {
	if d < 0 {
		c.errs = append(c.errs, field.Invalid(path, d.String(), "must not be negative"))
	}
}

// client returns the configuration of the kubeconfig, or else the given one, for reviews.
func (c *checker) client(
	given *rest.Config, path *field.Path, kubeconfig, flag string,
) *rest.Config {
	config := rest.CopyConfig(given)
	if kubeconfig != "" {
		var err error
		if config, err = apiconn.FromFlags("", kubeconfig); err != nil {
			c.invalid(path, kubeconfig, flag, err)
			return nil
		}
		config.ContentType, config.AcceptContentTypes = given.ContentType, given.AcceptContentTypes
		config.UserAgent = given.UserAgent
	}
	config.RateLimiter = newReviewLimiter()
	// Each request has its own timeout; this one would end watches.
	config.Timeout = 0
	config.UserAgent += "/serving"
	return config
}

// certificates creates a self-signed serving certificate if no files are configured.
func (s *settings) certificates() (*certificates, error) {
	main := s.main
	if main == nil && s.cfg.CertDirectory != "" && s.cfg.CertFile == "" {
		var err error
		if main, err = s.certificateInDirectory(); err != nil {
			return nil, fmt.Errorf(
				"serving: certificate in %s (--cert-dir): %w", s.cfg.CertDirectory, err)
		}
	}
	if main != nil {
		return &certificates{main: main.get, sni: s.sni}, nil
	}
	pair, err := s.certificateInMemory()
	if err != nil {
		return nil, fmt.Errorf("serving: create a self-signed certificate: %w", err)
	}
	return &certificates{main: func() *tls.Certificate { return &pair }, sni: s.sni}, nil
}

func (s *settings) certificateInMemory() (tls.Certificate, error) {
	certPEM, keyPEM, err := selfSigned(net.ParseIP(s.cfg.BindAddress), s.needsRSA())
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

// certificateInDirectory reads the certificate of the directory, or creates it for this and later
// starts.
func (s *settings) certificateInDirectory() (*reloaded[*tls.Certificate], error) {
	if pair, err := s.pairInDirectory(); pair != nil || err != nil {
		return pair, err
	}
	certPEM, keyPEM, err := selfSigned(net.ParseIP(s.cfg.BindAddress), s.needsRSA())
	if err != nil {
		return nil, err
	}
	certFile, keyFile := pairFiles(s.cfg.CertDirectory)
	if err := keyutil.WriteKey(keyFile, keyPEM); err != nil {
		return nil, err
	}
	if err := certutil.WriteCert(certFile, certPEM); err != nil {
		return nil, err
	}
	return loadKeyPair(s.log, certFile, keyFile)
}

// needsRSA reports whether no allowed cipher suite of TLS 1.2 works with an ECDSA certificate.
func (s *settings) needsRSA() bool {
	return len(s.ciphers) > 0 && !slices.ContainsFunc(s.ciphers, func(id uint16) bool {
		return strings.Contains(tls.CipherSuiteName(id), "_ECDSA_")
	})
}

func (s *settings) protocols() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(!s.cfg.DisableHTTP2)
	return &p
}

// tlsConfig requests client certificates if a CA may be trusted, and does not require them, because
// clients may use tokens. The authenticators verify the certificates.
func (s *settings) tlsConfig(shown *certificates, who *identities) *tls.Config {
	config := &tls.Config{
		MinVersion:       s.minVersion,
		CipherSuites:     s.ciphers,
		CurvePreferences: s.curves,
		GetCertificate:   shown.forClient,
		NextProtos:       []string{"h2", "http/1.1"},
	}
	if s.cfg.DisableHTTP2 {
		config.NextProtos = []string{"http/1.1"}
	}
	if !who.asksForCertificates() {
		return config
	}
	config.ClientAuth = tls.RequestClientCert
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		current := config.Clone()
		current.GetConfigForClient = nil
		current.ClientCAs = who.acceptedCAs()
		return current, nil
	}
	return config
}
