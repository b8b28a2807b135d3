package octavia

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/capability"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// desk writes load balancers.
type desk struct {
	*API
	cloud  *openstacktest.Cloud
	t      *testing.T
	subnet string
}

func newDesk(t *testing.T, options ...openstacktest.Option) *desk {
	t.Helper()
	cloud := openstacktest.NewCloud(append(options, openstacktest.WithFailoverByOwners())...)
	t.Cleanup(cloud.Close)
	clients := simclient.Login(t, cloud.Credentials(), nil)
	d := &desk{cloud: cloud, t: t}
	d.API = New(Config{
		Client: clients.LoadBalancer, Project: clients.Project,
		Clock: clock.RealClock{}, Logger: testr.New(t),
	})
	t.Cleanup(d.API.Close)
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	d.subnet = cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
	return d
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// bare creates a load balancer without ports.
func (d *desk) bare() string {
	d.t.Helper()
	made, err := d.CreateLoadBalancer(d.t.Context(),
		LoadBalancer{Name: "lb", VIP: VIP{SubnetID: d.subnet}}, nil)
	d.must(err)
	return made.ID
}

// full creates a load balancer with one port.
func (d *desk) full() openstacktest.LoadBalancer {
	d.t.Helper()
	made, err := d.CreateLoadBalancer(d.t.Context(),
		LoadBalancer{Name: "lb", VIP: VIP{SubnetID: d.subnet}}, []Port{
			{Listener: plainListener(), Pool: fullPool()},
		})
	d.must(err)
	return d.lb(made.ID)
}

func (d *desk) lb(id string) openstacktest.LoadBalancer {
	d.t.Helper()
	lb, err := d.cloud.LoadBalancer(id)
	d.must(err)
	return lb
}

// body returns the body of the last request.
func (d *desk) body() string {
	calls := d.cloud.Calls()
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
	d := newDesk(t)
	d.cloud.AddLoadBalancerZone("zone-1")
	flavor := d.cloud.AddLoadBalancerFlavor(openstacktest.LoadBalancerFlavor{Name: "big"})
	tls := d.cloud.AddContainer(openstacktest.Container{})
	six := d.cloud.AddSubnet(
		openstacktest.Subnet{NetworkID: d.cloud.Networks()[0].ID, CIDR: "fd00::/64"})
	d.cloud.ForgetCalls()
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
					{Name: "node-1", Address: "10.0.0.101", Port: 30443, SubnetID: d.subnet, Weight: 1, MonitorPort: 32000},
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
	made, err := d.CreateLoadBalancer(t.Context(), LoadBalancer{
		Name: "lb", Description: "d", Tags: []string{"a", "b"}, Provider: "amphora",
		FlavorID: flavor, AvailabilityZone: "zone-1",
		VIP:            VIP{SubnetID: d.subnet, Address: "10.0.3.4"},
		AdditionalVIPs: []VIP{{SubnetID: six, Address: "fd00::9"}},
	}, ports)
	d.must(err)
	if counts := d.cloud.Counts(); !maps.Equal(counts, map[string]int{"loadbalancer_create": 1}) {
		t.Errorf("the requests are %v", counts)
	}
	lb := d.lb("lb")
	if made.ID != lb.ID || made.Name != "lb" || made.VIP.PortID != lb.VIPPortID ||
		made.VIP.Address != "10.0.3.4" ||
		made.VIP.SubnetID != d.subnet || made.Provider != "amphora" || made.Status == "" ||
		made.CreatedAt.IsZero() {
		t.Errorf("the result is %+v", made)
	}
	if lb.Description != "d" || !slices.Equal(lb.Tags, []string{"a", "b"}) ||
		lb.FlavorID != flavor || lb.AvailabilityZone != "zone-1" ||
		len(lb.AdditionalVIPs) != 1 ||
		lb.AdditionalVIPs[0] != (openstacktest.AdditionalVIP{SubnetID: six, Address: "fd00::9"}) {
		t.Errorf("the load balancer is %+v", lb)
	}
	l := lb.Listeners[0]
	if l.Name != "listener_0" || l.Protocol != "TERMINATED_HTTPS" || l.ProtocolPort != 443 ||
		l.ConnectionLimit != 7 ||
		l.DefaultTLSContainerRef != tls || !slices.Equal(l.Tags, []string{"a"}) ||
		!slices.Equal(l.AllowedCIDRs, []string{"10.0.0.0/8", "fd00::/8"}) ||
		l.InsertHeaders["X-Forwarded-For"] != "true" || l.TimeoutClientData != 1 ||
		l.TimeoutMemberConnect != 2 || l.TimeoutMemberData != 3 ||
		l.TimeoutTCPInspect != 4 || l.DefaultPoolID != lb.Pools[0].ID {
		t.Errorf("the listener is %+v", l)
	}
	p := lb.Pools[0]
	if p.Name != "pool_0" || p.Protocol != "HTTP" || p.LBAlgorithm != "LEAST_CONNECTIONS" ||
		p.SessionPersistence.Type != "SOURCE_IP" || len(p.Members) != 2 {
		t.Errorf("the pool is %+v", p)
	}
	if m := p.Members[0]; m.Name != "node-1" || m.Address != "10.0.0.101" ||
		m.ProtocolPort != 30443 || m.SubnetID != d.subnet || m.Weight != 1 ||
		m.MonitorPort != 32000 {
		t.Errorf("the first member is %+v", m)
	}
	if m := p.Members[1]; m.SubnetID != "" || m.Weight != 0 || m.MonitorPort != 0 {
		t.Errorf("the second member is %+v", m)
	}
	if m := p.Monitor; m.Name != "monitor_0" || m.Type != "HTTP" || m.Delay != 6 ||
		m.Timeout != 4 || m.MaxRetries != 2 || m.MaxRetriesDown != 5 ||
		m.HTTPMethod != "GET" || m.URLPath != "/healthz" || m.ExpectedCodes != "200" {
		t.Errorf("the monitor is %+v", m)
	}
	// The response does not contain the monitor.
	want := map[string]string{
		"listener_0": l.ID, "pool_0": p.ID, "listener_1": lb.Listeners[1].ID,
		"pool_1":                  lb.Pools[1].ID,
		"pool_0 10.0.0.101 30443": p.Members[0].ID, "pool_0 10.0.0.102 30443": p.Members[1].ID,
	}
	if !maps.Equal(made.Made, want) {
		t.Errorf("the IDs are %v, want %v", made.Made, want)
	}
	if lb.Listeners[1].DefaultPoolID != lb.Pools[1].ID || lb.Pools[1].Monitor != nil ||
		lb.Pools[1].SessionPersistence != nil {
		t.Errorf("the second port is %+v and %+v", lb.Listeners[1], lb.Pools[1])
	}
}

func TestUpdateLoadBalancer_ReplacesTheTags(t *testing.T) {
	d := newDesk(t)
	id := d.bare()
	for _, tags := range [][]string{{"a", "b"}, {"c"}, {}, nil} {
		d.must(d.UpdateLoadBalancer(t.Context(), id, tags))
		if lb := d.lb(id); !slices.Equal(lb.Tags, tags) || lb.Name != "lb" {
			t.Errorf("with tags %v it is %+v", tags, lb)
		}
	}
}

func TestUpdateListener_SomeFields_KeepsTheOthers(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	second, err := d.CreatePool(t.Context(), lb.ID, "",
		Pool{
			Name: "pool_1", Protocol: TCP, Algorithm: "SOURCE_IP",
			Tags: []string{"p"},
		})
	d.must(err)
	id := lb.Listeners[0].ID
	d.must(d.UpdateListener(t.Context(), id, Listener{
		Name: "renamed", Tags: []string{"a"}, Protocol: TCP, Port: 80, ConnectionLimit: 9,
		Timeouts: &Timeouts{
			ClientData: 1, MemberConnect: 2, MemberData: 3,
			TCPInspect: 0,
		},
		AllowedCIDRs: []string{"10.0.0.0/8"},
	}, second))
	check := func(l openstacktest.Listener, limit int) {
		t.Helper()
		if l.Name != "renamed" || !slices.Equal(l.Tags, []string{"a"}) ||
			l.ConnectionLimit != limit || l.DefaultPoolID != second || l.TimeoutClientData != 1 ||
			l.TimeoutMemberConnect != 2 || l.TimeoutMemberData != 3 || l.TimeoutTCPInspect != 0 ||
			!slices.Equal(l.AllowedCIDRs, []string{"10.0.0.0/8"}) {
			t.Errorf("the listener is %+v", l)
		}
	}
	check(d.lb(lb.ID).Listeners[0], 9)
	d.must(d.UpdateListener(t.Context(), id,
		Listener{Protocol: TCP, Port: 80, ConnectionLimit: -1}, ""))
	check(d.lb(lb.ID).Listeners[0], -1)
	if body := d.body(); body != `{"listener":{"connection_limit":-1}}` {
		t.Errorf("omitted fields are sent: %s", body)
	}

	d.must(d.UpdateListener(t.Context(), id,
		Listener{ConnectionLimit: -1, Tags: []string{}, AllowedCIDRs: []string{}}, ""))
	if l := d.lb(lb.ID).Listeners[0]; len(l.Tags)+len(l.AllowedCIDRs) != 0 {
		t.Errorf("cleared fields are left: %+v", l)
	}
}

func TestUpdateListener_HTTP_RemovesHeaders(t *testing.T) {
	d := newDesk(t)
	lb := d.bare()
	l := Listener{
		Name: "l", Protocol: HTTP, Port: 80, ConnectionLimit: -1,
		InsertHeaders: map[string]string{"X-Forwarded-For": "true"},
	}
	id, err := d.CreateListener(t.Context(), lb, l, "")
	d.must(err)
	l.InsertHeaders = map[string]string{"X-Forwarded-Port": "true"}
	d.must(d.UpdateListener(t.Context(), id, l, ""))
	if got := d.lb(lb).Listeners[0].InsertHeaders; !maps.Equal(got, l.InsertHeaders) {
		t.Errorf("the headers are %v", got)
	}
	l.InsertHeaders = nil
	d.must(d.UpdateListener(t.Context(), id, l, ""))
	if got := d.lb(lb).Listeners[0].InsertHeaders; len(got) != 0 {
		t.Errorf("the headers are %v", got)
	}
}

func TestCreateListenerAndPool_OneByOne(t *testing.T) {
	d := newDesk(t)
	lb := d.bare()
	pool, err := d.CreatePool(t.Context(), lb, "", fullPool())
	d.must(err)
	if body := d.body(); strings.Contains(body, "members") ||
		strings.Contains(body, "healthmonitor") {
		t.Errorf("Octavia does not accept the parts of a pool with it: %s", body)
	}
	listener, err := d.CreateListener(t.Context(), lb, plainListener(), pool)
	d.must(err)
	udp, err := d.CreateListener(t.Context(), lb,
		Listener{
			Name: "listener_1", Protocol: UDP, Port: 80,
			ConnectionLimit: -1,
		}, "")
	d.must(err)
	its, err := d.CreatePool(t.Context(), lb, udp,
		Pool{
			Name: "pool_1", Protocol: UDP, Algorithm: "SOURCE_IP",
			Persistence: "SOURCE_IP", Tags: []string{"a"},
		})
	d.must(err)
	is := d.lb(lb)
	if is.Listeners[0].ID != listener || is.Listeners[0].DefaultPoolID != pool ||
		is.Listeners[1].ID != udp || is.Listeners[1].DefaultPoolID != its {
		t.Errorf("the listeners are %+v", is.Listeners)
	}
	if p := is.Pools[1]; p.ID != its || p.SessionPersistence.Type != "SOURCE_IP" ||
		!slices.Equal(p.Tags, []string{"a"}) {
		t.Errorf("the second pool is %+v", p)
	}
	if _, err := d.CreatePool(t.Context(), lb, udp, plainPool()); err == nil ||
		errors.Is(err, ErrBusy) {
		t.Errorf("a second default pool: %v", err)
	}
}

func TestUpdatePool_AlgorithmAndPersistence_AreSetAndRemoved(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	p := plainPool()
	p.Algorithm, p.Persistence, p.Tags = "SOURCE_IP", "SOURCE_IP", []string{"a"}
	d.must(d.UpdatePool(t.Context(), lb.Pools[0].ID, p))
	if is := d.lb(lb.ID).Pools[0]; is.LBAlgorithm != "SOURCE_IP" || is.SessionPersistence == nil ||
		is.SessionPersistence.Type != "SOURCE_IP" || len(is.Tags) != 1 || is.Name != p.Name {
		t.Errorf("the pool is %+v", is)
	}
	p.Persistence, p.Tags = "", nil
	d.must(d.UpdatePool(t.Context(), lb.Pools[0].ID, p))
	if is := d.lb(lb.ID).Pools[0]; is.SessionPersistence != nil || len(is.Tags) != 1 ||
		len(is.Members) != 1 || is.Monitor == nil {
		t.Errorf("the pool is %+v", is)
	}
	d.must(d.cloud.SetProvisioningStatus(lb.Pools[0].ID, openstacktest.StatusError))
	d.must(d.UpdatePool(t.Context(), lb.Pools[0].ID, p))
	if is := d.lb(lb.ID).Pools[0]; is.ProvisioningStatus != openstacktest.StatusActive {
		t.Errorf("a pool in ERROR is %s after the update", is.ProvisioningStatus)
	}
}

func TestSetMembers_ExistingMembers_AreReplaced(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	d.must(d.cloud.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		m := &lb.Pools[0].Members[0]
		m.Backup, m.Weight, m.MonitorPort, m.MonitorAddress, m.Down, m.SubnetID = true, 50, 1,
			"10.0.0.1", true, d.subnet
	}))
	members := []Member{
		{Name: "renamed", Address: "10.0.0.101", Port: 30080, Weight: 0, MonitorPort: 32000},
		{Name: "node-2", Address: "10.0.0.102", Port: 30080, Weight: 1, SubnetID: d.subnet},
	}
	d.must(d.SetMembers(t.Context(), lb.Pools[0].ID, members))
	is := d.lb(lb.ID).Pools[0].Members
	if len(is) != 2 {
		t.Fatalf("the members are %+v", is)
	}
	if m := is[0]; m.ID != lb.Pools[0].Members[0].ID || m.Name != "renamed" || m.Weight != 0 ||
		m.MonitorPort != 32000 || m.Backup || m.MonitorAddress != "" || m.Down ||
		m.SubnetID != d.subnet {
		t.Errorf("the first is %+v", m)
	}
	if m := is[1]; m.Name != "node-2" || m.Weight != 1 || m.MonitorPort != 0 ||
		m.SubnetID != d.subnet {
		t.Errorf("the second is %+v", m)
	}
	d.must(d.SetMembers(t.Context(), lb.Pools[0].ID, nil))
	if is := d.lb(lb.ID).Pools[0].Members; len(is) != 0 {
		t.Errorf("the members are %+v", is)
	}
}

func TestMembers_OneByOne(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	pool := lb.Pools[0].ID
	id, err := d.CreateMember(t.Context(), pool,
		Member{
			Name: "node-2", Address: "10.0.0.102", Port: 30080, SubnetID: d.subnet,
			Weight: 0, MonitorPort: 32000,
		})
	d.must(err)
	second := d.lb(lb.ID).Pools[0].Members[1]
	if id != second.ID || second.Name != "node-2" || second.SubnetID != d.subnet ||
		second.Weight != 0 || second.MonitorPort != 32000 {
		t.Errorf("the member is %+v", second)
	}
	d.must(d.cloud.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members[1].Backup, lb.Pools[0].Members[1].Down = true, true
	}))
	d.must(d.UpdateMember(t.Context(), pool, second.ID,
		Member{Name: "renamed", Address: "10.0.0.102", Port: 30080, Weight: 1}))
	if m := d.lb(lb.ID).Pools[0].Members[1]; m.Name != "renamed" || m.Weight != 1 ||
		m.MonitorPort != 0 || m.Backup || !m.Down || m.SubnetID != d.subnet {
		t.Errorf("the member is %+v", m)
	}
	d.must(d.DeleteMember(t.Context(), pool, second.ID))
	if is := d.lb(lb.ID).Pools[0].Members; len(is) != 1 || is[0].Name != "node-1" {
		t.Errorf("the members are %+v", is)
	}
}

func TestMonitors_EachChange_ReachesOctavia(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	pool := lb.Pools[0]
	d.must(
		d.UpdateMonitor(t.Context(), pool.Monitor.ID,
			Monitor{
				Name: "renamed", Type: MonitorTCP, Delay: 9, Timeout: 8,
				MaxRetries: 7, MaxRetriesDown: 6,
			}))
	if m := d.lb(lb.ID).Pools[0].Monitor; m.Name != "renamed" || m.Delay != 9 || m.Timeout != 8 ||
		m.MaxRetries != 7 || m.MaxRetriesDown != 6 {
		t.Errorf("the monitor is %+v", m)
	}
	d.must(d.DeleteMonitor(t.Context(), pool.Monitor.ID))
	if m := d.lb(lb.ID).Pools[0].Monitor; m != nil {
		t.Errorf("the monitor is %+v", m)
	}
	d.must(d.CreateMonitor(t.Context(), pool.ID, Monitor{
		Name: "m", Type: MonitorHTTP, Delay: 5, Timeout: 3, MaxRetries: 1,
		MaxRetriesDown: 3, HTTPMethod: "GET", URLPath: "/a", ExpectedCodes: "200",
	}))
	d.must(d.UpdateMonitor(t.Context(), d.lb(lb.ID).Pools[0].Monitor.ID, Monitor{
		Name: "m", Type: MonitorHTTP, Delay: 5, Timeout: 3, MaxRetries: 1,
		MaxRetriesDown: 3, HTTPMethod: "HEAD", URLPath: "/b", ExpectedCodes: "204",
	}))
	if m := d.lb(lb.ID).Pools[0].Monitor; m.HTTPMethod != "HEAD" || m.URLPath != "/b" ||
		m.ExpectedCodes != "204" {
		t.Errorf("the monitor is %+v", m)
	}
}

func TestWrites_OldAPI_OmitUnknownFields(t *testing.T) {
	d := newDesk(t, openstacktest.WithLoadBalancerVersion(0))
	lb := d.full()
	listener, pool := lb.Listeners[0].ID, lb.Pools[0]
	_, created := d.CreateMember(t.Context(), pool.ID,
		Member{Name: "n", Address: "10.0.0.103", Port: 1, Weight: 1})
	for _, err := range []error{
		d.UpdateListener(t.Context(), listener, plainListener(), pool.ID),
		d.UpdatePool(t.Context(), pool.ID, plainPool()),
		d.UpdateMonitor(t.Context(), pool.Monitor.ID, *fullPool().Monitor),
		created,
		d.SetMembers(t.Context(), pool.ID,
			append(fullPool().Members,
				Member{Name: "m", Address: "10.0.0.104", Port: 1, Weight: 1})),
		d.UpdateMember(t.Context(), pool.ID, pool.Members[0].ID, fullPool().Members[0]),
	} {
		d.must(err)
	}
	if got := d.lb(lb.ID).Pools[0].Members; len(got) != 2 {
		t.Errorf("the members are %+v", got)
	}
}

func TestUpdateMember_UnknownVersion_IsAnError(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	d.cloud.Inject(openstacktest.Fault{Operation: "version_list", Status: 503})
	err := d.UpdateMember(t.Context(), lb.Pools[0].ID, lb.Pools[0].Members[0].ID,
		fullPool().Members[0])
	if !errors.Is(err, capability.ErrUnknown) ||
		d.cloud.Counts()["loadbalancer_member_update"] != 0 {
		t.Errorf("%v; the requests are %v", err, d.cloud.Counts())
	}
}

// each calls all changes of the parts of a load balancer.
func (d *desk) each(
	ctx context.Context, lb, listener, pool, monitor, member string,
) map[string]error {
	_, createListener := d.CreateListener(ctx, lb,
		Listener{Name: "l", Protocol: TCP, Port: 81, ConnectionLimit: -1}, "")
	_, createPool := d.CreatePool(ctx, lb, "", plainPool())
	m := Member{Name: "n", Address: "10.0.0.101", Port: 30080, Weight: 1}
	other := m
	other.Port++
	_, createMember := d.CreateMember(ctx, pool, other)
	return map[string]error{
		"create listener": createListener, "create pool": createPool,
		"update load balancer": d.UpdateLoadBalancer(ctx, lb, nil),
		"fail over":            d.FailoverLoadBalancer(ctx, lb),
		"update listener":      d.UpdateListener(ctx, listener, plainListener(), ""),
		"update pool":          d.UpdatePool(ctx, pool, plainPool()),
		"create monitor":       d.CreateMonitor(ctx, pool, *fullPool().Monitor),
		"update monitor":       d.UpdateMonitor(ctx, monitor, *fullPool().Monitor),
		"set members":          d.SetMembers(ctx, pool, []Member{m}),
		"create member":        createMember,
		"update member":        d.UpdateMember(ctx, pool, member, m),
	}
}

// deletions calls the deletions of the parts of a load balancer, and of the load balancer itself.
func (d *desk) deletions(
	ctx context.Context, lb, listener, pool, monitor, member string,
) map[string]error {
	return map[string]error{
		"delete member":        d.DeleteMember(ctx, pool, member),
		"delete monitor":       d.DeleteMonitor(ctx, monitor),
		"delete pool":          d.DeletePool(ctx, pool),
		"delete listener":      d.DeleteListener(ctx, listener),
		"delete load balancer": d.DeleteLoadBalancer(ctx, lb, true),
	}
}

func TestWrites_AllBodies_OmitTheAdminState(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	_ = d.each(t.Context(), lb.ID, lb.Listeners[0].ID, lb.Pools[0].ID, lb.Pools[0].Monitor.ID,
		lb.Pools[0].Members[0].ID)
	bodies := 0
	for _, call := range d.cloud.Calls() {
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
	d := newDesk(t)
	lb := d.full()
	d.must(d.cloud.SetProvisioningStatus(lb.ID, openstacktest.StatusPendingUpdate))
	ids := []string{
		lb.ID, lb.Listeners[0].ID, lb.Pools[0].ID, lb.Pools[0].Monitor.ID,
		lb.Pools[0].Members[0].ID,
	}
	for name, err := range d.each(t.Context(), ids[0], ids[1], ids[2], ids[3], ids[4]) {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range d.deletions(t.Context(), ids[0], ids[1], ids[2], ids[3], ids[4]) {
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrites_MissingObject_IsErrNotFoundAndDeleted(t *testing.T) {
	d := newDesk(t)
	gone := "00000000-0000-4000-8000-000000000000"
	for name, err := range d.each(t.Context(), gone, gone, gone, gone, gone) {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range d.deletions(t.Context(), gone, gone, gone, gone, gone) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A proxy's 404 proves nothing about the load balancer: a deletion must not count as successful.
func TestWrites_NotFoundByAProxy_IsAnError(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	d.cloud.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: 404,
		Body: "<html>no such backend</html>",
	})
	for name, err := range d.deletions(t.Context(), lb.ID, lb.Listeners[0].ID, lb.Pools[0].ID,
		lb.Pools[0].Monitor.ID, lb.Pools[0].Members[0].ID) {
		if err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrites_WithoutAnID_MakeNoRequest(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	_, err := d.Version(t.Context())
	d.must(err)
	d.cloud.ForgetCalls()
	for name, err := range d.each(t.Context(), "", "", "", "", "") {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	for name, err := range d.deletions(t.Context(), "", "", "", "", "") {
		if err == nil {
			t.Errorf("%s is no error", name)
		}
	}
	if calls := d.cloud.Calls(); len(calls) > 0 {
		t.Errorf("the requests are %+v", calls)
	}
	if is := d.lb(lb.ID); len(is.Listeners) != 1 || len(is.Pools) != 1 ||
		len(is.Pools[0].Members) != 1 {
		t.Errorf("the load balancer is %+v", is)
	}
}

func TestWrites_OtherConflicts_AreNotErrBusy(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	_, listener := d.CreateListener(t.Context(), lb.ID, plainListener(), "")
	_, member := d.CreateMember(t.Context(), lb.Pools[0].ID, fullPool().Members[0])
	for name, err := range map[string]error{
		"a second listener on the port": listener,
		"a second monitor": d.CreateMonitor(t.Context(), lb.Pools[0].ID,
			*fullPool().Monitor),
		"a second member": member,
	} {
		if !gophercloud.ResponseCodeIs(err, http.StatusConflict) || errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrites_Forbidden_DiffersFromTheQuota(t *testing.T) {
	d := newDesk(t)
	id := d.bare()
	d.cloud.Inject(openstacktest.Fault{
		Operation: "loadbalancer_failover", Status: 403,
		Message: "Policy does not allow this request to be performed.",
	})
	if err := d.FailoverLoadBalancer(t.Context(), id); !errors.Is(err, ErrForbidden) {
		t.Errorf("the failover: %v", err)
	}
	d.cloud.SetLoadBalancerQuota(openstacktest.QuotaListener, 0)
	_, err := d.CreateListener(t.Context(), id, plainListener(), "")
	if !gophercloud.ResponseCodeIs(err, http.StatusForbidden) || errors.Is(err, ErrForbidden) ||
		!strings.Contains(err.Error(), "Quota") {
		t.Errorf("the quota: %v", err)
	}
}

func TestDeleteLoadBalancer_WithChildren_NeedsCascade(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	if err := d.DeleteLoadBalancer(t.Context(), lb.ID, false); !gophercloud.ResponseCodeIs(err,
		http.StatusBadRequest) {
		t.Errorf("without cascade: %v", err)
	}
	d.must(d.DeleteLoadBalancer(t.Context(), lb.ID, true))
	if left := d.cloud.LoadBalancers(); len(left) != 0 {
		t.Errorf("the load balancers are %+v", left)
	}
}

func TestDeletions_DeleteOneThing(t *testing.T) {
	d := newDesk(t)
	lb := d.full()
	d.must(d.DeleteListener(t.Context(), lb.Listeners[0].ID))
	if is := d.lb(lb.ID); len(is.Listeners) != 0 || len(is.Pools) != 1 {
		t.Errorf("after the deletion of the listener: %+v", is)
	}
	d.must(d.DeletePool(t.Context(), lb.Pools[0].ID))
	if is := d.lb(lb.ID); len(is.Pools) != 0 {
		t.Errorf("after the deletion of the pool: %+v", is)
	}
	d.must(d.DeleteLoadBalancer(t.Context(), lb.ID, false))
}

func TestCreations_BadAnswers_AreErrors(t *testing.T) {
	for name, answer := range map[string]string{
		"empty": `{}`,
		"null":  `{"loadbalancer": null, "listener": null, "pool": null, "member": null}`,
		"other": `{"server": {"id": "x"}}`,
		"no id": `{"loadbalancer": {"provisioning_status": "ACTIVE"}, "listener": {}, "pool": {}, "member": {}}`, "no JSON": `<html>`, "a list": `[]`,
	} {
		d := newDesk(t)
		lb, pool := d.bare(), d.full().Pools[0].ID
		d.cloud.Inject(openstacktest.Fault{
			Operation: "*_create",
			Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
				return 201, []byte(answer)
			},
		})
		_, balancerErr := d.CreateLoadBalancer(t.Context(),
			LoadBalancer{Name: "b", VIP: VIP{SubnetID: d.subnet}}, nil)
		_, listenerErr := d.CreateListener(t.Context(), lb, plainListener(), "")
		_, poolErr := d.CreatePool(t.Context(), lb, "", plainPool())
		_, memberErr := d.CreateMember(t.Context(), pool,
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
