package openstacktest

import (
	"net/http"
	"testing"
)

func TestTLSListener_WithACertificateOfBarbican_IsAllowed(t *testing.T) {
	s := start(t)
	_, subnet := vipSubnet(s, "10.0.0.0/24")
	id := s.AddLoadBalancer(LoadBalancer{VIPSubnetID: subnet})
	ref := s.AddContainer(Container{Name: "certificate"})
	sni := s.AddSecret(Secret{Name: "pkcs12"})
	answer := ask(t, s, "POST", octaviaRoot+"listeners", `{"listener": {"loadbalancer_id": "`+id+`", "protocol": "TERMINATED_HTTPS", "protocol_port": 443,
		"default_tls_container_ref": "`+ref+`", "sni_container_refs": ["`+sni+`"]}}`)
	if answer.status != http.StatusCreated {
		t.Fatalf("status %d: %s", answer.status, answer.body)
	}
	if l := must(s.LoadBalancer(id))(t).Listeners[0]; l.DefaultTLSContainerRef != ref ||
		l.SNIContainerRefs[0] != sni {
		t.Errorf("the listener is %+v", l)
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
