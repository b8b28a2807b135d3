package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func listServers(ctx context.Context, c *Clients) error {
	compute, err := c.Compute(ctx)
	if err != nil {
		return err
	}
	_, err = servers.List(compute, nil).AllPages(ctx)
	return err
}

func TestNew_InvalidConfiguration_IsRefused(t *testing.T) {
	secret := cloudconf.Secret("s3cr3t-value")
	whole := cloudconf.Global{
		AuthURL: "http://keystone/v3", UserID: "u",
		Password: secret, TenantID: "p",
	}
	for name, c := range map[string]struct {
		change func(*cloudconf.Global)
		text   string
	}{
		"wrong address": {func(g *cloudconf.Global) {
			g.AuthURL = "http://u:s3cr3t-value@%zz/"
		}, "auth-url"},
		"no user": {func(g *cloudconf.Global) { g.UserID = "" }, "UserID"},
		"no user's domain": {func(g *cloudconf.Global) {
			g.UserID, g.Username = "", "bob"
		}, "Domain"},
		"no project's domain": {func(g *cloudconf.Global) {
			g.TenantID, g.TenantName = "", "demo"
		}, "Domain"},
		"credential without secret": {func(g *cloudconf.Global) {
			g.Password, g.ApplicationCredentialID = "", "x"
		}, "Secret"},
		"no authority": {func(g *cloudconf.Global) {
			g.CAFile = "/does/not/exist"
		}, "ca-file"},
		"authority without PEM": {func(g *cloudconf.Global) {
			g.CAFileContents = "x"
		}, "cafilecontents"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cloudconf.Default()
			cfg.Global = whole
			c.change(&cfg.Global)
			clients, err := New(cfg, Options{})
			wantError(t, cfg, err, c.text)
			if clients != nil {
				_ = clients.Close()
			}
		})
	}
}

func TestToken_Revoked_IsRenewedOnceForAllCallers(t *testing.T) {
	cloud, cfg := simulator(t)
	f := open(t, cfg)
	for round := 1; round <= 3; round++ {
		cloud.RevokeTokens()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := listServers(within(t), f.Clients); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := cloud.Counts()["token_create"]; n != round {
			t.Errorf("%d logins after %d revocations", n, round)
		}
	}
}

func TestRequest_TokenRefused_IsRepeatedWithItsBody(t *testing.T) {
	s, cfg := newStub(t, status(201))
	f := open(t, cfg)
	if err := get(within(t), f.Clients, "networks"); err != nil {
		t.Fatal(err)
	}
	s.revoke()
	if err := send(within(t), f.Clients, "POST", "ports", map[string]any{"port": "a"}); err != nil {
		t.Fatal(err)
	}
	seen := s.seen("/ports")
	if len(seen) != 2 || seen[0].body != `{"port":"a"}` || seen[1].body != seen[0].body ||
		seen[0].token == seen[1].token {
		t.Errorf("the requests are %+v, want the same body with another token", seen)
	}
}

func TestService_RefusesEveryToken_FewLogins(t *testing.T) {
	s, cfg := newStub(t, status(http.StatusUnauthorized))
	f := open(t, cfg)
	for range 50 {
		if err := get(within(t), f.Clients, "ports"); !gophercloud.ResponseCodeIs(err,
			http.StatusUnauthorized) {
			t.Fatalf("got %v, want the service's refusal", err)
		}
	}
	if s.logins > 1+renewalBurst+1 {
		t.Errorf("%d logins for 50 requests", s.logins)
	}
}

func TestLogin_IssuedTokenExpired_ErrorNamesTheReason(t *testing.T) {
	cloud, cfg := simulator(t)
	for name, tenant := range map[string]string{
		"as it is":      "",
		"for a project": cloud.Credentials().ProjectID,
	} {
		t.Run(name, func(t *testing.T) {
			issued := cloudconf.Secret(cloud.Credentials().Token)
			cfg.Global = cloudconf.Global{
				AuthURL: cfg.Global.AuthURL, Region: cfg.Global.Region,
				Token: issued, TenantID: tenant,
			}
			f := open(t, cfg)
			if err := listServers(within(t), f.Clients); err != nil {
				t.Fatal(err)
			}
			cloud.RevokeTokens()
			wantError(t, cfg, listServers(within(t), f.Clients), "Keystone: 4",
				"cannot be renewed")
		})
	}
}

// OCCM logs in at its start, and exits if that fails. Later failures of these calls mean
// "unsupported" to OCCM until it restarts.
func TestKeystone_DownAndBack_NeedsNoRestart(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	s, cfg := newStub(t, status(200))
	s.answerLogins(status(http.StatusInternalServerError))
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	for i, pause := range []time.Duration{500, 1000, 2000, 4000, 8000, 15000, 15000} {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				wantError(t, cfg, get(within(t), f.Clients, "ports"), "Keystone: ",
					"500 Internal Server Error")
			})
		}
		all.Wait()
		if n := s.count("/auth/tokens"); n != i+1 {
			t.Errorf("%d logins were tried for %d times 100 requests", n, i+1)
		}
		clock.Step(pause*time.Millisecond - 1)
		wantError(t, cfg, get(within(t), f.Clients, "ports"), "Keystone: 500")
		if n := s.count("/auth/tokens"); n != i+1 {
			t.Errorf("a login was tried before %s ms had passed", pause)
		}
		clock.Step(1)
	}
	if n := s.count("/ports"); n != 0 {
		t.Errorf("%d requests were made without a token", n)
	}
	s.answerLogins(nil)
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Errorf("after Keystone's recovery: %v", err)
	}
	if got := f.observed.Logins(); got[0] != loginFailed || got[len(got)-1] != loginOK {
		t.Errorf("observed %v", got)
	}
	if n := strings.Count(f.logs.String(), "Login to OpenStack failed; retrying"); n != 1 {
		t.Errorf("%d failures of one cause are in the log, want one", n)
	}
}

func TestKeystone_Unreachable_ErrorNamesIt(t *testing.T) {
	s, cfg := newStub(t, status(200))
	s.Close()
	f := open(t, cfg)
	err := get(within(t), f.Clients, "ports")
	wantError(t, cfg, err, "Keystone: dial ", "connection refused")
}

func TestLogin_CallerCanceled_OthersSucceed(t *testing.T) {
	s, cfg := newStub(t, status(200))
	release := make(chan struct{})
	s.answerLogins(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		s.issue(w)
	})
	f := open(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- get(ctx, f.Clients, "ports") }()
	waittest.Until(t, "the login has begun", func() bool { return s.count("/auth/tokens") == 1 })
	go func() { second <- get(within(t), f.Clients, "ports") }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled caller got %v", err)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("the other caller got %v", err)
	}
	if n := s.count("/auth/tokens"); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// OCCM reports "no suitable endpoint", "unsupported", or nothing.
func TestLoginError_HasKeystonesMessage(t *testing.T) {
	_, cfg := simulator(t)
	cfg.Global.Password = "wr0ng-password"
	f := open(t, cfg)
	err := listServers(within(t), f.Clients)
	wantError(t, cfg, err, `user "`+cfg.Global.Username+`"`,
		"Keystone: 401 The request you have made requires authentication")
	var login *failure.LoginError
	if !errors.As(err, &login) || !login.Refused() || login.Status != 401 {
		t.Errorf("got %#v, want a refusal", err)
	}
	if got := f.observed.Logins(); !slices.Equal(got, []string{loginRefused}) {
		t.Errorf("observed %v", got)
	}
	noSecret(t, cfg, "log", f.logs.String())
}

func TestLoginError_IsNotANotFound(t *testing.T) {
	s, cfg := newStub(t, status(200))
	s.answerLogins(status(http.StatusNotFound))
	f := open(t, cfg)
	err := get(within(t), f.Clients, "ports")
	wantError(t, cfg, err, "404 Not Found")
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Error("to a lookup this says that the server does not exist, and its node would be " +
			"deleted")
	}
}

func TestKeystone_InvalidResponse_IsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		text   string
	}{
		"HTML": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			_, _ = w.Write([]byte("<html>"))
		}, "not JSON"},
		"HTML, 404": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			_, _ = w.Write([]byte("<html>"))
		}, "the response is not from Keystone"},
		"broken JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			_, _ = w.Write([]byte(`{"token": {`))
		}, "unexpected EOF"},
		"no token": {func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 201, map[string]any{"token": map[string]any{}})
		}, "no token"},
		"wrong types": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "t")
			reply(w, 201, map[string]any{"token": map[string]any{"catalog": "x"}})
		}, "catalog"},
		"300":          {status(http.StatusMultipleChoices), "300 Multiple Choices"},
		"the password": {echo, "cannot do"},
	} {
		t.Run(name, func(t *testing.T) {
			s, cfg := newStub(t, status(200))
			s.answerLogins(c.answer)
			f := open(t, cfg)
			wantError(t, cfg, get(within(t), f.Clients, "ports"), c.text)
		})
	}
}

// echo responds with the request, as some proxies do.
func echo(w http.ResponseWriter, r *http.Request) {
	var body any
	_ = json.NewDecoder(r.Body).Decode(&body)
	text, _ := json.Marshal(body)
	reply(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": "cannot do " +
		string(text)}})
}

func TestVersion3_IsReadFromKeystonesVersions(t *testing.T) {
	s, cfg := newStub(t, status(200))
	cfg.Global.AuthURL = s.URL
	f := open(t, cfg)
	if err := get(within(t), f.Clients, "ports"); err != nil {
		t.Error(err)
	}
	if n := s.count("/elsewhere/v3/auth/tokens"); n != 1 {
		t.Errorf("%d logins there, want 1", n)
	}
}

// Behind a proxy that ends TLS, Keystone lists its address as it is inside: without TLS.
func TestVersion3_IsFoundWithoutLeavingTLS(t *testing.T) {
	cloud, cfg := simulator(t, openstacktest.WithTLS())
	cfg.Global.AuthURL = strings.TrimSuffix(cloud.AuthURL(), "/v3")
	remove := cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceIdentity, Operation: "version_*",
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			return status, []byte(strings.ReplaceAll(string(body), "https://", "http://"))
		},
	})
	defer remove()
	f := open(t, cfg)
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
	cloud.RevokeTokens()
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
	if n := cloud.Counts()["version_list"]; n != 1 {
		t.Errorf("Keystone listed its versions %d times", n)
	}
}

func TestVersion3_ListedAddressIsWrong_IsReadAgain(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	cloud, cfg := simulator(t)
	cfg.Global.AuthURL = strings.TrimSuffix(cloud.AuthURL(), "/v3")
	cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceIdentity, Operation: "version_*", Times: 1,
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			return status, []byte(strings.ReplaceAll(string(body), "/v3", "/gone/v3"))
		},
	})
	f := open(t, cfg, func(o *Options) { o.Clock = clock })
	if err := listServers(within(t), f.Clients); err == nil {
		t.Fatal("the login at a wrong address succeeded")
	}
	clock.Step(time.Minute)
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
}

func TestCredentials_OfALogin_AreSentToKeystone(t *testing.T) {
	for name, test := range map[string]struct {
		global cloudconf.Global
		want   string
	}{
		"an ID before a name": {
			cloudconf.Global{
				UserID: "u", Username: "n", Password: "p", TenantID: "t", TenantName: "x",
			},
			`{"identity":{"methods":["password"],"password":{"user":{"id":"u","password":"p"}}},` +
				`"scope":{"project":{"id":"t"}}}`,
		},
		"the ID of the common domain, and the name of one": {
			cloudconf.Global{
				Username: "n", Password: "p", TenantName: "x", DomainID: "i", DomainName: "d",
				TenantDomainName: "e",
			},
			`{"identity":{"methods":["password"],"password":{"user":{"domain":{"id":"i"},` +
				`"name":"n","password":"p"}}},` +
				`"scope":{"project":{"domain":{"name":"e"},"name":"x"}}}`,
		},
		"a trustee beside the user": {
			cloudconf.Global{
				TrustID: "t", TrusteeID: "v", TrusteePassword: "q", Username: "n", Password: "p",
				DomainID: "i", TenantID: "x",
			},
			`{"identity":{"methods":["password"],"password":{"user":{"id":"v","password":"q"}}},` +
				`"scope":{"OS-TRUST:trust":{"id":"t"}}}`,
		},
	} {
		test.global.AuthURL = "http://keystone/v3"
		c, err := newCredentials(test.global)
		if err != nil {
			t.Fatal(err)
		}
		scope, _ := c.options.ToTokenV3ScopeMap()
		request, _ := c.options.ToTokenV3CreateMap(scope)
		if got, _ := json.Marshal(request["auth"]); string(got) != test.want {
			t.Errorf("%s: the request is\n%s\nwant\n%s", name, got, test.want)
		}
	}
}
