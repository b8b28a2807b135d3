package endpoints_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
)

func TestHealth_Requests_AreAnsweredAsByComponentsOfKubernetes(t *testing.T) {
	well, ill := &worker{}, &worker{}
	ill.sick.Store(true)
	m := newManager(t, nil, well.controller("steady"), ill.controller("example.com/stuck"))
	runReady(t, m)
	h := newHandler(m)

	const (
		ok  = http.StatusOK
		bad = http.StatusInternalServerError
	)
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/healthz", bad, "[+]leaderElection ok\n[+]drain ok\n[-]example.com/stuck failed: reason withheld\n[+]steady ok\nhealthz check failed\n"},
		{"/livez", bad, "[+]leaderElection ok\n[+]drain ok\n[-]example.com/stuck failed: reason withheld\n[+]steady ok\nlivez check failed\n"},
		{"/healthz?exclude=example.com/stuck", ok, "ok"},
		{
			"/healthz?exclude=example.com/stuck&exclude=steady&verbose", ok,
			"[+]leaderElection ok\n[+]drain ok\n[+]example.com/stuck excluded: ok\n[+]steady excluded: ok\nhealthz check passed\n",
		},
		{
			"/healthz?verbose&exclude=example.com/stuck&exclude=unknown&exclude=another", ok,
			"[+]leaderElection ok\n[+]drain ok\n[+]example.com/stuck excluded: ok\n[+]steady ok\n" +
				"warn: some health checks cannot be excluded: no matches for \"another\",\"unknown\"\nhealthz check passed\n",
		},
		{"/healthz/steady", ok, "ok"},
		{"/livez/leaderElection", ok, "ok"},
		{"/healthz/example.com/stuck", bad, "internal server error: " + errSick.Error() + "\n"},
		{"/healthz/unknown", http.StatusNotFound, "404 page not found\n"},
		{"/healthz/", http.StatusNotFound, "404 page not found\n"},
		{"/healthz/ccm", http.StatusNotFound, "404 page not found\n"},
		{"/readyz", ok, "ok"},
		{"/readyz?verbose", ok, "[+]ccm ok\nreadyz check passed\n"},
		{"/readyz/ccm", ok, "ok"},
		{"/", http.StatusNotFound, "404 page not found\n"},
	} {
		w := get(h, c.path)
		if w.Code != c.code || w.Body.String() != c.body {
			t.Errorf("GET %s is %d %q, want %d %q", c.path, w.Code, w.Body, c.code, c.body)
		}
	}

	ill.sick.Store(false)
	if w := get(h, "/healthz"); w.Code != ok {
		t.Errorf("after the controller has recovered, GET /healthz is %d %s", w.Code, w.Body)
	}
}

func TestReadyz_ManagerStartsAndDrains_FollowsItsState(t *testing.T) {
	w := &worker{hold: make(chan struct{})}
	m := newManager(t, nil, w.controller("slow-to-end"))
	h := newHandler(m)

	stopped := get(h, "/readyz")
	if stopped.Code != http.StatusInternalServerError {
		t.Errorf("before the Manager runs /readyz is %d, want 500", stopped.Code)
	}
	if code := get(h, "/healthz").Code; code != http.StatusOK {
		t.Errorf("before the Manager runs /healthz is %d, want 200, because a restart would not help", code)
	}

	stop := runReady(t, m)
	if ready := get(h, "/readyz"); ready.Code != http.StatusOK {
		t.Errorf("when the Manager is ready, /readyz is %d %s", ready.Code, ready.Body)
	}

	stop()
	waittest.Until(t, "the Manager drains",
		func() bool { return m.Status().State == status.Draining })
	if draining := get(h, "/readyz/ccm"); draining.Code != http.StatusInternalServerError ||
		!strings.Contains(draining.Body.String(), "draining") {
		t.Errorf("while the Manager drains, /readyz/ccm is %d %q, want 500 and draining",
			draining.Code, draining.Body)
	}
	close(w.hold)
}

func TestHealth_OtherMethods_AreNotAllowed(t *testing.T) {
	h := newHandler(newManager(t, nil))
	for _, path := range []string{
		"/healthz", "/healthz/leaderElection", "/metrics", "/statusz",
		"/configz",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s is %d, want 405", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/healthz", nil))
	if w.Code != http.StatusOK {
		t.Errorf("HEAD /healthz is %d, want 200", w.Code)
	}
}
