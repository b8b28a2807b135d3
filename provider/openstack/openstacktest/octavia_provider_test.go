package openstacktest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
)

func TestOVN_UnsupportedRequests_AreRefused(t *testing.T) {
	s := start(t, WithFailoverByOwners())
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	const pool = "00000000-0000-4000-8000-0000000000a0"
	id := s.AddLoadBalancer(LoadBalancer{
		VIPSubnetID: subnet, Provider: "ovn",
		Pools: []Pool{{
			OctaviaResource: OctaviaResource{ID: pool}, Protocol: "TCP",
			LBAlgorithm: "SOURCE_IP_PORT",
		}},
	})
	listener := func(rest string) string {
		return `{"listener": {"loadbalancer_id": "` + id + `", "protocol_port": 1, ` + rest + `}}`
	}
	newPool := func(rest string) string {
		return `{"pool": {"loadbalancer_id": "` + id + `", ` + rest + `}}`
	}
	members := "pools/" + pool + "/members"
	for _, c := range []struct{ method, path, body, text string }{
		{"POST", "listeners", listener(`"protocol": "HTTP"`), "OVN provider does not support HTTP protocol"},
		{"POST", "listeners", listener(`"protocol": "TCP", "allowed_cidrs": ["10.0.0.0/8"]`), "OVN provider does not support allowed_cidrs option"},
		{"POST", "pools", newPool(`"protocol": "PROXY", "lb_algorithm": "SOURCE_IP_PORT"`), "OVN provider does not support PROXY protocol"},
		{"POST", "pools", newPool(`"protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"`), "OVN provider does not support ROUND_ROBIN algorithm"},
		{"PUT", "pools/" + pool, `{"pool": {"lb_algorithm": "ROUND_ROBIN"}}`, "OVN provider does not support ROUND_ROBIN algorithm"},
		{
			"PUT", "pools/" + pool, `{"pool": {"session_persistence": {"type": "HTTP_COOKIE"}}}`,
			"OVN provider does not support HTTP_COOKIE session persistence. Only SOURCE_IP type is supported.",
		},
		{
			"POST", "healthmonitors",
			`{"healthmonitor": {"pool_id": "` + pool +
				`", "type": "HTTP", "delay": 5, "timeout": 3, "max_retries": 1}}`,
			"OVN provider does not support HTTP health monitor type. Supported types: UDP-CONNECT, TCP",
		},
		{
			"POST", members,
			`{"member": {"address": "10.0.0.1", "protocol_port": 1, "monitor_port": 2}}`,
			"OVN Load Balancer does not support different member monitor address or port.",
		},
		{
			"POST", members, `{"member": {"address": "2001:db8::1", "protocol_port": 1}}`,
			"OVN provider does not support mixing IPv4/IPv6 configuration within the same Load Balancer.",
		},
		{
			"PUT", members, `{"members": [{"address": "10.9.0.1", "protocol_port": 1}]}`,
			"Subnet is required, or Loadbalancer associated with Pool must have a subnet, for Member creation with OVN Provider Driver if it is not the same as LB VIP subnet",
		},
		{"PUT", "loadbalancers/" + id + "/failover", "", "OVN provider does not support loadbalancer failover"},
	} {
		ask(t, s, c.method, octaviaRoot+c.path, c.body).is(http.StatusNotImplemented,
			`{"faultcode": "Server", "faultstring": "Provider 'ovn' does not support a requested option: `+c.text+`", "debuginfo": null}`)
	}
	s.AddLoadBalancerZone("zone")
	ask(t, s, "POST", octaviaRoot+"loadbalancers",
		`{"loadbalancer": {"vip_subnet_id": "`+subnet+
			`", "provider": "ovn", "availability_zone": "zone"}}`).
		is(http.StatusNotImplemented,
			`{"faultcode": "Server", "faultstring": "Provider 'ovn' does not support a requested action: This provider does not support availability zones.", "debuginfo": null}`)
	if lb := must(s.LoadBalancer(id))(t); len(lb.Listeners) != 0 || len(lb.Pools) != 1 ||
		len(lb.Pools[0].Members) != 0 || lb.ProvisioningStatus != StatusActive {
		t.Errorf("refused requests have changed %+v", lb)
	}
	answer := ask(t, s, "POST", octaviaRoot+members,
		`{"member": {"address": "10.0.0.1", "protocol_port": 1}}`)
	if answer.status != http.StatusCreated {
		t.Errorf("a member in the VIP's subnet: %d %s", answer.status, answer.body)
	}
}

func TestFlavor_DecidesTheProvider(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	flavor := s.AddLoadBalancerFlavor(LoadBalancerFlavor{Provider: "ovn"})
	client := octaviaOf(t, s)
	for _, c := range []struct {
		opts loadbalancers.CreateOpts
		want string
	}{
		{loadbalancers.CreateOpts{}, "amphora"},
		{loadbalancers.CreateOpts{Provider: "octavia"}, "octavia"},
		{loadbalancers.CreateOpts{FlavorID: flavor}, "ovn"},
	} {
		c.opts.VipSubnetID = subnet
		if lb := must(loadbalancers.Create(patiently(t), client, c.opts).Extract())(
			t); lb.Provider != c.want || lb.FlavorID != c.opts.FlavorID {
			t.Errorf("%+v makes %+v, want provider %s", c.opts, lb, c.want)
		}
	}
	_, err := loadbalancers.Create(patiently(t), client,
		loadbalancers.CreateOpts{
			VipSubnetID: subnet, FlavorID: flavor,
			Provider: "amphora",
		}).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		t.Errorf("a flavor of another provider: got %v, want a refusal", err)
	}
}

// If work takes no time, parallel changes do not conflict.
func TestParallelClients_LoseNoChange(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{
		VIPSubnetID: subnet,
		Pools:       []Pool{{Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN"}},
	})
	pool := must(s.LoadBalancer(id))(t).Pools[0].ID
	client, ctx := octaviaOf(t, s), patiently(t)
	const clients, each = 8, 10
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for i := range each {
				opts := pools.CreateMemberOpts{
					Address:      fmt.Sprintf("10.0.0.%d", c+1),
					ProtocolPort: i + 1,
				}
				if _, err := pools.CreateMember(ctx, client, pool, opts).Extract(); err != nil {
					t.Error(err)
				}
				if _, err := loadbalancers.Get(ctx, client, id).Extract(); err != nil {
					t.Error(err)
				}
				_, _ = s.LoadBalancer(id)
			}
		})
	}
	group.Wait()
	if members := must(s.LoadBalancer(id))(t).Pools[0].Members; len(members) != clients*each {
		t.Errorf("%d members, want %d", len(members), clients*each)
	}
}

func TestParallelChanges_OfOneLoadBalancer_OneSucceeds(t *testing.T) {
	c := newSlowCloud(t)
	client, ctx := octaviaOf(t, c.server), patiently(t)
	pool := c.now().Pools[0].ID
	const clients = 8
	errs := make([]error, clients)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			opts := pools.CreateMemberOpts{Address: fmt.Sprintf("10.0.0.%d", i+20), ProtocolPort: 1}
			_, errs[i] = pools.CreateMember(ctx, client, pool, opts).Extract()
		})
	}
	group.Wait()
	won, refused := 0, 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case gophercloud.ResponseCodeIs(err, http.StatusConflict):
			refused++
		}
	}
	if won != 1 || refused != clients-1 {
		t.Errorf("%d succeeded and %d were refused: %v", won, refused, errs)
	}
}
