package openstacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

func TestAdmin_WithoutTheOption_DoesNotExist(t *testing.T) {
	if got := send(t, start(t), "GET", "/_sim/calls", ""); got.status != http.StatusNotFound {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestAdmin_Faults(t *testing.T) {
	s := start(t, WithAdmin())
	send(t, s, "POST", "/_sim/faults",
		`{"operation": "server_*", "status": 429, "message": "later", "retryAfter": "2s", "times": 2}`).
		is(200, `{"id": 1}`)
	if got := ask(t, s, "GET", computePath+"/servers", ""); got.status != 429 ||
		got.header.Get("Retry-After") != "2" {
		t.Errorf("%d %v", got.status, got.header)
	}
	send(t, s, "GET", "/_sim/faults", "").is(200,
		`[{"id": 1, "operation": "server_*", "status": 429, "message": "later", "retryAfter": "2s", "times": 2, "used": 1}]`)
	if got := send(t, s, "DELETE", "/_sim/faults/1", ""); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	send(t, s, "DELETE", "/_sim/faults/1", "").is(404,
		`{"error": "not there: there is no fault 1"}`)
	send(t, s, "POST", "/_sim/faults", `{"drop": true}`)
	send(t, s, "DELETE", "/_sim/faults", "")
	send(t, s, "GET", "/_sim/faults", "").is(200, `[]`)
}

// A field that the JSON form lacks would have no effect, and no test would fail.
func TestAdmin_Fault_AllFieldsAreKept(t *testing.T) {
	text := `{"service":"compute","operation":"x","skip":1,"times":2,"status":400,"message":"m",` +
		`"body":"b","afterEffect":true,"hang":true,"drop":true,"truncate":5,` +
		`"delay":"3s","retryAfter":"4s"}`
	var body faultBody
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatal(err)
	}
	back, err := json.Marshal((&injected{Fault: body.fault()}).body())
	if err != nil || string(back) != text {
		t.Errorf("%s, %v; want %s", back, err, text)
	}
}

func TestAdmin_Servers(t *testing.T) {
	s := start(t, WithAdmin())
	send(t, s, "POST", "/_sim/servers",
		`{"id": "a", "name": "node-1", "addresses": [{"network": "n", "address": "10.0.0.1"}]}`).is(
		200, `{"id": "a"}`)
	if got := s.Servers(); len(got) != 1 || got[0].Name != "node-1" ||
		got[0].Addresses[0].Address != "10.0.0.1" {
		t.Errorf("the servers are %+v", got)
	}
	if got := send(t, s, "PUT", "/_sim/servers/a/status",
		`{"status": "SHUTOFF"}`); got.status != 204 || s.Servers()[0].Status != "SHUTOFF" {
		t.Errorf("%d %s, %+v", got.status, got.body, s.Servers())
	}
	var list []Server
	if send(t, s, "GET", "/_sim/servers", "").into(&list); len(list) != 1 ||
		list[0].Status != "SHUTOFF" {
		t.Errorf("the server list is %+v", list)
	}
	if got := send(t, s, "DELETE", "/_sim/servers/a", ""); got.status != 204 ||
		len(s.Servers()) != 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
	send(t, s, "GET", "/_sim/servers", "").is(200, `[]`)
}

func TestAdmin_CallsAndCounts_AreOnlyThoseOfClients(t *testing.T) {
	s := start(t, WithAdmin())
	send(t, s, "GET", "/_sim/calls", "").is(200, `[]`)
	ask(t, s, "GET", computePath+"/servers", "")
	ask(t, s, "GET", computePath+"/flavors/1", "")
	send(t, s, "GET", "/_sim/counts", "").is(200, `{"server_list": 1, "flavor_get": 1}`)
	var calls []Call
	if send(t, s, "GET", "/_sim/calls?operation=server_*", "").into(&calls); len(calls) != 1 ||
		calls[0].Operation != "server_list" {
		t.Errorf("the calls are %+v", calls)
	}
	send(t, s, "DELETE", "/_sim/calls", "")
	send(t, s, "GET", "/_sim/counts", "").is(200, `{}`)
}

func TestAdmin_Settings(t *testing.T) {
	s := start(t, WithAdmin())
	token := s.Credentials().Token
	for _, step := range []struct{ method, path, body string }{
		{"PUT", "/_sim/latency", `{"latency": "1ms"}`}, {"PUT", "/_sim/page-size", `{"items": 5}`}, {"DELETE", "/_sim/tokens", ``},
	} {
		if got := send(t, s, step.method, step.path, step.body); got.status != 204 {
			t.Errorf("%s %s: %d %s", step.method, step.path, got.status, got.body)
		}
	}
	s.state.Mu.Lock()
	latency, size := s.latency, s.state.PageSize
	s.state.Mu.Unlock()
	if fmt.Sprint(latency, size) != "1ms 5" {
		t.Errorf("the latency is %s, and pages have %d items", latency, size)
	}
	send(t, s, "GET", computePath+"/servers", "", "X-Auth-Token", token).is(401, refused)
	var conf struct{ CloudConf string }
	if send(t, s, "GET", "/_sim/cloud-conf",
		"").into(&conf); conf.CloudConf != s.CloudConf("password") {
		t.Errorf("cloud.conf is %q", conf.CloudConf)
	}
}

func TestAdmin_InvalidRequests_AreErrors(t *testing.T) {
	s := start(t, WithAdmin())
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/_sim/faults", `{"opration": "x"}`, 400},
		{"POST", "/_sim/faults", `{"delay": "soon"}`, 400},
		{"POST", "/_sim/faults", `{"delay": "-1s"}`, 400},
		{"POST", "/_sim/faults", `{"id": 7}`, 400},
		{"POST", "/_sim/faults", `{"status": 7}`, 400},
		{"POST", "/_sim/faults", `{"operation": "[x"}`, 400},
		{"DELETE", "/_sim/faults/x", ``, 400},
		{"GET", "/_sim/calls?operation=[x", ``, 400},
		{"PUT", "/_sim/page-size", `{"items": -1}`, 400},
		{"PUT", "/_sim/servers/x/status", `{}`, 400},
		{"PUT", "/_sim/servers/x/status", `{"status": "ERROR"}`, 404},
		{"DELETE", "/_sim/servers/x", ``, 404},
	} {
		var body struct{ Error string }
		got := send(t, s, test.method, test.path, test.body)
		if got.into(&body); got.status != test.status || body.Error == "" {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, got.status, got.body)
		}
	}
}
