package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/internal/kit/ratelimit"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// sharedBy sets the options for Clients of a cluster that share.
func sharedBy(s *Shared, cluster string) func(*Options) {
	return func(o *Options) { o.Shared, o.Cluster = s, cluster }
}

func unlimited() *Shared { return NewShared(SharedOptions{Rate: rate.Inf}) }

// inAll calls do for all Clients concurrently.
func inAll(t *testing.T, all []fixture, do func(fixture) error) {
	t.Helper()
	var group sync.WaitGroup
	for _, f := range all {
		group.Go(func() {
			if err := do(f); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestShared_TenClusters_LogInOnce(t *testing.T) {
	cloud, cfg := simulator(t)
	shared := unlimited()
	var all []fixture
	for i := range 10 {
		all = append(all, open(t, cfg, sharedBy(shared, strconv.Itoa(i))))
	}
	list := func(f fixture) error { return listServers(within(t), f.Clients) }
	inAll(t, all, list)
	if logins := cloud.Counts()["token_create"]; logins != 1 {
		t.Errorf("%d logins at the start, want 1", logins)
	}
	cloud.RevokeTokens()
	inAll(t, all, list)
	if logins := cloud.Counts()["token_create"]; logins != 2 {
		t.Errorf("%d logins after the token was revoked, want 1 more", logins)
	}
	if len(shared.accesses) != 1 {
		t.Errorf("%d accesses, want 1", len(shared.accesses))
	}
	for _, f := range all {
		_ = f.Close()
	}
	if len(shared.accesses) != 0 {
		t.Errorf("%d accesses remain after all Clients are closed", len(shared.accesses))
	}
}

func TestShared_AnyFieldDiffers_SharesNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := cloudconf.Global{CAFile: write("ca", "a"), CertFile: write("cert", "a")}
	keys := map[[32]byte]string{accessKey(base, false): "the same"}
	expectNew := func(what string, g cloudconf.Global) {
		key := accessKey(g, false)
		if other, exists := keys[key]; exists {
			t.Errorf("%s: shares with %s", what, other)
		}
		keys[key] = what
	}
	for i := range reflect.TypeFor[cloudconf.Global]().NumField() {
		changed := base
		field := reflect.ValueOf(&changed).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString(field.String() + "x")
		case reflect.Bool:
			field.SetBool(!field.Bool())
		default:
			t.Fatalf("the test cannot change a %s", field.Kind())
		}
		expectNew(reflect.TypeFor[cloudconf.Global]().Field(i).Name, changed)
	}
	if _, exists := keys[accessKey(base, true)]; exists {
		t.Error("one with a guard shares with one without")
	}
	if again := base; keys[accessKey(again, false)] != "the same" {
		t.Error("equal configurations do not share")
	}
	write("ca", "b")
	expectNew("content of the CA file", base)
	write("cert", "b")
	expectNew("content of the certificate", base)
}

// The guard applies to Keystone and to the services of its catalog, which the owner names.
func TestGuard_RefusesConnections_NoneIsMade(t *testing.T) {
	cloud, cfg := simulator(t)
	refused := errors.New("not permitted")
	f := open(t, cfg, func(o *Options) {
		o.Guard = func(t *http.Transport) http.RoundTripper {
			t.DialContext = func(context.Context, string, string) (net.Conn, error) {
				return nil, refused
			}
			return t
		}
	})
	if err := listServers(within(t), f.Clients); !errors.Is(err, refused) {
		t.Errorf("the error is %v, want the guard's", err)
	}
	if n := cloud.Counts()["token_create"]; n != 0 {
		t.Errorf("%d logins arrived", n)
	}
}

func TestShared_OtherCredentials_HaveTheirOwnLoginAndReads(t *testing.T) {
	cloud, cfg := simulator(t)
	other := cfg
	c := cloud.Credentials()
	other.Global = cloudconf.Global{
		AuthURL: c.AuthURL, Region: c.Region, ApplicationCredentialID: c.ApplicationCredentialID,
		ApplicationCredentialSecret: cloudconf.Secret(c.ApplicationCredentialSecret),
	}
	shared := unlimited()
	a, b := open(t, cfg, sharedBy(shared, "a")), open(t, other, sharedBy(shared, "b"))
	for _, f := range []fixture{a, b} {
		value, _, err := f.Read(within(t), "who", time.Time{}, func(ctx context.Context) (any,
			error,
		) {
			return f.config.Global.Username, listServers(ctx, f.Clients)
		})
		if err != nil || value != f.config.Global.Username {
			t.Errorf("got %v, %v of other credentials", value, err)
		}
	}
	if counts := cloud.Counts(); counts["token_create"] != 2 || counts["server_list"] != 2 {
		t.Errorf("requests: %v", counts)
	}
}

func TestShared_WrongPassword_IsTriedOnceAndReportedToAll(t *testing.T) {
	cloud, cfg := simulator(t)
	cfg.Global.Password = "wrong-password"
	shared := unlimited()
	var reported [3]atomic.Int32
	var all []fixture
	for i := range reported {
		all = append(all, open(t, cfg, sharedBy(shared, strconv.Itoa(i)), func(o *Options) {
			o.random = func() float64 { return 1 }
			o.Trouble = trouble.New(func(subject string, cause error) {
				if subject == trouble.Keystone && cause != nil {
					reported[i].Add(1)
				}
			})
		}))
	}
	inAll(t, all, func(f fixture) error {
		wantError(t, cfg, listServers(within(t), f.Clients), "401")
		return nil
	})
	if logins := cloud.Counts()["token_create"]; logins != 1 {
		t.Errorf("%d logins with a wrong password, want 1", logins)
	}
	for i := range reported {
		if reported[i].Load() != 1 {
			t.Errorf("cluster %d got %d reports, want 1", i, reported[i].Load())
		}
	}
}

func TestShared_ServiceDoesNotAnswer_IsReportedToAllAndWithdrawn(t *testing.T) {
	cloud, cfg := simulator(t)
	cfg.Client.MaxRetries = 0
	shared := unlimited()
	var troubles [3]sync.Map
	var all []fixture
	for i := range troubles {
		all = append(all, open(t, cfg, sharedBy(shared, strconv.Itoa(i)), func(o *Options) {
			o.Trouble = trouble.New(func(subject string, cause error) {
				if cause == nil {
					troubles[i].Delete(subject)
				} else {
					troubles[i].Store(subject, cause)
				}
			})
		}))
	}
	has := func(i int) bool {
		_, known := troubles[i].Load("Nova")
		return known
	}
	cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute, Status: http.StatusServiceUnavailable,
	})
	wantError(t, cfg, listServers(within(t), all[0].Clients), "503")
	for i := range troubles {
		if !has(i) {
			t.Errorf("cluster %d does not know that Nova does not answer", i)
		}
	}
	if err := all[2].Clients.Close(); err != nil || has(2) {
		t.Errorf("closed clients leave their trouble, or %v", err)
	}
	cloud.RemoveFaults()
	if err := listServers(within(t), all[1].Clients); err != nil {
		t.Fatal(err)
	}
	if has(0) || has(1) {
		t.Error("Nova answers, and a cluster still reports that it does not")
	}
}

// blocked is a service whose responses wait for the test.
func blocked(t *testing.T) (service http.HandlerFunc, arrived chan struct{}, answer func()) {
	t.Helper()
	arrived, answers := make(chan struct{}, 100), make(chan struct{})
	answer = sync.OnceFunc(func() { close(answers) })
	t.Cleanup(answer)
	return func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-answers:
			reply(w, http.StatusOK, map[string]any{})
		case <-r.Context().Done():
		}
	}, arrived, answer
}

func readPorts(ctx context.Context, c *Clients, newer time.Time) error {
	_, begun, err := c.Read(ctx, "ports", newer, func(ctx context.Context) (any, error) {
		return nil, get(ctx, c, "ports")
	})
	if err == nil && begun.Before(newer) {
		err = fmt.Errorf("the read was begun at %s, before %s", begun, newer)
	}
	return err
}

func TestRead_FirstTermEnds_ItIsRefusedAndOthersAreServed(t *testing.T) {
	service, arrived, answer := blocked(t)
	stub, cfg := newStub(t, service)
	shared := unlimited()
	term := fence.New(nil, clock.RealClock{})
	a := open(t, cfg, sharedBy(shared, "a"), func(o *Options) { o.Transport = term.Transport })
	joined := make(chan struct{}, 100)
	b := open(t, cfg, sharedBy(shared, "b"), func(o *Options) {
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return doing(func(ctx context.Context) error {
				joined <- struct{}{}
				return next.(doing)(ctx)
			})
		}
	})
	long := time.Now().Add(-time.Hour)
	results := [2]chan error{make(chan error, 1), make(chan error, 1)}
	go func() { results[0] <- readPorts(within(t), a.Clients, long) }()
	<-arrived
	go func() { results[1] <- readPorts(within(t), b.Clients, long) }()
	<-joined
	term.EndReads(errors.New("the lease is lost"))
	if err := <-results[0]; !errors.Is(err, fence.ErrClosed) {
		t.Errorf("the ended term got %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	answer()
	if err := <-results[1]; err != nil {
		t.Errorf("the other cluster got %v", err)
	}
	if n := stub.count("/auth/tokens"); n != 1 {
		t.Errorf("%d logins, want 1: that of the ended term serves the other cluster", n)
	}
}

func TestShared_TermIsOver_SendsNothing(t *testing.T) {
	stub, cfg := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{})
	})
	shared := unlimited()
	term := fence.New(nil, clock.RealClock{})
	a := open(t, cfg, sharedBy(shared, "a"), func(o *Options) { o.Transport = term.Transport })
	b := open(t, cfg, sharedBy(shared, "b"))
	term.EndReads(errors.New("the lease is lost"))
	ask := func(what string) {
		t.Helper()
		if err := get(within(t), a.Clients, "ports"); !errors.Is(err, fence.ErrClosed) {
			t.Errorf("%s: a request got %v", what, err)
		}
		if err := readPorts(within(t), a.Clients, time.Now()); !errors.Is(err, fence.ErrClosed) {
			t.Errorf("%s: a shared read got %v", what, err)
		}
	}
	ask("without a login")
	if n := len(stub.seen("")); n != 0 {
		t.Errorf("%d requests after the end of the term", n)
	}
	if _, err := b.Project(within(t)); err != nil {
		t.Fatal(err)
	}
	ask("with the login of another cluster")
	if n := len(stub.seen("")); n != 1 {
		t.Errorf("%d requests, want only the login of the other cluster", n)
	}
}

// waitingOf returns how many requests of a cluster wait for their turn.
func waitingOf(f fixture) int {
	return f.current.queue.Waiting(ratelimit.Flow{Cluster: f.options.Cluster})
}

func TestShared_NoisyCluster_DelaysAnotherByOneTurn(t *testing.T) {
	const noise = 1000
	_, cfg := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{})
	})
	now := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	shared := NewShared(SharedOptions{Rate: 1, Burst: 1, Clock: now})
	noisy, quiet := open(t, cfg, sharedBy(shared, "noisy")), open(t, cfg, sharedBy(shared, "quiet"))
	if _, err := quiet.Project(within(t)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range noise {
		group.Go(func() { _ = get(ctx, noisy.Clients, "noise") })
	}
	waittest.Until(t, "the noise waits", func() bool { return waitingOf(noisy) >= noise-1 })
	result := make(chan error, 1)
	go func() { result <- get(within(t), quiet.Clients, "quiet") }()
	waittest.Until(t, "the request waits", func() bool { return waitingOf(quiet) == 1 })
	before := waitingOf(noisy)
	advance(t, now, time.Second, "the turn of the request comes", func() bool {
		return waitingOf(quiet) == 0 || waitingOf(noisy) < noise-10
	})
	// A request leaves the queue when its turn comes. Its arrival at the server depends on the load
	// of the machine.
	if overtook := before - waitingOf(noisy); overtook > 3 {
		t.Errorf("%d requests of the noisy cluster came before", overtook)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	stop()
	group.Wait()
	if left := waitingOf(noisy); left > 0 {
		t.Errorf("%d canceled requests still wait", left)
	}
}

func TestShared_CloudRefusesOneCluster_PausesAll(t *testing.T) {
	var refused atomic.Bool
	stub, cfg := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if !refused.Swap(true) {
			w.Header().Set("Retry-After", "20")
			reply(w, http.StatusTooManyRequests, map[string]any{})
			return
		}
		reply(w, http.StatusOK, map[string]any{})
	})
	cfg.Client.MaxRetries = 0
	now := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	shared := NewShared(SharedOptions{Rate: rate.Inf, Clock: now})
	a, b := open(t, cfg, sharedBy(shared, "a")), open(t, cfg, sharedBy(shared, "b"))
	if err := get(within(t), a.Clients, "ports"); err == nil {
		t.Fatal("the refused request succeeded")
	}
	begun := now.Now()
	result := make(chan error, 1)
	go func() { result <- get(within(t), b.Clients, "networks") }()
	waittest.Until(t, "the other cluster waits", func() bool { return waitingOf(b) == 1 })
	advance(t, now, time.Second, "the other cluster is served", func() bool {
		return stub.count("/networks") == 1
	})
	if err := <-result; err != nil {
		t.Error(err)
	}
	if waited := now.Since(begun); waited < 20*time.Second {
		t.Errorf("the other cluster was served after %s, before Retry-After", waited)
	}
	if waits := b.observed.waits; len(waits) != 1 || waits[0] < 20*time.Second {
		t.Errorf("observed waits: %v", waits)
	}
}

func TestShared_OneCloses_OthersKeepTheConnections(t *testing.T) {
	stub, cfg := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{})
	})
	shared := unlimited()
	a, b := open(t, cfg, sharedBy(shared, "a")), open(t, cfg, sharedBy(shared, "b"))
	// One after the other: net/http may open a second connection for requests that overlap.
	for _, f := range []fixture{a, b} {
		if err := get(within(t), f.Clients, "ports"); err != nil {
			t.Fatal(err)
		}
	}
	opened, _ := stub.connections()
	_ = a.Close()
	if err := get(within(t), b.Clients, "ports"); err != nil {
		t.Error(err)
	}
	if now, _ := stub.connections(); now != opened || stub.count("/auth/tokens") != 1 {
		t.Errorf("%d connections and %d logins, want %d and 1", now, stub.count("/auth/tokens"),
			opened)
	}
	_ = b.Close()
	waittest.Until(t, "all connections are closed", func() bool {
		_, left := stub.connections()
		return left == 0
	})
}
