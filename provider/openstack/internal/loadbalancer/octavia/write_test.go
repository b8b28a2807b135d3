package octavia

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// bare creates a load balancer without ports.
func (w *world) bare() string {
	w.t.Helper()
	made, err := w.CreateLoadBalancer(w.t.Context(),
		LoadBalancer{Name: "lb", VIP: VIP{SubnetID: w.subnet}}, nil)
	w.must(err)
	return made.ID
}

// full creates a load balancer with one port.
func (w *world) full() openstacktest.LoadBalancer {
	w.t.Helper()
	made, err := w.CreateLoadBalancer(w.t.Context(),
		LoadBalancer{Name: "lb", VIP: VIP{SubnetID: w.subnet}}, []Port{
			{Listener: plainListener(), Pool: fullPool()},
		})
	w.must(err)
	return w.lb(made.ID)
}

func (w *world) lb(id string) openstacktest.LoadBalancer {
	w.t.Helper()
	lb, err := w.cloud.LoadBalancer(id)
	w.must(err)
	return lb
}

// written returns the contents as they were written: without IDs and statuses; of a listener's pool
// it has the name.
func (w *world) written(id string) Contents {
	w.t.Helper()
	c := w.contents(id, Full)
	names := map[string]string{}
	for i := range c.Pools {
		p := &c.Pools[i]
		names[p.ID] = p.Name
		p.ID, p.Status = "", ""
		if len(p.Tags) == 0 {
			p.Tags = nil
		}
		for m := range p.Members {
			p.Members[m].ID, p.Members[m].Status = "", ""
		}
		if p.Monitor != nil {
			p.Monitor.ID, p.Monitor.Status = "", ""
		}
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		l.ID, l.Status, l.PoolID = "", "", names[l.PoolID]
		if len(l.Tags) == 0 {
			l.Tags = nil
		}
	}
	return c
}

// body returns the body of the last request.
func (w *world) body() string {
	calls := w.cloud.Calls()
	return calls[len(calls)-1].Body
}

func plainListener() Listener {
	return Listener{
		Name: "listener_0", Protocol: TCP, Port: 80,
		ConnectionLimit: -1,
	}
}

func plainPool() Pool {
	return Pool{Name: "pool_0", Protocol: TCP, Algorithm: "ROUND_ROBIN"}
}

func fullPool() Pool {
	p := plainPool()
	p.Members = []Member{{Name: "node-1", Address: "10.0.0.101", Port: 30080, Weight: 1}}
	p.Monitor = &Monitor{
		Name: "monitor_0", Type: MonitorTCP, Delay: 5,
		Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3,
	}
	return p
}

func TestCreateLoadBalancer_WithPorts_SendsOneRequest(t *testing.T) {
	w := newWorld(t)
	w.cloud.AddLoadBalancerZone("zone-1")
	flavor := w.cloud.AddLoadBalancerFlavor(openstacktest.LoadBalancerFlavor{Name: "big"})
	tls := w.cloud.AddContainer(openstacktest.Container{})
	six := w.cloud.AddSubnet(
		openstacktest.Subnet{NetworkID: w.cloud.Networks()[0].ID, CIDR: "fd00::/64"})
	w.cloud.ForgetCalls()
	ports := []Port{
		{
			Listener: Listener{
				Name: "listener_0", Tags: []string{"a"}, Protocol: TerminatedHTTPS,
				Port: 443, ConnectionLimit: 7, TLSContainer: tls,
				Timeouts: &Timeouts{
					ClientData: 1, MemberConnect: 2, MemberData: 3,
					TCPInspect: 4,
				},
				InsertHeaders: map[string]string{"X-Forwarded-For": "true"},
				AllowedCIDRs:  []string{"10.0.0.0/8", "fd00::/8"},
			},
			Pool: Pool{
				Name: "pool_0", Protocol: HTTP, Algorithm: "LEAST_CONNECTIONS",
				Persistence: "SOURCE_IP",
				Members: []Member{
					{Name: "node-1", Address: "10.0.0.101", Port: 30443, SubnetID: w.subnet, Weight: 1, MonitorPort: 32000},
					{Name: "node-2", Address: "10.0.0.102", Port: 30443, Weight: 0},
				},
				Monitor: &Monitor{
					Name: "monitor_0", Type: MonitorHTTP, Delay: 6, Timeout: 4,
					MaxRetries: 2, MaxRetriesDown: 5,
					HTTPMethod: "GET", URLPath: "/healthz", ExpectedCodes: "200",
				},
			},
		},
		{
			Listener: Listener{
				Name: "listener_1", Protocol: UDP, Port: 53,
				ConnectionLimit: -1,
			},
			Pool: Pool{
				Name: "pool_1", Protocol: UDP,
				Algorithm: "SOURCE_IP_PORT",
			},
		},
	}
	made, err := w.CreateLoadBalancer(t.Context(), LoadBalancer{
		Name: "lb", Description: "d", Tags: []string{"a", "b"}, Provider: "amphora",
		FlavorID: flavor, AvailabilityZone: "zone-1",
		VIP:            VIP{SubnetID: w.subnet, Address: "10.0.3.4"},
		AdditionalVIPs: []VIP{{SubnetID: six, Address: "fd00::9"}},
	}, ports)
	w.must(err)
	if counts := w.cloud.Counts(); !maps.Equal(counts, map[string]int{"loadbalancer_create": 1}) {
		t.Errorf("the requests are %v", counts)
	}
	lb := w.lb("lb")
	if made.ID != lb.ID || made.Name != "lb" || made.VIP.PortID != lb.VIPPortID ||
		made.VIP.Address != "10.0.3.4" ||
		made.VIP.SubnetID != w.subnet || made.Provider != "amphora" || made.Status == "" ||
		made.CreatedAt.IsZero() {
		t.Errorf("the result is %+v", made)
	}
	if lb.Description != "d" || !slices.Equal(lb.Tags, []string{"a", "b"}) ||
		lb.FlavorID != flavor || lb.AvailabilityZone != "zone-1" ||
		len(lb.AdditionalVIPs) != 1 ||
		lb.AdditionalVIPs[0] != (openstacktest.AdditionalVIP{SubnetID: six, Address: "fd00::9"}) {
		t.Errorf("the load balancer is %+v", lb)
	}
	ports[0].Listener.PoolID, ports[1].Listener.PoolID = "pool_0", "pool_1"
	ports[0].Listener.TLSVersions = []string{"TLSv1.2", "TLSv1.3"}
	ports[1].Listener.Timeouts = &Timeouts{
		ClientData: 50000, MemberConnect: 5000, MemberData: 50000,
	}
	same(t, w.written(lb.ID), Contents{
		Listeners: []Listener{ports[0].Listener, ports[1].Listener},
		Pools:     []Pool{ports[0].Pool, ports[1].Pool},
	})
	l, p := lb.Listeners[0], lb.Pools[0]
	// The response does not contain the monitor.
	want := map[string]string{
		"listener_0": l.ID, "pool_0": p.ID, "listener_1": lb.Listeners[1].ID,
		"pool_1":                  lb.Pools[1].ID,
		"pool_0 10.0.0.101 30443": p.Members[0].ID, "pool_0 10.0.0.102 30443": p.Members[1].ID,
	}
	if !maps.Equal(made.Made, want) {
		t.Errorf("the IDs are %v, want %v", made.Made, want)
	}
}

func TestUpdateLoadBalancer_ReplacesTheTags(t *testing.T) {
	w := newWorld(t)
	id := w.bare()
	for _, tags := range [][]string{{"a", "b"}, {"c"}, {}, nil} {
		w.must(w.UpdateLoadBalancer(t.Context(), id, tags))
		if lb := w.lb(id); !slices.Equal(lb.Tags, tags) || lb.Name != "lb" {
			t.Errorf("with tags %v it is %+v", tags, lb)
		}
	}
}

func TestUpdateListener_SomeFields_KeepsTheOthers(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	second, err := w.CreatePool(t.Context(), lb.ID, "",
		Pool{
			Name: "pool_1", Protocol: TCP, Algorithm: "SOURCE_IP",
			Tags: []string{"p"},
		})
	w.must(err)
	id := lb.Listeners[0].ID
	want := Listener{
		Name: "renamed", Tags: []string{"a"}, Protocol: TCP, Port: 80, ConnectionLimit: 9,
		Timeouts:     &Timeouts{ClientData: 1, MemberConnect: 2, MemberData: 3, TCPInspect: 0},
		AllowedCIDRs: []string{"10.0.0.0/8"},
	}
	check := func(sent Listener, pool string) {
		t.Helper()
		w.must(w.UpdateListener(t.Context(), id, sent, pool))
		got := w.written(lb.ID)
		same(t, Contents{Listeners: got.Listeners}, Contents{Listeners: []Listener{want}})
	}
	sent := want
	want.PoolID = "pool_1"
	check(sent, second)
	want.ConnectionLimit = -1
	check(Listener{Protocol: TCP, Port: 80, ConnectionLimit: -1}, "")
	calls := w.cloud.Calls()
	if n := slices.IndexFunc(calls, func(c openstacktest.Call) bool {
		return c.Body == `{"listener":{"connection_limit":-1}}`
	}); n < 0 {
		t.Errorf("omitted fields are sent: %+v", calls)
	}
	want.Tags, want.AllowedCIDRs = nil, nil
	check(Listener{ConnectionLimit: -1, Tags: []string{}, AllowedCIDRs: []string{}}, "")
}

func TestUpdateListener_HTTP_RemovesHeaders(t *testing.T) {
	w := newWorld(t)
	lb := w.bare()
	l := Listener{
		Name: "l", Protocol: HTTP, Port: 80, ConnectionLimit: -1,
		InsertHeaders: map[string]string{"X-Forwarded-For": "true"},
	}
	id, err := w.CreateListener(t.Context(), lb, l, "")
	w.must(err)
	l.InsertHeaders = map[string]string{"X-Forwarded-Port": "true"}
	w.must(w.UpdateListener(t.Context(), id, l, ""))
	if got := w.lb(lb).Listeners[0].InsertHeaders; !maps.Equal(got, l.InsertHeaders) {
		t.Errorf("the headers are %v", got)
	}
	l.InsertHeaders = nil
	w.must(w.UpdateListener(t.Context(), id, l, ""))
	if got := w.lb(lb).Listeners[0].InsertHeaders; len(got) != 0 {
		t.Errorf("the headers are %v", got)
	}
}

func TestCreateListenerAndPool_OneByOne(t *testing.T) {
	w := newWorld(t)
	lb := w.bare()
	pool, err := w.CreatePool(t.Context(), lb, "", fullPool())
	w.must(err)
	if body := w.body(); strings.Contains(body, "members") ||
		strings.Contains(body, "healthmonitor") {
		t.Errorf("Octavia does not accept the parts of a pool with it: %s", body)
	}
	tcp, other := plainListener(), plainListener()
	other.Name, other.Protocol = "listener_1", UDP
	_, err = w.CreateListener(t.Context(), lb, tcp, pool)
	w.must(err)
	udp, err := w.CreateListener(t.Context(), lb, other, "")
	w.must(err)
	its := Pool{
		Name: "pool_1", Protocol: UDP, Algorithm: "SOURCE_IP", Persistence: "SOURCE_IP",
		Tags: []string{"a"},
	}
	_, err = w.CreatePool(t.Context(), lb, udp, its)
	w.must(err)
	tcp.PoolID, other.PoolID = "pool_0", "pool_1"
	tcp.Timeouts = &Timeouts{ClientData: 50000, MemberConnect: 5000, MemberData: 50000}
	other.Timeouts = tcp.Timeouts
	same(t, w.written(lb), Contents{
		Listeners: []Listener{tcp, other}, Pools: []Pool{plainPool(), its},
	})
	if _, err := w.CreatePool(t.Context(), lb, udp, plainPool()); err == nil ||
		errors.Is(err, ErrBusy) {
		t.Errorf("a second default pool: %v", err)
	}
}

func TestUpdatePool_AlgorithmAndPersistence_AreSetAndRemoved(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	p := plainPool()
	p.Algorithm, p.Persistence, p.Tags = "SOURCE_IP", "SOURCE_IP", []string{"a"}
	w.must(w.UpdatePool(t.Context(), lb.Pools[0].ID, p))
	want := fullPool()
	want.Algorithm, want.Persistence, want.Tags = p.Algorithm, p.Persistence, p.Tags
	same(t, Contents{Pools: w.written(lb.ID).Pools}, Contents{Pools: []Pool{want}})
	p.Persistence, p.Tags = "", nil
	w.must(w.UpdatePool(t.Context(), lb.Pools[0].ID, p))
	want.Persistence = ""
	same(t, Contents{Pools: w.written(lb.ID).Pools}, Contents{Pools: []Pool{want}})
	w.must(w.cloud.SetProvisioningStatus(lb.Pools[0].ID, openstacktest.StatusError))
	w.must(w.UpdatePool(t.Context(), lb.Pools[0].ID, p))
	if is := w.lb(lb.ID).Pools[0]; is.ProvisioningStatus != openstacktest.StatusActive {
		t.Errorf("a pool in ERROR is %s after the update", is.ProvisioningStatus)
	}
}

func TestSetMembers_ExistingMembers_AreReplaced(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	w.must(w.cloud.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		m := &lb.Pools[0].Members[0]
		m.Backup, m.Weight, m.MonitorPort, m.MonitorAddress, m.Down, m.SubnetID = true, 50, 1,
			"10.0.0.1", true, w.subnet
	}))
	members := []Member{
		{Name: "renamed", Address: "10.0.0.101", Port: 30080, Weight: 0, MonitorPort: 32000},
		{Name: "node-2", Address: "10.0.0.102", Port: 30080, Weight: 1, SubnetID: w.subnet},
	}
	w.must(w.SetMembers(t.Context(), lb.Pools[0].ID, members))
	is := w.lb(lb.ID).Pools[0].Members
	if len(is) != 2 {
		t.Fatalf("the members are %+v", is)
	}
	if m := is[0]; m.ID != lb.Pools[0].Members[0].ID || m.Name != "renamed" || m.Weight != 0 ||
		m.MonitorPort != 32000 || m.Backup || m.MonitorAddress != "" || m.Down ||
		m.SubnetID != w.subnet {
		t.Errorf("the first is %+v", m)
	}
	if m := is[1]; m.Name != "node-2" || m.Weight != 1 || m.MonitorPort != 0 ||
		m.SubnetID != w.subnet {
		t.Errorf("the second is %+v", m)
	}
	w.must(w.SetMembers(t.Context(), lb.Pools[0].ID, nil))
	if is := w.lb(lb.ID).Pools[0].Members; len(is) != 0 {
		t.Errorf("the members are %+v", is)
	}
}

func TestMembers_OneByOne(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	pool := lb.Pools[0].ID
	id, err := w.CreateMember(t.Context(), pool,
		Member{
			Name: "node-2", Address: "10.0.0.102", Port: 30080, SubnetID: w.subnet,
			Weight: 0, MonitorPort: 32000,
		})
	w.must(err)
	second := w.lb(lb.ID).Pools[0].Members[1]
	if id != second.ID || second.Name != "node-2" || second.SubnetID != w.subnet ||
		second.Weight != 0 || second.MonitorPort != 32000 {
		t.Errorf("the member is %+v", second)
	}
	w.must(w.cloud.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members[1].Backup, lb.Pools[0].Members[1].Down = true, true
	}))
	w.must(w.UpdateMember(t.Context(), pool, second.ID,
		Member{Name: "renamed", Address: "10.0.0.102", Port: 30080, Weight: 1}))
	if m := w.lb(lb.ID).Pools[0].Members[1]; m.Name != "renamed" || m.Weight != 1 ||
		m.MonitorPort != 0 || m.Backup || !m.Down || m.SubnetID != w.subnet {
		t.Errorf("the member is %+v", m)
	}
	w.must(w.DeleteMember(t.Context(), pool, second.ID))
	if is := w.lb(lb.ID).Pools[0].Members; len(is) != 1 || is[0].Name != "node-1" {
		t.Errorf("the members are %+v", is)
	}
}

func TestMonitors_EachChange_ReachesOctavia(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	pool := lb.Pools[0]
	check := func(err error, want *Monitor) {
		t.Helper()
		w.must(err)
		if got := w.written(lb.ID).Pools[0].Monitor; !reflect.DeepEqual(got, want) {
			t.Errorf("the monitor is %+v, want %+v", got, want)
		}
	}
	m := Monitor{
		Name: "renamed", Type: MonitorTCP, Delay: 9, Timeout: 8, MaxRetries: 7, MaxRetriesDown: 6,
	}
	check(w.UpdateMonitor(t.Context(), pool.Monitor.ID, m), &m)
	check(w.DeleteMonitor(t.Context(), pool.Monitor.ID), nil)
	m.Type, m.HTTPMethod, m.URLPath, m.ExpectedCodes = MonitorHTTP, "GET", "/a", "200"
	check(w.CreateMonitor(t.Context(), pool.ID, m), &m)
	m.HTTPMethod, m.URLPath, m.ExpectedCodes = "HEAD", "/b", "204"
	check(w.UpdateMonitor(t.Context(), w.lb(lb.ID).Pools[0].Monitor.ID, m), &m)
}

func TestWrites_OldAPI_OmitUnknownFields(t *testing.T) {
	w := newWorld(t, openstacktest.WithLoadBalancerVersion(0))
	lb := w.full()
	listener, pool := lb.Listeners[0].ID, lb.Pools[0]
	_, created := w.CreateMember(t.Context(), pool.ID,
		Member{Name: "n", Address: "10.0.0.103", Port: 1, Weight: 1})
	for _, err := range []error{
		w.UpdateListener(t.Context(), listener, plainListener(), pool.ID),
		w.UpdatePool(t.Context(), pool.ID, plainPool()),
		w.UpdateMonitor(t.Context(), pool.Monitor.ID, *fullPool().Monitor),
		created,
		w.SetMembers(t.Context(), pool.ID,
			append(fullPool().Members,
				Member{Name: "m", Address: "10.0.0.104", Port: 1, Weight: 1})),
		w.UpdateMember(t.Context(), pool.ID, pool.Members[0].ID, fullPool().Members[0]),
	} {
		w.must(err)
	}
	if got := w.lb(lb.ID).Pools[0].Members; len(got) != 2 {
		t.Errorf("the members are %+v", got)
	}
}

func TestUpdateMember_UnknownVersion_IsAnError(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	w.cloud.Inject(openstacktest.Fault{Operation: "version_list", Status: 503})
	err := w.UpdateMember(t.Context(), lb.Pools[0].ID, lb.Pools[0].Members[0].ID,
		fullPool().Members[0])
	if !errors.Is(err, capability.ErrUnknown) ||
		w.cloud.Counts()["loadbalancer_member_update"] != 0 {
		t.Errorf("%v; the requests are %v", err, w.cloud.Counts())
	}
}

// each calls each method that creates or updates a part of a load balancer.
func (w *world) each(
	ctx context.Context, lb, listener, pool, monitor, member string,
) map[string]error {
	_, createListener := w.CreateListener(ctx, lb,
		Listener{Name: "l", Protocol: TCP, Port: 81, ConnectionLimit: -1}, "")
	_, createPool := w.CreatePool(ctx, lb, "", plainPool())
	m := Member{Name: "n", Address: "10.0.0.101", Port: 30080, Weight: 1}
	other := m
	other.Port++
	_, createMember := w.CreateMember(ctx, pool, other)
	return map[string]error{
		"create listener": createListener, "create pool": createPool,
		"update load balancer": w.UpdateLoadBalancer(ctx, lb, nil),
		"fail over":            w.FailoverLoadBalancer(ctx, lb),
		"update listener":      w.UpdateListener(ctx, listener, plainListener(), ""),
		"update pool":          w.UpdatePool(ctx, pool, plainPool()),
		"create monitor":       w.CreateMonitor(ctx, pool, *fullPool().Monitor),
		"update monitor":       w.UpdateMonitor(ctx, monitor, *fullPool().Monitor),
		"set members":          w.SetMembers(ctx, pool, []Member{m}),
		"create member":        createMember,
		"update member":        w.UpdateMember(ctx, pool, member, m),
	}
}

// deletions calls the deletions of the parts of a load balancer, and of the load balancer itself.
func (w *world) deletions(
	ctx context.Context, lb, listener, pool, monitor, member string,
) map[string]error {
	return map[string]error{
		"delete member":        w.DeleteMember(ctx, pool, member),
		"delete monitor":       w.DeleteMonitor(ctx, monitor),
		"delete pool":          w.DeletePool(ctx, pool),
		"delete listener":      w.DeleteListener(ctx, listener),
		"delete load balancer": w.DeleteLoadBalancer(ctx, lb, true),
	}
}

func TestWrites_AllBodies_OmitTheAdminState(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	_ = w.each(t.Context(), lb.ID, lb.Listeners[0].ID, lb.Pools[0].ID, lb.Pools[0].Monitor.ID,
		lb.Pools[0].Members[0].ID)
	bodies := 0
	for _, call := range w.cloud.Calls() {
		if call.Service != openstacktest.ServiceLoadBalancer || call.Body == "" {
			continue
		}
		bodies++
		if strings.Contains(call.Body, "admin_state_up") {
			t.Errorf("%s sends the admin state: %s", call.Operation, call.Body)
		}
	}
	if bodies != 11 {
		t.Errorf("%d requests had a body, want one for each call", bodies)
	}
}

func TestWrites_BusyLoadBalancer_AreErrBusy(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	w.must(w.cloud.SetProvisioningStatus(lb.ID, openstacktest.StatusPendingUpdate))
	ids := []string{
		lb.ID, lb.Listeners[0].ID, lb.Pools[0].ID, lb.Pools[0].Monitor.ID,
		lb.Pools[0].Members[0].ID,
	}
	for name, err := range w.each(t.Context(), ids[0], ids[1], ids[2], ids[3], ids[4]) {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range w.deletions(t.Context(), ids[0], ids[1], ids[2], ids[3], ids[4]) {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrites_MissingObject_IsErrNotFoundAndDeleted(t *testing.T) {
	w := newWorld(t)
	gone := "00000000-0000-4000-8000-000000000000"
	for name, err := range w.each(t.Context(), gone, gone, gone, gone, gone) {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range w.deletions(t.Context(), gone, gone, gone, gone, gone) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A proxy's 404 proves nothing about the load balancer: a deletion must not count as successful.
func TestWrites_NotFoundByAProxy_IsAnError(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	w.cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: 404,
		Body: "<html>no such backend</html>",
	})
	for name, err := range w.deletions(t.Context(), lb.ID, lb.Listeners[0].ID, lb.Pools[0].ID,
		lb.Pools[0].Monitor.ID, lb.Pools[0].Members[0].ID) {
		if err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrites_WithoutAnID_MakeNoRequest(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	_, err := w.Version(t.Context())
	w.must(err)
	w.cloud.ForgetCalls()
	for name, err := range w.each(t.Context(), "", "", "", "", "") {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	for name, err := range w.deletions(t.Context(), "", "", "", "", "") {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	if calls := w.cloud.Calls(); len(calls) > 0 {
		t.Errorf("the requests are %+v", calls)
	}
	if is := w.lb(lb.ID); len(is.Listeners) != 1 || len(is.Pools) != 1 ||
		len(is.Pools[0].Members) != 1 {
		t.Errorf("the load balancer is %+v", is)
	}
}

func TestWrites_OtherConflicts_AreNotErrBusy(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	_, listener := w.CreateListener(t.Context(), lb.ID, plainListener(), "")
	_, member := w.CreateMember(t.Context(), lb.Pools[0].ID, fullPool().Members[0])
	for name, err := range map[string]error{
		"a second listener on the port": listener,
		"a second monitor": w.CreateMonitor(t.Context(), lb.Pools[0].ID,
			*fullPool().Monitor),
		"a second member": member,
	} {
		if !gophercloud.ResponseCodeIs(err, http.StatusConflict) || errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrites_Forbidden_DiffersFromTheQuota(t *testing.T) {
	w := newWorld(t)
	id := w.bare()
	w.cloud.Inject(openstacktest.Fault{
		Operation: "loadbalancer_failover", Status: 403,
		Message: "Policy does not allow this request to be performed.",
	})
	if err := w.FailoverLoadBalancer(t.Context(), id); !errors.Is(err, ErrForbidden) {
		t.Errorf("the failover: %v", err)
	}
	w.cloud.SetLoadBalancerQuota(openstacktest.QuotaListener, 0)
	_, err := w.CreateListener(t.Context(), id, plainListener(), "")
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) || errors.Is(err, ErrForbidden) ||
		!strings.Contains(err.Error(), "Quota") {
		t.Errorf("the quota: %v", err)
	}
}

func TestDeleteLoadBalancer_WithChildren_NeedsCascade(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	if err := w.DeleteLoadBalancer(t.Context(), lb.ID, false); !gophercloud.ResponseCodeIs(err,
		http.StatusBadRequest) {
		t.Errorf("without cascade: %v", err)
	}
	w.must(w.DeleteLoadBalancer(t.Context(), lb.ID, true))
	if left := w.cloud.LoadBalancers(); len(left) != 0 {
		t.Errorf("the load balancers are %+v", left)
	}
}

func TestDeletions_DeleteOneThing(t *testing.T) {
	w := newWorld(t)
	lb := w.full()
	w.must(w.DeleteListener(t.Context(), lb.Listeners[0].ID))
	if is := w.lb(lb.ID); len(is.Listeners) != 0 || len(is.Pools) != 1 {
		t.Errorf("after the deletion of the listener: %+v", is)
	}
	w.must(w.DeletePool(t.Context(), lb.Pools[0].ID))
	if is := w.lb(lb.ID); len(is.Pools) != 0 {
		t.Errorf("after the deletion of the pool: %+v", is)
	}
	w.must(w.DeleteLoadBalancer(t.Context(), lb.ID, false))
}

func TestCreations_BadAnswers_AreErrors(t *testing.T) {
	for name, answer := range map[string]string{
		"empty": `{}`,
		"null":  `{"loadbalancer": null, "listener": null, "pool": null, "member": null}`,
		"other": `{"server": {"id": "x"}}`,
		"no id": `{"loadbalancer": {"provisioning_status": "ACTIVE"}, "listener": {}, "pool": {}, "member": {}}`, "no JSON": `<html>`, "a list": `[]`,
	} {
		w := newWorld(t)
		lb, pool := w.bare(), w.full().Pools[0].ID
		w.cloud.Inject(openstacktest.Fault{
			Operation: "*_create",
			Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
				return 201, []byte(answer)
			},
		})
		_, balancerErr := w.CreateLoadBalancer(t.Context(),
			LoadBalancer{Name: "b", VIP: VIP{SubnetID: w.subnet}}, nil)
		_, listenerErr := w.CreateListener(t.Context(), lb, plainListener(), "")
		_, poolErr := w.CreatePool(t.Context(), lb, "", plainPool())
		_, memberErr := w.CreateMember(t.Context(), pool,
			Member{Name: "n", Address: "10.0.0.103", Port: 1, Weight: 1})
		for kind, err := range map[string]error{
			"load balancer": balancerErr,
			"listener":      listenerErr, "pool": poolErr, "member": memberErr,
		} {
			if err == nil {
				t.Errorf("%s: no error for the %s", name, kind)
			}
		}
	}
}
