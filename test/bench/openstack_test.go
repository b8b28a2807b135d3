package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestOCCM_FormulasGiveWhatItsProviderWasSeenToDo(t *testing.T) {
	for name, test := range map[string]struct {
		cost    cost
		want    float64
		formula string
	}{
		"1000 nodes":                       {occmNodes(1000), 4000, "(4 + 2 S) × N = (4 + 2 × 0) × 1000"},
		"time of 1000 nodes":               {occmNodesTime(1000, 50*time.Millisecond), 200, "4000 calls, one after the other, of 50 ms"},
		"500 nodes not ready, a minute":    {occmNotReady(500), 24000, "4 × N every 5s = 4 × 500 × 12 a minute"},
		"idle routes, a minute":            {occmIdleRoutes(), 12, "2 every 10s = 2 × 6 a minute"},
		"500 routes":                       {occmPerRoute(occmRouteCalls, 500), 1500, "3 × N = 3 × 500"},
		"500 routes, writes of the router": {occmPerRoute(1, 500), 500, "1 × N = 1 × 500"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.cost.value != test.want || test.cost.formula != test.formula {
				t.Errorf("OCCM needs %v by %q, want %v by %q", test.cost.value, test.cost.formula,
					test.want, test.formula)
			}
			if test.cost.source == "" {
				t.Error("the source is missing")
			}
		})
	}
	if got := occmRoundTime(500, 50*time.Millisecond); got != 100*time.Second {
		t.Errorf("a round over 500 nodes takes OCCM %s, want 100 s", got)
	}
}

func someCalls() calls {
	at := time.Now()
	call := func(after time.Duration, method, operation string) openstacktest.Call {
		return openstacktest.Call{Time: at.Add(after), Method: method, Operation: operation}
	}
	return calls{
		call(0, "POST", "token_create"),
		call(time.Second, "GET", "router_get"),
		call(2*time.Second, "PUT", "router_add_extraroutes"),
		call(3*time.Second, "GET", "port_list"),
		call(4*time.Second, "PUT", "port_update"),
		call(59*time.Second, "PUT", "port_update"),
		call(60*time.Second, "PUT", "router_update"),
		call(61*time.Second, "DELETE", "router_route_delete"),
		call(62*time.Second, "PUT", "port_update"),
	}
}

func TestCalls_AreCountedByOperationAndTheMostFrequentComeFirst(t *testing.T) {
	want := "port_update 3, port_list 1, router_add_extraroutes 1, router_get 1, router_route_delete 1, router_update 1, token_create 1"
	if got := someCalls().byOperation(); got != want {
		t.Errorf("the calls are %q, want %q", got, want)
	}
}

func TestCalls_OnlyWhatChangesAResourceIsAWriteOfIt(t *testing.T) {
	for resource, want := range map[string]string{
		"router": "router_add_extraroutes 1, router_route_delete 1, router_update 1",
		"port":   "port_update 3",
		"server": "",
		"rout":   "",
	} {
		if got := someCalls().writesOf(resource).byOperation(); got != want {
			t.Errorf("the writes of a %s are %q, want %q", resource, got, want)
		}
	}
}

func TestCalls_WithinAMinuteAreThoseBeforeItHasPassedSinceTheFirst(t *testing.T) {
	if got := len(someCalls().within(time.Minute)); got != 6 {
		t.Errorf("there are %d calls in the first minute, want 6", got)
	}
	if got := len(calls(nil).within(time.Minute)); got != 0 {
		t.Errorf("there are %d calls of none", got)
	}
}

func TestFigure_IsJudgedByItsTarget(t *testing.T) {
	for name, test := range map[string]struct {
		figure                figure
		text, target, verdict string
	}{
		"within":            {figure{value: 12, target: 30}, "12", "≤ 30", "passed"},
		"just within":       {figure{value: 30, target: 30}, "30", "≤ 30", "passed"},
		"above":             {figure{value: 31, target: 30}, "31", "≤ 30", "missed"},
		"no target":         {figure{value: 31}, "31", "", ""},
		"not finished":      {figure{unfinished: 15 * time.Minute}, "not in 15m0s", "", "missed"},
		"a time":            {figure{value: 4.236, unit: seconds, target: 20}, "4.24 s", "≤ 20 s", "passed"},
		"a minute, whole":   {figure{value: 2, unit: perMinute, target: 2}, "2 a minute", "≤ 2 a minute", "passed"},
		"a minute, a third": {figure{value: 7.0 / 3, unit: perMinute, target: 2}, "2.3 a minute", "≤ 2 a minute", "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := test.figure
			if f.text() != test.text || f.targetText() != test.target ||
				f.verdict() != test.verdict {
				t.Errorf("the figure is %q, %q, %q, want %q, %q, %q", f.text(), f.targetText(),
					f.verdict(), test.text, test.target, test.verdict)
			}
		})
	}
}

func TestStatusPass_CannotBeServedFromMemory(t *testing.T) {
	if remembered := cloudconf.Default().Instances.MetadataMaxAge; statusPeriod <= remembered {
		t.Errorf(
			"passes are %s apart, and fxccm remembers for %s: the second one might ask for nothing",
			statusPeriod, remembered)
	}
}

// openStackReport is one of a figure of calls, one of a time, and one that OCCM's value is not
// known of.
func openStackReport() report {
	figures := []figure{
		countOf("500 routes created: writes of the router", someCalls().writesOf("router"), 2,
			occmPerRoute(1, 500)),
		{title: "1000 nodes initialized: time", value: 4, unit: seconds, target: 20, occm: occmNodesTime(1000, targetLatency)},
		{title: "500 routes created: time", value: 27, unit: seconds},
	}
	return report{
		results: &results{chapters: []chapter{{"Nodes and routes", figures}}}, begun: time.Now(),
		settings: settings{nodes: 1000, notReady: 500, routes: 500, idle: 3 * time.Minute},
	}
}

func TestReport_ShowsCallsToOpenStackAndTheirSources(t *testing.T) {
	page := rendered(t, openStackReport())
	for _, want := range []string{
		"| 500 routes created: writes of the router | 3 | ≤ 2 | missed | 500 | 1 × N = 1 × 500 (`pkg/openstack/routes.go`) |",
		"| 500 routes created: writes of the router | 3 | router_add_extraroutes 1, router_route_delete 1, router_update 1 |",
		"| 1000 nodes initialized: time | 4.00 s | ≤ 20 s | passed | ≥ 200 s | 4000 calls, one after the other, of 50 ms (`pkg/openstack/instances.go`) |",
		"| 500 routes created: time | 27.00 s |  |  |  |  |",
		"after\n50 ms, lists 1000 items on a page",
		"40s apart instead of 5m0s, which is longer than fxccm caches servers (30s).",
		"after the first 50 requests fxccm limits\n  itself to 20 a second",
		"all calls in 3m0s,",
		"without them 3000 calls remain to initialize or refresh the\nnodes, and 12000 a minute",
		"waits 50 ms for each answer makes at most 1200 calls a minute, and needs 1m40s to check\n500 such nodes instead of 5s.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

func TestReport_OnTheTerminalShowsTheSameOfOpenStack(t *testing.T) {
	text := openStackReport().terminal()
	for _, want := range []string{
		"missed", "passed", "≥ 200 s", "1 × N = 1 × 500", "pkg/openstack/routes.go",
		"router_add_extraroutes 1, router_route_delete 1, router_update 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "fxccm / upstream") {
		t.Errorf("there is a table without a line:\n%s", text)
	}
}

func TestReport_NothingMeasured_HasNoPage(t *testing.T) {
	if pages := (report{results: &results{}, begun: time.Now()}).pages(); len(pages) > 0 {
		t.Errorf("the report has pages of scenarios that did not run: %v", pages)
	}
}

func TestWorld_EachNodeHasItsServerItsPortAndItsPods(t *testing.T) {
	cloud := newOpenStack(300)
	defer cloud.Close()
	addresses, pods := map[string]bool{}, map[string]bool{}
	for _, s := range cloud.servers {
		addresses[s.address], pods[s.pods] = true, true
	}
	if len(addresses) != 300 || len(pods) != 300 {
		t.Errorf("300 servers have %d addresses and %d networks of pods", len(addresses), len(pods))
	}
	if got := podCIDR(mostRoutes - 1); got != "10.143.255.0/24" {
		t.Errorf("the last network of pods is %s, want 10.143.255.0/24", got)
	}
	if got := accessAddress(257); got != "198.18.1.1" {
		t.Errorf("the address of server 257 is %s, want 198.18.1.1", got)
	}
}

func TestWorld_CheckOfRoutesSeesWhatIsMissingAndWhatIsTooMuch(t *testing.T) {
	cloud := newOpenStack(3)
	defer cloud.Close()
	expect := func(want string) {
		t.Helper()
		switch err := cloud.checkRoutes(); {
		case want == "" && err != nil:
			t.Errorf("the check finds fault: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("the check says %v, want %q", err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("no route to 10.128.0.0/24")
	must(cloud.giveRoutes())
	expect("")
	must(
		cloud.SetRoutes(cloud.router,
			append(cloud.routes(),
				openstacktest.Route{Destination: "192.0.2.0/24", NextHop: "10.0.0.9"})...))
	expect("4 routes instead of 3")
	must(cloud.SetRoutes(cloud.router, cloud.routes()...))
	must(cloud.UpdatePort(cloud.servers[1].port,
		func(p *openstacktest.Port) { p.AllowedPairs = nil }))
	expect("the port of node-0001 allows []")
}

func TestWorld_CheckOfNodesSeesWhatIsMissingAndWhatIsTooMuch(t *testing.T) {
	wanted := map[string]bool{"a": true, "b": true}
	node := func(name string) (n corev1.Node) {
		n.Name = name
		return n
	}
	for name, test := range map[string]struct {
		found []corev1.Node
		want  string
	}{
		"all":      {[]corev1.Node{node("a"), node("b")}, ""},
		"one less": {[]corev1.Node{node("a")}, "node b was deleted"},
		"one more": {[]corev1.Node{node("a"), node("b"), node("c")}, "node c is there"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkNodes(test.found, wanted)
			if (err == nil) != (test.want == "") || err != nil &&
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("the check says %v, want %q", err, test.want)
			}
		})
	}
}

func TestWorld_NodesAreWhatTheirMeasurementNeeds(t *testing.T) {
	cloud := newOpenStack(1)
	defer cloud.Close()
	id, address := cloud.servers[0].id, cloud.servers[0].address
	fresh, old, silent, pods := cloud.newNodes()[0], cloud.oldNodes()[0], cloud.silentNodes()[0],
		cloud.podNodes()[0]
	if isInitialized(fresh) || fresh.Spec.ProviderID != "" {
		t.Error("a new node is initialized already")
	}
	for _, node := range []*corev1.Node{old, silent, pods} {
		if !isInitialized(node) || node.Spec.ProviderID != "openstack:///"+id {
			t.Errorf("a node is not initialized as it should be: its provider ID is %q",
				node.Spec.ProviderID)
		}
	}
	if hasNodeAddress(old, corev1.NodeInternalIP, "") {
		t.Error("a node whose addresses are yet to be written has one")
	}
	if !hasNodeAddress(pods, corev1.NodeInternalIP, address) || pods.Spec.PodCIDR == "" ||
		hasRoute(pods) {
		t.Error("a node that waits for its route is not as it should be")
	}
	for _, condition := range silent.Status.Conditions {
		if condition.Status != corev1.ConditionUnknown {
			t.Errorf("of a silent node condition %s is %s", condition.Type, condition.Status)
		}
	}
}
