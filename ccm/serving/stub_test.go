package serving_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/authority"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// limit is generous: only code that hangs reaches it.
const limit = ccmtest.WaitLimit

// emptyCloud is a cloud without interfaces.
func emptyCloud() cloudprovider.Interface {
	return fake.New(fake.WithProviderName("empty")).Provider()
}

// unreachable is an API server that refuses connections, because port 1 is reserved.
func unreachable() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

// managerConfig is the configuration of a Manager that leads at once and runs the controllers.
func managerConfig(controllers ...string) ccm.Config {
	cfg := ccm.DefaultConfig()
	cfg.LeaderElection.LeaderElect = false
	cfg.Controllers = controllers
	return cfg
}

// anyPort listens on a free port of the loopback address.
func anyPort(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

func newManager(t *testing.T, api *rest.Config, controllers ...ccm.Controller) *ccm.Manager {
	t.Helper()
	cfg := managerConfig()
	for _, c := range controllers {
		cfg.Controllers = append(cfg.Controllers, c.Name)
	}
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config: cfg, Providers: []ccm.Provider{ccm.StaticProvider(emptyCloud())},
		Controllers: controllers, RESTConfig: api, Logger: &log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newServer returns a Server on a free port, with a changed default configuration.
func newServer(
	t *testing.T, m *ccm.Manager, change func(*servingconfig.Config), opts ...serving.Option,
) *serving.Server {
	t.Helper()
	cfg := servingconfig.Default()
	if change != nil {
		change(&cfg)
	}
	opts = append([]serving.Option{serving.WithLogger(testr.New(t)), serving.WithListener(anyPort)},
		opts...)
	s, err := serving.New(m, cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running is a Server whose Run has not returned.
type running struct {
	*serving.Server
	cancel context.CancelCauseFunc
	result chan error
}

// run runs the Server until the test ends or stop is called; it returns when the port is open.
func run(t *testing.T, s *serving.Server) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{Server: s, cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(nil) })
	waittest.Until(t, "the port is open", func() bool {
		select {
		case err := <-r.result:
			t.Fatalf("Run: %v", err)
		default:
		}
		return s.Addr() != nil
	})
	return r
}

// stop ends the run with a cause, and returns the result of Run.
func (r *running) stop(t *testing.T, cause error) error {
	t.Helper()
	r.cancel(cause)
	select {
	case err := <-r.result:
		return err
	case <-time.After(limit):
		t.Fatalf("Run has not returned %s after its context ended", limit)
		return nil
	}
}

// serve runs the Server of a new Manager without an API server. It checks that all goroutines end
// with the test.
func serve(t *testing.T, change func(*servingconfig.Config), opts ...serving.Option) *running {
	t.Helper()
	return serveFor(t, unreachable(), change, opts...)
}

func serveFor(
	t *testing.T, api *rest.Config, change func(*servingconfig.Config), opts ...serving.Option,
) *running {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { ccmtest.VerifyNoLeaks(t, before) })
	return serveUnwatched(t, api, change, opts...)
}

// serveUnwatched is serveFor for a test that also starts other goroutines. TestMain finds leaked
// goroutines after all tests.
func serveUnwatched(
	t *testing.T, api *rest.Config, change func(*servingconfig.Config), opts ...serving.Option,
) *running {
	t.Helper()
	r := run(t, newServer(t, newManager(t, api), change, opts...))
	t.Cleanup(func() {
		if err := r.stop(t, nil); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// client is a caller of a Server, whose certificate it does not verify. Its connections are closed
// with the test.
func client(t *testing.T, change func(*tls.Config)) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if change != nil {
		change(config)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: limit}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

func get(t *testing.T, c *http.Client, s *serving.Server, path string, headers ...string) answer {
	t.Helper()
	a, err := tryGet(c, s, path, headers...)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

func tryGet(c *http.Client, s *serving.Server, path string, headers ...string) (answer, error) {
	addr := s.Addr()
	if addr == nil {
		return answer{}, errors.New("the server has no port")
	}
	r, err := http.NewRequest(http.MethodGet, "https://"+addr.String()+path, nil)
	if err != nil {
		return answer{}, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	response, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response, string(body)}, err
}

// wants fails the test unless the answer has the code and contains the text.
func (a answer) wants(t *testing.T, code int, text string) {
	t.Helper()
	if a.StatusCode != code || !strings.Contains(a.body, text) {
		t.Errorf("GET %s is %d %q, want %d with %q", a.Request.URL.Path, a.StatusCode, a.body, code,
			text)
	}
}

// ca is a certificate authority of a test.
type ca struct {
	*authority.Authority
	t *testing.T
}

// pair is a certificate with its key.
type pair struct{ cert, key []byte }

func newAuthority(t *testing.T, name string) *ca {
	t.Helper()
	a, err := authority.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{Authority: a, t: t}
}

// issue signs a certificate for clients and servers.
func (a *ca) issue(name string, change func(*x509.Certificate)) pair {
	a.t.Helper()
	p, err := a.Issue(name, func(c *x509.Certificate) {
		c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		if change != nil {
			change(c)
		}
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return pair{p.Certificate, p.Key}
}

func (a *ca) client(name string, groups ...string) pair {
	return a.issue(name, func(c *x509.Certificate) { c.Subject.Organization = groups })
}

func (a *ca) server(names ...string) pair {
	return a.issue(names[0], func(c *x509.Certificate) { c.DNSNames = names })
}

// presents configures a client with the certificate.
func (p pair) presents(t *testing.T) func(*tls.Config) {
	t.Helper()
	certificate, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *tls.Config) { c.Certificates = []tls.Certificate{certificate} }
}

// write puts the pair into files of a folder as name.crt and name.key.
func (p pair) write(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	return write(t, dir, name+".crt", p.cert), write(t, dir, name+".key", p.key)
}

// write replaces a file as a whole.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func cancelable(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}

// insist makes a client send the certificate whatever CAs the server names.
func insist(t *testing.T, p pair) func(*tls.Config) {
	t.Helper()
	certificate, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificate, nil
		}
	}
}

// headerWatcher is a controller whose health check sends the headers of the request to the test.
type headerWatcher struct{ seen chan http.Header }

func (w *headerWatcher) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (w *headerWatcher) HealthCheck(r *http.Request) error {
	w.seen <- r.Header.Clone()
	return nil
}

func (w *headerWatcher) controller() ccm.Controller {
	return ccm.Controller{
		Name: "watcher",
		New:  func(context.Context, *ccm.Term) (ccm.Runnable, error) { return w, nil },
	}
}
