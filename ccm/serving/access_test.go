package serving_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/internal/waittest"
)

// reviewer is an API server that only serves reviews. The test decides their results.
type reviewer struct {
	mu       sync.Mutex
	tokens   map[string]string // user by token
	mayRead  []string          // users
	forbid   bool              // the reviews themselves
	tokenAsk int
	accesses []authorizationv1.SubjectAccessReviewSpec
	// audiences are those of each token; confirm is false for an API server that ignores them.
	audiences map[string][]string
	confirm   bool
}

func (v *reviewer) start(t *testing.T) *rest.Config {
	t.Helper()
	s := httptest.NewServer(v)
	t.Cleanup(s.Close)
	return &rest.Config{
		Host:          s.URL,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if v.forbid {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: metav1.StatusReasonForbidden, Code: 403,
			Message: "10.9.8.7 is a secret address",
		})
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		v.tokenAsk++
		user, ok := v.tokens[review.Spec.Token]
		if own := v.audiences[review.Spec.Token]; len(own) > 0 || len(review.Spec.Audiences) > 0 {
			ok = ok && slices.Equal(own, review.Spec.Audiences)
		}
		if ok {
			review.Status = authenticationv1.TokenReviewStatus{
				Authenticated: true,
				User: authenticationv1.UserInfo{
					Username: user, UID: "7", Groups: []string{"readers"},
					Extra: map[string]authenticationv1.ExtraValue{"scope": {"x"}},
				},
			}
			if v.confirm {
				review.Status.Audiences = review.Spec.Audiences
			}
		} else {
			review.Status.Error = "no such token"
		}
		_ = json.NewEncoder(w).Encode(review)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		v.accesses = append(v.accesses, review.Spec)
		review.Status.Allowed = slices.Contains(v.mayRead, review.Spec.User)
		_ = json.NewEncoder(w).Encode(review)
	default:
		http.NotFound(w, r)
	}
}

func (v *reviewer) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

// skipLookup disables reading the cluster's ConfigMap.
func skipLookup(c *servingconfig.Config) { c.Authentication.SkipLookup = true }

func bearer(token string) string { return "Authorization: Bearer " + token }

func TestAccess_BearerToken_IsReviewed(t *testing.T) {
	v := &reviewer{
		tokens:  map[string]string{"good": "alice", "other": "bob"},
		mayRead: []string{"alice"},
	}
	r := serveFor(t, v.start(t), skipLookup)
	c := client(t, nil)

	get(t, c, r.Server, "/metrics", bearer("good")).wants(t, http.StatusOK, "go_goroutines")
	get(t, c, r.Server, "/metrics", bearer("other")).wants(t, http.StatusForbidden,
		`User \"bob\" cannot get path \"/metrics\"`)
	get(t, c, r.Server, "/metrics", bearer("forged")).wants(t, http.StatusUnauthorized,
		`"reason":"Unauthorized"`)
	get(t, c, r.Server, "/metrics").wants(t, http.StatusForbidden,
		`User \"system:anonymous\" cannot get path \"/metrics\"`)
	get(t, c, r.Server, "/nothing", bearer("good")).wants(t, http.StatusNotFound, "404")

	want := authorizationv1.SubjectAccessReviewSpec{
		User: "alice", UID: "7", Groups: []string{"readers", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"scope": {"x"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{
			Path: "/metrics",
			Verb: "get",
		},
	}
	v.change(func() {
		if got := v.accesses[0]; !equalJSON(t, got, want) {
			t.Errorf("the API server reviewed %+v, want %+v", got, want)
		}
	})
}

func TestAccess_TokenOfTheSecurePort_IsReviewedForItsAudience(t *testing.T) {
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	ours := token(`{"aud":["` + servingconfig.TokenAudience + `"]}`)
	other := token(`{"aud":["vault"]}`)
	v := &reviewer{
		tokens: map[string]string{ours: "status", other: "vault"},
		audiences: map[string][]string{
			ours: {servingconfig.TokenAudience}, other: {"vault"},
		},
		mayRead: []string{"status", "vault"}, confirm: true,
	}
	c := client(t, nil)
	r := serveFor(t, v.start(t), skipLookup)
	get(t, c, r.Server, "/statusz", bearer(ours)).wants(t, http.StatusOK, "")
	get(t, c, r.Server, "/statusz", bearer(other)).wants(t, http.StatusUnauthorized, "")
	for _, broken := range []string{"a.b.c", "..", token(`{"aud":7}`), token("[")} {
		get(t, c, r.Server, "/statusz", bearer(broken)).wants(t, http.StatusUnauthorized, "")
	}

	// An API server that ignores the audience has checked the token for its own.
	v.change(func() { v.confirm = false })
	unaware := serveFor(t, v.start(t), skipLookup)
	get(t, c, unaware.Server, "/statusz", bearer(ours)).wants(t, http.StatusUnauthorized, "")
}

// client-go adds the Manager's credentials to each request, also to one that follows a redirect.
func TestAccess_APIServerRedirectsReviews_NoRequestLeavesIt(t *testing.T) {
	var asked, arrived atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Add(1)
	}))
	t.Cleanup(other.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(api.Close)
	r := serveFor(t, &rest.Config{Host: api.URL, BearerToken: "manager"}, skipLookup)
	for _, header := range []string{bearer("good"), "X-Nothing: x"} { // a token, and an access
		before := asked.Load()
		get(t, client(t, nil), r.Server, "/metrics", header).wants(t,
			http.StatusServiceUnavailable, "")
		if asked.Load() == before {
			t.Errorf("%s: the API server reviewed nothing", header)
		}
	}
	if n := arrived.Load(); n > 0 {
		t.Errorf("%d requests followed the redirect", n)
	}
}

func TestAccess_RepeatedRequests_ReviewsAreCached(t *testing.T) {
	v := &reviewer{tokens: map[string]string{"good": "alice"}, mayRead: []string{"alice"}}
	r := serveFor(t, v.start(t), func(c *servingconfig.Config) {
		skipLookup(c)
		c.Authorization.UnauthorizedCacheTTL = metav1.Duration{Duration: time.Millisecond}
	})
	c := client(t, nil)
	for range 5 {
		get(t, c, r.Server, "/metrics", bearer("good")).wants(t, http.StatusOK, "")
	}
	v.change(func() {
		if v.tokenAsk != 1 || len(v.accesses) != 1 {
			t.Errorf(
				"for five requests the API server reviewed %d tokens and %d accesses, want one each", v.tokenAsk, len(v.accesses))
		}
	})
	// A refusal expires after its cache TTL.
	get(t, c, r.Server, "/statusz").wants(t, http.StatusForbidden, "")
	v.change(func() { v.mayRead = append(v.mayRead, "system:anonymous") })
	waittest.Until(t, "the new permission takes effect", func() bool {
		a, err := tryGet(c, r.Server, "/statusz")
		return err == nil && a.StatusCode == http.StatusOK
	})
}

func TestAccess_ReviewsAreForbidden_ResponseNamesTheMissingRules(t *testing.T) {
	v := &reviewer{forbid: true}
	r := serveFor(t, v.start(t), skipLookup)
	c := client(t, nil)
	for header, want := range map[string]string{
		"X-Nothing: x": "not allowed by RBAC to create subjectaccessreviews.authorization.k8s.io: it needs the rules of ClusterRole system:auth-delegator",
		bearer("good"): "not allowed by RBAC to create tokenreviews.authentication.k8s.io",
	} {
		a := get(t, c, r.Server, "/metrics", header)
		a.wants(t, http.StatusServiceUnavailable, want)
		if strings.Contains(a.body, "10.9.8.7") {
			t.Errorf("the response shows the API server's error to an unauthenticated client: %s", a.body)
		}
	}
	// Open paths need no review, even if a probe carries a token.
	get(t, c, r.Server, "/healthz", bearer("good")).wants(t, http.StatusOK, "ok")

	v.change(func() {
		v.forbid, v.tokens, v.mayRead = false, map[string]string{"good": "alice"}, []string{"alice"}
	})
	get(t, c, r.Server, "/metrics", bearer("good")).wants(t, http.StatusOK, "")
}

// A cluster without aggregated APIs may lack the ConfigMap.
func TestAccess_WithoutTheConfigMap_TokensAreAccepted(t *testing.T) {
	v := &reviewer{tokens: map[string]string{"good": "alice"}, mayRead: []string{"alice"}}
	r := serveFor(t, v.start(t), nil)
	waittest.Until(t, "a token is accepted", func() bool {
		a, err := tryGet(client(t, nil), r.Server, "/metrics", bearer("good"))
		return err == nil && a.StatusCode == http.StatusOK
	})
}

func TestAccess_LookupFails_ProtectedPathsReturnTheReason(t *testing.T) {
	v := &reviewer{forbid: true}
	strict, tolerant := serveFor(t, v.start(t), nil),
		serveFor(t, v.start(t), func(c *servingconfig.Config) {
			c.Authentication.TolerateLookupFailure = true
		})
	c := client(t, nil)
	waittest.Until(t, "the response has the reason", func() bool {
		a := get(t, c, strict.Server, "/metrics")
		return a.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(a.body, "extension-apiserver-authentication-reader") &&
			strings.Contains(a.body, "ConfigMap kube-system/extension-apiserver-authentication")
	})
	// the Manager does not run
	get(t, c, strict.Server, "/readyz?verbose").wants(t, http.StatusInternalServerError,
		"ccm failed")
	get(t, c, tolerant.Server, "/metrics").wants(t, http.StatusServiceUnavailable,
		"subjectaccessreviews")

	away := serve(t, nil)
	waittest.Until(t, "the response reports that the API server cannot be reached", func() bool {
		a := get(t, c, away.Server, "/metrics")
		return a.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(a.body, "cannot be reached")
	})
	get(t, c, away.Server, "/livez").wants(t, http.StatusOK, "ok")
	// not open, because it shows reasons
	get(t, c, away.Server, "/healthz/leaderElection").wants(t, http.StatusServiceUnavailable, "")
}

func TestAccess_ClientCertificate_IsVerified(t *testing.T) {
	dir, ca, stranger := t.TempDir(), newAuthority(t, "clients"), newAuthority(t, "strangers")
	v := &reviewer{mayRead: []string{"alice"}}
	file := write(t, dir, "ca.crt", ca.PEM)
	r := serveFor(t, v.start(t), func(c *servingconfig.Config) {
		skipLookup(c)
		c.Authentication.ClientCAFile = file
	})
	with := func(p pair) *http.Client { return client(t, p.presents(t)) }
	get(t, with(ca.client("alice")), r.Server, "/metrics").wants(t, http.StatusOK, "")
	get(t, with(ca.client("bob")), r.Server, "/metrics").wants(t, http.StatusForbidden, "bob")
	get(t, client(t, nil), r.Server, "/metrics").wants(t, http.StatusForbidden, "system:anonymous")

	// The group system:masters needs no review.
	v.change(func() { v.forbid = true })
	get(t, with(ca.client("root", "system:masters")), r.Server, "/metrics").wants(t, http.StatusOK,
		"")

	// Server certificates and expired certificates do not authenticate a client.
	server := ca.issue("alice", func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	get(t, with(server), r.Server, "/metrics").wants(t, http.StatusUnauthorized, "")
	expired := ca.issue("alice",
		func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	get(t, with(expired), r.Server, "/metrics").wants(t, http.StatusUnauthorized, "")

	// The CA is replaced.
	write(t, dir, "ca.crt", stranger.PEM)
	waittest.Until(t, "the new CA is trusted", func() bool {
		return get(t, with(stranger.client("root", "system:masters")), r.Server,
			"/metrics").StatusCode == http.StatusOK
	})
	// By default a client does not send a certificate if the server does not name its CA. This one
	// does.
	get(t, client(t, insist(t, ca.client("root", "system:masters"))), r.Server, "/metrics").wants(t,
		http.StatusUnauthorized, "")
}

func TestAccess_FrontProxy_HeadersAreTrustedOnlyWithItsCertificate(t *testing.T) {
	dir, ca, clients := t.TempDir(), newAuthority(t, "proxies"), newAuthority(t, "clients")
	v := &reviewer{mayRead: []string{"alice"}}
	r := serveFor(t, v.start(t), func(c *servingconfig.Config) {
		skipLookup(c)
		a := &c.Authentication
		a.ClientCAFile = write(t, dir, "clients.crt", clients.PEM)
		a.RequestHeader.ClientCAFile = write(t, dir, "proxies.crt", ca.PEM)
		a.RequestHeader.AllowedNames = []string{"front-proxy"}
	})
	alice, masters := "X-Remote-User: alice", "X-Remote-Group: system:masters"
	proxy := client(t, ca.client("front-proxy").presents(t))
	get(t, proxy, r.Server, "/metrics", alice).wants(t, http.StatusOK, "")
	get(t, proxy, r.Server, "/metrics", "X-Remote-User: bob").wants(t, http.StatusForbidden, "bob")
	get(t, proxy, r.Server, "/metrics", "X-Remote-User: bob", masters).wants(t, http.StatusOK, "")

	// Without the proxy's certificate the headers are ignored.
	for name, c := range map[string]*http.Client{
		"no certificate":             client(t, nil),
		"a client":                   client(t, clients.client("front-proxy").presents(t)),
		"a proxy of another name":    client(t, ca.client("imposter").presents(t)),
		"a client of another's name": client(t, clients.client("bob").presents(t)),
	} {
		if a := get(t, c, r.Server, "/metrics", alice, masters); a.StatusCode == http.StatusOK {
			t.Errorf("%s was authenticated as %s", name, alice)
		}
	}
}

func TestAccess_AlwaysAllowPaths_NeedNoAuthorization(t *testing.T) {
	v := &reviewer{}
	r := serveFor(t, v.start(t), func(c *servingconfig.Config) {
		skipLookup(c)
		c.Authorization.AlwaysAllowPaths = []string{"livez", "/healthz*"}
	})
	c := client(t, nil)
	for path, code := range map[string]int{
		"/livez":                  http.StatusOK,
		"/livez/leaderElection":   http.StatusForbidden,
		"/healthz":                http.StatusOK,
		"/healthz/leaderElection": http.StatusOK,
		"/readyz":                 http.StatusForbidden,
		"/healthz/../metrics":     http.StatusNotFound,
		"//livez":                 http.StatusForbidden,
	} {
		request, err := http.NewRequest(http.MethodGet, "https://"+r.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.URL.Path = path
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != code {
			t.Errorf("GET %s is %d, want %d", path, response.StatusCode, code)
		}
	}
}

// The health checks of a host's controllers receive the request, but must not receive its
// credentials.
func TestAccess_HealthChecks_DoNotReceiveCredentials(t *testing.T) {
	seen := make(chan http.Header, 1)
	v := &reviewer{tokens: map[string]string{"good": "alice"}, mayRead: []string{"alice"}}
	watcher := &headerWatcher{seen: seen}
	m := newManager(t, v.start(t), watcher.controller())
	ctx, cancel := cancelable(t)
	go func() { _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-m.Done() })
	waittest.Until(t, "the Manager is ready", func() bool { return m.Status().Ready })
	r := run(t, newServer(t, m, skipLookup))
	for _, path := range []string{"/healthz", "/healthz/watcher"} {
		get(t, client(t, nil), r.Server, path, bearer("good"), "X-Remote-User: root",
			"X-Other: kept").wants(t, http.StatusOK, "ok")
		headers := <-seen
		if headers.Get("Authorization") != "" || headers.Get("X-Remote-User") != "" ||
			headers.Get("X-Other") != "kept" {
			t.Errorf("GET %s: the check received %v", path, headers)
		}
	}
	if err := r.stop(t, nil); err != nil {
		t.Error(err)
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	left, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	right, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(left) == string(right)
}

// The cache of tokens continues a review after its caller has gone. A stop must end the review
// without waiting for its answer.
func TestStop_ReviewHasNoCaller_IsCanceled(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// a server notices that its client has gone only after it has read the body
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(func() { close(release); api.Close() })
	oneTakesLess(t, 8*time.Second, "the stop", func() time.Duration {
		r := serveFor(t, &rest.Config{Host: api.URL}, skipLookup)
		ctx, goAway := cancelable(t)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			"https://"+r.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer good")
		gone := make(chan error, 1)
		c := client(t, nil)
		go func() {
			response, err := c.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			gone <- err
		}()
		<-asked
		goAway()
		if err := <-gone; err == nil {
			t.Fatal("the caller got a response although the API server does not answer")
		}
		begun := time.Now()
		if err := r.stop(t, nil); err != nil {
			t.Errorf("Run: %v", err)
		}
		r.result <- nil // for the cleanup
		return time.Since(begun)
	})
}
