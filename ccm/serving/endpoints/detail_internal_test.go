package endpoints

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/go-logr/logr"
)

func TestHealth_ChecksThatPass_ShowTheirDetails(t *testing.T) {
	mux := http.NewServeMux()
	check := func(name string, err error, detail string) ccm.Check {
		return ccm.Check{
			Name: name, Check: func(*http.Request) error { return err },
			Detail: func() string { return detail },
		}
	}
	health{name: "livez", log: logr.Discard(), checks: []ccm.Check{
		{Name: "plain", Check: func(*http.Request) error { return nil }},
		check("runs", nil, "ok"),
		check("waits", nil, "not running: standby"),
		check("says nothing", nil, ""),
		check("says much", nil, "not running:\n[-]forged failed"),
		check("ill", errors.New("a secret reason"), "not running: failed"),
	}}.install(mux)
	const passed = "[+]plain ok\n[+]runs ok\n[+]waits not running: standby\n[+]says nothing ok\n[+]says much not running: [-]forged failed\n"
	for path, want := range map[string]string{
		"/livez?verbose": passed +
			"[-]ill failed: reason withheld\nlivez check failed\n",
		"/livez?verbose&exclude=ill": passed + "[+]ill excluded: ok\nlivez check passed\n",
		"/livez?exclude=ill":         "ok",
		"/livez/waits":               "not running: standby",
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if got := w.Body.String(); got != want {
			t.Errorf("GET %s is %q, want %q", path, got, want)
		}
	}
}
