package octavia

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func (w *world) contents(id string, depth Depth) Contents {
	w.t.Helper()
	c, err := w.Contents(within(w.t), id, depth, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// rich creates a load balancer with a value in every field, and a pool without a listener.
func (w *world) rich() (id string) {
	w.t.Helper()
	named := func(id, name string) openstacktest.OctaviaResource {
		return openstacktest.OctaviaResource{ID: id, Name: name, Tags: []string{"b", "a"}}
	}
	w.cloud.AddSubnet(openstacktest.Subnet{NetworkID: w.network, CIDR: "10.1.0.0/16"})
	id = w.cloud.AddLoadBalancer(openstacktest.LoadBalancer{
		VIPSubnetID: w.subnet,
		Listeners: []openstacktest.Listener{
			{
				OctaviaResource: named("", "web"), Protocol: "HTTP", ProtocolPort: 80,
				DefaultPoolID: poolID("rich", 0), ConnectionLimit: 7,
				InsertHeaders:     map[string]string{"X-Forwarded-For": "true"},
				AllowedCIDRs:      []string{"192.0.2.0/24", "10.0.0.0/8"},
				TimeoutClientData: 1, TimeoutMemberConnect: 2, TimeoutMemberData: 3,
				TimeoutTCPInspect: 4,
			},
			{OctaviaResource: named("", "bare"), Protocol: "UDP", ProtocolPort: 53},
		},
		Pools: []openstacktest.Pool{
			{
				OctaviaResource: named(poolID("rich", 0), "served"), Protocol: "HTTP",
				LBAlgorithm:        "LEAST_CONNECTIONS",
				SessionPersistence: &openstacktest.SessionPersistence{Type: "SOURCE_IP"},
				Members: []openstacktest.Member{
					{OctaviaResource: named("", "node-1"), Address: "10.0.1.1", ProtocolPort: 30080, SubnetID: w.subnet, MonitorPort: 32000, Weight: 5},
					{OctaviaResource: named("", "node-2"), Address: "10.0.1.2", ProtocolPort: 30080, Backup: true},
				},
				Monitor: &openstacktest.HealthMonitor{
					OctaviaResource: named("", "check"), Type: "HTTP", Delay: 5, Timeout: 3,
					MaxRetries: 1, MaxRetriesDown: 4,
					HTTPMethod: "GET", URLPath: "/healthz", ExpectedCodes: "200-204",
				},
			},
			{
				OctaviaResource: named(poolID("rich", 1), "unserved"), Protocol: "TCP",
				LBAlgorithm: "ROUND_ROBIN",
				Members: []openstacktest.Member{{
					OctaviaResource: named("", "node-3"),
					Address:         "10.0.1.3", ProtocolPort: 1,
				}},
				Monitor: &openstacktest.HealthMonitor{
					OctaviaResource: named("", "other"),
					Type:            "TCP", Delay: 1, Timeout: 1, MaxRetries: 1,
				},
			},
		},
	})
	w.cloud.ForgetCalls()
	return id
}

// richContents returns its contents.
func (w *world) richContents(id string) Contents {
	w.t.Helper()
	lb, err := w.cloud.LoadBalancer(id)
	if err != nil {
		w.t.Fatal(err)
	}
	tags := []string{"b", "a"}
	return Contents{
		Listeners: []Listener{
			{
				ID: lb.Listeners[0].ID, Name: "web", Tags: tags, Protocol: "HTTP", Port: 80,
				PoolID: poolID("rich", 0), ConnectionLimit: 7,
				InsertHeaders: map[string]string{"X-Forwarded-For": "true"},
				AllowedCIDRs:  []string{"10.0.0.0/8", "192.0.2.0/24"},
				Timeouts: &Timeouts{
					ClientData: 1, MemberConnect: 2, MemberData: 3,
					TCPInspect: 4,
				}, Status: Active,
			},
			{
				ID: lb.Listeners[1].ID, Name: "bare", Tags: tags, Protocol: "UDP", Port: 53,
				ConnectionLimit: -1,
				Timeouts: &Timeouts{
					ClientData: 50000, MemberConnect: 5000,
					MemberData: 50000,
				}, Status: Active,
			},
		},
		Pools: []Pool{
			{
				ID: poolID("rich", 0), Name: "served", Tags: tags, Protocol: "HTTP",
				Algorithm: "LEAST_CONNECTIONS", Persistence: "SOURCE_IP",
				Members: []Member{
					{
						ID: lb.Pools[0].Members[0].ID, Name: "node-1", Address: "10.0.1.1",
						Port: 30080, SubnetID: w.subnet, Weight: 5,
						MonitorPort: 32000, Status: Active,
					},
					{ID: lb.Pools[0].Members[1].ID, Name: "node-2", Address: "10.0.1.2", Port: 30080, Weight: 1, Backup: true, Status: Active},
				},
				Monitor: &Monitor{
					ID: lb.Pools[0].Monitor.ID, Name: "check", Type: "HTTP", Delay: 5, Timeout: 3,
					MaxRetries: 1, MaxRetriesDown: 4,
					HTTPMethod: "GET", URLPath: "/healthz", ExpectedCodes: "200-204",
					Status: Active,
				},
				Status: Active,
			},
			{
				ID: poolID("rich", 1), Name: "unserved", Tags: tags, Protocol: "TCP",
				Algorithm: "ROUND_ROBIN",
				Members: []Member{
					{ID: lb.Pools[1].Members[0].ID, Name: "node-3", Address: "10.0.1.3", Port: 1, Weight: 1, Status: Active},
				},
				Monitor: &Monitor{
					ID: lb.Pools[1].Monitor.ID, Name: "other", Type: "TCP", Delay: 1, Timeout: 1,
					MaxRetries: 1, MaxRetriesDown: 3,
					Status: Active,
				},
				Status: Active,
			},
		},
	}
}

func inPart(p Pool) Pool {
	members := p.Members
	p.Members, p.MembersInPart, p.MonitorInPart = nil, true, true
	for _, m := range members {
		p.Members = append(p.Members,
			Member{
				ID: m.ID, Name: m.Name, Address: m.Address, Port: m.Port,
				Status: m.Status,
			})
	}
	p.Monitor = &Monitor{
		ID: p.Monitor.ID, Name: p.Monitor.Name, Type: p.Monitor.Type,
		Status: p.Monitor.Status,
	}
	return p
}

func same(t *testing.T, got, want Contents) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", show(got), show(want))
	}
}

func show(c Contents) string {
	var text strings.Builder
	for _, l := range c.Listeners {
		fmt.Fprintf(&text, "%+v %+v\n", l, l.Timeouts)
	}
	for _, p := range c.Pools {
		fmt.Fprintf(&text, "%+v %+v\n", p, p.Monitor)
	}
	return text.String()
}

func TestContents_Full_IsAll(t *testing.T) {
	w := newWorld(t)
	id := w.rich()
	same(t, w.contents(id, Full), w.richContents(id))
	w.calls(map[string]int{
		"loadbalancer_listener_list": 1, "loadbalancer_pool_list": 1, "loadbalancer_member_list": 2,
		"loadbalancer_healthmonitor_list": 1,
	})
}

func TestContents_InPart_IsTheTreeAndPoolsWithoutAListener(t *testing.T) {
	w := newWorld(t)
	id := w.rich()
	want := w.richContents(id)
	// The monitor of the second pool is read, so that of the first is read, too.
	monitor := want.Pools[0].Monitor
	want.Pools[0] = inPart(want.Pools[0])
	want.Pools[0].Monitor, want.Pools[0].MonitorInPart = monitor, false
	same(t, w.contents(id, InPart), want)
	w.calls(map[string]int{
		"loadbalancer_listener_list": 1, "loadbalancer_pool_list": 1, "loadbalancer_status": 1,
		"loadbalancer_member_list": 1, "loadbalancer_healthmonitor_list": 1,
	})
}

func TestContents_InPart_CostsThreeRequests_WhateverTheSize(t *testing.T) {
	for _, size := range []struct{ ports, members int }{{0, 0}, {1, 1}, {3, 50}, {10, 1100}} {
		w := newWorld(t)
		id := w.add("lb", size.ports, size.members)
		w.add("other", 2, 2)
		c := w.contents(id, InPart)
		if len(c.Listeners) != size.ports || len(c.Pools) != size.ports {
			t.Errorf("%d listeners, %d pools; want %d", len(c.Listeners), len(c.Pools), size.ports)
		}
		for _, p := range c.Pools {
			if len(p.Members) != size.members || !p.MembersInPart || p.Monitor == nil ||
				!p.MonitorInPart {
				t.Errorf("%d members, in part: %t; the monitor %v, in part: %t", len(p.Members),
					p.MembersInPart, p.Monitor, p.MonitorInPart)
			}
		}
		w.calls(map[string]int{
			"loadbalancer_listener_list": 1, "loadbalancer_pool_list": 1,
			"loadbalancer_status": 1,
		})
	}
}

// everyContents reads all load balancers concurrently.
func (w *world) everyContents(ids []string, depth Depth) []Contents {
	w.t.Helper()
	all, errs := make([]Contents, len(ids)), make(chan error, len(ids))
	for i, id := range ids {
		go func() {
			var err error
			all[i], err = w.Contents(w.t.Context(), id, depth, time.Time{})
			errs <- err
		}()
	}
	for range ids {
		if err := <-errs; err != nil {
			w.t.Error(err)
		}
	}
	return all
}

func TestContents_Restart_CostsOneRequestForEachLoadBalancer_AndAFewLists(t *testing.T) {
	const many = 200
	w := newWorld(t)
	var ids []string
	for n := range many {
		ids = append(ids, w.add(fmt.Sprintf("lb-%d", n), 3, 2))
	}
	// The first load balancer delays the batch, so that the others share the next one.
	first := w.add("first", 1, 1)
	open := w.gate.close()
	held := make(chan error, 1)
	go func() { _, err := w.Contents(t.Context(), first, InPart, time.Time{}); held <- err }()
	w.called("loadbalancer_pool_list")
	w.called("loadbalancer_listener_list")
	time.AfterFunc(time.Second/10, open)
	all := w.everyContents(ids, InPart)
	if err := <-held; err != nil {
		t.Error(err)
	}
	for i, c := range all {
		if len(c.Listeners) != 3 || len(c.Pools) != 3 {
			t.Fatalf("%s has %d listeners, %d pools", ids[i], len(c.Listeners), len(c.Pools))
		}
		for n, p := range c.Pools {
			if p.ID != poolID(fmt.Sprintf("lb-%d", i), n) || len(p.Members) != 2 ||
				p.Monitor == nil {
				t.Errorf("%s has the pool %+v", ids[i], p)
			}
		}
		if monitor := c.Pools[0].Monitor; monitor != nil &&
			(monitor.Delay != 5 || c.Pools[0].MonitorInPart) {
			t.Errorf("%s has the monitor %+v, although all monitors were read", ids[i], monitor)
		}
	}
	counts := w.cloud.Counts()
	t.Logf("calls %v", counts)
	lists := counts["loadbalancer_listener_list"] + counts["loadbalancer_pool_list"] +
		counts["loadbalancer_healthmonitor_list"]
	if counts["loadbalancer_status"] != many+1 || lists > 20 || len(counts) != 4 ||
		counts["loadbalancer_healthmonitor_list"] > counts["loadbalancer_pool_list"] {
		t.Errorf("calls %v, want %d trees and a few lists", counts, many+1)
	}
}

func TestContents_ManyTogether_AreEachTheSameAsAlone(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.rich(), w.add("empty", 0, 0)}
	for n := range 2 * few {
		ids = append(ids, w.add(fmt.Sprintf("lb-%d", n), 1+n%3, n))
	}
	// This project's lists are not read, but an administrator may use its load balancers.
	stranger := w.cloud.AddProject(openstacktest.Project{Name: "stranger"})
	admin := w.open(w.cloud.AddProject(openstacktest.Project{Name: "admin", Admin: true}))
	theirs := w.cloud.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{ProjectID: stranger.ProjectID},
		VIPSubnetID:     w.subnet,
		Listeners:       []openstacktest.Listener{{Protocol: "TCP", ProtocolPort: 1}},
		Pools: []openstacktest.Pool{{
			Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN",
			Monitor: &openstacktest.HealthMonitor{Type: "TCP", Delay: 1, Timeout: 1, MaxRetries: 1},
		}},
	})
	admin.config.Project = func(context.Context) (string, error) {
		return w.cloud.Credentials().ProjectID, nil
	}
	w.API = admin
	ids = append(ids, theirs)
	together := w.everyContents(ids, Full)
	for i, id := range ids {
		same(t, together[i], w.contents(id, Full))
	}
	if c := together[len(together)-1]; len(c.Listeners) != 1 || len(c.Pools) != 1 ||
		c.Pools[0].Monitor == nil {
		t.Errorf("the contents of another project's load balancer are %+v", c)
	}
}

func TestContents_MissingOrForbidden_ReturnTheCause(t *testing.T) {
	for _, depth := range []Depth{InPart, Full} {
		w := newWorld(t)
		empty, full := w.add("empty", 0, 0), w.add("full", 1, 1)
		if c := w.contents(empty, depth); c.Listeners != nil || c.Pools != nil {
			t.Errorf("an empty load balancer has %+v", c)
		}
		for _, id := range []string{"00000000-0000-4000-8000-000000000000", ""} {
			if _, err := w.Contents(within(t), id, depth, time.Time{}); !errors.Is(err,
				ErrNotFound) {
				t.Errorf("a missing load balancer: %v", err)
			}
		}
		stranger := w.open(w.cloud.AddProject(openstacktest.Project{Name: "stranger"}))
		if _, err := stranger.Contents(within(t), full, depth, time.Time{}); !errors.Is(err,
			ErrForbidden) {
			t.Errorf("another project's load balancer: %v", err)
		}
	}
}

func TestContents_PartGoesAwayMeanwhile_IsAnError(t *testing.T) {
	for operation, depth := range map[string]Depth{
		"loadbalancer_member_list": Full, "loadbalancer_healthmonitor_get": Full,
		"loadbalancer_listener_list": InPart,
	} {
		w := newWorld(t)
		id := w.add("lb", 2, 1)
		if operation == "loadbalancer_healthmonitor_get" {
			w.rewrite("loadbalancer_healthmonitor_list",
				func([]byte) (int, []byte) { return 200, []byte(`{"healthmonitors": []}`) })
		}
		w.cloud.Inject(openstacktest.Fault{Operation: operation, Status: 404, Times: 1})
		if c, err := w.Contents(within(t), id, depth, time.Time{}); err == nil ||
			errors.Is(err, ErrNotFound) || c.Listeners != nil || c.Pools != nil {
			t.Errorf("%s: %+v, %v; want an error", operation, c, err)
		}
	}
}

func TestContents_TreeWithoutAMonitor_MonitorIsRead(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 1, 1)
	w.rewrite("loadbalancer_status",
		func(body []byte) (int, []byte) { return 200, without(body, "health_monitor") })
	if p := w.contents(id, InPart).Pools[0]; p.Monitor == nil || p.MonitorInPart ||
		!p.MembersInPart {
		t.Errorf("the pool is %+v", p)
	}
}

func TestContents_BadAnswers_AreErrors(t *testing.T) {
	type answer struct {
		operation string
		depth     Depth
		missing   string
	}
	for _, a := range []answer{
		{"loadbalancer_listener_list", InPart, "listeners"},
		{"loadbalancer_listener_list", InPart, "id"},
		{"loadbalancer_listener_list", InPart, "loadbalancers"},
		{"loadbalancer_listener_list", InPart, "protocol"},
		{"loadbalancer_pool_list", InPart, "pools"},
		{"loadbalancer_pool_list", InPart, "provisioning_status"},
		{"loadbalancer_status", InPart, "statuses"},
		{"loadbalancer_status", InPart, "loadbalancer"},
		{"loadbalancer_status", InPart, "listeners"},
		{"loadbalancer_status", InPart, "pools"},
		{"loadbalancer_status", InPart, "members"},
		{"loadbalancer_status", InPart, "address"},
		{"loadbalancer_status", InPart, "protocol_port"},
		{"loadbalancer_status", InPart, "id"},
		{"loadbalancer_member_list", Full, "members"},
		{"loadbalancer_member_list", Full, "address"},
		{"loadbalancer_healthmonitor_list", Full, "healthmonitors"},
		{"loadbalancer_healthmonitor_list", Full, "id"},
	} {
		w := newWorld(t)
		id := w.add("lb", 1, 1)
		w.rewrite(a.operation,
			func(body []byte) (int, []byte) { return 200, without(body, a.missing) })
		if c, err := w.Contents(within(t), id, a.depth, time.Time{}); err == nil {
			t.Errorf("%s without %s: %+v, want an error", a.operation, a.missing, c)
		}
		w.cloud.RemoveFaults()
		w.cloud.Inject(openstacktest.Fault{Operation: a.operation, Truncate: 20})
		if c, err := w.Contents(within(t), id, a.depth, time.Time{}); err == nil {
			t.Errorf("%s, cut off: %+v, want an error", a.operation, c)
		}
	}
}

func TestContents_OldAPI_LacksWhatItDoesNotKnow(t *testing.T) {
	w := newWorld(t, openstacktest.WithLoadBalancerVersion(0))
	c := w.contents(w.add("lb", 1, 1), Full)
	if l := c.Listeners[0]; l.Timeouts != nil || l.Tags != nil || l.AllowedCIDRs != nil ||
		l.ConnectionLimit != -1 {
		t.Errorf("the listener is %+v", l)
	}
	if m := c.Pools[0].Members[0]; m.Backup || m.Weight != 1 {
		t.Errorf("the member is %+v", m)
	}
}

// An operator can switch off the filters of Octavia: then a filtered list returns all items.
func TestContents_FilterThatIsIgnored_ShowsNothingOfOthers(t *testing.T) {
	w := newWorld(t)
	id, other := w.add("lb", 1, 1), w.add("other", 1, 1)
	everybodys := map[string][]byte{}
	for _, name := range []string{"listener", "pool"} {
		operation := "loadbalancer_" + name + "_list"
		w.rewrite(operation, func(body []byte) (int, []byte) {
			everybodys[operation] = body
			return 200, body
		})
		var body any
		if err := w.get(within(t), name+"s",
			url.Values{"project_id": {w.cloud.Credentials().ProjectID}}, &body); err != nil {
			t.Fatal(err)
		}
	}
	w.cloud.RemoveFaults()
	for operation, body := range everybodys {
		w.rewrite(operation, func([]byte) (int, []byte) { return 200, body })
	}
	for n, id := range []string{id, other} {
		name := []string{"lb", "other"}[n]
		if c := w.contents(id, InPart); len(c.Listeners) != 1 || len(c.Pools) != 1 ||
			c.Pools[0].ID != poolID(name, 0) {
			t.Errorf("%s has %+v", name, c)
		}
	}
}
