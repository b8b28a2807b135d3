package openstacktest

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/providers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/quotas"
)

const octaviaRoot = "/load-balancer/v2.0/lbaas/"

// octaviaOf is a client of Octavia for the default project.
func octaviaOf(t *testing.T, s *Cloud) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstack.NewLoadBalancerV2(login(t, s, byPassword(s.Credentials())),
		inRegion(s))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// vipSubnet makes a network with a subnet for VIPs and members.
func vipSubnet(s *Cloud, cidr string) (networkID, subnetID string) {
	networkID = s.AddNetwork(Network{Name: "vips"})
	return networkID, s.AddSubnet(Subnet{NetworkID: networkID, CIDR: cidr})
}

// must ends the test with an error.
func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func pointerTo[V any](v V) *V { return &v }

// wholeLoadBalancer is a request for two listeners with pools, members and monitors.
func wholeLoadBalancer(subnetID string) loadbalancers.CreateOpts {
	pool := func(name string, protocol pools.Protocol, monitor string) *pools.CreateOpts {
		return &pools.CreateOpts{
			Name: name, Protocol: protocol, LBMethod: pools.LBMethodRoundRobin,
			Persistence: &pools.SessionPersistence{Type: "SOURCE_IP"},
			Members: []pools.CreateMemberOpts{
				{Name: "node-1", Address: "10.0.0.101", ProtocolPort: 30080, SubnetID: subnetID},
				{Name: "node-2", Address: "10.0.0.102", ProtocolPort: 30080, SubnetID: subnetID, Weight: pointerTo(0)},
			},
			Monitor: monitors.CreateOpts{
				Name: "monitor", Type: monitor, Delay: 5, Timeout: 3,
				MaxRetries: 1,
			},
		}
	}
	return loadbalancers.CreateOpts{
		Name: "kube_service_c_default_web", Description: "d", VipSubnetID: subnetID,
		Tags: []string{"a", "b"},
		Listeners: []listeners.CreateOpts{
			{
				Name: "listener_0", Protocol: "TCP", ProtocolPort: 80,
				AllowedCIDRs: []string{"10.0.0.0/8"}, Tags: []string{"a"},
				TimeoutClientData: pointerTo(1000), DefaultPool: pool("pool_0", "TCP", "TCP"),
			},
			{Name: "listener_1", Protocol: "UDP", ProtocolPort: 80, DefaultPool: pool("pool_1", "UDP", "UDP-CONNECT")},
		},
	}
}

func TestLoadBalancerCreate_FullyPopulated_MakesAllOfIt(t *testing.T) {
	s := start(t)
	network, subnet := vipSubnet(s, "10.0.0.0/24")
	client := octaviaOf(t, s)

	got := must(loadbalancers.Create(patiently(t), client, wholeLoadBalancer(subnet)).Extract())(t)
	if got.ProvisioningStatus != "ACTIVE" || got.OperatingStatus != "ONLINE" ||
		got.VipSubnetID != subnet || got.VipNetworkID != network ||
		got.VipAddress == "" || got.Provider != "amphora" || !got.AdminStateUp ||
		got.CreatedAt.IsZero() || got.UpdatedAt.IsZero() {
		t.Errorf("the answer is %+v", got)
	}
	if len(got.Listeners) != 2 || len(got.Pools) != 2 || len(got.Pools[0].Members) != 2 ||
		got.Pools[0].Monitor.ID != "" ||
		got.Listeners[0].DefaultPoolID != got.Pools[0].ID ||
		got.Listeners[0].TimeoutClientData != 1000 || got.Listeners[0].TimeoutMemberData != 50000 {
		t.Errorf("what is below it is %+v", got)
	}
	ports := s.Ports()
	vip := slices.IndexFunc(ports, func(p Port) bool { return p.ID == got.VipPortID })
	if vip < 0 || ports[vip].DeviceID != "lb-"+got.ID || ports[vip].DeviceOwner != "Octavia" ||
		ports[vip].FixedIPs[0].Address != got.VipAddress {
		t.Errorf("the VIP's port is not among %+v", ports)
	}

	listed := must(
		listeners.ExtractListeners(
			must(listeners.List(client,
				listeners.ListOpts{LoadbalancerID: got.ID}).AllPages(patiently(t)))(t)))(t)
	if len(listed) != 2 || listed[0].Loadbalancers[0].ID != got.ID ||
		listed[0].AllowedCIDRs[0] != "10.0.0.0/8" || listed[1].AllowedCIDRs != nil {
		t.Errorf("the listeners are %+v", listed)
	}
	members := must(
		pools.ExtractMembers(
			must(pools.ListMembers(client, got.Pools[1].ID,
				pools.ListMembersOpts{}).AllPages(patiently(t)))(t)))(t)
	if len(members) != 2 || members[0].OperatingStatus != "ONLINE" ||
		members[1].OperatingStatus != "DRAINING" || members[1].Weight != 0 {
		t.Errorf("the members are %+v", members)
	}
	pool := must(pools.Get(patiently(t), client, got.Pools[0].ID).Extract())(t)
	if pool.MonitorID == "" || pool.Persistence.Type != "SOURCE_IP" ||
		pool.Listeners[0].ID != got.Listeners[0].ID || len(pool.Members) != 2 {
		t.Errorf("the pool is %+v", pool)
	}
	if monitor := must(monitors.Get(patiently(t), client, pool.MonitorID).Extract())(
		t); monitor.MaxRetriesDown != 3 || monitor.Pools[0].ID != pool.ID {
		t.Errorf("the monitor is %+v", monitor)
	}

	tree := must(loadbalancers.GetStatuses(patiently(t), client, got.ID).Extract())(t)
	if l := tree.Loadbalancer.Listeners; len(l) != 2 ||
		l[0].Pools[0].Members[0].Address != "10.0.0.101" {
		t.Errorf("the status tree is %+v", tree.Loadbalancer)
	}
	if lb := must(s.LoadBalancer("kube_service_c_default_web"))(
		t); lb.Pools[0].Members[1].Weight != 0 || lb.Pools[1].Monitor.Type != "UDP-CONNECT" {
		t.Errorf("the snapshot is %+v", lb)
	}
	want := map[string]int{
		"loadbalancer_create": 1, "loadbalancer_listener_list": 1,
		"loadbalancer_member_list": 1, "loadbalancer_status": 1,
	}
	counts := s.Counts()
	for operation, calls := range want {
		if counts[operation] != calls {
			t.Errorf("%d calls of %s, want %d", counts[operation], operation, calls)
		}
	}
}

func TestLoadBalancerCreate_PoolByName_IsSharedByItsListeners(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	answer := ask(t, s, "POST", octaviaRoot+"loadbalancers", `{"loadbalancer": {"vip_subnet_id": "`+subnet+`",
		"pools": [{"name": "p", "protocol": "TCP", "lb_algorithm": "SOURCE_IP"}],
		"listeners": [{"protocol": "TCP", "protocol_port": 1, "default_pool": {"name": "p"}}, {"protocol": "TCP", "protocol_port": 2, "default_pool": {"name": "p"}},
			{"protocol": "TCP", "protocol_port": 3}]}}`)
	if answer.status != http.StatusCreated {
		t.Fatalf("status %d: %s", answer.status, answer.body)
	}
	lb := s.LoadBalancers()[0]
	if len(lb.Pools) != 1 || lb.Listeners[0].DefaultPoolID != lb.Pools[0].ID ||
		lb.Listeners[1].DefaultPoolID != lb.Pools[0].ID || lb.Listeners[2].DefaultPoolID != "" {
		t.Errorf("got %+v", lb)
	}
}

func TestLoadBalancerCreate_Refused_LeavesNothing(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	wrong := wholeLoadBalancer(subnet)
	wrong.Listeners[0].AllowedCIDRs = []string{"2001:db8::/32"}
	_, err := loadbalancers.Create(patiently(t), octaviaOf(t, s), wrong).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("got %v, want a refusal", err)
	}
	if len(s.LoadBalancers()) != 0 || len(s.Ports()) != 0 {
		t.Errorf("load balancers %v and ports %v are left", s.LoadBalancers(), s.Ports())
	}
}

func TestLoadBalancerDelete_WithChildren_NeedsCascade(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	client := octaviaOf(t, s)
	lb := must(loadbalancers.Create(patiently(t), client, wholeLoadBalancer(subnet)).Extract())(t)

	err := loadbalancers.Delete(patiently(t), client, lb.ID, nil).ExtractErr()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) || len(s.LoadBalancers()) != 1 {
		t.Errorf("got %v, want a refusal", err)
	}
	if err := loadbalancers.Delete(patiently(t), client, lb.ID,
		loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
		t.Error(err)
	}
	if len(s.LoadBalancers()) != 0 || len(s.Ports()) != 0 {
		t.Errorf("load balancers %v and ports %v are left", s.LoadBalancers(), s.Ports())
	}
	_, err = loadbalancers.Get(patiently(t), client, lb.ID).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("got %v, want 404", err)
	}
}

func TestLoadBalancer_UserPort_OutlivesIt(t *testing.T) {
	s := start(t)
	network, subnet := vipSubnet(s, "10.0.0.0/24")
	port := s.AddPort(
		Port{NetworkID: network, FixedIPs: []FixedIP{{SubnetID: subnet, Address: "10.0.0.77"}}})
	client := octaviaOf(t, s)
	lb := must(loadbalancers.Create(patiently(t), client,
		loadbalancers.CreateOpts{VipPortID: port}).Extract())(t)
	if lb.VipAddress != "10.0.0.77" || lb.VipSubnetID != subnet || lb.VipNetworkID != network {
		t.Errorf("got %+v", lb)
	}
	if err := loadbalancers.Delete(patiently(t), client, lb.ID,
		loadbalancers.DeleteOpts{}).ExtractErr(); err != nil {
		t.Error(err)
	}
	if len(s.Ports()) != 1 {
		t.Errorf("the port is gone: %v", s.Ports())
	}
}

func TestLoadBalancer_AdditionalVIPs_AreOfOnePort(t *testing.T) {
	s := start(t)
	network, subnet := vipSubnet(s, "10.0.0.0/24")
	other := s.AddSubnet(Subnet{NetworkID: network, CIDR: "2001:db8::/64"})
	client := octaviaOf(t, s)
	opts := loadbalancers.CreateOpts{
		VipSubnetID:    subnet,
		AdditionalVips: []loadbalancers.AdditionalVip{{SubnetID: other}},
	}
	lb := must(loadbalancers.Create(patiently(t), client, opts).Extract())(t)
	if len(lb.AdditionalVips) != 1 || lb.AdditionalVips[0].IPAddress == "" ||
		len(s.Ports()[0].FixedIPs) != 2 {
		t.Errorf("got %+v", lb)
	}
	// Both families are allowed then.
	_, err := listeners.Create(patiently(t), client, listeners.CreateOpts{
		LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 80,
		AllowedCIDRs: []string{"10.0.0.0/8", "2001:db8::/32"},
	}).Extract()
	if err != nil {
		t.Error(err)
	}
	opts.AdditionalVips[0].SubnetID = subnet
	_, err = loadbalancers.Create(patiently(t), client, opts).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("a subnet twice: got %v, want a refusal", err)
	}
}

func TestLoadBalancer_StepByStep_ChangesAndDeletes(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	client, ctx := octaviaOf(t, s), patiently(t)
	lb := must(loadbalancers.Create(ctx, client,
		loadbalancers.CreateOpts{Name: "lb", VipSubnetID: subnet}).Extract())(t)
	l := must(
		listeners.Create(ctx, client,
			listeners.CreateOpts{
				LoadbalancerID: lb.ID, Protocol: "HTTP",
				ProtocolPort: 80,
			}).Extract())(t)
	p := must(
		pools.Create(ctx, client,
			pools.CreateOpts{
				ListenerID: l.ID, Protocol: "HTTP",
				LBMethod: "ROUND_ROBIN",
			}).Extract())(t)
	m := must(pools.CreateMember(ctx, client, p.ID,
		pools.CreateMemberOpts{Address: "10.0.0.9", ProtocolPort: 1}).Extract())(t)
	if m.OperatingStatus != "NO_MONITOR" || m.Weight != 1 {
		t.Errorf("the member is %+v", m)
	}
	h := must(
		monitors.Create(ctx, client,
			monitors.CreateOpts{
				PoolID: p.ID, Type: "HTTP", Delay: 5, Timeout: 3, MaxRetries: 2,
				HTTPVersion: "1.1", DomainName: "a.b",
			}).Extract())(t)
	if h.URLPath != "/" || h.HTTPMethod != "GET" || h.ExpectedCodes != "200" ||
		h.HTTPVersion != "1.1" {
		t.Errorf("the monitor is %+v", h)
	}

	changedLB := must(loadbalancers.Update(ctx, client, lb.ID,
		loadbalancers.UpdateOpts{Name: pointerTo("new"), Tags: &[]string{"x"}}).Extract())(t)
	changedL := must(
		listeners.Update(ctx, client, l.ID,
			listeners.UpdateOpts{
				ConnLimit:     pointerTo(7),
				InsertHeaders: &map[string]string{"X-Forwarded-For": "true"},
			}).Extract())(t)
	changedP := must(
		pools.Update(ctx, client, p.ID,
			pools.UpdateOpts{
				LBMethod:    "SOURCE_IP",
				Persistence: &pools.SessionPersistence{Type: "HTTP_COOKIE"},
			}).Extract())(t)
	changedM := must(pools.UpdateMember(ctx, client, p.ID, m.ID,
		pools.UpdateMemberOpts{Weight: pointerTo(0), MonitorPort: pointerTo(10256)}).Extract())(t)
	changedH := must(
		monitors.Update(ctx, client, h.ID, monitors.UpdateOpts{URLPath: "/healthz"}).Extract())(t)
	if changedLB.Name != "new" || changedLB.Tags[0] != "x" || changedL.ConnLimit != 7 ||
		changedL.InsertHeaders["X-Forwarded-For"] != "true" ||
		changedL.DefaultPoolID != p.ID || changedP.LBMethod != "SOURCE_IP" ||
		changedP.Persistence.Type != "HTTP_COOKIE" ||
		changedM.Weight != 0 || changedM.MonitorPort != 10256 || changedH.URLPath != "/healthz" ||
		changedH.Delay != 5 {
		t.Errorf("got %+v %+v %+v %+v %+v", changedLB, changedL, changedP, changedM, changedH)
	}
	if p := must(
		pools.Update(ctx, client, p.ID,
			pools.UpdateOpts{Persistence: &pools.SessionPersistence{}}).Extract())(
		t); p.Persistence.Type != "" {
		t.Errorf("the persistence is left: %+v", p)
	}

	if err := monitors.Delete(ctx, client, h.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := pools.DeleteMember(ctx, client, p.ID, m.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := pools.Delete(ctx, client, p.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if got := s.LoadBalancers()[0]; len(got.Pools) != 0 || got.Listeners[0].DefaultPoolID != "" {
		t.Errorf("after the pool's deletion: %+v", got)
	}
	if err := listeners.Delete(ctx, client, l.ID).ExtractErr(); err != nil {
		t.Error(err)
	}
	if err := loadbalancers.Delete(ctx, client, lb.ID, nil).ExtractErr(); err != nil {
		t.Error(err)
	}
}

func TestMembersUpdate_Batch_AddsChangesAndDeletes(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{VIPSubnetID: subnet, Pools: []Pool{{
		Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN",
		Members: []Member{
			{OctaviaResource: OctaviaResource{Name: "a"}, Address: "10.0.0.11", ProtocolPort: 1, Weight: 9, MonitorPort: 5, SubnetID: subnet},
			{OctaviaResource: OctaviaResource{Name: "b"}, Address: "10.0.0.12", ProtocolPort: 1},
		},
	}}})
	client := octaviaOf(t, s)
	before := must(s.LoadBalancer(id))(t).Pools[0]
	update := func(query string, body string) {
		t.Helper()
		if answer := ask(t, s, "PUT", octaviaRoot+"pools/"+before.ID+"/members"+query,
			body); answer.status != http.StatusAccepted || len(answer.body) != 0 {
			t.Errorf("status %d: %s", answer.status, answer.body)
		}
	}

	update("?additive_only=True", `{"members": [{"address": "10.0.0.13", "protocol_port": 1}]}`)
	if members := must(s.LoadBalancer(id))(t).Pools[0].Members; len(members) != 3 ||
		members[0].Weight != 9 {
		t.Errorf("after an additive update: %+v", members)
	}

	err := pools.BatchUpdateMembers(patiently(t), client, before.ID, []pools.BatchUpdateMemberOpts{
		{Address: "10.0.0.11", ProtocolPort: 1}, {Address: "10.0.0.14", ProtocolPort: 1, Name: pointerTo("d"), Weight: pointerTo(0)},
	}).ExtractErr()
	if err != nil {
		t.Fatal(err)
	}
	members := must(s.LoadBalancer(id))(t).Pools[0].Members
	if len(members) != 2 || members[0].ID != before.Members[0].ID || members[0].Name != "a" ||
		members[0].SubnetID != subnet || members[1].Weight != 0 {
		t.Errorf("after an update: %+v", members)
	}
	// As with a creation, what is not given has its default.
	if members[0].Weight != 1 || members[0].MonitorPort != 0 {
		t.Errorf("weight %d and monitor port %d were kept", members[0].Weight,
			members[0].MonitorPort)
	}
	update("", `{"members": []}`)
	if members := must(s.LoadBalancer(id))(t).Pools[0].Members; len(members) != 0 {
		t.Errorf("after an empty update: %+v", members)
	}
}

func TestLists_Filters(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	for _, lb := range []LoadBalancer{
		{OctaviaResource: OctaviaResource{Name: "a", Tags: []string{"x", "y"}}, VIPAddress: "10.0.0.50"},
		{OctaviaResource: OctaviaResource{Name: "b", Tags: []string{"y"}, Down: true}},
		{OctaviaResource: OctaviaResource{Name: "c"}, Description: "d", Provider: ProviderOVN},
	} {
		lb.VIPSubnetID = subnet
		s.AddLoadBalancer(lb)
	}
	all := s.LoadBalancers()
	if err := s.SetProvisioningStatus(all[1].ID, StatusError); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ query, want string }{
		{"", "abc"},
		{"name=a", "a"},
		{"id=" + all[1].ID, "b"},
		{"provisioning_status=ERROR", "b"},
		{"admin_state_up=False", "b"},
		{"vip_address=10.0.0.50", "a"},
		{"vip_port_id=" + all[2].VIPPortID, "c"},
		{"vip_subnet_id=" + subnet, "abc"},
		{"description=d", "c"},
		{"provider=ovn", "c"},
		{"tags=y", "ab"},
		{"tags=x,y", "a"},
		{"tags=x&tags=y", "a"},
		{"tags-any=x,z", "a"},
		{"not-tags=x", "bc"},
		{"not-tags=x,y", "bc"},
		{"not-tags-any=x,y", "c"},
		{"name=a&tags=q", ""},
		{"project_id=" + s.Credentials().ProjectID, "abc"},
		{"sort_key=name&sort_dir=desc", "cba"},
		{"sort=name:desc", "cba"},
		{"limit=2", "ab"},
		{"limit=2&marker=" + all[0].ID, "bc"},
		{"fields=name&fields=id", "abc"},
	} {
		var body struct {
			LoadBalancers []map[string]any `json:"loadbalancers"`
		}
		ask(t, s, "GET", octaviaRoot+"loadbalancers?"+c.query, "").into(&body)
		got := ""
		for _, lb := range body.LoadBalancers {
			got += lb["name"].(string)
		}
		if got != c.want {
			t.Errorf("%q lists %q, want %q", c.query, got, c.want)
		}
	}
	var selected struct {
		LoadBalancers []map[string]any `json:"loadbalancers"`
	}
	ask(t, s, "GET", octaviaRoot+"loadbalancers?fields=name", "").into(&selected)
	if len(selected.LoadBalancers[0]) != 1 {
		t.Errorf("more fields than one: %v", selected.LoadBalancers[0])
	}
}

func TestLists_Pages_AreFollowedToTheEnd(t *testing.T) {
	s := start(t, WithPageSize(2))
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	for range 5 {
		s.AddLoadBalancer(LoadBalancer{
			VIPSubnetID:     subnet,
			OctaviaResource: OctaviaResource{Tags: []string{"mine"}},
		})
	}
	pages := must(loadbalancers.List(octaviaOf(t, s),
		loadbalancers.ListOpts{Tags: []string{"mine"}}).AllPages(patiently(t)))(t)
	if got := must(loadbalancers.ExtractLoadBalancers(pages))(t); len(got) != 5 {
		t.Errorf("%d load balancers, want 5", len(got))
	}
	if calls := s.Counts()["loadbalancer_list"]; calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

func TestProjects_SeeTheirOwn(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{
		VIPSubnetID: subnet,
		Pools:       []Pool{{Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN"}},
	})
	pool := must(s.LoadBalancer(id))(t).Pools[0].ID
	stranger := s.AddProject(Project{Name: "other"}).Token
	administrator := s.AddProject(Project{Name: "operators", Admin: true}).Token

	var seen struct {
		LoadBalancers []any `json:"loadbalancers"`
	}
	send(t, s, "GET", octaviaRoot+"loadbalancers", "", "X-Auth-Token", stranger).into(&seen)
	if len(seen.LoadBalancers) != 0 {
		t.Errorf("another project sees %v", seen.LoadBalancers)
	}
	send(t, s, "GET", octaviaRoot+"loadbalancers", "", "X-Auth-Token", administrator).into(&seen)
	if len(seen.LoadBalancers) != 1 {
		t.Errorf("an administrator sees %v", seen.LoadBalancers)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "loadbalancers/" + id, ""},
		{"DELETE", "loadbalancers/" + id, ""},
		{"GET", "pools/" + pool, ""},
		{"PUT", "pools/" + pool + "/members", `{"members": []}`},
		{"GET", "loadbalancers?project_id=" + s.Credentials().ProjectID, ""},
	} {
		send(t, s, c.method, octaviaRoot+c.path, c.body, "X-Auth-Token",
			stranger).is(http.StatusForbidden,
			`{"faultcode": "Client", "faultstring": "Policy does not allow this request to be performed.", "debuginfo": null}`)
	}
}

func TestCapabilities_AreListed(t *testing.T) {
	s := start(t)
	flavor := s.AddLoadBalancerFlavor(LoadBalancerFlavor{Name: "big"})
	s.AddLoadBalancerZone("zone-1")
	client := octaviaOf(t, s)
	versions := must(
		apiversions.ExtractAPIVersions(must(apiversions.List(client).AllPages(patiently(t)))(t)))(t)
	if last := versions[len(versions)-1]; len(versions) != 28 || last.ID != "v2.27" ||
		last.Status != "CURRENT" {
		t.Errorf("the versions are %+v", versions)
	}
	found := must(
		providers.ExtractProviders(
			must(providers.List(client, providers.ListOpts{}).AllPages(patiently(t)))(t)))(t)
	if len(found) != 3 || found[0].Name != ProviderAmphora || found[2].Name != ProviderOVN {
		t.Errorf("the providers are %+v", found)
	}
	if got := must(flavors.Get(patiently(t), client, flavor).Extract())(t); got.Name != "big" ||
		!got.Enabled {
		t.Errorf("the flavor is %+v", got)
	}
	var zones struct {
		Zones []struct{ Name string } `json:"availability_zones"`
	}
	ask(t, s, "GET", octaviaRoot+"availabilityzones", "").into(&zones)
	if len(zones.Zones) != 1 || zones.Zones[0].Name != "zone-1" {
		t.Errorf("the zones are %+v", zones)
	}
	s.SetLoadBalancerQuota(QuotaMember, 3)
	if quota := must(quotas.Get(patiently(t), client, s.Credentials().ProjectID).Extract())(
		t); quota.Member != 3 || quota.Loadbalancer != -1 {
		t.Errorf("the quota is %+v", quota)
	}
}

func TestVersion_OlderThanAnAttribute_DoesNotKnowIt(t *testing.T) {
	s := start(t, WithLoadBalancerVersion(11))
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{VIPSubnetID: subnet})
	ask(t, s, "POST", octaviaRoot+"listeners",
		`{"listener": {"loadbalancer_id": "`+id+
			`", "protocol": "TCP", "protocol_port": 80, "allowed_cidrs": ["10.0.0.0/8"]}}`).
		is(http.StatusBadRequest,
			`{"faultcode": "Client", "faultstring": "Unknown attribute for argument listener_.listener: allowed_cidrs", "debuginfo": null}`)
	var lb struct {
		LoadBalancer map[string]json.RawMessage `json:"loadbalancer"`
	}
	ask(t, s, "GET", "/load-balancer/v2/lbaas/loadbalancers/"+id, "").into(&lb)
	if _, shown := lb.LoadBalancer["additional_vips"]; shown {
		t.Error("additional_vips are shown, which version 2.26 brought")
	}
}

func TestChangeLoadBalancer_BehindTheAPI(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{
		VIPSubnetID: subnet,
		Pools: []Pool{{
			OctaviaResource: OctaviaResource{ID: "p"}, Protocol: "TCP",
			LBAlgorithm: "ROUND_ROBIN",
		}},
		Listeners: []Listener{{Protocol: "TCP", ProtocolPort: 80, DefaultPoolID: "p"}},
	})
	err := s.ChangeLoadBalancer(id, func(lb *LoadBalancer) {
		lb.Listeners[0].ConnectionLimit = 5
		lb.Tags = []string{"a"}
		lb.Pools[0].Members = append(lb.Pools[0].Members,
			Member{Address: "10.0.0.3", ProtocolPort: 4})
	})
	if err != nil {
		t.Fatal(err)
	}
	lb := must(s.LoadBalancer(id))(t)
	if lb.Listeners[0].ConnectionLimit != 5 || len(lb.Pools[0].Members) != 1 ||
		lb.Pools[0].Members[0].ID == "" ||
		lb.Pools[0].Members[0].ProvisioningStatus != StatusActive {
		t.Errorf("got %+v", lb)
	}
	lb.Pools[0].Members[0].Address, lb.Tags[0] = "changed", "changed"
	if again := must(s.LoadBalancer(id))(t); again.Pools[0].Members[0].Address != "10.0.0.3" ||
		again.Tags[0] != "a" {
		t.Error("a change of a snapshot has changed the cloud")
	}
	if err := s.DeleteLoadBalancer(id); err != nil || len(s.LoadBalancers()) != 0 ||
		len(s.Ports()) != 0 {
		t.Errorf("after the deletion: %v, %v", err, s.Ports())
	}
	if s.DeleteLoadBalancer(id) == nil || s.ChangeLoadBalancer(id, func(*LoadBalancer) {}) == nil ||
		s.SetProvisioningStatus(id, StatusError) == nil {
		t.Error("an unknown load balancer gives no error")
	}
}
