package conformance_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
)

func TestVerdict_NamesTheCureOfEachFailure(t *testing.T) {
	passed := conformance.Result{Check: "p", Outcome: conformance.Passed}
	skipped := conformance.Result{Check: "s", Outcome: conformance.Skipped}
	leaks := conformance.Result{
		Check: "growth", Outcome: conformance.Failed, Detail: "grows", Isolation: true,
	}
	lies := conformance.Result{Check: "absence", Outcome: conformance.Failed, Detail: "lies"}
	for want, results := range map[string][]conformance.Result{
		"safe in process":           {passed, skipped},
		"unknown: no check has run": {skipped},
		"run it in a process of its own, because growth: grows": {passed, leaks},
		"repair it first, because absence: lies\n" +
			"run it in a process of its own, because growth: grows": {leaks, lies, passed},
	} {
		if got := (conformance.Report{Results: results}).Verdict(); got != want {
			t.Errorf("verdict %q, want %q", got, want)
		}
	}
}

func TestGate_WithoutClassify_NamesOperationsWithoutTheirObjects(t *testing.T) {
	for _, c := range []struct {
		method, path, operation string
		mutating                bool
	}{
		{http.MethodGet, "/v2.1/servers/0a1b-2", "GET /v2.1/servers/*", false},
		{http.MethodPost, "/v1/servers", "POST /v1/servers", true},
		{http.MethodDelete, "/volumes/vol-7/tags", "DELETE /volumes/*/tags", true},
		{http.MethodHead, "/vm1", "HEAD /*", false},
	} {
		var gate conformance.Gate
		gate.Handler(http.NotFoundHandler(), nil).ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequest(c.method, c.path, nil))
		all := gate.Requests()
		if len(all) != 1 || all[0].Operation != c.operation || all[0].Mutating != c.mutating {
			t.Errorf("%s %s is %+v, want one request %q, mutating: %t", c.method, c.path, all,
				c.operation, c.mutating)
		}
	}
}
