package conformance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/provider/openstack"
)

// A test of a provider gives the provider and a stub of its cloud.
func ExampleRun() {
	// In a test file of the provider: func TestProvider_InAHost_IsSafeInProcess(t *testing.T).
	_ = func(t *testing.T) {
		report := conformance.Run(t, conformance.Suite{
			Provider:  openstack.Provider(),
			NewCloud:  newOpenStack, // func(testing.TB) conformance.Cloud
			BadConfig: "[Global]\nauth-url = nowhere\n",
		})
		if got := report.Verdict(); got != "safe in process" {
			t.Error(got)
		}
	}
}

// A stub that speaks HTTP gets a gate, with which the checks count, hold and fail its requests.
func ExampleGate_Handler() {
	var gate conformance.Gate
	stub := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}), nil)

	end := gate.Fail()
	failed, created := httptest.NewRecorder(), httptest.NewRecorder()
	stub.ServeHTTP(failed, httptest.NewRequest(http.MethodGet, "/servers", nil))
	end()
	stub.ServeHTTP(created, httptest.NewRequest(http.MethodPost, "/servers", nil))
	fmt.Println(failed.Code, created.Code)
	for _, request := range gate.Requests() {
		fmt.Println(request.Operation, request.Mutating)
	}
	// Output:
	// 500 201
	// GET /servers false
	// POST /servers true
}
