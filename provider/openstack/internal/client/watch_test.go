package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watching returns Clients whose password is in a file.
func watching(t *testing.T, cfg cloudconf.Config, c *clocktesting.FakeClock) (fixture, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	write(t, file, string(cfg.Global.Password))
	return open(t, cfg, func(o *Options) {
		o.Clock, o.Files = c, []string{file}
		o.Reload = func(context.Context) (cloudconf.Config, error) {
			password, err := os.ReadFile(file)
			if err != nil || len(password) == 0 {
				return cloudconf.Config{}, errors.New("no password")
			}
			changed := cfg
			changed.Global.Password = cloudconf.Secret(password)
			return changed, nil
		}
	}), file
}

// OCCM needs a restart.
func TestReload_OfThePassword_WhileRequestsFlow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cloud, cfg := simulator(t)
	f, file := watching(t, cfg, clock)
	if err := listServers(within(t), f.Clients); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	failures := map[string]int{}
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := listServers(t.Context(), f.Clients); err != nil {
					mu.Lock()
					failures[err.Error()]++
					mu.Unlock()
				}
			}
		})
	}
	// The file has the new password before Keystone does, so the old one stays in use.
	write(t, file, "n3w-password")
	advance(t, clock, watchEvery, "the new configuration has been tried often", func() bool {
		return strings.Count(f.logs.String(),
			"Reload of the configuration of OpenStack failed") >= 4
	})
	mu.Lock()
	if len(failures) != 0 {
		t.Errorf("requests failed although the old password is valid: %v", failures)
	}
	mu.Unlock()
	if err := cloud.ChangePassword(cloud.Credentials().UserID, "n3w-password"); err != nil {
		t.Fatal(err)
	}
	// Keystone has revoked the old tokens, so the next check of the files is no longer delayed.
	waittest.Until(t, "the old login is over", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(failures) > 0
	})
	waittest.Until(t, "the watch waits", clock.HasWaiters)
	clock.Step(watchEvery)
	waittest.Until(t, "the new configuration is in use", func() bool {
		return strings.Contains(f.logs.String(), "Reloaded the configuration of OpenStack")
	})
	if err := listServers(within(t), f.Clients); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	close(stop)
	all.Wait()
	for failure := range failures {
		if !strings.Contains(failure, "Keystone: ") {
			t.Errorf("a request failed for another reason than the password: %s", failure)
		}
	}
	noSecret(t, cloudconf.Config{Global: cloudconf.Global{Password: "n3w-password"}},
		"log", f.logs.String())
}

func TestReload_Fails_PreviousConfigurationStays(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cloud, cfg := simulator(t)
	f, file := watching(t, cfg, clock)
	if err := listServers(within(t), f.Clients); err != nil {
		t.Fatal(err)
	}
	write(t, file, "")
	advance(t, clock, watchEvery, "it is in the log", func() bool {
		return strings.Contains(f.logs.String(), "Reload of the configuration of OpenStack failed")
	})
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
	write(t, file, string(cfg.Global.Password))
	// The file has the password in use, so fxccm does not reload it.
	for range 10 {
		clock.Step(watchEvery)
	}
	if n := cloud.Counts()["token_create"]; n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

func TestReload_WrongPassword_LoginsBackOff(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cloud, cfg := simulator(t)
	f, file := watching(t, cfg, clock)
	if err := listServers(within(t), f.Clients); err != nil {
		t.Fatal(err)
	}
	write(t, file, "wr0ng-password")
	start := clock.Now()
	tried := func() int { return cloud.Counts()["token_create"] - 1 }
	advance(t, clock, watchEvery, "an hour has passed", func() bool {
		return clock.Since(start) > time.Hour
	})
	// 10, 20, 40, 80, 160 s and then every 300 s.
	if n := tried(); n < 2 || n > 20 {
		t.Errorf("tried %d times in an hour, which may lock the user", n)
	}
	if n := strings.Count(f.logs.String(), "failed; keeping the previous configuration"); n != 1 {
		t.Errorf("the log has the failure %d times, want once", n)
	}
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
}

func TestReload_WithoutALogin_TakesWhateverComes(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cloud, cfg := simulator(t)
	right := cfg.Global.Password
	cfg.Global.Password = "wr0ng-password"
	f, file := watching(t, cfg, clock)
	wantError(t, cfg, listServers(within(t), f.Clients), "401")
	write(t, file, string(right))
	advance(t, clock, watchEvery, "the new configuration is in use", func() bool {
		return strings.Contains(f.logs.String(), "Reloaded the configuration of OpenStack")
	})
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
	if n := cloud.Counts()["token_create"]; n != 2 {
		t.Errorf("%d logins, want 2", n)
	}
}

// A mounted Secret changes by a link to another directory.
func TestReload_OfTheAuthority_OfAMountedSecret(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cloud, cfg := simulator(t, openstacktest.WithTLS())
	stranger, _ := selfSigned(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"right": cloud.CertificatePEM(), "wrong": stranger} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "ca.crt"), text)
	}
	link := filepath.Join(dir, "data")
	if err := os.Symlink("wrong", link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	cfg.Global.CAFileContents, cfg.Global.CAFile = "", filepath.Join(link, "ca.crt")
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	wantError(t, cfg, listServers(within(t), f.Clients), "certificate")

	swapped := filepath.Join(dir, "swap")
	if err := errors.Join(os.Symlink("right", swapped), os.Rename(swapped, link)); err != nil {
		t.Fatal(err)
	}
	advance(t, clock, watchEvery, "the new authority is in use", func() bool {
		return strings.Contains(f.logs.String(), "Reloaded the configuration of OpenStack")
	})
	if err := listServers(within(t), f.Clients); err != nil {
		t.Errorf("with the right authority: %v", err)
	}
}

// selfSigned makes a certificate and its key, in PEM.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth,
		},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

func TestTLS_WithACertificateOfOnesOwn_AndWithoutLooking(t *testing.T) {
	certificate, key := selfSigned(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cert"), certificate)
	write(t, filepath.Join(dir, "key"), key)
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM([]byte(certificate))
	s := &stub{service: status(200)}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	cfg := cloudconf.Default()
	cfg.Client.MaxRetries = 0
	cfg.Global = cloudconf.Global{
		AuthURL: s.URL + "/v3", UserID: "user-1", Password: `pa"ss-word`,
		TenantID: "project-1", TLSInsecure: true,
	}
	f := open(t, cfg)
	wantError(t, cfg, get(within(t), f.Clients, "ports"), "certificate")
	cfg.Global.CertFile, cfg.Global.KeyFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	f = open(t, cfg)
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Error(err)
	}
	cfg.Global.TLSInsecure = false
	f = open(t, cfg)
	wantError(t, cfg, get(within(t), f.Clients, "ports"), "certificate signed by unknown authority")
}

func TestReload_RequestsInFlight_Continue(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	release := make(chan struct{})
	var once sync.Once
	s, cfg := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusOK
		if strings.HasSuffix(r.URL.Path, "/slow") {
			// The request is even retried with the old configuration.
			once.Do(func() { <-release; code = http.StatusServiceUnavailable })
		}
		status(code)(w, r)
	})
	f, file := watching(t, cfg, clock)
	done := make(chan error, 1)
	go func() { done <- get(within(t), f.Clients, "slow") }()
	waittest.Until(t, "it is on its way", func() bool { return s.count("/slow") == 1 })
	write(t, file, "n3w-password")
	// The clock must not advance further: a request is not retried after a minute.
	waittest.Until(t, "the watch waits", clock.HasWaiters)
	clock.Step(watchEvery)
	waittest.Until(t, "the new configuration is in use", func() bool {
		return strings.Contains(f.logs.String(), "Reloaded the configuration of OpenStack")
	})
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	// The connection of the old configuration is no longer used.
	waittest.Until(t, "one connection is left",
		func() bool { _, left := s.connections(); return left == 1 })
}

func TestReload_TokenRefusedMeanwhile_UsesTheNewLogin(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	release := make(chan struct{})
	var once sync.Once
	var s *stub
	s, cfg := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		refuse := false
		if strings.HasSuffix(r.URL.Path, "/slow") {
			once.Do(func() { <-release; refuse = true })
		}
		if refuse {
			status(http.StatusUnauthorized)(w, r)
			return
		}
		status(200)(w, r)
	})
	f, file := watching(t, cfg, clock)
	done := make(chan error, 1)
	go func() { done <- get(within(t), f.Clients, "slow") }()
	waittest.Until(t, "it is on its way", func() bool { return s.count("/slow") == 1 })
	write(t, file, "n3w-password")
	advance(t, clock, watchEvery, "the new configuration is in use", func() bool {
		return strings.Contains(f.logs.String(), "Reloaded the configuration of OpenStack")
	})
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s.logins != 2 {
		t.Errorf("%d logins, want one for each configuration", s.logins)
	}
}

func TestClose_EndsTheWatch(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	_, cfg := newStub(t, status(200))
	f, _ := watching(t, cfg, clock)
	waittest.Until(t, "the watch waits", clock.HasWaiters)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if clock.HasWaiters() {
		t.Error("the watch continues")
	}
}

func TestClose_DuringAReload(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s, cfg := newStub(t, status(200))
	f, file := watching(t, cfg, clock)
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Fatal(err)
	}
	s.answerLogins(hang(t, func(http.ResponseWriter) {}))
	write(t, file, "n3w-password")
	advance(t, clock, watchEvery, "the new login is on its way",
		func() bool { return s.count("/auth/tokens") == 2 })
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	waittest.Until(t, "all connections are closed",
		func() bool { _, left := s.connections(); return left == 0 })
}

func TestWatched_FilesOfTheConfiguration(t *testing.T) {
	cfg := cloudconf.Config{Global: cloudconf.Global{
		CAFile: "ca", CertFile: "cert",
		KeyFile: "key",
	}}
	if got := strings.Join(watched(Options{Files: []string{"cloud.conf", "ca"}}, cfg),
		" "); got != "ca cert cloud.conf key" {
		t.Errorf("watched: %s", got)
	}
}
