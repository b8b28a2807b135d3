package fake

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// request makes one request to the cloud's handler and returns the status and, of a refusal, the
// sentence.
func request(t *testing.T, cloud *Cloud, verb, target, body string) (status int, sentence string) {
	t.Helper()
	w := httptest.NewRecorder()
	cloud.Handler().ServeHTTP(w,
		httptest.NewRequestWithContext(t.Context(), verb, target, strings.NewReader(body)))
	if w.Code >= 400 {
		var r refusal
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Error == "" {
			t.Errorf("%s %s is refused with %q, which has no sentence", verb, target, w.Body)
		}
		return w.Code, r.Error
	}
	return w.Code, w.Body.String()
}

func TestHandler_RefusesBadInputWithASentence(t *testing.T) {
	for _, c := range []struct {
		verb, target, body string
		status             int
		says               string
	}{
		{"GET", "/", "", 404, "does not serve GET /"},
		{"GET", "/v2/cloud", "", 404, "does not serve GET /v2/cloud"},
		{"PATCH", "/v1/instances", "", 404, "does not serve PATCH /v1/instances"},

		{"GET", "/v1/call/Teapot", "", 400, `no method "Teapot"`},
		{"GET", "/v1/call/EnsureLoadBalancer", "", 405, "called with POST"},
		{"POST", "/v1/call/ListRoutes", "{}", 405, "called with GET"},
		{"GET", "/v1/call/InstanceExists", "", 400, "neither a node name nor a provider ID"},
		{"GET", "/v1/call/InstanceExists?args=%7B", "", 400, "args cannot be understood"},
		{
			"GET", "/v1/call/InstanceExists?args=" + url.QueryEscape(`{"node":{"name":"a"}} x`), "",
			400, "cannot be understood",
		},
		{"GET", "/v1/call/InstanceExists?who=x", "", 400, `no query parameter "who"`},
		{"GET", "/v1/call/GetZoneByProviderID", "", 400, "no provider ID"},
		{"POST", "/v1/call/EnsureLoadBalancer", "", 400, "cannot be understood"},
		{"POST", "/v1/call/EnsureLoadBalancer", "{}", 400, "has no UID"},
		{
			"POST", "/v1/call/EnsureLoadBalancer", `{"service":{"uid":7}}`, 400,
			"cannot be understood",
		},
		{"POST", "/v1/call/EnsureLoadBalancer", `{"services":{}}`, 400, `"services"`},
		{"POST", "/v1/call/EnsureLoadBalancer?args=%7B%7D", `{}`, 400, `no query parameter "args"`},
		{
			"POST", "/v1/call/CreateRoute", `{"route":{"targetNode":"a","destinationCIDR":"x"}}`,
			400,
			`"x" of a route to node "a"`,
		},
		{"GET", "/v1/call/Master", "", 400, "this cloud is without Clusters"},

		{"POST", "/v1/instances", `{}`, 400, "cannot be understood"},
		{"POST", "/v1/instances", `[{"name":"-"}]`, 400, "cannot be a node's"},
		{"POST", "/v1/instances", `[{"nme":"a"}]`, 400, `"nme"`},
		{"DELETE", "/v1/instances/ghost", "", 404, `no instance "ghost"`},
		{"POST", "/v1/instances/ghost/stop", "", 404, `no instance "ghost"`},
		{"POST", "/v1/routes", `[{"destinationCIDR":"10/8"}]`, 400, "not a CIDR"},
		{"PUT", "/v1/latency", `{"latency":"soon"}`, 400, `"soon" is not a duration`},
		{"PUT", "/v1/latency", `{"latency":"-1s"}`, 400, `"-1s" is not a duration`},
		{"POST", "/v1/faults", `{}`, 400, "does nothing"},
		{"POST", "/v1/faults", `{"methods":["Teapot"],"hang":true}`, 400, `no method "Teapot"`},
		{"POST", "/v1/faults", `{"hang":true,"tims":2}`, 400, `"tims"`},
		{"POST", "/v1/faults", `{"delay":"5"}`, 400, `"5" is not a duration`},
		{"POST", "/v1/faults", `{"error":{}}`, 400, "neither a kind nor a message"},
		{"POST", "/v1/faults", `{"error":{"kind":"Fatal"}}`, 400, `"Fatal" is unknown`},
		{
			"POST", "/v1/faults", `{"error":{"kind":"Retry"}}`, 400,
			`retryAfter "" is not a duration`,
		},
		{"DELETE", "/v1/faults/one", "", 400, `"one" is not a number`},
		{"DELETE", "/v1/faults/1", "", 404, "no fault 1"},
		{"GET", "/v1/calls?method=Teapot", "", 400, `no method "Teapot"`},
		{"GET", "/v1/calls?interface=Teapots", "", 400, `no interface "Teapots"`},
		{"GET", "/v1/calls?mutating=perhaps", "", 400, "neither true nor false"},
		{"GET", "/v1/calls/wait?metod=Master", "", 400, `"metod"`},
	} {
		cloud := New(Without(Clusters))
		status, says := request(t, cloud, c.verb, c.target, c.body)
		if status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s %s %s is answered with %d %q, want %d %q", c.verb, c.target, c.body,
				status, says, c.status, c.says)
		}
		if calls := cloud.Calls(); len(calls) != 0 {
			t.Errorf("%s %s was refused and yet recorded: %v", c.verb, c.target, calls)
		}
	}
}

func TestHandler_WhenTheBodyIsTooLarge_Refuses(t *testing.T) {
	status, says := request(t, New(), "POST", "/v1/instances",
		`[{"name":"`+strings.Repeat("a", maxBody)+`"}]`)
	if status != http.StatusBadRequest || !strings.Contains(says, "too large") {
		t.Errorf("the answer is %d %.100q", status, says)
	}
}

func FuzzHandler(f *testing.F) {
	for _, seed := range []string{
		`{"node":{"name":"a"}}`,
		`{"cluster":"c","service":{"uid":"u","ipFamilies":["IPv6"]},"nodes":["a","b"]}`,
		`{"route":{"targetNode":"a","destinationCIDR":"fd00::/64"}}`,
		`[{"name":"a","addresses":null}]`, `{"latency":"0s"}`,
		`{"times":1,"returnZero":true,"afterEffect":true}`,
		`{"error":{"kind":"Retry","retryAfter":"5s"}}`, `{"panic":"x"}`, `null`, `[null]`, `{`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		cloud := New()
		// Faults come last: one may be a hang.
		var posts []string
		for m := range operations {
			if m.Mutating() {
				posts = append(posts, "/v1/call/"+string(m))
			} else if status, says := request(t, cloud, "GET", "/v1/call/"+string(
				m)+"?args="+url.QueryEscape(input), ""); status != 200 && status != 400 {
				t.Errorf("%s with %q is answered with %d %q", m, input, status, says)
			}
		}
		for _, target := range append(posts, "/v1/instances", "/v1/routes", "/v1/faults") {
			status, says := request(t, cloud, "POST", target, input)
			if status != 200 && status != 204 && status != 400 {
				t.Errorf("%s with %q is answered with %d %q", target, input, status, says)
			}
		}
	})
}
