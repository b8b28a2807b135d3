package openstacktest

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
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

// vipSubnet creates a network with a subnet for VIPs and members.
func vipSubnet(s *Cloud, cidr string) (networkID, subnetID string) {
	networkID = s.AddNetwork(Network{Name: "vips"})
	return networkID, s.AddSubnet(Subnet{NetworkID: networkID, CIDR: cidr})
}

// must ends the test if there is an error.
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

func TestLoadBalancer_AdditionalVIPs_ShareOnePort(t *testing.T) {
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
	// CIDRs of both families are allowed then.
	_, err := listeners.Create(patiently(t), client, listeners.CreateOpts{
		LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 80,
		AllowedCIDRs: []string{"10.0.0.0/8", "2001:db8::/32"},
	}).Extract()
	if err != nil {
		t.Error(err)
	}
}

func TestVersions_AreListed(t *testing.T) {
	s := start(t)
	client := octaviaOf(t, s)
	versions := must(
		apiversions.ExtractAPIVersions(must(apiversions.List(client).AllPages(patiently(t)))(t)))(t)
	if last := versions[len(versions)-1]; len(versions) != 28 || last.ID != "v2.27" ||
		last.Status != "CURRENT" {
		t.Errorf("the versions are %+v", versions)
	}
}

func TestVersion_OlderThanAnAttribute_RefusesIt(t *testing.T) {
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
		t.Error("additional_vips are shown, but need version 2.26")
	}
}

func TestChangeLoadBalancer_BypassesTheAPI(t *testing.T) {
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
