package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// OCCM creates new clients for each call of a controller, and each of them reads Neutron's
// versions.
func TestClients_AreBuiltOnce(t *testing.T) {
	cloud, cfg := simulator(t)
	f := open(t, cfg)
	for _, of := range []func(context.Context) (*gophercloud.ServiceClient, error){
		f.Compute,
		f.Network, f.LoadBalancer, f.KeyManager,
	} {
		first, err := of(within(t))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if c, err := of(within(t)); err != nil || c != first {
					t.Errorf("another client, %v", err)
				}
			})
		}
		all.Wait()
	}
	if calls := cloud.Calls(); len(calls) != 1 || calls[0].Operation != "token_create" {
		t.Errorf("204 clients cost %+v, want one login", calls)
	}
}

// The next login may find a service that the catalog lacks now.
func TestService_AddedToTheCatalog_IsFound(t *testing.T) {
	cloud, cfg := simulator(t)
	remove := cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceIdentity, Operation: "token_create",
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			return status, []byte(strings.ReplaceAll(string(body), `"load-balancer"`, `"not-yet"`))
		},
	})
	f := open(t, cfg)
	_, err := f.LoadBalancer(within(t))
	wantError(t, cfg, err, "Octavia: it is not in Keystone's catalog")
	remove()
	cloud.RevokeTokens()
	if err := listServers(within(t), f.Clients); err != nil {
		t.Fatal(err)
	}
	if _, err := f.LoadBalancer(within(t)); err != nil {
		t.Errorf("after another login: %v", err)
	}
}

// The address may have a version or not, and the catalog may lack the service.
func TestService_WithAnEndpointOfItsOwn_IsNotLookedUpInTheCatalog(t *testing.T) {
	_, cfg := simulator(t)
	g := &cfg.Global
	g.ComputeEndpoint, g.NetworkEndpoint = "http://nova.example:8774", "http://neutron.example/v2.0"
	g.LoadBalancerEndpoint = "http://octavia.example/load-balancer/"
	g.KeyManagerEndpoint, g.Region = "http://barbican.example/v1", "elsewhere"
	f := open(t, cfg)
	for want, of := range map[string]func(context.Context) (*gophercloud.ServiceClient, error){
		"http://nova.example:8774/v2.1/":             f.Compute,
		"http://neutron.example/v2.0/":               f.Network,
		"http://octavia.example/load-balancer/v2.0/": f.LoadBalancer,
		"http://barbican.example/v1/":                f.KeyManager,
	} {
		got, err := of(within(t))
		if err != nil {
			t.Error(err)
		} else if address := got.ServiceURL(); address != want {
			t.Errorf("the address is %s, want %s", address, want)
		}
	}
}

func TestFence_RefusedRequest_IsNotRetried(t *testing.T) {
	cloud, cfg := simulator(t)
	gate := fence.New(nil, clock.RealClock{})
	refusals := 0
	f := open(t, cfg, func(o *Options) { o.Transport = gate.Door(func() { refusals++ }) })
	if err := listServers(within(t), f.Clients); err != nil {
		t.Fatal(err)
	}
	gate.Close(errors.New("lost"))
	cloud.ForgetCalls()
	if err := send(within(t), f.Clients, "PUT", "routers/1",
		map[string]any{}); !errors.Is(err, fence.ErrClosed) {
		t.Errorf("PUT: %v, want the fence's refusal", err)
	}
	if err := listServers(within(t), f.Clients); err != nil {
		t.Errorf("GET: %v", err)
	}
	cloud.RevokeTokens()
	if err := listServers(within(t), f.Clients); !errors.Is(err, fence.ErrClosed) {
		t.Errorf("a login after the term: %v, want the fence's refusal", err)
	}
	if refusals != 2 {
		t.Errorf("the fence refused %d requests, want 2", refusals)
	}
	for _, call := range cloud.Calls() {
		if call.Method != http.MethodGet {
			t.Errorf("%s %s reached the cloud", call.Method, call.Path)
		}
	}
	if requests := f.observed.Requests(); !slices.Contains(requests,
		"network router_update refused") {
		t.Errorf("observed %v", requests)
	}
}

func TestFence_Closes_RequestsInFlightAreCanceled(t *testing.T) {
	s, cfg := newStub(t, hang(t, func(http.ResponseWriter) {}))
	gate := fence.New(nil, clock.RealClock{})
	f := open(t, cfg, func(o *Options) { o.Transport = gate.Transport })
	done := make(chan error, 1)
	go func() { done <- send(within(t), f.Clients, "PUT", "routers/1", map[string]any{}) }()
	waittest.Until(t, "the request is made", func() bool { return s.count("/routers/1") == 1 })
	gate.Close(errors.New("lost"))
	if err := <-done; !errors.Is(err, fence.ErrClosed) {
		t.Errorf("got %v, want the fence's reason", err)
	}
	if n := len(gate.InFlight()); n != 0 {
		t.Errorf("the fence counts %d calls in flight", n)
	}
}

func TestClose_CancelsRequestsInFlightAndRefusesNewOnes(t *testing.T) {
	for name, stuck := range map[string]string{"a request": "/ports", "a login": "/auth/tokens"} {
		t.Run(name, func(t *testing.T) {
			s, cfg := newStub(t, hang(t, func(http.ResponseWriter) {}))
			if stuck == "/auth/tokens" {
				s.answerLogins(hang(t, func(http.ResponseWriter) {}))
			}
			f := open(t, cfg)
			done := make(chan error, 1)
			go func() { done <- get(within(t), f.Clients, "ports") }()
			waittest.Until(t, "it is on its way", func() bool { return s.count(stuck) == 1 })
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Errorf("a request in flight: %v, want ErrClosed", err)
			}
			if err := get(t.Context(), f.Clients, "ports"); !errors.Is(err, ErrClosed) {
				t.Errorf("a request after Close: %v, want ErrClosed", err)
			}
			if _, err := f.Project(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("project after Close: %v, want ErrClosed", err)
			}
			waittest.Until(t, "all connections are closed", func() bool {
				_, left := s.connections()
				return left == 0
			})
		})
	}
}

// With HTTP/2, other requests keep the connection, and the kernel may still send the canceled one
// when another process leads.
func TestFence_ClosesDuringARequest_TheConnectionOfTheRequestEnds(t *testing.T) {
	s, cfg := newStubHTTP2(t, hang(t, func(http.ResponseWriter) {}))
	gate := fence.New(nil, clock.RealClock{})
	f := open(t, cfg, func(o *Options) { o.Transport = gate.Transport })
	done := make(chan error, 1)
	go func() { done <- send(within(t), f.Clients, "PUT", "routers/1", map[string]any{}) }()
	waittest.Until(t, "the request is made", func() bool { return s.count("/routers/1") == 1 })
	if p := s.seen("/routers/1")[0].protocol; p != "HTTP/1.1" {
		t.Errorf("the protocol of the request is %s", p)
	}
	gate.Close(errors.New("lost"))
	if err := <-done; !errors.Is(err, fence.ErrClosed) {
		t.Errorf("got %v, want the fence's reason", err)
	}
	waittest.Until(t, "its connection is closed", func() bool {
		_, left := s.connections()
		return left == 0
	})
}

// countedConn counts the bytes that were written.
type countedConn struct {
	net.Conn
	written *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// The network fails while a request is on its way, leadership is lost, and the network works again.
func TestFence_ClosesWhileTheNetworkFails_RequestNeverArrives(t *testing.T) {
	s, cfg := newStub(t, status(200))
	network, err := netfault.Listen(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = network.Close() })
	cfg.Global.AuthURL = "http://" + network.Addr() + "/v3"
	cfg.Global.NetworkEndpoint = "http://" + network.Addr() + "/network"
	gate := fence.New(nil, clock.RealClock{})
	f := open(t, cfg, func(o *Options) { o.Transport = gate.Transport })
	var written atomic.Int64
	transport := f.current.transport
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, to, address string) (net.Conn, error) {
		conn, err := dial(ctx, to, address)
		if err != nil {
			return nil, err
		}
		return countedConn{conn, &written}, nil
	}
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Fatal(err)
	}
	if n := network.Connections(); n != 1 {
		t.Fatalf("%d connections to the cloud, want 1", n)
	}
	if err := network.Set(netfault.Stall()); err != nil {
		t.Fatal(err)
	}
	before := written.Load()
	done := make(chan error, 1)
	go func() { done <- send(within(t), f.Clients, "PUT", "routers/1", map[string]any{}) }()
	waittest.Until(t, "the request is written", func() bool { return written.Load() > before })
	gate.Close(errors.New("lost"))
	if err := <-done; !errors.Is(err, fence.ErrClosed) {
		t.Errorf("got %v, want the fence's reason", err)
	}
	// A connection that is only closed stays open in the network, which has its last bytes.
	waittest.Until(t, "the connection is reset", func() bool { return network.Connections() == 0 })
	if err := network.Set(netfault.Pass()); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the connection of the cloud ends", func() bool {
		_, left := s.connections()
		return left == 0
	})
	if n := s.count("/routers/1"); n != 0 {
		t.Errorf("%d requests arrived after another process may lead", n)
	}
}

// A connection may be established after its request has ended.
func TestClose_ConnectionThatComesLate_IsClosed(t *testing.T) {
	s, cfg := newStub(t, status(200))
	g, err := newGeneration(cfg, Options{
		Clock: clock.RealClock{}, Observer: noObserver{},
		Transport: func(next http.RoundTripper) http.RoundTripper { return next },
	})
	if err != nil {
		t.Fatal(err)
	}
	g.disconnect()
	conn, err := g.transport.DialContext(within(t), "tcp", s.Listener.Addr().String())
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("connection %v, error %v", conn, err)
	}
	waittest.Until(t, "all connections are closed", func() bool {
		_, left := s.connections()
		return left == 0
	})
}

func TestClose_KeptClient_IsRefused(t *testing.T) {
	s, cfg := newStub(t, status(200))
	f := open(t, cfg)
	network, err := f.Network(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := network.Get(within(t), network.ServiceURL("ports"), nil,
		nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if n := s.count("/ports"); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestProject_WithoutOneIsAnError(t *testing.T) {
	s, cfg := newStub(t, status(200))
	s.answerLogins(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Subject-Token", "stub-token-1")
		reply(w, 201, map[string]any{"token": map[string]any{"expires_at": time.Now().
			Add(time.Hour).UTC().Format(time.RFC3339)}})
	})
	f := open(t, cfg)
	_, err := f.Project(within(t))
	wantError(t, cfg, err, "tenant-id")
}

// No failure must print a secret: the log and the errors of each case are searched.
func TestSecrets_StayWhereTheyAre(t *testing.T) {
	cloud, _ := simulator(t)
	c := cloud.Credentials()
	for name, global := range map[string]cloudconf.Global{
		"password": {
			UserID: c.UserID, Password: cloudconf.Secret(c.Password),
			TenantID: c.ProjectID,
		},
		"token": {Token: cloudconf.Secret(c.Token)},
		"application credential": {
			ApplicationCredentialID:     c.ApplicationCredentialID,
			ApplicationCredentialSecret: cloudconf.Secret(c.ApplicationCredentialSecret),
		},
		"trust": {
			TrustID: c.TrustID, TrusteeID: c.TrusteeID,
			TrusteePassword: cloudconf.Secret(c.TrusteePassword),
		},
	} {
		for fault, injected := range map[string]openstacktest.Fault{
			"refused":  {Status: 401},
			"failing":  {Status: 503},
			"dropped":  {Drop: true},
			"cut":      {Truncate: 20},
			"no login": {Service: openstacktest.ServiceIdentity, Status: 403},
			"strange": {Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
				return 200,
					[]byte("hello")
			}},
		} {
			t.Run(name+" "+fault, func(t *testing.T) {
				defer cloud.Inject(injected)()
				cfg := cloudconf.Default()
				cfg.Client.MaxRetries = 1
				cfg.Global = global
				cfg.Global.AuthURL, cfg.Global.Region = c.AuthURL, c.Region
				f := open(t, cfg)
				wantError(t, cfg, listServers(within(t), f.Clients))
				noSecret(t, cfg, "log", f.logs.String())
			})
		}
	}
}
