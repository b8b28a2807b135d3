package serving_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// An invalid configuration is an error of New that names the field and the flag.
func TestNew_InvalidInput_ErrorNamesTheFieldAndTheFlag(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, "ca")
	cert, key := ca.server("a.example").write(t, dir, "a")
	_, otherKey := ca.server("b.example").write(t, dir, "b")
	garbage := write(t, dir, "garbage", []byte("not PEM"))
	lonely := t.TempDir()
	write(t, lonely, "cloud-controller-manager.crt", []byte("x"))
	missing := filepath.Join(dir, "missing")

	for _, c := range []struct {
		name  string
		spoil func(*servingconfig.Config)
		want  []string
	}{
		{"port out of range", func(c *servingconfig.Config) { c.SecurePort = 70000 }, []string{"serving.securePort", "70000"}},
		{"invalid address", func(c *servingconfig.Config) { c.BindAddress = "here" }, []string{"serving.bindAddress", "here"}},
		{"certificate without key", func(c *servingconfig.Config) { c.CertFile = cert }, []string{"serving.certFile", "together"}},
		{
			"missing certificate",
			func(c *servingconfig.Config) { c.CertFile, c.KeyFile = missing, key },
			[]string{"serving.certFile", "--tls-cert-file", missing},
		},
		{
			"key of another certificate",
			func(c *servingconfig.Config) { c.CertFile, c.KeyFile = cert, otherKey },
			[]string{"serving.certFile", "does not match"},
		},
		{"certificate directory with half a pair", func(c *servingconfig.Config) { c.CertDirectory = lonely }, []string{"serving.certDirectory", "--cert-dir"}},
		{"SNI without a key", func(c *servingconfig.Config) { c.SNICertKeys = []string{cert} }, []string{"serving.sniCertKeys[0]", "--tls-sni-cert-key"}},
		{"SNI with a missing key", func(c *servingconfig.Config) {
			c.SNICertKeys = []string{cert + "," + key, cert + "," + missing + ":a.example"}
		}, []string{"serving.sniCertKeys[1]", missing}},
		{
			"unknown cipher suite", func(c *servingconfig.Config) {
				c.CipherSuites = []string{"TLS_AES_128_GCM_SHA256", "TLS_ROT13"}
			},
			[]string{
				"serving.cipherSuites[1]", "TLS_ROT13",
				"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			},
		},
		{"cipher suites that HTTP/2 forbids", func(c *servingconfig.Config) {
			c.CipherSuites = []string{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}
		}, []string{"serving.cipherSuites", "--disable-http2-serving"}},
		{
			"unknown TLS version",
			func(c *servingconfig.Config) { c.MinTLSVersion = "VersionTLS14" },
			[]string{"serving.minTLSVersion", "VersionTLS14", "VersionTLS13"},
		},
		{
			"unknown curve", func(c *servingconfig.Config) { c.CurvePreferences = []int32{7} },
			[]string{"serving.curvePreferences", "--tls-curve-preferences", "7"},
		},
		{
			"negative streams", func(c *servingconfig.Config) { c.HTTP2MaxStreams = -1 },
			[]string{"serving.http2MaxStreams"},
		},
		{
			"missing client CA",
			func(c *servingconfig.Config) { c.Authentication.ClientCAFile = missing },
			[]string{"serving.authentication.clientCAFile", "--client-ca-file"},
		},
		{
			"client CA without PEM",
			func(c *servingconfig.Config) {
				c.Authentication.ClientCAFile = garbage
			},
			[]string{"serving.authentication.clientCAFile", "no PEM certificate"},
		},
		{
			"missing proxy CA", func(c *servingconfig.Config) {
				c.Authentication.RequestHeader.ClientCAFile = missing
			},
			[]string{
				"serving.authentication.requestHeader.clientCAFile",
				"--requestheader-client-ca-file",
			},
		},
		{
			"empty header name", func(c *servingconfig.Config) {
				c.Authentication.RequestHeader.GroupHeaders = []string{"x-remote-group", " "}
			},
			[]string{
				"serving.authentication.requestHeader.groupHeaders[1]",
				"--requestheader-group-headers",
			},
		},
		{"proxy without a user header", func(c *servingconfig.Config) {
			c.Authentication.RequestHeader = servingconfig.RequestHeader{ClientCAFile: write(t, dir,
				"ca", ca.PEM)}
		}, []string{"serving.authentication.requestHeader.usernameHeaders"}},
		{
			"missing kubeconfig for authentication",
			func(c *servingconfig.Config) {
				c.Authentication.Kubeconfig = missing
			},
			[]string{"serving.authentication.kubeconfig", "--authentication-kubeconfig"},
		},
		{
			"bad kubeconfig for authorization",
			func(c *servingconfig.Config) {
				c.Authorization.Kubeconfig = garbage
			},
			[]string{"serving.authorization.kubeconfig", "--authorization-kubeconfig"},
		},
		{
			"path with a * in the middle", func(c *servingconfig.Config) {
				c.Authorization.AlwaysAllowPaths = []string{"/healthz", "/*/x"}
			},
			[]string{
				"serving.authorization.alwaysAllowPaths[1]",
				"--authorization-always-allow-paths",
			},
		},
		{"negative time to live", func(c *servingconfig.Config) {
			c.Authorization.AuthorizedCacheTTL = metav1.Duration{Duration: -time.Second}
		}, []string{"serving.authorization.authorizedCacheTTL", "negative"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer ccmtest.VerifyNoLeaks(t, goleak.IgnoreCurrent())
			m := newManager(t, unreachable())
			cfg := servingconfig.Default()
			c.spoil(&cfg)
			_, err := serving.New(m, cfg, serving.WithLogger(logr.Discard()))
			if wrong := (*ccm.ConfigError)(nil); !errors.As(err, &wrong) || len(wrong.Fields) != 1 {
				t.Fatalf("want a *ccm.ConfigError of one field, got %T %v", err, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}

func TestNew_WithoutAPort_ServesNothing(t *testing.T) {
	m := newManager(t, unreachable())
	cfg := servingconfig.Default()
	cfg.SecurePort = 0
	cfg.CertFile, cfg.KeyFile = "/nowhere/tls.crt", "/nowhere/tls.key"
	s, err := serving.New(m, cfg, serving.WithLogger(logr.Discard()))
	if err != nil {
		t.Fatalf("New without a port reads files: %v", err)
	}
	before := goleak.IgnoreCurrent()
	done := make(chan error, 1)
	ctx, cancel := cancelable(t)
	go func() { done <- s.Run(ctx) }()
	select {
	case err := <-done:
		t.Fatalf("Run returned before its context ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if s.Addr() != nil {
		t.Errorf("the server listens at %s", s.Addr())
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	ccmtest.VerifyNoLeaks(t, before)
}
