package openstacktest

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
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

func TestQuota_IsMet(t *testing.T) {
	for _, c := range []struct{ resource, text string }{
		{QuotaLoadBalancer, "Load Balancer"},
		{QuotaListener, "Listener"},
		{"pool", "Pool"},
		{"member", "Member"},
		{"healthmonitor", "Health Monitor"},
	} {
		s := start(t)
		_, subnet := vipSubnet(s, "10.0.0.0/24")
		s.SetLoadBalancerQuota(c.resource, 0)
		ask(t, s, "POST", octaviaRoot+"loadbalancers", `{"loadbalancer": {"vip_subnet_id": "`+subnet+`", "listeners": [{"protocol": "TCP", "protocol_port": 1, "default_pool":
			{"name": "p", "protocol": "TCP", "lb_algorithm": "SOURCE_IP", "members": [{"address": "10.0.0.1", "protocol_port": 1}],
			"healthmonitor": {"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 1}}}]}}`).
			is(http.StatusForbidden,
				`{"faultcode": "Client", "faultstring": "Quota has been met for resources: `+c.text+
					`", "debuginfo": null}`)
		s.SetLoadBalancerQuota(c.resource, -1)
	}
}

func TestQuota_OfMembers_CountsDeletionsOfABatch(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(
		LoadBalancer{
			VIPSubnetID: subnet,
			Pools: []Pool{{
				Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN",
				Members: []Member{{Address: "10.0.0.1", ProtocolPort: 1}},
			}},
		})
	s.SetLoadBalancerQuota("member", 1)
	path := octaviaRoot + "pools/" + must(s.LoadBalancer(id))(t).Pools[0].ID + "/members"
	body := `{"members": [{"address": "10.0.0.2", "protocol_port": 1}]}`
	if answer := ask(t, s, "PUT", path+"?additive_only=true",
		body); answer.status != http.StatusForbidden {
		t.Errorf("an addition: status %d", answer.status)
	}
	if answer := ask(t, s, "PUT", path, body); answer.status != http.StatusAccepted {
		t.Errorf("an exchange: status %d: %s", answer.status, answer.body)
	}
}
