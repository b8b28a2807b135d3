package loadbalancer

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestSettings_Invalid_ErrorNamesTheProblem(t *testing.T) {
	for _, c := range []struct {
		name, value string
		change      func(*v1.Service)
		want        string
	}{
		{annotationClass, "union", nil, annotationClass + " must be one of dedicated, performance"},
		{annotationAlgorithm, "random", nil, "must be one of ROUND_ROBIN, LEAST_CONNECTIONS"},
		{annotationKeepEIP, "yes", nil, "must be one of false, true"},
		{prefix + "idle-timeout", "5", nil, "annotation " + prefix + "idle-timeout is not supported"},
		{annotationNewEIP, "{", nil, annotationNewEIP + ": unexpected EOF"},
		{annotationNewEIP, `{"size": 5}`, nil, `unknown field "size"`},
		{annotationNewEIP, `{}`, nil, "bandwidth_size must be at least 1"},
		{annotationNewEIP, `{"share_type": "ALL"}`, nil, "share_type must be PER or WHOLE"},
		{annotationNewEIP, `{"share_type": "WHOLE"}`, nil, "needs share_id"},
		{annotationNewEIP, `{"bandwidth_size": 1, "charge_mode": "free"}`, nil, "charge_mode must be"},
		{annotationCheckOption, `{"delay": 51}`, nil, "must be 1 to 50 seconds"},
		{annotationCheckOption, `{"max_retries": 0}`, nil, "max_retries must be 1 to 10"},
		{annotationCheckOption, `{"protocol": "udp"}`, nil, "protocol must be tcp or http"},
		{annotationCheckOption, `{"path": "/x"}`, nil, "path needs protocol http"},
		{annotationPorts, "https", nil, `"https" is not http, https or tls with a port`},
		{annotationPorts, "http:443", nil, "the Service has no TCP port 443"},
		{annotationPorts, "http:53", nil, "the Service has no TCP port 53"},
		{annotationPorts, "https:80", nil, "which need " + annotationCertificate},
		{annotationCertificate, "c", nil, "needs a port with https or tls"},
		{"", "", func(s *v1.Service) {
			s.Annotations[annotationEIP] = "x"
			s.Annotations[annotationNewEIP] = `{"bandwidth_size": 1}`
		}, "exclude each other"},
		{"", "", func(s *v1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0"}
		}, "LoadBalancerSourceRanges: [10.0.0.0] is not valid"},
		{"", "", func(s *v1.Service) {
			for at := range 301 {
				s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges,
					fmt.Sprintf("10.0.%d.%d/32", at/256, at%256))
			}
		}, "301 ranges, and ELB accepts 300"},
		{"", "", func(s *v1.Service) { s.Spec.LoadBalancerIP = "10.0.0.1" }, "loadBalancerIP"},
		{"", "", func(s *v1.Service) {
			s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol}
		}, "forward IPv4 only"},
		{"", "", func(s *v1.Service) { s.Spec.Ports[0].Protocol = "SCTP" }, "SCTP is not supported"},
		{"", "", func(s *v1.Service) { s.Spec.Ports[0].NodePort = 0 }, "no node port"},
		{"", "", func(s *v1.Service) {
			s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		}, "port 53: externalTrafficPolicy Local"},
		{annotationPorts, "http:80", func(s *v1.Service) {
			s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
		}, "sessionAffinity ClientIP is not possible"},
	} {
		service := newService("web", "u")
		if c.name != "" {
			service.Annotations[c.name] = c.value
		}
		if c.change != nil {
			c.change(service)
		}
		if _, err := parse(service); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %v, want %s", c.name, c.value, err, c.want)
		}
	}
	service := newService("web", "u")
	service.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0"}
	service.Annotations[annotationClass] = "performance"
	if _, err := parse(service); err != nil {
		t.Errorf("a valid Service: %v", err)
	}
}

func TestNoNodes_IsAnErrorAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.mustEnsure()
	w.cloud.Forget()
	w.nodes = nil
	if _, err := w.ensure(); err == nil || len(w.cloud.Requests()) > 0 {
		t.Errorf("error %v, requests %v", err, w.cloud.Requests())
	}
}

func TestClusterName_TooLong_IsAnError(t *testing.T) {
	w := newWorld(t)
	_, err := w.EnsureLoadBalancer(t.Context(), strings.Repeat("x", 200), w.service, w.nodes)
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}
