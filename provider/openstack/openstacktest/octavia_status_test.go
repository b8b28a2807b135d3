package openstacktest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// slowCloud is a cloud with an ACTIVE load balancer. Work takes a minute of its clock, which only
// the test moves.
type slowCloud struct {
	*testing.T
	server *Cloud
	clock  *clocktesting.FakePassiveClock
	id     string
}

func newSlowCloud(t *testing.T) slowCloud {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := start(t, WithClock(clock), WithProvisioning(time.Minute), WithFailoverByOwners())
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	pool := func(id string) Pool {
		return Pool{
			OctaviaResource: OctaviaResource{ID: id}, Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN",
			Members: []Member{{Address: "10.0.0.11", ProtocolPort: 1}},
			Monitor: &HealthMonitor{Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 1},
		}
	}
	id := s.AddLoadBalancer(LoadBalancer{
		OctaviaResource: OctaviaResource{Name: "lb"}, VIPSubnetID: subnet,
		Pools: []Pool{
			pool("00000000-0000-4000-8000-0000000000a0"),
			pool("00000000-0000-4000-8000-0000000000a1"),
		},
		Listeners: []Listener{
			{Protocol: "TCP", ProtocolPort: 80, DefaultPoolID: "00000000-0000-4000-8000-0000000000a0"},
			{Protocol: "TCP", ProtocolPort: 81, DefaultPoolID: "00000000-0000-4000-8000-0000000000a1"},
		},
	})
	return slowCloud{t, s, clock, id}
}

func (c slowCloud) later(d time.Duration) { c.clock.SetTime(c.clock.Now().Add(d)) }

func (c slowCloud) now() LoadBalancer {
	c.Helper()
	return must(c.server.LoadBalancer(c.id))(c.T)
}

// states are the statuses of the load balancer, its listeners, and each pool with its members and
// its monitor.
func states(lb LoadBalancer) string {
	all := lb.ProvisioningStatus
	for _, l := range lb.Listeners {
		all += " L:" + l.ProvisioningStatus
	}
	for _, p := range lb.Pools {
		all += " P:" + p.ProvisioningStatus
		for _, m := range p.Members {
			all += " M:" + m.ProvisioningStatus
		}
		if p.Monitor != nil {
			all += " H:" + p.Monitor.ProvisioningStatus
		}
	}
	return all
}

// changes are all ways to change a load balancer or a resource below it, with the statuses during
// and after the work.
func changes(lb LoadBalancer) []struct{ name, method, path, body, during, after string } {
	const whole = "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE"
	listener, pool := lb.Listeners[0].ID, lb.Pools[0].ID
	member, monitor := lb.Pools[0].Members[0].ID, lb.Pools[0].Monitor.ID
	return []struct{ name, method, path, body, during, after string }{
		{
			"load balancer", "PUT", "loadbalancers/" + lb.ID,
			`{"loadbalancer": {"description": "d"}}`,
			"PENDING_UPDATE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE", whole,
		},
		{
			"failover", "PUT", "loadbalancers/" + lb.ID + "/failover", "",
			"PENDING_UPDATE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE", whole,
		},
		{
			"new listener", "POST", "listeners",
			`{"listener": {"loadbalancer_id": "` + lb.ID +
				`", "protocol": "UDP", "protocol_port": 80}}`,
			"PENDING_UPDATE L:ACTIVE L:ACTIVE L:PENDING_CREATE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
			"ACTIVE L:ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
		},
		{
			"listener", "PUT", "listeners/" + listener, `{"listener": {"connection_limit": 5}}`,
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE", whole,
		},
		{
			"listener's end", "DELETE", "listeners/" + listener, "",
			"PENDING_UPDATE L:PENDING_DELETE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
			"ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
		},
		{
			"new pool", "POST", "pools",
			`{"pool": {"loadbalancer_id": "` + lb.ID +
				`", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}}`,
			"PENDING_UPDATE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:PENDING_CREATE",
			"ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE",
		},
		{
			"pool", "PUT", "pools/" + pool, `{"pool": {"lb_algorithm": "SOURCE_IP"}}`,
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE", whole,
		},
		{
			"pool's end", "DELETE", "pools/" + pool, "",
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_DELETE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
			"ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
		},
		{
			"new member", "POST", "pools/" + pool + "/members",
			`{"member": {"address": "10.0.0.12", "protocol_port": 1}}`,
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:ACTIVE M:PENDING_CREATE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
			"ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE M:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
		},
		{
			"member", "PUT", "pools/" + pool + "/members/" + member, `{"member": {"weight": 5}}`,
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:PENDING_UPDATE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE", whole,
		},
		{
			"member's end", "DELETE", "pools/" + pool + "/members/" + member, "",
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:PENDING_DELETE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
			"ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
		},
		{
			"all members", "PUT", "pools/" + pool + "/members",
			`{"members": [{"address": "10.0.0.12", "protocol_port": 1}]}`,
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:PENDING_DELETE M:PENDING_CREATE H:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
			whole,
		},
		{
			"monitor", "PUT", "healthmonitors/" + monitor, `{"healthmonitor": {"delay": 9}}`,
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:ACTIVE H:PENDING_UPDATE P:ACTIVE M:ACTIVE H:ACTIVE", whole,
		},
		{
			"monitor's end", "DELETE", "healthmonitors/" + monitor, "",
			"PENDING_UPDATE L:PENDING_UPDATE L:ACTIVE P:PENDING_UPDATE M:ACTIVE H:PENDING_DELETE P:ACTIVE M:ACTIVE H:ACTIVE",
			"ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE P:ACTIVE M:ACTIVE H:ACTIVE",
		},
	}
}

func TestChange_LoadBalancerIsLockedUntilTheWorkEnds(t *testing.T) {
	for i, change := range changes(newSlowCloud(t).now()) {
		t.Run(change.name, func(t *testing.T) {
			c := newSlowCloud(t)
			change := changes(c.now())[i]
			if answer := ask(t, c.server, change.method, octaviaRoot+change.path,
				change.body); answer.status/100 != 2 {
				t.Fatalf("status %d: %s", answer.status, answer.body)
			}
			if got := states(c.now()); got != change.during {
				t.Errorf("during the work\n%s, want\n%s", got, change.during)
			}
			c.later(time.Minute - 1)
			if got := c.now().ProvisioningStatus; got != StatusPendingUpdate {
				t.Errorf("before its end the load balancer is %s", got)
			}
			c.later(1)
			if got := states(c.now()); got != change.after {
				t.Errorf("after the work\n%s, want\n%s", got, change.after)
			}
		})
	}
}

func TestChange_OfALoadBalancerThatIsNotActive_IsRefused(t *testing.T) {
	for _, status := range []string{
		StatusPendingCreate, StatusPendingUpdate, StatusPendingDelete,
		StatusError,
	} {
		c := newSlowCloud(t)
		if err := c.server.SetProvisioningStatus(c.id, status); err != nil {
			t.Fatal(err)
		}
		before := states(c.now())
		for _, change := range changes(c.now()) {
			if change.name == "failover" && status == StatusError {
				continue
			}
			text := fmt.Sprintf("Load Balancer %s is immutable and cannot be updated.", c.id)
			if change.name == "load balancer" || change.name == "failover" {
				text = fmt.Sprintf("Invalid state %s of loadbalancer resource %s", status, c.id)
			}
			ask(t, c.server, change.method, octaviaRoot+change.path, change.body).
				is(http.StatusConflict,
					`{"faultcode": "Client", "faultstring": "`+text+`", "debuginfo": null}`)
		}
		if got := states(c.now()); got != before {
			t.Errorf("refused changes have changed %s to %s", before, got)
		}
	}
}

func TestChange_OfMembersOfAPoolInError_IsRefused(t *testing.T) {
	c := newSlowCloud(t)
	pool := c.now().Pools[0].ID
	if err := c.server.SetProvisioningStatus(pool, StatusError); err != nil {
		t.Fatal(err)
	}
	ask(t, c.server, "PUT", octaviaRoot+"pools/"+pool+"/members", `{"members": []}`).
		is(http.StatusConflict,
			`{"faultcode": "Client", "faultstring": "Pool `+pool+
				` is immutable and cannot be updated.", "debuginfo": null}`)
}

// Only the changed resource ends in ERROR.
func TestProvision_Fail_EndsInError(t *testing.T) {
	const beside = " P:ACTIVE M:ACTIVE H:ACTIVE"
	wanted := map[string]string{
		"load balancer":  "ERROR L:ACTIVE L:ACTIVE" + beside + beside,
		"failover":       "ERROR L:ACTIVE L:ACTIVE" + beside + beside,
		"new listener":   "ACTIVE L:ACTIVE L:ACTIVE L:ERROR" + beside + beside,
		"listener":       "ACTIVE L:ERROR L:ACTIVE" + beside + beside,
		"listener's end": "ACTIVE L:ERROR L:ACTIVE" + beside + beside,
		"new pool":       "ACTIVE L:ACTIVE L:ACTIVE" + beside + beside + " P:ERROR",
		"pool":           "ACTIVE L:ACTIVE L:ACTIVE P:ERROR M:ACTIVE H:ACTIVE" + beside,
		"pool's end":     "ACTIVE L:ACTIVE L:ACTIVE P:ERROR M:ACTIVE H:ACTIVE" + beside,
		"new member":     "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE M:ERROR H:ACTIVE" + beside,
		"member":         "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ERROR H:ACTIVE" + beside,
		"member's end":   "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ERROR H:ACTIVE" + beside,
		"all members":    "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ERROR M:ERROR H:ACTIVE" + beside,
		"monitor":        "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ERROR" + beside,
		"monitor's end":  "ACTIVE L:ACTIVE L:ACTIVE P:ACTIVE M:ACTIVE H:ERROR" + beside,
	}
	for i, change := range changes(newSlowCloud(t).now()) {
		t.Run(change.name, func(t *testing.T) {
			c := newSlowCloud(t)
			c.server.Provision(ProvisioningRule{LoadBalancer: "lb", Times: 1, Fail: true})
			change := changes(c.now())[i]
			if answer := ask(t, c.server, change.method, octaviaRoot+change.path,
				change.body); answer.status/100 != 2 {
				t.Fatalf("status %d: %s", answer.status, answer.body)
			}
			c.later(time.Minute)
			if got := states(c.now()); got != wanted[change.name] {
				t.Errorf("got\n%s, want\n%s", got, wanted[change.name])
			}
			ask(t, c.server, "PUT", octaviaRoot+"loadbalancers/"+c.id+"/failover", "")
			c.later(time.Minute)
			if got := states(c.now()); strings.Contains(got, StatusError) ||
				strings.Contains(got, "PENDING") {
				t.Errorf("after a failover\n%s", got)
			}
		})
	}
}

// If the creation fails, all resources are in ERROR; if the deletion fails, only the load balancer
// is.
func TestProvision_FailOfAWholeLoadBalancer(t *testing.T) {
	c := newSlowCloud(t)
	c.server.Provision(ProvisioningRule{Fail: true})
	ask(t, c.server, "DELETE", octaviaRoot+"loadbalancers/"+c.id+"?cascade=true", "")
	c.later(time.Minute)
	if got := states(c.now()); !strings.HasPrefix(got, "ERROR L:ACTIVE") {
		t.Errorf("after a deletion that failed\n%s", got)
	}
}

func TestProvision_Never_StaysPendingUntilItIsSet(t *testing.T) {
	c := newSlowCloud(t)
	remove := c.server.Provision(ProvisioningRule{LoadBalancer: c.id, Never: true})
	c.server.Provision(ProvisioningRule{LoadBalancer: "another", Fail: true})
	path := octaviaRoot + "loadbalancers/" + c.id
	ask(t, c.server, "PUT", path, `{"loadbalancer": {"name": "lb"}}`)
	c.later(100 * time.Hour)
	if got := c.now().ProvisioningStatus; got != StatusPendingUpdate {
		t.Errorf("the load balancer is %s", got)
	}
	if err := c.server.SetProvisioningStatus(c.id, StatusActive); err != nil {
		t.Fatal(err)
	}
	remove()
	ask(t, c.server, "PUT", path, `{"loadbalancer": {"name": "lb"}}`)
	c.later(time.Minute)
	if got := c.now().ProvisioningStatus; got != StatusActive {
		t.Errorf("without the rule the load balancer is %s", got)
	}
}

func TestProvision_Duration_IsOfTheRule(t *testing.T) {
	c := newSlowCloud(t)
	c.server.Provision(ProvisioningRule{Duration: time.Hour})
	ask(t, c.server, "PUT", octaviaRoot+"loadbalancers/"+c.id, `{"loadbalancer": {"name": "lb"}}`)
	c.later(time.Hour - 1)
	if got := c.now().ProvisioningStatus; got != StatusPendingUpdate {
		t.Errorf("the load balancer is %s", got)
	}
	c.later(1)
	if got := c.now().ProvisioningStatus; got != StatusActive {
		t.Errorf("the load balancer is %s", got)
	}
}
