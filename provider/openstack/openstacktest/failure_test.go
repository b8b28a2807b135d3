package openstacktest

import (
	"net/http"
	"testing"
)

func TestFailures_AreInEachServicesForm(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		path   string
		status int
		body   string
	}{
		{"/identity/v3/auth/catalog", 503, `{"error": {"code": 503, "title": "Service Unavailable", "message": "out of order"}}`},
		{computePath + "/servers", 400, `{"badRequest": {"code": 400, "message": "out of order"}}`},
		{computePath + "/servers", 401, `{"error": {"code": 401, "title": "Unauthorized", "message": "out of order"}}`},
		{computePath + "/servers", 403, `{"forbidden": {"code": 403, "message": "out of order"}}`},
		{computePath + "/servers", 404, `{"itemNotFound": {"code": 404, "message": "out of order"}}`},
		{computePath + "/servers", 409, `{"conflictingRequest": {"code": 409, "message": "out of order"}}`},
		{computePath + "/servers", 413, `{"overLimit": {"code": 413, "message": "out of order"}}`},
		{computePath + "/servers", 429, `{"overLimit": {"code": 429, "message": "out of order"}}`},
		{computePath + "/servers", 500, `{"computeFault": {"code": 500, "message": "out of order"}}`},
		{computePath + "/servers", 503, `{"serviceUnavailable": {"code": 503, "message": "out of order"}}`},
		{"/networking/v2.0/ports", 404, `{"NeutronError": {"type": "HTTPNotFound", "message": "out of order", "detail": ""}}`},
		{"/networking/v2.0/ports", 500, `{"NeutronError": {"type": "HTTPInternalServerError", "message": "out of order", "detail": ""}}`},
		{"/load-balancer/v2.0/lbaas/loadbalancers", 409, `{"faultcode": "Client", "faultstring": "out of order", "debuginfo": null}`},
		{"/load-balancer/v2.0/lbaas/loadbalancers", 500, `{"faultcode": "Server", "faultstring": "out of order", "debuginfo": null}`},
		{"/key-manager/v1/containers/x", 404, `{"code": 404, "title": "Not Found", "description": "out of order"}`},
	} {
		remove := s.Inject(Fault{Status: test.status, Message: "out of order"})
		ask(t, s, "GET", test.path, "").is(test.status, test.body)
		remove()
	}
}

func TestFailure_WithoutMessage_HasTheTextOfTheStatus(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Status: http.StatusServiceUnavailable})
	ask(t, s, "GET", computePath+"/servers", "").is(503,
		`{"serviceUnavailable": {"code": 503, "message": "Service Unavailable"}}`)
}

func TestUnknownPath_IsNotFoundAndRecorded(t *testing.T) {
	s := start(t)
	ask(t, s, "PATCH", computePath+"/nonsense", "").is(404,
		`{"itemNotFound": {"code": 404, "message": "The resource could not be found."}}`)
	ask(t, s, "GET", "/elsewhere", "").is(404,
		`{"error": {"code": 404, "title": "Not Found", "message": "The resource could not be found."}}`)
	if s.Counts()["unknown"] != 2 {
		t.Errorf("the counts are %v", s.Counts())
	}
}
