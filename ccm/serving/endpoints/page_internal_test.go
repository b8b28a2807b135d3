package endpoints

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/webpage"
)

var now = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func balancers(state status.LoadBalancerState, n int) []status.LoadBalancer {
	var all []status.LoadBalancer
	for i := range n {
		all = append(all, status.LoadBalancer{
			Namespace: "shop", Service: fmt.Sprintf("%s-%d", state, i), State: state,
			Since: ago(time.Duration(n-i) * time.Hour),
		})
	}
	return all
}

func leading() statusz {
	return statusz{
		cluster: "blue",
		Manager: status.Manager{State: status.Leading, Ready: true, Term: 3, Provider: "openstack"},
	}
}

// rendered returns the page of Managers.
func rendered(t *testing.T, target string, all ...statusz) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	writePage(w, httptest.NewRequest(http.MethodGet, target, nil), now, all)
	return w
}

func TestPage_Problems_AreListedWorstFirst(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*statusz)
		// mark is the expected mark of the Manager.
		mark string
		want []string
	}{
		"leads":      {func(*statusz) {}, "good leading", nil},
		"standby":    {func(s *statusz) { s.State = status.Standby }, "idle standby", nil},
		"opens":      {func(s *statusz) { s.Ready = false }, "warn opening", nil},
		"drains":     {func(s *statusz) { s.State = status.Draining }, "warn draining", nil},
		"is stopped": {func(s *statusz) { s.State = status.Stopped }, "idle stopped", nil},
		"has failed": {func(s *statusz) {
			s.State, s.Reason = status.Degraded, "RBAC rules are missing"
		}, "bad degraded", []string{"bad degraded: RBAC rules are missing"}},
		"has all problems": {
			func(s *statusz) {
				s.Warnings = []string{"a controller restarts"}
				s.Nodes = []status.Node{
					{Name: "old", Reason: "InstanceNotFound", Message: "no server"}, {Name: "new"},
				}
				s.LoadBalancers = slices.Concat(balancers(status.LoadBalancerWaiting, 3),
					balancers(status.LoadBalancerRefused, 1),
					balancers(status.LoadBalancerReady, 2))
				s.LoadBalancers[5].Reason = "LoadBalancerSourceRangesIgnored"
				s.LoadBalancers[5].Message = "every client may connect"
				s.Troubles = []status.Trouble{{Subject: "Keystone", Reason: "401"}}
			}, "bad leading, with problems", []string{
				"bad cloud: Keystone: 401",
				"bad refused: load balancer of shop/refused-0",
				"warn waiting: 3 load balancers, the first of shop/waiting-0",
				"warn defect: load balancer of shop/ready-1: LoadBalancerSourceRangesIgnored: " +
					"every client may connect",
				"warn nodes: 2 nodes, the first is old: InstanceNotFound: no server",
				"warn warning: a controller restarts",
			},
		},
	} {
		s := leading()
		test.change(&s)
		v := viewOf(s, now)
		var got []string
		for _, p := range v.Problems {
			got = append(got, fmt.Sprintf("%s %s: %s", p.Level, p.Word, p.Text))
		}
		if mark := v.Mark.Level.String() + " " + v.Mark.Word; mark != test.mark ||
			!slices.Equal(got, test.want) {
			t.Errorf("a Manager that %s is %s with %q, want %s with %q", name, mark, got, test.mark,
				test.want)
		}
	}
}

func TestPage_CloudDoesNotAnswer_SaysSinceWhen(t *testing.T) {
	s := leading()
	s.Troubles = []status.Trouble{{
		Subject: "Octavia", Since: ago(5 * time.Minute),
		Reason: "503 Service Unavailable; retrying",
	}}
	since := ago(5 * time.Minute).Format(time.RFC3339)
	want := `<div class="what">(<time datetime="` + since + `" title="` + since +
		`">5m</time>) Octavia: 503 Service Unavailable; retrying</div>`
	if page := rendered(t, "/", s).Body.String(); !strings.Contains(page, want) {
		t.Errorf("the page lacks %s:\n%s", want, page)
	}
}

func TestPage_SeveralManagers_AreSortedWorstFirst(t *testing.T) {
	ill := leading()
	ill.name, ill.State, ill.Reason = "green", status.Degraded, "broken"
	page := rendered(t, "/", leading(), ill).Body.String()
	if !strings.Contains(page, "<title>degraded: green (blue)</title>") ||
		!strings.Contains(page, `id="m0-title"><span class="word bad">`) ||
		!strings.Contains(page, `id="m1-title"><span class="word good">`) {
		t.Errorf("the page is %s", page)
	}
	if page := rendered(t, "/").Body.String(); !strings.Contains(page, "runs no Manager") {
		t.Errorf("without a Manager the page is %s", page)
	}
}

func TestPage_ManyLoadBalancers_OnlyReadyOnesAreFolded(t *testing.T) {
	s := leading()
	s.LoadBalancers = slices.Concat(balancers(status.LoadBalancerDegraded, 30),
		balancers(status.LoadBalancerReady, 970))
	page := rendered(t, "/", s).Body.String()
	unready, ready, found := strings.Cut(page, "<details><summary>970 ready</summary>")
	if !found || strings.Count(unready, "shop/degraded-") != 31 || // 30, and one problem
		strings.Count(ready, "shop/ready-") != 970 {
		t.Errorf("%d of 30 not ready, %d of 970 ready", strings.Count(unready, "shop/degraded-"),
			strings.Count(ready, "shop/ready-"))
	}
}

func TestPage_TextsOfTheCloud_AreEscaped(t *testing.T) {
	const text = `</style><script>alert("x")</script>`
	page := rendered(t, "/?refresh=5", hostile(text)).Body.String()
	if strings.Contains(page, "<script") || strings.Count(page, "</style>") != 1 ||
		!strings.Contains(page, "&lt;script&gt;") {
		t.Errorf("the page is %s", page)
	}
}

func TestPage_Refresh_IsANumberOfSeconds(t *testing.T) {
	if page := rendered(t, "/?refresh=5", leading()).Body.String(); !strings.Contains(page,
		`<meta http-equiv="refresh" content="5"/>`) {
		t.Errorf("the page is %s", page)
	}
	for _, wrong := range []string{"0", "-1", "soon", "3601", "5%3Burl=https://example.com"} {
		if w := rendered(t, "/?refresh="+wrong, leading()); w.Code != http.StatusBadRequest {
			t.Errorf("refresh=%s is answered with %d", wrong, w.Code)
		}
	}
}

func TestTimeline_Phases_AreBarsFromTheFirstTermUntilNow(t *testing.T) {
	got := timeline([]status.Term{
		{Number: 2, Began: ago(40 * time.Minute), Opened: ago(30 * time.Minute)},
		{
			Number: 1, Began: ago(100 * time.Minute), Opened: ago(90 * time.Minute),
			DrainBegan: ago(60 * time.Minute), Ended: ago(50 * time.Minute), End: "failed",
		},
	}, now)
	want := []bar{
		{webpage.Bad, 400, 8, 100, 12},
		{webpage.Good, 100, 0, 300, 20},
		{webpage.Warn, 0, 8, 100, 12},
		{webpage.Good, 700, 0, 300, 20},
		{webpage.Warn, 600, 8, 100, 12},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the bars are %v, want %v", got, want)
	}
	// After the clock went back, bars stay inside the timeline.
	for _, b := range timeline([]status.Term{{Began: now.Add(time.Hour)}}, now) {
		if b.X < 0 || b.X+b.Width > 1000 {
			t.Errorf("the bar of a term in the future is %+v", b)
		}
	}
}

// hostile returns a Manager in whose texts an attacker has written.
func hostile(text string) statusz {
	s := leading()
	s.name, s.cluster, s.Reason, s.Warnings = text, text, text, []string{text}
	s.Provider, s.Step = text, text
	s.Election.Identity, s.Election.Leader = text, text
	s.Troubles = []status.Trouble{{Subject: text, Reason: text}}
	s.Controllers = []status.Controller{
		{Name: text, Reason: text, State: status.ControllerState(text)},
	}
	s.Running = []status.Activity{{Name: "call " + text, Object: text, MayAct: true}}
	s.Terms = []status.Term{{Number: 1, Began: now, Reason: text, End: text}}
	s.Nodes = []status.Node{{Name: text, Reason: text, Message: text}}
	s.LoadBalancers = []status.LoadBalancer{{
		Namespace: text, Service: text, State: status.LoadBalancerState(text), Reason: text,
		Message: text, ID: text, Name: text, ProvisioningStatus: text, OperatingStatus: text,
		Addresses: []string{text}, Drift: []string{text}, DriftedAt: now,
	}}
	return s
}

// skeleton returns the elements of a page with their attributes, without those that divide a text.
func skeleton(t *testing.T, page io.Reader) (elements []string) {
	t.Helper()
	document, err := html.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	for n := range document.Descendants() {
		switch {
		case n.Type == html.TextNode, n.Data == "wbr", n.Data == "details", n.Data == "summary":
			continue
		}
		var keys []string
		for _, a := range n.Attr {
			keys = append(keys, a.Key)
			if a.Key == "href" && strings.TrimLeft(a.Val, "#?") == a.Val {
				keys = append(keys, a.Val) // another place than this page
			}
		}
		elements = append(elements, fmt.Sprint(n.Type, n.Data, keys))
	}
	return elements
}

// FuzzPage checks that texts of a cloud or of a cluster never change the elements of the page.
func FuzzPage(f *testing.F) {
	f.Add(`</style><script>alert("x")</script>`)
	f.Add(`" onmouseover="alert(1)`)
	f.Add("</title></table><td>" + strings.Repeat("<i> ", 100) + "<!--")
	f.Add("javascript:alert(1)//a/b.c")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return // optional texts have elements
		}
		want := skeleton(t, rendered(t, "/", hostile("x"), hostile("x")).Body)
		got := skeleton(t, rendered(t, "/", hostile(text), hostile(text)).Body)
		if !slices.Equal(got, want) {
			t.Errorf("%q changes the elements\n%q\nto\n%q", text, want, got)
		}
	})
}
