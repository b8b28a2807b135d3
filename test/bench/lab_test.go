package main

import (
	"errors"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/project"
)

const servedMetrics = `# HELP fxccm_openstack_request_duration_seconds Duration of requests.
# TYPE fxccm_openstack_request_duration_seconds histogram
fxccm_openstack_request_duration_seconds_bucket{code="200",manager="a b",operation="server_list",service="compute",le="0.5"} 1
fxccm_openstack_request_duration_seconds_bucket{code="200",manager="a b",operation="server_list",service="compute",le="+Inf"} 2
fxccm_openstack_request_duration_seconds_sum{code="200",manager="a b",operation="server_list",service="compute"} 1.5
fxccm_openstack_request_duration_seconds_count{code="200",manager="a b",operation="server_list",service="compute"} 2
fxccm_openstack_request_duration_seconds_bucket{code="201",manager="a b",operation="token_create",service="identity",le="+Inf"} 1
fxccm_openstack_request_duration_seconds_sum{code="201",manager="a b",operation="token_create",service="identity"} 0.25
fxccm_openstack_request_duration_seconds_count{code="201",manager="a b",operation="token_create",service="identity"} 1
# TYPE fxccm_openstack_requests_in_flight gauge
fxccm_openstack_requests_in_flight{manager="a b",service="compute"} 1
fxccm_openstack_requests_in_flight{manager="a b",service="network"} 2
# TYPE fxccm_openstack_logins_total counter
fxccm_openstack_logins_total{manager="a b",result="ok"} 1
`

var (
	listed   = requestKind{computeService, "server_list", "200"}
	loggedIn = requestKind{identityService, "token_create", "201"}
	replaced = requestKind{balancerService, "loadbalancer_members_update", "202"}
	refused  = requestKind{balancerService, "loadbalancer_members_update", "409"}
	cut      = requestKind{balancerService, "loadbalancer_list", "error"}
)

func TestTallies_AreReadFromTheMetricsThatFxccmServes(t *testing.T) {
	metrics, err := parseMetrics(strings.NewReader(servedMetrics))
	got, underway := talliesOf(metrics)
	want := tallies{listed: {2, 1500 * time.Millisecond}, loggedIn: {1, 250 * time.Millisecond}}
	if err != nil || !maps.Equal(got, want) || underway != 3 {
		t.Errorf("read was %v, %d underway, %v, want %v, 3 underway", got, underway, err, want)
	}
	if mean := got.sum().mean().Round(time.Millisecond); mean != 583*time.Millisecond {
		t.Errorf("a request takes %s", mean)
	}
	if got, _ := talliesOf(nil); len(got) != 0 {
		t.Errorf("a process that has asked nothing yet has %v", got)
	}
}

func TestTallies_SinceIsWhatHasBeenAddedAndNothingElse(t *testing.T) {
	before := tallies{listed: {2, time.Second}, loggedIn: {1, time.Second}}
	after := tallies{
		listed: {5, 4 * time.Second}, loggedIn: {1, time.Second},
		refused: {1, time.Second},
	}
	want := tallies{listed: {3, 3 * time.Second}, refused: {1, time.Second}}
	if got := after.since(before); !maps.Equal(got, want) {
		t.Errorf("since then there were %v, want %v", got, want)
	}
	if got := want.kinds(); !slices.Equal(got, []requestKind{listed, refused}) {
		t.Errorf("the most frequent is not first: %v", got)
	}
}

func TestRequestKind_WritesAndAnswers(t *testing.T) {
	for kind, want := range map[requestKind]struct{ write, answered bool }{
		listed: {false, true}, loggedIn: {false, true}, replaced: {true, true},
		refused: {true, true}, cut: {false, false},
		{networkService, "floating_ip_tag_replace", "200"}:   {true, true},
		{balancerService, "loadbalancer_status", "200"}:      {false, true},
		{computeService, "server_get", "404"}:                {false, true},
		{balancerService, "loadbalancer_create", "timeout"}:  {true, false},
		{balancerService, "load_balancer_other", "200"}:      {true, true},
		{networkService, "port_update", "canceled"}:          {true, false},
		{balancerService, "loadbalancer_pool_delete", "204"}: {true, true},
	} {
		if kind.isWrite() != want.write || kind.isAnswered() != want.answered {
			t.Errorf("%v: a write %v, answered %v", kind, kind.isWrite(), kind.isAnswered())
		}
	}
}

// Lines as the lab's services write them.
var labLog = map[string]string{
	"keystone.log": `[pid: 1|app: 0|req: 1/2] 127.0.0.1 () {32 vars in 403 bytes} [Sat Nov 21 20:43:59 2026] POST /v3/auth/tokens => generated 111 bytes in 224 msecs (HTTP/1.1 201) 5 headers in 184 bytes (1 switches on core 0)
[pid: 1|app: 0|req: 1/2] 127.0.0.1 () {32 vars in 403 bytes} [Sat Nov 21 20:43:59 2026] GET /v3/auth/tokens => generated 111 bytes in 24 msecs (HTTP/1.1 200) 5 headers in 184 bytes (1 switches on core 0)
2026-11-21 20:43:59.541 1 WARNING keystone.common [None req-1 - - - - - -] POST /v3/auth/tokens => generated
`,
	"nova-api.log": `2026-11-21 20:43:57.081 1 INFO nova.osapi_compute.wsgi.server [None req-06ca2d86-1a82 theuser theproject - - default default] 127.0.0.1 "GET /v2.1/servers/detail?limit=1000 HTTP/1.1" status: 200 len: 413 time: 0.0403557` + "\x1b[00m" + `
2026-11-21 20:43:57.081 1 INFO nova.osapi_compute.wsgi.server [None req-06ca2d86-1a82 theuser other - - default default] 127.0.0.1 "GET /v2.1/servers HTTP/1.1" status: 200 len: 413 time: 0.0403557
2026-11-21 20:43:57.081 1 INFO nova.api.openstack [None req-06ca2d86-1a82 theuser theproject - - default default] HTTP exception thrown
`,
	"neutron.log": `2026-11-21 20:43:57.585 1 INFO neutron.wsgi [None req-287823e5-c2ad theuser theproject - - default default] 127.0.0.1 "GET /v2.0/ports HTTP/1.1" status: 200  len: 210 time: 0.0116191
2026-11-21 20:43:57.585 1 INFO neutron.wsgi [req-1234 req-287823e5-c2ad theuser theproject - - default default] 127.0.0.1 "PUT /v2.0/floatingips/1/tags HTTP/1.1" status: 200  len: 210 time: 0.0116191
2026-11-21 20:43:57.585 1 INFO neutron.wsgi [None req-287823e5-c2ad octavia service - - default default] 127.0.0.1 "GET /v2.0/ports HTTP/1.1" status: 200  len: 210 time: 0.0116191
`,
	"octavia-api.log": `[pid: 1|app: 0|req: 1/2] 127.0.0.1 () {28 vars in 549 bytes} [Sat Nov 21 20:43:24 2026] PUT /v2.0/lbaas/pools/1/members => generated 0 bytes in 5 msecs (HTTP/1.1 202) 4 headers in 156 bytes (1 switches on core 1)
[pid: 1|app: 0|req: 1/2] 127.0.0.1 () {28 vars in 549 bytes} [Sat Nov 21 20:43:24 2026] GET /v2.0/lbaas/loadbalancers?fields=provisioning_status&fields=id => generated 58 bytes in 5 msecs (HTTP/1.1 200) 4 headers in 156 bytes (1 switches on core 1)
[pid: 1|app: 0|req: 1/2] 127.0.0.1 () {28 vars in 549 bytes} [Sat Nov 21 20:43:24 2026] GET /v2.0/lbaas/loadbalancers?fields=id&fields=name&fields=provisioning_status => generated 58 bytes in 5 msecs (HTTP/1.1 200) 4 headers in 156 bytes (1 switches on core 1)`,
}

func TestLogs_TheRequestsOfTheProjectAfterTheMarkAreCounted(t *testing.T) {
	folder := t.TempDir()
	appendAll := func() {
		t.Helper()
		for name, text := range labLog {
			file, err := os.OpenFile(filepath.Join(folder, name),
				os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = file.WriteString(text + "\n")
				err = errors.Join(err, file.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	appendAll()
	mark, err := markLogs(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		identityService: 0, computeService: 0, networkService: 0,
		balancerService: 0,
	}
	if got, err := countLogged(folder, mark, "theproject"); err != nil || !maps.Equal(got, want) {
		t.Errorf("nothing has happened, and counted is %v, %v", got, err)
	}
	appendAll()
	want = map[string]int{
		identityService: 1, computeService: 1, networkService: 2,
		balancerService: 2,
	}
	if got, err := countLogged(folder, mark, "theproject"); err != nil || !maps.Equal(got, want) {
		t.Errorf("counted is %v, %v, want %v", got, err, want)
	}
}

func TestLogs_Missing_IsAnError(t *testing.T) {
	if _, err := markLogs(t.TempDir()); err == nil {
		t.Error("missing logs are no error")
	}
}

func TestLooks_MeasureHowLongOctaviaWorks(t *testing.T) {
	at := time.Now()
	all := looks{
		{at, map[string]string{}},
		{at.Add(1 * time.Second), map[string]string{"a": "PENDING_CREATE"}},
		{at.Add(2 * time.Second), map[string]string{"a": "PENDING_CREATE", "b": "PENDING_CREATE"}},
		{at.Add(3 * time.Second), map[string]string{"a": "ACTIVE", "b": "ACTIVE"}},
		{at.Add(5 * time.Second), map[string]string{"a": "ACTIVE", "b": "PENDING_DELETE"}},
		{at.Add(6 * time.Second), map[string]string{"a": "ACTIVE"}},
	}
	any, together, balancers := all.pending()
	if any != 3*time.Second || together != 4*time.Second || balancers != 2 {
		t.Errorf("at work for %s, %s at %d load balancers, want 3s, 4s at 2", any, together,
			balancers)
	}
	if rest := all.rest(); !rest.Equal(at.Add(6 * time.Second)) {
		t.Errorf("at rest after %s, want 6s", rest.Sub(at))
	}
	if rest := all[:1].rest(); !rest.IsZero() {
		t.Errorf("there was nothing to do, and that has ended at %s", rest)
	}
}

func TestOCCM_FormulasForTheLab(t *testing.T) {
	type costs struct{ calls, pauses cost }
	of := func(calls, pauses cost) costs { return costs{calls, pauses} }
	for name, test := range map[string]struct {
		costs           costs
		calls, pauses   float64
		formula, waited string
	}{
		"made, ready at once": {of(occmMade(1, 3, 0)), 18, 0, "(7 + W + 4 + 2 P + M) × S = (7 + 1 + 4 + 2 × 3 + 0) × 1", ""},
		"20 made, ready after 2 s": {
			of(occmMade(20, 3, 2*time.Second)), 400, 44,
			"(7 + W + 4 + 2 P + M) × S = (7 + 3 + 4 + 2 × 3 + 0) × 20", "20 × 2.2 s",
		},
		"a port more, ready after 1 s": {
			of(occmPortAdded(3, time.Second)), 21, 3,
			"4 + 2 (P + 1) + M + 3 (1 + W) = 4 + 2 × 4 + 0 + 3 × (1 + 2)", "3 × 1.0 s",
		},
		"members of 20, ready after 1 s": {
			of(occmMembers(20, 3, time.Second)), 340, 60,
			"(2 + P (3 + W) + M) × L = (2 + 3 × (3 + 2) + 0) × 20", "60 × 1.0 s",
		},
		"20 deleted, gone after 1 s": {of(occmDeleted(20, time.Second)), 180, 20, "(7 + Wd) × S = (7 + 2) × 20", "20 × 1.0 s"},
		"1 deleted, gone at once":    {of(occmDeleted(1, 0)), 8, 0, "(7 + Wd) × S = (7 + 1) × 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := test.costs
			if math.Abs(c.calls.value-test.calls) > 0.01 || c.calls.formula != test.formula {
				t.Errorf("OCCM needs %v by %q, want %v by %q", c.calls.value, c.calls.formula,
					test.calls, test.formula)
			}
			if math.Abs(c.pauses.value-test.pauses) > 0.01 || c.pauses.formula != test.waited {
				t.Errorf("OCCM waits %v by %q, want %v by %q", c.pauses.value, c.pauses.formula,
					test.pauses, test.waited)
			}
		})
	}
}

func TestLab_PageShowsCallsTimesAndLogs(t *testing.T) {
	calls, pauses := occmMembers(2, 3, time.Second)
	f := labFigure{
		title: "A node added", took: 3 * time.Second, pending: 2 * time.Second,
		pendingEach: 1500 * time.Millisecond,
		requests: tallies{
			replaced: {6, 3 * time.Second}, refused: {1, 400 * time.Millisecond},
			listed: {1, 100 * time.Millisecond}, cut: {1, 0},
		},
		logged: map[string]int{computeService: 1, balancerService: 7},
		target: 2 * nodeCalls, occm: calls, occmTime: pauses,
	}
	if got, want := f.kindsText(),
		"loadbalancer_members_update 6, server_list 1, loadbalancer_list 1 (error), loadbalancer_members_update 1 (409)"; got != want {
		t.Errorf("the calls are told as %q, want %q", got, want)
	}
	page := rendered(t, report{
		settings: settings{labNodes: 50, labServices: 20},
		results: &results{
			lab: labResult{packages: []string{"python3-octavia 11.0.0"}, figures: []labFigure{f}},
		},
	})
	for _, want := range []string{
		"50 nodes and 20 Services of 3 ports",
		"| A node added | 3.00 s | 2.00 s | 1.50 s | 9 | ≤ 10 | passed | 0.389 s | 34 | (2 + P (3 + W) + M) × L = (2 + 3 × (3 + 2) + 0) × 2 | ≥ 6.00 s | 6 × 1.0 s |",
		"| A node added | load-balancer | loadbalancer_members_update | 202 | 6 | 0.500 s |",
		"|  | load-balancer | loadbalancer_members_update | 409 | 1 | 0.400 s |",
		"| A node added | 0 / 0 | 1 / 1 | 0 / 0 | 7 / 7 |",
		"python3-octavia 11.0.0",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestLab_NotUp_IsAnErrorOnlyIfItIsNamed(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	folder := t.TempDir()
	lab := func(address string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "lab.json"),
			[]byte(`{"auth_url": "`+address+`"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(why string, there bool) {
		t.Helper()
		for _, asked := range []bool{false, true} {
			got, err := withoutLab(t.Context(),
				settings{scenarios: []string{"start", labScenario}, asked: asked})
			if slices.Contains(got, labScenario) != there || (err != nil) != (asked && !there) {
				t.Errorf("%s, asked for %v: measured are %q, %v", why, asked, got, err)
			}
			if err != nil && !strings.Contains(err.Error(), "make openstack-lab") {
				t.Errorf("%s: the error does not tell what to do: %v", why, err)
			}
		}
	}
	t.Setenv(project.LabVariable, "")
	check("no folder is named", false)
	t.Setenv(project.LabVariable, folder)
	check("nothing is in the folder", false)
	lab(up.URL)
	check("Keystone answers", true)
	up.Close()
	check("Keystone does not answer", false)
}
