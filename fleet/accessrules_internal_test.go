package fleet

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestAccessRules_FieldThatActs_RefusesTheClusterByItsName(t *testing.T) {
	const server = "https://c.example.com"
	proxy, _ := url.Parse("http://u:secret@proxy")
	for want, config := range map[string]*rest.Config{
		"ExecProvider": {
			Host: server, ExecProvider: &clientcmdapi.ExecConfig{Command: "secret"},
		},
		"AuthProvider": {
			Host: server, AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "secret"},
		},
		"BearerTokenFile": {Host: server, BearerTokenFile: "/secret"},
		"CAFile":          {Host: server, TLSClientConfig: rest.TLSClientConfig{CAFile: "/secret"}},
		"CertFile": {
			Host: server, TLSClientConfig: rest.TLSClientConfig{CertFile: "/secret"},
		},
		"KeyFile":  {Host: server, TLSClientConfig: rest.TLSClientConfig{KeyFile: "/secret"}},
		"Username": {Host: server, Username: "secret"},
		"Password": {Host: server, Password: "secret"},
		"Impersonate": {
			Host: server, Impersonate: rest.ImpersonationConfig{Groups: []string{"secret"}},
		},
		"insecure-skip-tls-verify": {
			Host: server, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		},
		"proxy-url":                      {Host: server, Proxy: http.ProxyURL(proxy)},
		"BearerToken":                    {Host: server, BearerToken: "secret\n"},
		"another scheme than https":      {Host: "http://secret"},
		"a user name or a password":      {Host: "https://u:secret@c.example.com"},
		"not a valid URL":                {Host: "https://u:secret@[::1"},
		"a query or a fragment":          {Host: server + "?secret"},
		"KeyData":                        {Host: server, TLSClientConfig: rest.TLSClientConfig{KeyData: make([]byte, maxClientKey+1)}},
		"server: connect to 169.254.169": {Host: "https://169.254.169.254"},
	} {
		t.Run(want, func(t *testing.T) {
			c := Cluster{Name: "c", RESTConfig: config}
			c.applyRules(&AccessRules{})
			if c.Err == nil || c.RESTConfig != nil || !strings.Contains(c.Err.Error(), want) ||
				strings.Contains(c.Err.Error(), "secret") {
				t.Errorf("the error is %v", c.Err)
			}
			trusted := Cluster{Name: "c", RESTConfig: config, isTrusted: true}
			trusted.applyRules(&AccessRules{})
			if trusted.Err != nil || trusted.RESTConfig != config {
				t.Errorf("a trusted cluster: %v", trusted.Err)
			}
		})
	}
}

func TestAccessRules_InsecureTLS_IsUsedOnlyIfItIsAllowed(t *testing.T) {
	config, err := parseKubeconfig([]byte(`{"apiVersion": "v1", "kind": "Config",
"current-context": "c", "users": [{"name": "c", "user": {"token": "t"}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "clusters": [{"name": "c",
"cluster": {"server": "https://c.example.com", "insecure-skip-tls-verify": true}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, allowed := range []bool{false, true} {
		c := Cluster{Name: "c", RESTConfig: config}
		c.applyRules(&AccessRules{AllowInsecureTLS: allowed})
		if used := c.Err == nil && c.RESTConfig != nil && c.RESTConfig.Insecure; used != allowed {
			t.Errorf("allowed %t: %+v, error %v", allowed, c.RESTConfig, c.Err)
		}
	}
}

func TestAccessRules_Address_IsRefusedInEachNotation(t *testing.T) {
	rules := &AccessRules{RefusedRanges: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for address, refused := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "0.0.0.0": true, "169.254.169.254": true,
		"224.0.0.1": true, "255.255.255.255": true, "::": true, "::1": true, "fe80::1%eth0": true,
		"ff02::1": true, "::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true,
		"::127.0.0.1": true, "64:ff9b::7f00:1": true, "2002:7f00:1::": true, "10.1.2.3": true,
		"::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "168.63.129.16": true,
		"fd00:ec2::254": true, "fd00:ec2::23": true, "fd20:ce::254": true, "fd00:42::42": true,
		"100.100.100.200": true, "192.0.0.192": true, "64:ff9b:1::7f00:1": true,
		"10.2.0.1": false, "192.168.0.1": false, "192.0.2.1": false, "fd00::1": false,
		"2001:db8::1": false, "64:ff9b::10.2.2.3": false,
	} {
		err := rules.checkAddress(netip.MustParseAddr(address))
		if refused != errors.Is(err, errRefusedAddress) {
			t.Errorf("%s: %v, want refused %t", address, err, refused)
		}
	}
}

func TestAccessRules_AddressOfTheReplica_IsRefused(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range own {
		prefix := netip.MustParsePrefix(address.String())
		err := (&AccessRules{}).checkAddress(prefix.Addr())
		if !errors.Is(err, errRefusedAddress) {
			t.Errorf("%s: %v", prefix.Addr(), err)
		}
	}
}

// The name resolves to an address of the machine, as a record of a hostile owner may.
func TestAccessRules_NameResolvesToARefusedAddress_NoConnectionArrives(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	address, _ := url.Parse("http://localhost:" + port)
	for name, config := range map[string]*rest.Config{
		"server": {Host: "https://localhost:" + port},
		"proxy":  {Host: "https://c.example.com", Proxy: http.ProxyURL(address)},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cluster{Name: "c", RESTConfig: config}
			c.applyRules(&AccessRules{AllowProxy: true})
			if c.Err != nil {
				t.Fatal(c.Err)
			}
			access, _, err := newAccess(c.RESTConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer access.reset()
			if err := access.probe(t.Context()); !errors.Is(err, errRefusedAddress) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("deleted cluster", func(t *testing.T) {
		c := Cluster{Name: "c"}
		c.applyRules(&AccessRules{})
		config := c.guard(&rest.Config{Host: "https://localhost:" + port})
		if err := proveGone(t.Context(), config, true); !errors.Is(err, errRefusedAddress) {
			t.Errorf("the error is %v", err)
		}
	})
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections arrived", n)
	}
}

func TestAccessRules_ProxyOfTheEnvironment_IsUsedOnlyIfItIsAllowed(t *testing.T) {
	given := &rest.Config{Host: "https://c.example.com"}
	if proxy := (&AccessRules{}).guard(given).Proxy; proxy == nil {
		t.Error("the default proxy is that of the environment")
	}
	if (&AccessRules{AllowProxy: true}).guard(given).Proxy != nil {
		t.Error("an allowed proxy of the environment is replaced")
	}
}

// The errors of crypto/tls quote the types of the blocks of a certificate.
func TestAccess_CertificateHasManyBlocks_ErrorIsShortAndPrintable(t *testing.T) {
	blocks := strings.Repeat("-----BEGIN \x1b[2J-----\n-----END \x1b[2J-----\n", 1000)
	_, _, err := newAccess(&rest.Config{
		Host: "https://c.example.com",
		TLSClientConfig: rest.TLSClientConfig{
			CertData: []byte(blocks), KeyData: []byte(blocks),
		},
	})
	if err == nil || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the error is %.200q", err)
	}
}

// The owner of a cluster names addresses in the cloud.conf, too.
func TestGuardTransport_LoopbackAddress_IsReachedForATrustedClusterOnly(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, isTrusted := range []bool{false, true} {
		c := Cluster{
			Name: "c", RESTConfig: &rest.Config{Host: "https://192.0.2.1"}, isTrusted: isTrusted,
			cloud: tenant(Limits{}).cloud,
		}
		c.applyRules(&AccessRules{})
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
		guarded := c.GuardTransport(transport)
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		response, err := guarded.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if errors.Is(err, errRefusedAddress) == isTrusted || (err == nil) != isTrusted {
			t.Errorf("trusted %t: the error is %v", isTrusted, err)
		}
		if (transport.Proxy != nil) != isTrusted {
			t.Errorf("trusted %t: the proxy of the environment is used %t", isTrusted,
				transport.Proxy != nil)
		}
		transport.CloseIdleConnections()
	}
}
