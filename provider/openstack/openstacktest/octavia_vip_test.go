package openstacktest

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
)

func TestVIP_IsPlacedByWhatIsGiven(t *testing.T) {
	s := start(t)
	network, v6 := vipSubnet(s, "2001:db8::/64")
	v4 := s.AddSubnet(Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	alone := s.AddNetwork(Network{Name: "no subnet"})
	_, elsewhere := vipSubnet(s, "10.7.0.0/24")
	port := s.AddPort(
		Port{
			NetworkID: network,
			FixedIPs: []FixedIP{
				{SubnetID: v4, Address: "10.0.0.40"},
				{SubnetID: v6, Address: "2001:db8::40"},
			},
		})
	client := octaviaOf(t, s)
	for _, c := range []struct {
		name            string
		opts            loadbalancers.CreateOpts
		subnet, address string
	}{
		{"the network's subnet of IPv4", loadbalancers.CreateOpts{VipNetworkID: network}, v4, ""},
		{"the network's subnet of the address", loadbalancers.CreateOpts{VipNetworkID: network, VipAddress: "2001:db8::9"}, v6, "2001:db8::9"},
		{"a subnet of the network", loadbalancers.CreateOpts{VipNetworkID: network, VipSubnetID: v6}, v6, ""},
		{"a subnet and an address", loadbalancers.CreateOpts{VipSubnetID: v4, VipAddress: "10.0.0.9"}, v4, "10.0.0.9"},
		{"a port and its address", loadbalancers.CreateOpts{VipPortID: port, VipAddress: "2001:db8::40"}, v6, "2001:db8::40"},
		{"a port and its subnet", loadbalancers.CreateOpts{VipPortID: port, VipSubnetID: v4}, v4, "10.0.0.40"},
		{"a subnet of another network", loadbalancers.CreateOpts{VipNetworkID: network, VipSubnetID: elsewhere}, "", ""},
		{"a network without a subnet", loadbalancers.CreateOpts{VipNetworkID: alone}, "", ""},
		{"a port with two addresses", loadbalancers.CreateOpts{VipPortID: port}, "", ""},
		{"a port without the address", loadbalancers.CreateOpts{VipPortID: port, VipAddress: "10.0.0.41"}, "", ""},
		{"a port without the subnet", loadbalancers.CreateOpts{VipPortID: port, VipSubnetID: elsewhere}, "", ""},
	} {
		lb, err := loadbalancers.Create(patiently(t), client, c.opts).Extract()
		switch {
		case c.subnet == "" && err == nil:
			t.Errorf("%s: allowed: %+v", c.name, lb)
		case c.subnet != "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case err == nil &&
			(lb.VipSubnetID != c.subnet || lb.VipNetworkID != network || lb.VipAddress == "" ||
				c.address != "" && lb.VipAddress != c.address):
			t.Errorf("%s: %+v, want subnet %s and address %s", c.name, lb, c.subnet, c.address)
		}
	}
}

func TestLists_OfWhatIsBelow_AreOfTheParent(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	client := octaviaOf(t, s)
	first := must(loadbalancers.Create(patiently(t), client, wholeLoadBalancer(subnet)).Extract())(
		t)
	must(loadbalancers.Create(patiently(t), client, wholeLoadBalancer(subnet)).Extract())(t)

	found := must(
		pools.ExtractPools(
			must(pools.List(client,
				pools.ListOpts{LoadbalancerID: first.ID}).AllPages(patiently(t)))(t)))(t)
	if len(found) != 2 || found[0].Loadbalancers[0].ID != first.ID {
		t.Errorf("the pools are %+v", found)
	}
	checks := must(
		monitors.ExtractMonitors(
			must(monitors.List(client,
				monitors.ListOpts{PoolID: found[1].ID}).AllPages(patiently(t)))(t)))(t)
	if len(checks) != 1 || checks[0].Type != "UDP-CONNECT" {
		t.Errorf("the monitors are %+v", checks)
	}
	if all := must(
		monitors.ExtractMonitors(
			must(monitors.List(client, monitors.ListOpts{}).AllPages(patiently(t)))(t)))(t); len(
		all) != 4 {
		t.Errorf("%d monitors, want 4", len(all))
	}
	if l := must(listeners.Get(patiently(t), client, first.Listeners[0].ID).Extract())(
		t); l.Loadbalancers[0].ID != first.ID {
		t.Errorf("the listener is %+v", l)
	}
	if m := must(pools.GetMember(patiently(t), client, found[0].ID,
		first.Pools[0].Members[0].ID).Extract())(t); m.Name != "node-1" {
		t.Errorf("the member is %+v", m)
	}
	ask(t, s, "GET", octaviaRoot+"l7policies", "").is(http.StatusOK,
		`{"l7policies": [], "l7policies_links": []}`)
	ask(t, s, "POST", octaviaRoot+"l7policies", `{"l7policy": {}}`).is(http.StatusNotImplemented,
		`{"faultcode": "Server", "faultstring": "L7 policies are not simulated.", "debuginfo": null}`)
	if stats := must(loadbalancers.GetStats(patiently(t), client, first.ID).Extract())(
		t); stats.BytesIn != 0 {
		t.Errorf("the statistics are %+v", stats)
	}
}

func TestUpdate_Null_SetsBackToTheDefault(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{
		VIPSubnetID: subnet,
		Pools: []Pool{{
			OctaviaResource: OctaviaResource{ID: "00000000-0000-4000-8000-0000000000a0"},
			Protocol:        "HTTP", LBAlgorithm: "ROUND_ROBIN",
			SessionPersistence: &SessionPersistence{Type: "SOURCE_IP"},
			Members: []Member{{
				Address: "10.0.0.1", ProtocolPort: 1, Weight: 5,
				MonitorPort: 6, Backup: true,
			}},
			Monitor: &HealthMonitor{
				Type: "HTTP", Delay: 5, Timeout: 3, MaxRetries: 2,
				MaxRetriesDown: 7, URLPath: "/x", ExpectedCodes: "204",
			},
		}},
		Listeners: []Listener{{
			Protocol: "HTTP", ProtocolPort: 80,
			DefaultPoolID: "00000000-0000-4000-8000-0000000000a0", ConnectionLimit: 5,
			TimeoutClientData: 1,
			AllowedCIDRs:      []string{"10.0.0.0/8"},
			InsertHeaders:     map[string]string{"X-Forwarded-For": "true"},
		}},
	})
	lb := must(s.LoadBalancer(id))(t)
	pool := octaviaRoot + "pools/" + lb.Pools[0].ID
	for _, c := range []struct{ path, body string }{
		{octaviaRoot + "listeners/" + lb.Listeners[0].ID, `{"listener": {"connection_limit": null, "timeout_client_data": null, "allowed_cidrs": null, "insert_headers": null,
			"default_pool_id": null, "client_authentication": null, "name": null}}`},
		{pool, `{"pool": {"session_persistence": null}}`},
		{pool + "/members/" + lb.Pools[0].Members[0].ID, `{"member": {"weight": null, "monitor_port": null, "backup": null, "admin_state_up": null}}`},
		{octaviaRoot + "healthmonitors/" + lb.Pools[0].Monitor.ID, `{"healthmonitor": {"url_path": null, "expected_codes": null, "max_retries_down": null}}`},
	} {
		if answer := ask(t, s, "PUT", c.path, c.body); answer.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", c.body, answer.status, answer.body)
		}
	}
	lb = must(s.LoadBalancer(id))(t)
	if l := lb.Listeners[0]; l.ConnectionLimit != -1 || l.TimeoutClientData != 50000 ||
		l.AllowedCIDRs != nil || l.InsertHeaders != nil || l.DefaultPoolID != "" ||
		l.ClientAuthentication != "NONE" {
		t.Errorf("the listener is %+v", l)
	}
	p := lb.Pools[0]
	if m := p.Members[0]; m.Weight != 1 || m.MonitorPort != 0 || m.Backup || !m.Down ||
		m.OperatingStatus != "OFFLINE" {
		t.Errorf("the member is %+v", m)
	}
	if h := p.Monitor; h.URLPath != "/" || h.ExpectedCodes != "200" || h.MaxRetriesDown != 3 ||
		p.SessionPersistence != nil {
		t.Errorf("the pool is %+v", p)
	}
	ask(t, s, "PUT", octaviaRoot+"healthmonitors/"+p.Monitor.ID,
		`{"healthmonitor": {"delay": null}}`).is(http.StatusBadRequest,
		`{"faultcode": "Client", "faultstring": "None is not a valid option for delay", "debuginfo": null}`)
}
