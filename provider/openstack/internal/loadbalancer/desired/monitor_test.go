package desired

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestMonitor_Type(t *testing.T) {
	t.Parallel()
	const kubeProxy = 31000
	old := FeaturesOf("amphora", 15, false)
	withoutPort := func(in *Input) {
		withLocal(in)
		in.Service.Spec.HealthCheckNodePort = 0
	}
	plain := func(*Input) {}
	unnoticed := []string{"LoadBalancerLocalWithoutMonitor!"}
	for name, test := range map[string]struct {
		protocol v1.Protocol
		features Features
		policy   func(*Input)
		kind     string
		port     int
		told     []string
	}{
		"TCP":                         {v1.ProtocolTCP, latest(), plain, "TCP", 0, nil},
		"UDP":                         {v1.ProtocolUDP, latest(), plain, "UDP-CONNECT", 0, nil},
		"SCTP":                        {v1.ProtocolSCTP, latest(), plain, "SCTP", 0, nil},
		"Local, TCP":                  {v1.ProtocolTCP, latest(), withLocal, "HTTP", kubeProxy, nil},
		"Local, UDP":                  {v1.ProtocolUDP, latest(), withLocal, "HTTP", kubeProxy, nil},
		"Local, SCTP":                 {v1.ProtocolSCTP, latest(), withLocal, "HTTP", kubeProxy, nil},
		"Local, UDP, API 2.15":        {v1.ProtocolUDP, old, withLocal, "UDP-CONNECT", 0, unnoticed},
		"Local, TCP, API 2.15":        {v1.ProtocolTCP, old, withLocal, "HTTP", kubeProxy, nil},
		"Local, no health check port": {v1.ProtocolTCP, latest(), withoutPort, "TCP", 0, nil},
		"ovn, TCP":                    {v1.ProtocolTCP, ovn(), plain, "TCP", 0, nil},
		"ovn, UDP":                    {v1.ProtocolUDP, ovn(), plain, "UDP-CONNECT", 0, nil},
		"ovn, Local, TCP":             {v1.ProtocolTCP, ovn(), withLocal, "TCP", 0, nil},
		"ovn, Local, UDP":             {v1.ProtocolUDP, ovn(), withLocal, "UDP-CONNECT", 0, unnoticed},
		"ovn, SCTP":                   {v1.ProtocolSCTP, ovn(), plain, "", 0, []string{"LoadBalancerMonitorIgnored!"}},
	} {
		d, notices := build(t, withProtocols(test.protocol), withFeatures(test.features),
			test.policy, withMonitor)
		wantTold(t, notices, test.told...)
		pool := d.Ports[0].Pool
		for _, m := range pool.Members {
			if m.MonitorPort != test.port {
				t.Errorf("%s: members are checked at port %d, want %d", name, m.MonitorPort,
					test.port)
			}
		}
		if test.kind == "" {
			if pool.Monitor != nil {
				t.Errorf("%s: %+v", name, pool.Monitor)
			}
			continue
		}
		want := octavia.Monitor{
			Name: "monitor_0_kube_service_kubernetes_shop_web", Type: test.kind,
			Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3,
		}
		if test.kind == "HTTP" {
			want.HTTPMethod, want.URLPath, want.ExpectedCodes = "GET", "/healthz", "200"
		}
		if pool.Monitor == nil || *pool.Monitor != want {
			t.Errorf("%s: %+v, want %+v", name, pool.Monitor, want)
		}
	}
}

func TestMonitor_SCTPWithOVN_MessageNamesProviderAndSetting(t *testing.T) {
	t.Parallel()
	const annotation = "enable-health-monitor"
	for setting, change := range map[string]func(*Input){
		"option create-monitor of cloud.conf":        func(*Input) {},
		"annotation " + settings.Prefix + annotation: annotated(annotation, "true"),
	} {
		_, notices := build(t, withProtocols(v1.ProtocolSCTP), withFeatures(ovn()), withMonitor,
			change)
		wantMessage(t, notices, "the members of port 80/SCTP have no health monitor: the provider "+
			"ovn supports none for SCTP ("+setting+"); set lb-provider to another provider if the "+
			"port needs one")
	}
}

func TestMonitor_LocalUDP_MessageNamesProviderOrVersionAndSetting(t *testing.T) {
	t.Parallel()
	for why, features := range map[string]Features{
		"the provider ovn supports no HTTP monitor; set lb-provider to another provider": ovn(),
		"an HTTP monitor for UDP needs Octavia API 2.16, but the cloud has 2.15; upgrade Octavia": FeaturesOf(
			"amphora", 15, false),
	} {
		_, notices := build(t, withProtocols(v1.ProtocolUDP), withFeatures(features), withLocal,
			withMonitor)
		wantMessage(t, notices, "externalTrafficPolicy is Local, but the health monitor of port "+
			"80/UDP (option create-monitor of cloud.conf) does not notice that a node has no "+
			"local endpoint and drops traffic: "+why)
	}
}

// OCCM compared members with a monitor port that it had not sent, so it wrote them at each
// reconcile.
func TestOVN_MembersHaveNoMonitorPort(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withFeatures(ovn()), withLocal, withMonitor)
	for _, m := range d.Ports[0].Pool.Members {
		if m.MonitorPort != 0 {
			t.Errorf("member %s: %d", m.Name, m.MonitorPort)
		}
	}
}

func TestMonitor_Figures(t *testing.T) {
	t.Parallel()
	d, _ := build(t, withMonitor, withSettings(func(s *settings.Settings) {
		s.MonitorDelay = 90 * time.Second
		s.MonitorTimeout = 7 * time.Second
		s.MonitorMaxRetries = 4
		s.MonitorMaxRetriesDown = 5
	}))
	if m := d.Ports[0].Pool.Monitor; m.Delay != 90 || m.Timeout != 7 || m.MaxRetries != 4 ||
		m.MaxRetriesDown != 5 {
		t.Errorf("%+v", m)
	}
}

func TestMonitor_OnlyIfWanted(t *testing.T) {
	t.Parallel()
	d, notices := build(t)
	wantTold(t, notices)
	if m := d.Ports[0].Pool.Monitor; m != nil {
		t.Errorf("%+v", m)
	}
}

func TestMonitor_LocalWithoutMonitor_Warns(t *testing.T) {
	t.Parallel()
	d, notices := build(t, withLocal, withProtocols(v1.ProtocolTCP, v1.ProtocolUDP))
	wantTold(t, notices, "LoadBalancerLocalWithoutMonitor!")
	for _, port := range d.Ports {
		if port.Pool.Monitor != nil || port.Pool.Members[0].MonitorPort != 0 {
			t.Errorf("%+v", port.Pool)
		}
	}
}
