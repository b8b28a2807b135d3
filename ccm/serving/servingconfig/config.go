// Package servingconfig holds the configuration of the secure port. It is separate from package
// serving, so that package options does not link k8s.io/apiserver.
package servingconfig

import (
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TokenAudience is an audience of ServiceAccount tokens that the secure port accepts beside the API
// server's. A token with this audience alone opens secure ports and nothing else, so that a client
// loses little to a port that it cannot verify.
const TokenAudience = "fxccm.dev/secure-port"

// Config configures the secure port: plain data, like ccm.Config. Start from [Default]. Names and
// meanings are those of upstream's cloud-controller-manager flags, given in parentheses.
type Config struct {
	// BindAddress is the IP address to listen on (--bind-address). Default "0.0.0.0".
	BindAddress string `json:"bindAddress"`

	// SecurePort is the HTTPS port; 0 disables it (--secure-port). Default 10258.
	SecurePort int `json:"securePort"`

	// CertDirectory, CertFile and KeyFile give the serving certificate (--cert-dir,
	// --tls-cert-file, --tls-private-key-file). Default: a self-signed one in memory.
	CertDirectory string `json:"certDirectory,omitempty"`
	CertFile      string `json:"certFile,omitempty"`
	KeyFile       string `json:"keyFile,omitempty"`

	// SNICertKeys are further certificates, each "cert,key" or "cert,key:pattern,pattern"
	// (--tls-sni-cert-key).
	SNICertKeys []string `json:"sniCertKeys,omitempty"`

	// CipherSuites, CurvePreferences and MinTLSVersion restrict TLS by Go's names
	// (--tls-cipher-suites, --tls-curve-preferences, --tls-min-version). Default: Go's own.
	CipherSuites     []string `json:"cipherSuites,omitempty"`
	CurvePreferences []int32  `json:"curvePreferences,omitempty"`
	MinTLSVersion    string   `json:"minTLSVersion,omitempty"`

	// DisableHTTP2 and HTTP2MaxStreams tune HTTP/2 (--disable-http2-serving,
	// --http2-max-streams-per-connection; 0 is Go's default).
	DisableHTTP2    bool `json:"disableHTTP2,omitempty"`
	HTTP2MaxStreams int  `json:"http2MaxStreams,omitempty"`

	// PermitPortSharing and PermitAddressSharing set SO_REUSEPORT and SO_REUSEADDR
	// (--permit-port-sharing, --permit-address-sharing).
	PermitPortSharing    bool `json:"permitPortSharing,omitempty"`
	PermitAddressSharing bool `json:"permitAddressSharing,omitempty"`

	// Profiling serves /debug/ on the secure port (--profiling). Default true.
	Profiling bool `json:"profiling"`

	// ContentionProfiling samples blocking for /debug/pprof/block (--contention-profiling).
	// The setting applies to the whole process, so only the standalone binary applies it.
	// Default false.
	ContentionProfiling bool `json:"contentionProfiling,omitempty"`

	Authentication Authentication `json:"authentication"`
	Authorization  Authorization  `json:"authorization"`
}

// Authentication configures how clients of the secure port are authenticated: by client
// certificate, by the request headers of a front proxy, and by TokenReview.
type Authentication struct {
	// Kubeconfig is used for TokenReviews (--authentication-kubeconfig). Default "": the Manager's.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// SkipLookup does not read the ConfigMap kube-system/extension-apiserver-authentication
	// (--authentication-skip-lookup). Default false.
	SkipLookup bool `json:"skipLookup,omitempty"`

	// TolerateLookupFailure authenticates without the ConfigMap while it cannot be read
	// (--authentication-tolerate-lookup-failure). Default false.
	TolerateLookupFailure bool `json:"tolerateLookupFailure,omitempty"`

	// TokenCacheTTL is how long the result of a TokenReview is cached
	// (--authentication-token-webhook-cache-ttl). Default 10s.
	TokenCacheTTL metav1.Duration `json:"tokenCacheTTL"`

	// ClientCAFile verifies client certificates (--client-ca-file).
	ClientCAFile string `json:"clientCAFile,omitempty"`

	// RequestHeader authenticates a front proxy (--requestheader-*).
	RequestHeader RequestHeader `json:"requestHeader"`
}

// RequestHeader configures the authentication of a front proxy.
type RequestHeader struct {
	ClientCAFile        string   `json:"clientCAFile,omitempty"`
	AllowedNames        []string `json:"allowedNames,omitempty"`
	UsernameHeaders     []string `json:"usernameHeaders"`
	UIDHeaders          []string `json:"uidHeaders,omitempty"`
	GroupHeaders        []string `json:"groupHeaders"`
	ExtraHeaderPrefixes []string `json:"extraHeaderPrefixes"`
}

// Authorization configures which requests to the secure port are allowed, by SubjectAccessReview.
type Authorization struct {
	// Kubeconfig is used for SubjectAccessReviews (--authorization-kubeconfig). Default "": the
	// Manager's.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// AlwaysAllowPaths need no authorization (--authorization-always-allow-paths).
	// Default /healthz, /readyz, /livez.
	AlwaysAllowPaths []string `json:"alwaysAllowPaths"`

	// AuthorizedCacheTTL and UnauthorizedCacheTTL are how long results are cached
	// (--authorization-webhook-cache-authorized-ttl, -unauthorized-ttl). Default 10s each.
	AuthorizedCacheTTL   metav1.Duration `json:"authorizedCacheTTL"`
	UnauthorizedCacheTTL metav1.Duration `json:"unauthorizedCacheTTL"`
}

// Default returns upstream's defaults.
func Default() Config {
	ttl := metav1.Duration{Duration: 10 * time.Second}
	return Config{
		BindAddress: "0.0.0.0",
		SecurePort:  10258,
		Profiling:   true,
		Authentication: Authentication{
			TokenCacheTTL: ttl,
			RequestHeader: RequestHeader{
				UsernameHeaders:     []string{"x-remote-user"},
				GroupHeaders:        []string{"x-remote-group"},
				ExtraHeaderPrefixes: []string{"x-remote-extra-"},
			},
		},
		Authorization: Authorization{
			AlwaysAllowPaths:     []string{"/healthz", "/readyz", "/livez"},
			AuthorizedCacheTTL:   ttl,
			UnauthorizedCacheTTL: ttl,
		},
	}
}

// Validate checks the fields without reading files; serving.New checks the files. path is the path
// of c in the configuration.
func (c Config) Validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.SecurePort < 0 || c.SecurePort > 65535 {
		errs = append(errs, field.Invalid(path.Child("securePort"), c.SecurePort,
			"must be between 0 and 65535"))
	}
	if c.SecurePort != 0 && net.ParseIP(c.BindAddress) == nil {
		errs = append(errs, field.Invalid(path.Child("bindAddress"), c.BindAddress,
			"must be an IP address"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, field.Invalid(path.Child("certFile"), c.CertFile,
			"certFile and keyFile must be given together"))
	}
	return errs
}
