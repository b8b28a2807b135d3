package serving_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/waittest"
)

// shown returns the server certificate of a new connection.
func shown(t *testing.T, s *serving.Server, serverName string) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", s.Addr().String(),
		&tls.Config{ServerName: serverName, InsecureSkipVerify: true})
	if err != nil {
		t.Fatalf("connect for %q: %v", serverName, err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func TestTLS_WithoutFiles_ServesASelfSignedCertificate(t *testing.T) {
	s := serve(t, nil)
	cert := shown(t, s.Server, "")
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	// A client that trusts this certificate can verify the server by name and by address.
	for _, name := range []string{"localhost", "127.0.0.1"} {
		c := client(t, func(c *tls.Config) {
			c.InsecureSkipVerify, c.RootCAs, c.ServerName = false, pool, name
		})
		get(t, c, s.Server, "/healthz").wants(t, http.StatusOK, "ok")
	}
}

func TestTLS_CertificateDirectory_KeepsTheCreatedCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	use := func(c *servingconfig.Config) { c.CertDirectory = dir }
	first := shown(t, serve(t, use).Server, "")
	second := shown(t, serve(t, use).Server, "")
	if !first.Equal(second) {
		t.Error("the second start created a new certificate")
	}
	info, err := os.Stat(filepath.Join(dir, "cloud-controller-manager.key"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read the key: %s", info.Mode())
	}
}

func TestTLS_ServerName_SelectsTheCertificate(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	file := func(name string, names ...string) string {
		cert, key := ca.server(names...).write(t, dir, name)
		return cert + "," + key
	}
	main, mainKey := ca.server("main").write(t, dir, "main")
	s := serve(t, func(c *servingconfig.Config) {
		c.CertFile, c.KeyFile = main, mainKey
		c.SNICertKeys = []string{
			file("own", "own.example", "both.example"),
			file("wild", "wild.example", "*.wild.example"),
			file("given", "ignored.example") + ":both.example,exact.wild.example,127.0.0.2",
			file("late", "own.example"),
		}
	})
	for name, want := range map[string]string{
		"":                    "main",
		"elsewhere.example":   "main",
		"own.example":         "own.example",     // the earlier flag
		"OWN.example":         "own.example",     // names ignore case
		"both.example":        "ignored.example", // the name in a flag wins
		"a.wild.example":      "wild.example",
		"a.b.wild.example":    "main",            // a wildcard is one label
		"exact.wild.example":  "ignored.example", // exact wins over wildcard
		"ignored.example":     "main",            // the flag has names for it
		"exact.wild.example.": "ignored.example",
	} {
		if got := shown(t, s.Server, name).Subject.CommonName; got != want {
			t.Errorf("for %q the server sent the certificate of %q, want %q", name, got, want)
		}
	}
}

func TestTLS_FilesChange_NewConnectionsUseThem(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t, "ca")
	main, mainKey := ca.server("main-1").write(t, dir, "main")
	sni, sniKey := ca.server("sni-1", "sni.example").write(t, dir, "sni")
	s := serve(t, func(c *servingconfig.Config) {
		c.CertFile, c.KeyFile = main, mainKey
		c.SNICertKeys = []string{sni + "," + sniKey}
	})
	for serverName, name := range map[string]string{"": "main", "sni.example": "sni"} {
		if got := shown(t, s.Server, serverName).Subject.CommonName; got != name+"-1" {
			t.Fatalf("at first the certificate is %q", got)
		}
		ca.server(name+"-2", "sni.example").write(t, dir, name)
		waittest.Until(t, "the server sends the new certificate of "+name, func() bool {
			return shown(t, s.Server, serverName).Subject.CommonName == name+"-2"
		})
	}
}

func TestTLS_ConfiguredVersionsSuitesAndCurves_AreEnforced(t *testing.T) {
	try := func(s *running, change func(*tls.Config)) error {
		c := &tls.Config{InsecureSkipVerify: true}
		change(c)
		conn, err := tls.Dial("tcp", s.Addr().String(), c)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	upTo12 := func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }

	modern := serve(t, func(c *servingconfig.Config) { c.MinTLSVersion = "VersionTLS13" })
	if try(modern, upTo12) == nil {
		t.Error("TLS 1.2 was accepted although the minimum is 1.3")
	}

	// With only an RSA suite, the self-signed certificate must have an RSA key.
	suite := serve(t, func(c *servingconfig.Config) {
		c.CipherSuites = []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}
	})
	if err := try(suite, upTo12); err != nil {
		t.Errorf("the only allowed suite was refused: %v", err)
	}
	if try(suite, func(c *tls.Config) {
		upTo12(c)
		c.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}
	}) == nil {
		t.Error("a suite that is not allowed was accepted")
	}

	curve := serve(t,
		func(c *servingconfig.Config) { c.CurvePreferences = []int32{int32(tls.CurveP384)} })
	if try(curve, func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }) == nil {
		t.Error("a curve that is not allowed was accepted")
	}
	if err := try(curve,
		func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }); err != nil {
		t.Errorf("the only allowed curve was refused: %v", err)
	}
}

func TestTLS_HTTP2IsDisabled_HTTP1IsUsed(t *testing.T) {
	if a := get(t, client(t, nil), serve(t, nil).Server, "/healthz"); a.ProtoMajor != 2 {
		t.Errorf("the default protocol is %s, want HTTP/2", a.Proto)
	}
	off := serve(t, func(c *servingconfig.Config) { c.DisableHTTP2 = true })
	if a := get(t, client(t, nil), off.Server, "/healthz"); a.ProtoMajor != 1 {
		t.Errorf("HTTP/2 is disabled, but the protocol is %s", a.Proto)
	}
}
