package client

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/gophercloud/gophercloud/v2"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var within = waittest.Context

// advance advances the clock until the condition holds.
func advance(t *testing.T, clock *clocktesting.FakeClock, step time.Duration, what string,
	condition func() bool,
) {
	t.Helper()
	waittest.Until(t, what, func() bool {
		if condition() {
			return true
		}
		clock.Step(step)
		return false
	})
}

// fixture records the effects of Clients that a test can observe.
type fixture struct {
	*Clients
	logs     *logs
	observed *observed
	config   cloudconf.Config
}

// open creates Clients without pauses, unless the test overrides that, and searches their log for
// secrets.
func open(t *testing.T, cfg cloudconf.Config, change ...func(*Options)) fixture {
	t.Helper()
	f := fixture{logs: &logs{}, observed: &observed{}, config: cfg}
	o := Options{
		Logger: funcr.New(f.logs.write, funcr.Options{Verbosity: 10}), Observer: f.observed,
		random: func() float64 { return 0 },
	}
	for _, c := range change {
		c(&o)
	}
	var err error
	if f.Clients, err = New(cfg, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		noSecret(t, cfg, "log", f.logs.String())
	})
	return f
}

// noSecret fails the test if a text contains a secret of the configuration, or a token.
func noSecret(t *testing.T, cfg cloudconf.Config, what, text string) {
	t.Helper()
	for _, secret := range secretsOf(cfg.Global) {
		if strings.Contains(text, secret) {
			t.Errorf("%s has the secret %q in it: %s", what, secret, text)
		}
	}
	if strings.Contains(strings.ToLower(text), "x-auth-token") ||
		strings.Contains(text, "stub-token") {
		t.Errorf("%s has a token in it: %s", what, text)
	}
}

// wantError checks that the error contains these texts, and no secret.
func wantError(t *testing.T, cfg cloudconf.Config, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Error("the error is nil")
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %q, want it to contain %q", err, text)
		}
	}
	noSecret(t, cfg, "error", fmt.Sprintf("%v %+v %#v", err, err, err.Error()))
}

type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) write(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(prefix + args + "\n")
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// observed is an Observer that records.
type observed struct {
	mu       sync.Mutex
	inFlight int
	requests []string
	retries  []string
	logins   []string
	waits    []time.Duration
}

func (o *observed) RequestStarted(string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight++
}

func (o *observed) RequestEnded(service, operation, code string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight--
	o.requests = append(o.requests, service+" "+operation+" "+code)
}

func (o *observed) RequestRetried(reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retries = append(o.retries, reason)
}

func (o *observed) LoggedIn(result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.logins = append(o.logins, result)
}

func (o *observed) RateLimitWaited(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = append(o.waits, d)
}

func (o *observed) Requests() []string { return o.copy(&o.requests) }
func (o *observed) Retries() []string  { return o.copy(&o.retries) }
func (o *observed) Logins() []string   { return o.copy(&o.logins) }

func (o *observed) copy(list *[]string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, *list...)
}

// simulator starts a cloud, and returns a configuration that logs in with a password.
func simulator(t *testing.T, options ...openstacktest.Option) (*openstacktest.Cloud,
	cloudconf.Config,
) {
	t.Helper()
	cloud := openstacktest.NewCloud(options...)
	t.Cleanup(cloud.Close)
	return cloud, configFor(cloud.Credentials())
}

func configFor(c openstacktest.Credentials) cloudconf.Config {
	cfg := cloudconf.Default()
	cfg.Client.RequestRate = 0
	cfg.Global = cloudconf.Global{
		AuthURL: c.AuthURL, Region: c.Region, CAFileContents: c.CertificatePEM,
		Username: c.Username, Password: cloudconf.Secret(c.Password), DomainName: c.DomainName,
		TenantName: c.ProjectName,
	}
	return cfg
}

// stub is a Keystone with only itself in the catalog. A test adds other responses.
type stub struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	keystone http.HandlerFunc
	service  http.HandlerFunc
	logins   int
	revoked  int
	requests []recorded
	opened   int
	closed   int
}

// recorded is a request that the stub received.
type recorded struct {
	method, path, protocol, body, token, agent string
	at                                         time.Time
}

func newStub(t *testing.T, service http.HandlerFunc) (*stub, cloudconf.Config) {
	t.Helper()
	return startStub(t, service, (*httptest.Server).Start)
}

// newStubHTTP2 returns a stub that supports HTTP/2, and therefore TLS.
func newStubHTTP2(t *testing.T, service http.HandlerFunc) (*stub, cloudconf.Config) {
	t.Helper()
	s, cfg := startStub(t, service, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	cfg.Global.CAFileContents = string(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: s.Certificate().Raw,
	}))
	return s, cfg
}

func startStub(t *testing.T, service http.HandlerFunc, start func(*httptest.Server)) (*stub,
	cloudconf.Config,
) {
	t.Helper()
	s := &stub{t: t, service: service}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = s.connection
	start(s.Server)
	t.Cleanup(s.Close)
	cfg := cloudconf.Default()
	cfg.Client.RequestRate = 0
	cfg.Global = cloudconf.Global{
		AuthURL: s.URL + "/v3", UserID: "user-1", Password: `pa"ss-word`,
		TenantID: "project-1",
	}
	return s, cfg
}

func (s *stub) connection(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.opened++
	case http.StateClosed:
		s.closed++
	}
}

// connections returns how many connections were opened, and how many are still open.
func (s *stub) connections() (opened, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened, s.opened - s.closed
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.requests = append(s.requests,
		recorded{
			r.Method, r.URL.Path, r.Proto, string(body), r.Header.Get("X-Auth-Token"),
			r.UserAgent(), time.Now(),
		})
	keystone, service := s.keystone, s.service
	s.mu.Unlock()
	if r.URL.Path == "/" {
		reply(w, http.StatusMultipleChoices,
			map[string]any{"versions": map[string]any{"values": []any{map[string]any{
				"id": "v3.14", "status": "stable",
				"links": []any{map[string]any{"rel": "self", "href": s.URL + "/elsewhere/v3/"}},
			}}}})
		return
	}
	if strings.HasSuffix(r.URL.Path, "/auth/tokens") {
		if keystone != nil {
			keystone(w, r)
			return
		}
		s.issue(w)
		return
	}
	if !s.valid(r.Header.Get("X-Auth-Token")) {
		message := "The request you have made requires authentication."
		reply(w, http.StatusUnauthorized,
			map[string]any{"error": map[string]any{"message": message}})
		return
	}
	service(w, r)
}

func (s *stub) issue(w http.ResponseWriter) {
	s.mu.Lock()
	s.logins++
	token := fmt.Sprintf("stub-token-%d", s.logins)
	s.mu.Unlock()
	w.Header().Set("X-Subject-Token", token)
	var catalog []any
	for _, service := range []string{
		serviceCompute, serviceNetwork, serviceLoadBalancer,
		serviceKeyManager,
	} {
		catalog = append(catalog, map[string]any{"type": service, "endpoints": []any{
			map[string]any{
				"interface": "public", "region": "here", "region_id": "here",
				"url": s.URL + "/" + service,
			},
		}})
	}
	reply(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"expires_at": "2100-01-01T00:00:00.000000Z", "project": map[string]any{"id": "project-1"},
		"catalog": catalog,
	}})
}

func (s *stub) valid(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return token == fmt.Sprintf("stub-token-%d", s.logins) && s.logins > s.revoked
}

// revoke invalidates all issued tokens.
func (s *stub) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = s.logins
}

func (s *stub) answerLogins(handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keystone = handler
}

// count counts the requests whose path has this suffix.
func (s *stub) count(suffix string) int { return len(s.seen(suffix)) }

func (s *stub) seen(suffix string) []recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []recorded
	for _, r := range s.requests {
		if strings.HasSuffix(r.path, suffix) {
			all = append(all, r)
		}
	}
	return all
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// get sends a read to Neutron, as gophercloud's functions do.
func get(ctx context.Context, c *Clients, path string) error {
	return send(ctx, c, http.MethodGet, path, nil)
}

func send(ctx context.Context, c *Clients, method, path string, body any) error {
	network, err := c.Network(ctx)
	if err != nil {
		return err
	}
	var got any
	options := &gophercloud.RequestOpts{OkCodes: []int{200, 201, 202, 204}, JSONResponse: &got}
	if body != nil {
		options.JSONBody = body
	}
	_, err = network.Request(ctx, method, network.ServiceURL(path), options)
	return err
}
