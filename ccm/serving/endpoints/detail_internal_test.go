package endpoints

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
)

type plainCheck struct {
	name string
	err  error
}

func (c plainCheck) Name() string              { return c.name }
func (c plainCheck) Check(*http.Request) error { return c.err }

type detailedCheck struct {
	plainCheck
	detail string
}

func (c detailedCheck) Detail(*http.Request) string { return c.detail }

func TestHealth_ChecksThatPass_ShowTheirDetails(t *testing.T) {
	mux := http.NewServeMux()
	health{name: "livez", log: logr.Discard(), checks: []Check{
		plainCheck{name: "plain"},
		detailedCheck{plainCheck{name: "runs"}, "ok"},
		detailedCheck{plainCheck{name: "waits"}, "not running: standby"},
		detailedCheck{plainCheck{name: "says nothing"}, ""},
		detailedCheck{plainCheck{name: "says much"}, "not running:\n[-]forged failed"},
		detailedCheck{
			plainCheck{name: "ill", err: errors.New("a secret reason")},
			"not running: failed",
		},
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
