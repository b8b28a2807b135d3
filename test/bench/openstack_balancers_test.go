package main

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// The numbers are those that were counted with its unmodified provider, where there are such.
func TestOCCM_FormulasOfLoadBalancersMatchItsProvider(t *testing.T) {
	const latency = 50 * time.Millisecond
	for name, test := range map[string]struct {
		cost    cost
		want    float64
		formula string
	}{
		"nothing to do, 1 port":  {occmNothingToDo(1), 6, "4 + 2 P + M = 4 + 2 × 1 + 0"},
		"nothing to do, 3 ports": {occmNothingToDo(3), 10, "4 + 2 P + M = 4 + 2 × 3 + 0"},
		"restart, 200 Services":  {occmRestart(200, 3), 2000, "(4 + 2 P + M) × S = (4 + 2 × 3 + 0) × 200"},
		"time of the restart":    {occmRestartTime(200, 3, latency), 100, "2000 calls, one after the other, of 50 ms"},
		"node added, ready at once": {
			occmNodeAdded(1, 5, 0, latency), 22,
			"(2 + P (3 + W) + M) × L = (2 + 5 × (3 + 1) + 0) × 1",
		},
		"node added, 100 load balancers": {
			occmNodeAdded(100, 3, time.Second, latency), 1700,
			"(2 + P (3 + W) + M) × L = (2 + 3 × (3 + 2) + 0) × 100",
		},
		"time of the node": {
			occmNodeAddedTime(100, 3, time.Second, latency), 385,
			"1700 calls of 50 ms and 300 waits of 1.0 s, one after the other",
		},
		"100 Services, 30 s each": {
			occmServed(100, 30*time.Second, latency), 3310.04,
			"(7 + W) × S = (7 + 12) × 100 calls of 50 ms and 100 waits of 32.2 s, one after the other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if math.Abs(test.cost.value-test.want) > 0.01 || test.cost.formula != test.formula {
				t.Errorf("OCCM needs %v by %q, want %v by %q", test.cost.value, test.cost.formula,
					test.want, test.formula)
			}
			if test.cost.source == "" {
				t.Error("the source is missing")
			}
		})
	}
}

func TestOCCM_WaitsByAskingAtOnceAndThenAfterPausesThatGrow(t *testing.T) {
	for ready, want := range map[time.Duration]struct {
		polls  int
		pauses time.Duration
	}{
		0:                       {1, 0},
		time.Second:             {2, time.Second},
		2 * time.Second:         {3, 2200 * time.Millisecond},
		3500 * time.Millisecond: {4, 3640 * time.Millisecond},
	} {
		if polls, pauses := occmWait(ready, 50*time.Millisecond); polls != want.polls ||
			pauses != want.pauses {
			t.Errorf(
				"for what is ready after %s it asks %d times, with pauses of %s, want %d and %s",
				ready, polls, pauses, want.polls, want.pauses)
		}
	}
}

func TestCalls_AreToldApartByOperationEffectAndAnswer(t *testing.T) {
	all := calls{
		{Service: openstacktest.ServiceIdentity, Method: "POST", Operation: "token_create", Status: 201},
		{Service: openstacktest.ServiceLoadBalancer, Method: "GET", Operation: "loadbalancer_list", Status: 200},
		{Service: openstacktest.ServiceLoadBalancer, Method: "POST", Operation: "loadbalancer_create", Status: 429},
		{Service: openstacktest.ServiceLoadBalancer, Method: "POST", Operation: "loadbalancer_create", Status: 201},
	}
	for name, test := range map[string]struct {
		calls calls
		want  string
	}{
		"writes":  {all.writes(), "loadbalancer_create 2"},
		"refused": {all.answered(http.StatusTooManyRequests), "loadbalancer_create 1"},
	} {
		if got := test.calls.byOperation(); got != test.want {
			t.Errorf("%s are %q, want %q", name, got, test.want)
		}
	}
}

func TestCalls_BusiestTimeIsThatOfAnyBeginning(t *testing.T) {
	at := time.Now()
	var all calls
	for _, second := range []float64{0, 1, 9.5, 10, 10.5, 19.4, 19.5, 40} {
		all = append(all,
			openstacktest.Call{Time: at.Add(time.Duration(second * float64(time.Second)))})
	}
	// From 9.5 s on, what comes after 10 s is not among them.
	if got := all.busiest(10 * time.Second); got != 0.4 {
		t.Errorf("in the busiest 10 s there are %v a second, want 0.4", got)
	}
	if got := calls(nil).busiest(time.Second); got != 0 {
		t.Errorf("of none there are %v a second", got)
	}
}

func TestMostRequests_AreWhatTheSettingsAllow(t *testing.T) {
	// 20 a second for 10 s and the time on the way, and 50 at once.
	if got := mostRequests(); got != 25.5 {
		t.Errorf(
			"by its settings fxccm may make %v requests a second in the busiest time, want 25.5",
			got)
	}
}

func TestReport_OfLoadBalancers_ShowsAllCalls(t *testing.T) {
	cost, _ := occmMade(1, 3, creationTime)
	f := countOf("New Service", calls{
		{Operation: "loadbalancer_create"},
		{Operation: "loadbalancer_list"},
		{Operation: "loadbalancer_list"},
	}, createdCalls, cost)
	r := report{
		results: &results{chapters: []chapter{{"Load balancers", []figure{f}}}},
		begun:   time.Now(), settings: settings{services: 200},
	}
	page := rendered(t, r)
	for _, want := range []string{
		"## Load balancers\n",
		"| New Service | 3 | ≤ 6 | passed | 22 | (7 + W + 4 + 2 P + M) × S = (7 + 5 + 4 + 2 × 3 + 0) × 1 (`pkg/openstack/loadbalancer.go`) |",
		"| New Service | 3 | loadbalancer_list 2, loadbalancer_create 1 |",
		"A process that has served 200 Services ends, in a cluster of 10 nodes.",
		"every 5th request with 429 and\n  `Retry-After: 1`.",
		"limits itself to 20 a second\n  (`request-rate`), and 50 more after an idle time",
		"The first pause is 1s, and each pause is 1.2 times as long as the previous one.",
		"Where Octavia needs 30s, W is 12 and the pauses are 32.2 s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if text := r.terminal(); !strings.Contains(text,
		"loadbalancer_list 2, loadbalancer_create 1\n") {
		t.Errorf("the text for the terminal lacks them:\n%s", text)
	}
}

func TestWorld_LoadBalancersMissingOrTooMany_IsAnError(t *testing.T) {
	cloud := newOpenStack(1)
	defer cloud.Close()
	services := newServices(2, 3)
	add := func(service string, ports, members int) string {
		lb := openstacktest.LoadBalancer{VIPSubnetID: cloud.subnet}
		lb.Name = "kube_service_kubernetes_bench_" + service
		for i := range ports {
			pool := openstacktest.Pool{Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN"}
			pool.ID = fmt.Sprintf("%s-%d", service, i)
			for j := range members {
				pool.Members = append(pool.Members,
					openstacktest.Member{Address: fmt.Sprintf("10.0.1.%d", j+1), ProtocolPort: 80})
			}
			lb.Pools = append(lb.Pools, pool)
			lb.Listeners = append(lb.Listeners,
				openstacktest.Listener{
					Protocol: "TCP", ProtocolPort: 80 + i,
					DefaultPoolID: pool.ID,
				})
		}
		id := cloud.AddLoadBalancer(lb)
		made, err := cloud.LoadBalancer(id)
		if err != nil {
			t.Fatal(err)
		}
		cloud.AddFloatingIP(
			openstacktest.FloatingIP{NetworkID: cloud.outside, PortID: made.VIPPortID})
		return id
	}
	expect := func(want string) {
		t.Helper()
		switch err := cloud.checkBalancers(services, 2); {
		case want == "" && err != nil:
			t.Errorf("the check finds fault: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("the check says %v, want %q", err, want)
		}
	}
	expect("service service-0000 has no load balancer")
	first := add("service-0000", 3, 2)
	expect("service service-0001 has no load balancer")
	second := add("service-0001", 3, 2)
	expect("")
	if full := cloud.fullPools(2); full != 6 {
		t.Errorf("%d pools have 2 members, want 6", full)
	}
	if err := cloud.SetProvisioningStatus(first, openstacktest.StatusPendingUpdate); err != nil {
		t.Fatal(err)
	}
	expect("the load balancer of service service-0000 is PENDING_UPDATE")
	if err := cloud.SetProvisioningStatus(first, openstacktest.StatusActive); err != nil {
		t.Fatal(err)
	}
	change := func(id string, change func(*openstacktest.LoadBalancer)) {
		t.Helper()
		if err := cloud.ChangeLoadBalancer(id, change); err != nil {
			t.Fatal(err)
		}
	}
	change(first, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[1].Members = lb.Pools[1].Members[:1]
	})
	expect("has a pool of 1 members instead of 2")
	change(first, func(lb *openstacktest.LoadBalancer) { lb.Listeners = lb.Listeners[:2] })
	expect("has 2 listeners and 3 pools for 3 ports")
	if err := cloud.DeleteLoadBalancer(first); err != nil {
		t.Fatal(err)
	}
	add("service-0000", 3, 2)
	another := add("service-0000", 3, 2)
	expect("service service-0000 has two load balancers")
	if err := cloud.DeleteLoadBalancer(another); err != nil {
		t.Fatal(err)
	}
	add("service-0002", 3, 2)
	expect("there are 3 load balancers for 2 Services")
	made, err := cloud.LoadBalancer(second)
	if err != nil {
		t.Fatal(err)
	}
	for _, ip := range cloud.FloatingIPs() {
		if ip.PortID == made.VIPPortID {
			if err := cloud.DeleteFloatingIP(ip.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect("the load balancer of service service-0001 has 0 floating IPs")
}

func TestWorld_CloudConfIsWhatTheProviderReads(t *testing.T) {
	cloud := newOpenStack(1)
	defer cloud.Close()
	for _, more := range []string{"", unlimitedRate} {
		path := filepath.Join(t.TempDir(), "cloud.conf")
		if err := os.WriteFile(path, []byte(cloud.config(more)), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := cloudconf.Load(path, cloudconf.Options{Strict: true})
		if err != nil || len(loaded.Warnings) > 0 {
			t.Fatal(err, loaded.Warnings)
		}
		if lb := loaded.Config.LoadBalancer; lb.SubnetID != cloud.subnet ||
			lb.FloatingNetworkID != cloud.outside {
			t.Errorf("it says %+v", lb)
		}
	}
}
