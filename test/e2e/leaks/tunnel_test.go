package leaks

import (
	"net/url"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/netfault"
)

// tunnelTo opens a tunnel to the server at the address until the test ends. It counts the open
// connections.
func tunnelTo(t *testing.T, target string) *netfault.Proxy {
	t.Helper()
	tunnel, err := netfault.Listen(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tunnel.Close(); err != nil {
			t.Error(err)
		}
	})
	return tunnel
}

// through is the client configuration that uses a tunnel to its server.
func through(t *testing.T, cfg *rest.Config) (*rest.Config, *netfault.Proxy) {
	t.Helper()
	server, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	tunnel := tunnelTo(t, server.Host)
	cfg = rest.CopyConfig(cfg)
	cfg.Host = "https://" + tunnel.Addr()
	return cfg, tunnel
}
