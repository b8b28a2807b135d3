package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	id1 = "11111111-1111-4111-8111-111111111111"
	id2 = "22222222-2222-4222-8222-222222222222"
	id3 = "33333333-3333-4333-8333-333333333333"
)

func serviceWith(annotations map[string]string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "front", Annotations: annotations},
		Spec: v1.ServiceSpec{Ports: []v1.ServicePort{
			{Name: "http", Port: 80, Protocol: v1.ProtocolTCP},
			{Name: "https", Port: 443, Protocol: v1.ProtocolTCP},
			{Name: "quic", Port: 443, Protocol: v1.ProtocolUDP},
			{Name: "sctp", Port: 9, Protocol: v1.ProtocolSCTP},
			{Name: "8080", Port: 81},
		}},
	}
}

// short is serviceWith for names without the prefix.
func short(annotations map[string]string) *v1.Service {
	full := map[string]string{}
	for name, value := range annotations {
		if !strings.Contains(name, "/") {
			name = Prefix + name
		}
		full[name] = value
	}
	return serviceWith(full)
}

func presets() Defaults { return Defaults{LoadBalancer: cloudconf.Default().LoadBalancer} }

// untouched are the settings of a Service without annotations and a cloud.conf without options.
func untouched() Settings {
	return Settings{
		Provider: "amphora", ConnectionLimit: -1,
		TimeoutClientData: 50000, TimeoutMemberConnect: 5000, TimeoutMemberData: 50000,
		MonitorDelay: 5 * time.Second, MonitorTimeout: 3 * time.Second, MonitorMaxRetries: 1,
		MonitorMaxRetriesDown: 3,
		CascadeDelete:         true, CheckCertificates: true, IngressHostnameSuffix: "nip.io",
		MaxShared: 2, MaxSharedListeners: 50, MayShare: true, MemberTarget: TargetNode,
	}
}

func TestOf_NoAnnotation_HasTheDefaultsOfOCCM(t *testing.T) {
	t.Parallel()
	got, problems := Of(serviceWith(nil), presets())
	if want := untouched(); !reflect.DeepEqual(got, want) || len(problems) > 0 {
		t.Errorf("the settings are\n%+v, want\n%+v; problems: %v", got, want, problems)
	}
}

// Each annotation changes exactly one setting.
func TestOf_AnnotationIsRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		want        func(*Settings)
	}{
		{"service.beta.kubernetes.io/openstack-internal-load-balancer", "true", func(s *Settings) { s.Internal = true }},
		{"subnet-id", id1, func(s *Settings) { s.SubnetID = id1 }},
		{"network-id", id1, func(s *Settings) { s.NetworkID = id1 }},
		{"port-id", id1, func(s *Settings) { s.PortID = id1 }},
		{"additional-subnet-id", id1, func(s *Settings) { s.AdditionalSubnetID = id1 }},
		{"member-subnet-id", id1, func(s *Settings) { s.MemberSubnetID = id1 }},
		{"address", " 203.0.113.7", func(s *Settings) { s.Address = "203.0.113.7" }},
		{"floating-network-id", id1, func(s *Settings) { s.FloatingNetworkID = id1 }},
		{"floating-subnet-id", id1, func(s *Settings) { s.FloatingSubnetID = id1 }},
		{"floating-ip-id", strings.ToUpper(id1), func(s *Settings) { s.FloatingIPID = id1 }},
		{"floating-ip-tag", "front door", func(s *Settings) { s.FloatingIPTag = "front door" }},
		{"floating-subnet", "!~^int.*", func(s *Settings) { s.FloatingSubnet = "!~^int.*" }},
		{"floating-subnet", "a[", func(s *Settings) { s.FloatingSubnet = "a[" }},
		{"floating-subnet-tags", "&a,b", func(s *Settings) { s.FloatingSubnetTags = "&a,b" }},
		{"keep-floatingip", "true", func(s *Settings) { s.KeepFloatingIP = true }},
		{"lb-provider", "ovn", func(s *Settings) { s.Provider = "ovn" }},
		{"lb-provider", "", func(s *Settings) { s.Provider = "" }},
		{"flavor-id", strings.ToUpper(id1), func(s *Settings) { s.FlavorID = id1 }},
		{"flavor-id", strings.ReplaceAll(id1, "-", ""), func(s *Settings) { s.FlavorID = id1 }},
		{"availability-zone", "az 1", func(s *Settings) { s.AvailabilityZone = "az 1" }},
		{"lb-method", "SOURCE_IP_PORT", func(s *Settings) { s.Algorithm = "SOURCE_IP_PORT" }},
		{"lb-method", "ROUND_ROBIN", func(s *Settings) { s.Algorithm = "ROUND_ROBIN" }},
		{"proxy-protocol", "true", func(s *Settings) { s.ProxyProtocol = "PROXY" }},
		{"proxy-protocol", "v1", func(s *Settings) { s.ProxyProtocol = "PROXY" }},
		{"proxy-protocol", "v2", func(s *Settings) { s.ProxyProtocol = "PROXYV2" }},
		{"proxy-protocol", "false", func(*Settings) {}},
		{"x-forwarded-for", "true", func(s *Settings) { s.XForwardedFor = true }},
		{"x-forwarded-port", "true", func(s *Settings) { s.XForwardedPort = true }},
		{"x-forwarded-proto", "true", func(s *Settings) { s.XForwardedProto = true }},
		{"default-tls-container-ref", "https://key/v1/containers/" + id1, func(s *Settings) { s.TLSContainer = "https://key/v1/containers/" + id1 }},
		{"tls-versions", "TLSv1.3, TLSv1.2,TLSv1.3", func(s *Settings) { s.TLSVersions = []string{"TLSv1.2", "TLSv1.3"} }},
		{"default-tls-container-ref", "https://key/v1/secrets/" + id1, func(s *Settings) { s.TLSContainer = "https://key/v1/secrets/" + id1 }},
		{"listener-protocols", "http=HTTP, https = TERMINATED_HTTPS", func(s *Settings) {
			s.ListenerProtocols = ListenerProtocols{"http": "HTTP", "https": "TERMINATED_HTTPS"}
		}},
		{"listener-protocols", "443=HTTPS,80=TCP,9=SCTP", func(s *Settings) {
			s.ListenerProtocols = ListenerProtocols{"https": "HTTPS", "http": "TCP", "sctp": "SCTP"}
		}},
		{"listener-protocols", "443=UDP,443=HTTPS", func(s *Settings) { s.ListenerProtocols = ListenerProtocols{"https": "HTTPS", "quic": "UDP"} }},
		{"listener-protocols", "8080=HTTP", func(s *Settings) { s.ListenerProtocols = ListenerProtocols{"8080": "HTTP"} }},
		{"connection-limit", "100", func(s *Settings) { s.ConnectionLimit = 100 }},
		{"timeout-client-data", "1", func(s *Settings) { s.TimeoutClientData = 1 }},
		{"timeout-member-connect", "0", func(s *Settings) { s.TimeoutMemberConnect = 0 }},
		{"timeout-member-data", "2073600000", func(s *Settings) { s.TimeoutMemberData = 2073600000 }},
		{"timeout-tcp-inspect", "+1", func(s *Settings) { s.TimeoutTCPInspect = 1 }},
		{"enable-health-monitor", "true", func(s *Settings) { s.Monitor = true }},
		{"health-monitor-delay", "60", func(s *Settings) { s.MonitorDelay = time.Minute }},
		{"health-monitor-timeout", "4", func(s *Settings) { s.MonitorTimeout = 4 * time.Second }},
		{"health-monitor-max-retries", "10", func(s *Settings) { s.MonitorMaxRetries = 10 }},
		{"health-monitor-max-retries-down", "1", func(s *Settings) { s.MonitorMaxRetriesDown = 1 }},
		{"node-selector", "b=2, a", func(s *Settings) { s.NodeSelector = ParseNodeSelector("a,b=2") }},
		{"member-target", "pod", func(s *Settings) { s.MemberTarget = TargetPod }},
		{"member-target", "auto", func(s *Settings) { s.MemberTarget = TargetAuto }},
		{"member-target", "node", func(*Settings) {}},
		{"load-balancer-id", id1, func(s *Settings) { s.LoadBalancerID = id1 }},
		{"load-balancer-address", "whatever", func(*Settings) {}},
		{"hostname", "a.example", func(s *Settings) { s.Hostname = "a.example" }},
		{"recreate", "true", func(s *Settings) { s.Recreate = true }},
		{
			"service.beta.kubernetes.io/load-balancer-source-ranges",
			" 10.1.2.3/8 ,2001:db8::1/32,10.0.0.0/8", func(s *Settings) {
				s.SourceRanges = []string{"10.0.0.0/8", "2001:db8::/32"}
			},
		},
		{"service.beta.kubernetes.io/load-balancer-source-ranges", " ", func(*Settings) {}},
		{"service.beta.kubernetes.io/load-balancer-source-ranges", "0.0.0.0/0", func(s *Settings) { s.SourceRanges = []string{"0.0.0.0/0"} }},
	} {
		t.Run(fmt.Sprintf("%s=%.40s", c.name, c.value), func(t *testing.T) {
			want := untouched()
			c.want(&want)
			got, problems := Of(short(map[string]string{c.name: c.value}), presets())
			if !reflect.DeepEqual(got, want) || len(problems) > 0 {
				t.Errorf("the settings are\n%+v, want\n%+v; problems: %v", got, want, problems)
			}
		})
	}
}

func TestOf_BadValue_IsReported(t *testing.T) {
	t.Parallel()
	usedInstead := map[string]string{
		"connection-limit": "-1", "timeout-client-data": "50000", "timeout-member-data": "50000",
		"timeout-member-connect": "5000", "timeout-tcp-inspect": "0", "health-monitor-delay": "5",
		"health-monitor-timeout": "3", "health-monitor-max-retries": "1",
		"health-monitor-max-retries-down": "3",
	}
	for _, c := range []struct {
		name, value, why string
		fatal            bool
	}{
		{"service.beta.kubernetes.io/openstack-internal-load-balancer", "True", "neither true nor false", false},
		{"keep-floatingip", "yes", "neither true nor false", false},
		{"x-forwarded-for", "1", "neither true nor false", false},
		{"recreate", " true", "neither true nor false", false},
		{"proxy-protocol", "v3", "none of false, true, v1, v2", false},
		{"lb-method", "round_robin", "none of ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP, SOURCE_IP_PORT", false},
		{"member-target", "pods", "none of node, pod, auto", false},
		{"connection-limit", "many", "not a whole number, at least -1", false},
		{"connection-limit", "1.5", "not a whole number, at least -1", false},
		{"connection-limit", "-2", "not a whole number, at least -1", false},
		{"connection-limit", "99999999999999999999", "not a whole number, at least -1", false},
		{"timeout-client-data", "-1", "not a whole number of milliseconds, from 0 to 2073600000", false},
		{"timeout-member-data", "2073600001", "not a whole number of milliseconds, from 0 to 2073600000", false},
		{"timeout-member-connect", "5s", "not a whole number of milliseconds, from 0 to 2073600000", false},
		{"timeout-tcp-inspect", "50s", "not a whole number of milliseconds, from 0 to 2073600000", false},
		{"health-monitor-delay", "0", "not a whole number of seconds, at least 1", false},
		{"health-monitor-timeout", "3s", "not a whole number of seconds, at least 1", false},
		{"health-monitor-max-retries", "0", "not a whole number, from 1 to 10", false},
		{"health-monitor-max-retries-down", "11", "not a whole number, from 1 to 10", false},
		{"hostname", "10.0.0.1", "not a host name", false},
		{"hostname", "a_b", "not a host name", false},
		{"availability-zone", strings.Repeat("z", 256), "longer than 255 bytes", false},

		{"class", "x", "not a load balancer class: cloud.conf has no section [LoadBalancerClass]", true},
		{"subnet-id", "front", "not a UUID", true},
		{"network-id", id1 + " ", "not a UUID", true},
		{"port-id", "1-1-1-1", "not a UUID", true},
		{"additional-subnet-id", "?", "not a UUID", true},
		{"member-subnet-id", "g1111111-1111-4111-8111-111111111111", "not a UUID", true},
		{"address", "front", `not usable: "front" is not an IP address`, true},
		{"address", "10.0.0.1,", `not usable: "" is not an IP address`, true},
		{"address", "10.0.0.1,10.0.0.2", "not usable: it has two IPv4 addresses", true},
		{"address", "10.0.0.1,2001:db8::1", "not usable: 2001:db8::1 is an IPv6 address, and spec.ipFamilies has only IPv4", true},
		{"floating-network-id", "public", "not a UUID", true},
		{"floating-subnet-id", "public", "not a UUID", true},
		{"flavor-id", "large", "not a UUID", true},
		{"floating-ip-id", "203.0.113.1", "not a UUID", true},
		{"floating-ip-tag", "fxccm-service=1", "not usable: tags that begin with fxccm- mark the owner of an object", true},
		{"floating-ip-tag", "kube_service_a_b_c", "not usable: tags that begin with kube_service_ mark the owner of an object", true},
		{"floating-ip-tag", strings.Repeat("z", 256), "longer than 255 bytes", true},
		{"load-balancer-id", "front", "not a UUID", true},
		{"floating-subnet", "!~(", `no regular expression after "~"`, true},
		{"floating-subnet", `~\pL{1000}`, "not usable: the regular expression is too large: repeat fewer things less often", true},
		{"floating-subnet", "~" + strings.Repeat("a", 255), "longer than 255 bytes", true},
		{"node-selector", "a=b c", `not usable: no node can have the label "a=b c"; give comma-separated labels, each as key=value or key`, true},
		{"node-selector", "=x", `not usable: no node can have the label "=x"; give comma-separated labels, each as key=value or key`, true},
		{"tls-versions", "TLSv1.2,tlsv1.3", `not usable: "tlsv1.3" is not one of SSLv3, TLSv1, TLSv1.1, TLSv1.2, TLSv1.3`, true},
		{"default-tls-container-ref", "https://key/v1/orders/1", "not a reference to a container or a secret of Barbican", true},
		{"default-tls-container-ref", "https://key/v1/containers/", "not a reference to a container or a secret of Barbican", true},
		{"default-tls-container-ref", strings.Repeat("z", 256), "longer than 255 bytes", true},
		{"listener-protocols", "http", `not usable: "http" is not of the form port=PROTOCOL`, true},
		{"listener-protocols", "http=HTTP,", `not usable: "" is not of the form port=PROTOCOL`, true},
		{"listener-protocols", "web=HTTP", `not usable: the Service has no port "web"`, true},
		{"listener-protocols", "443=SCTP", "not usable: the protocol of port 443 is not one of TCP, HTTP, HTTPS, TERMINATED_HTTPS", true},
		{"listener-protocols", "quic=HTTP", "not usable: the protocol of port quic is not one of UDP", true},
		{"listener-protocols", "http=http", "not usable: the protocol of port http is not one of TCP, HTTP, HTTPS, TERMINATED_HTTPS", true},
		{"listener-protocols", "http=HTTP,80=TCP", "not usable: port 80 is there twice", true},
	} {
		t.Run(fmt.Sprintf("%s=%.40s", c.name, c.value), func(t *testing.T) {
			service := short(map[string]string{c.name: c.value})
			got, problems := Of(service, presets())
			if want := untouched(); !reflect.DeepEqual(got, want) {
				t.Errorf("the settings are\n%+v, want the defaults:\n%+v", got, want)
			}
			if len(problems) != 1 {
				t.Fatalf("%d problems, want 1: %v", len(problems), problems)
			}
			p := problems[0]
			if service.Annotations[p.Annotation] != c.value || p.Value != shown(c.value) ||
				p.Why != c.why || p.Fatal != c.fatal {
				t.Errorf("the problem is %+v, want %q of %s, fatal %v", p, c.why, c.name, c.fatal)
			}
			if !strings.HasPrefix(c.why, "not a whole number") {
				return
			}
			end := " is " + c.why + "; the default, " + usedInstead[c.name] + ", is used"
			if usedInstead[c.name] == "" || !strings.HasSuffix(p.String(), end) {
				t.Errorf("the message is %q, want %q at its end", p, end)
			}
		})
	}
}

// Charts write annotations without a value, which is no mistake.
func TestOf_EmptyValueIsNoProblem(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{}
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		annotations[row.about().name] = ""
	}
	want := untouched()
	want.Provider = ""
	got, problems := Of(serviceWith(annotations), presets())
	if !reflect.DeepEqual(got, want) || len(problems) > 0 {
		t.Errorf("the settings are\n%+v, want\n%+v; problems: %v", got, want, problems)
	}
}

func TestOf_EmptyValue_OverridesOrNot(t *testing.T) {
	t.Parallel()
	defaults := fullDefaults()
	defaults.LoadBalancer.ShareAs = "" // an empty value is another request, so other keys
	for name, want := range map[string]func(*Settings){
		"default-tls-container-ref": func(s *Settings) { s.TLSContainer = "" },
		"flavor-id":                 func(s *Settings) { s.FlavorID = "" },
		"availability-zone":         func(s *Settings) { s.AvailabilityZone = "" },
		"floating-network-id":       func(s *Settings) { s.FloatingNetworkID = "" },
		"node-selector":             func(s *Settings) { s.NodeSelector = NodeSelector{} },
		"lb-method":                 func(s *Settings) { s.Algorithm = "" },
		"lb-provider":               func(s *Settings) { s.Provider = "" },
		"subnet-id":                 func(*Settings) {},
		"network-id":                func(*Settings) {},
		"member-subnet-id":          func(*Settings) {},
		"floating-subnet-id":        func(*Settings) {},
		"enable-health-monitor":     func(*Settings) {},
		"health-monitor-delay":      func(*Settings) {},
	} {
		wanted, _ := Of(serviceWith(nil), defaults)
		want(&wanted)
		if got, problems := Of(short(map[string]string{name: ""}),
			defaults); !reflect.DeepEqual(got, wanted) || len(problems) > 0 {
			t.Errorf("with an empty %s the settings are\n%+v, want\n%+v; problems: %v", name, got,
				wanted, problems)
		}
	}
}

// fullDefaults sets every option.
func fullDefaults() Defaults {
	return Defaults{LoadBalancer: cloudconf.LoadBalancer{
		SubnetID: id1, MemberSubnetID: id2, NetworkID: id1, FloatingNetworkID: id1,
		FloatingSubnetID: id1,
		LBMethod:         "SOURCE_IP", LBProvider: "f5", CreateMonitor: true,
		MonitorDelay:      time.Minute,
		MonitorTimeout:    time.Minute,
		MonitorMaxRetries: 4, MonitorMaxRetriesDown: 5, ManageSecurityGroups: true,
		NodeSelector: "a=b", FlavorID: id1, AvailabilityZone: "az",
		EnableIngressHostname: true, IngressHostnameSuffix: "example", MaxSharedLB: 7,
		MaxSharedListeners:             9,
		ContainerStore:                 "external",
		ProviderRequiresSerialAPICalls: true, DefaultTLSContainerRef: "ref",
		MemberTarget: "auto", ProviderNeedsNoNodePorts: true, ShareAs: "all",
	}}
}

func TestOf_CloudConfIsTheDefault(t *testing.T) {
	t.Parallel()
	want := Settings{
		SubnetID: id1, MemberSubnetID: id2, DefaultMemberSubnetID: id1, NetworkID: id1,
		FloatingNetworkID: id1, FloatingSubnetID: id1,
		Algorithm: "SOURCE_IP", Provider: "f5", Monitor: true, MonitorDelay: time.Minute,
		MonitorTimeout:    time.Minute,
		MonitorMaxRetries: 4, MonitorMaxRetriesDown: 5, NodeSelector: ParseNodeSelector("a=b"),
		FlavorID: id1, AvailabilityZone: "az",
		TLSContainer: "ref", ConnectionLimit: -1, TimeoutClientData: 50000,
		TimeoutMemberConnect: 5000, TimeoutMemberData: 50000,
		ManageSecurityGroups: true, Serial: true, EnableIngressHostname: true,
		IngressHostnameSuffix: "example", MaxShared: 7, MaxSharedListeners: 9, MayShare: true,
		MemberTarget: TargetAuto, NeedsNoNodePorts: true, ShareAs: "all",
	}
	want.ShareKeys = []ShareKey{{
		hashOf([]string{"namespace", serviceWith(nil).Namespace, "all"}),
		requestOf(serviceWith(nil)),
	}}
	if got, problems := Of(serviceWith(nil), fullDefaults()); !reflect.DeepEqual(got, want) ||
		len(problems) > 0 {
		t.Errorf("the settings are\n%+v, want\n%+v; problems: %v", got, want, problems)
	}
}

func TestOf_MemberTarget_AnnotationBeatsClassBeatsCloudConf(t *testing.T) {
	t.Parallel()
	defaults := parsed(t, "[LoadBalancer]\nmember-target = auto\n"+
		"[LoadBalancerClass \"fast\"]\nmember-target = pod\n")
	for _, c := range []struct{ class, annotation, want string }{
		{"", "", TargetAuto},
		{"fast", "", TargetPod},
		{"fast", "node", TargetNode},
		{"", "pod", TargetPod},
	} {
		got, problems := Of(short(map[string]string{
			"class": c.class, "member-target": c.annotation,
		}), defaults)
		if got.MemberTarget != c.want || len(problems) > 0 {
			t.Errorf("annotation %q and class %q: %q, want %q; problems: %v", c.annotation, c.class,
				got.MemberTarget, c.want, problems)
		}
	}
}

// The precedence is annotation, class, cloud.conf, for each option of a class whose value is no
// word, for internal and external Services.
func TestOf_AnnotationBeatsClassBeatsCloudConf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		option string
		of     func(Settings) string
	}{
		{"subnet-id", func(s Settings) string { return s.SubnetID }},
		{"network-id", func(s Settings) string { return s.NetworkID }},
		{"member-subnet-id", func(s Settings) string { return s.MemberSubnetID }},
		{"floating-network-id", func(s Settings) string { return s.FloatingNetworkID }},
		{"floating-subnet-id", func(s Settings) string { return s.FloatingSubnetID }},
		{"floating-subnet", func(s Settings) string { return s.FloatingSubnet }},
		{"floating-subnet-tags", func(s Settings) string { return s.FloatingSubnetTags }},
	} {
		defaults := parsed(t,
			fmt.Sprintf(
				"[LoadBalancer]\n%s = %s\n[LoadBalancerClass \"other\"]\n[LoadBalancerClass \"fast\"]\n%s = %s\n", c.option, id3, c.option, id2))
		for _, internal := range []string{"true", "false"} {
			for _, step := range []struct {
				class, annotation, want string
			}{
				{"", "", id3}, {"other", "", id3}, {"fast", "", id2}, {"fast", id1, id1}, {"", id1, id1},
			} {
				annotations := map[string]string{annotationInternal: internal, "class": step.class}
				if step.annotation != "" {
					annotations[c.option] = step.annotation
				}
				got, problems := Of(short(annotations), defaults)
				if c.of(got) != step.want || len(problems) > 0 {
					t.Errorf("%s of annotation %q and class %q is %q, want %q; problems: %v",
						c.option, step.annotation, step.class, c.of(got), step.want, problems)
				}
			}
		}
	}
}

func parsed(t *testing.T, content string) Defaults {
	t.Helper()
	c, _, err := cloudconf.Parse(
		[]byte(
			"[Global]\nauth-url = https://keystone.example/v3\nuser-id = u\npassword = p\ntenant-id = t\n"+content), cloudconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Defaults{LoadBalancer: c.LoadBalancer, Classes: c.LoadBalancerClasses}
}

func TestOf_MemberSubnet_FallsBackToSubnetOfCloudConf(t *testing.T) {
	t.Parallel()
	defaults := Defaults{
		LoadBalancer: cloudconf.LoadBalancer{SubnetID: id1},
		Classes:      map[string]cloudconf.LoadBalancerClass{"fast": {SubnetID: id2}},
	}
	got, _ := Of(short(map[string]string{"class": "fast"}), defaults)
	if got.MemberSubnetID != "" || got.DefaultMemberSubnetID != id1 || got.SubnetID != id2 {
		t.Errorf("members are in %q, else in %q, and the load balancer in %q; want none, %q and %q",
			got.MemberSubnetID, got.DefaultMemberSubnetID, got.SubnetID, id1, id2)
	}
}

func TestOf_FloatingSubnets_AreOfOneSource(t *testing.T) {
	t.Parallel()
	type subnets struct{ id, pattern, tags string }
	defaults := Defaults{
		LoadBalancer: cloudconf.LoadBalancer{FloatingSubnetID: id1, FloatingSubnet: "conf"},
		Classes: map[string]cloudconf.LoadBalancerClass{
			"pattern": {FloatingSubnet: "class", FloatingSubnetTags: "t"}, "other": {FloatingNetworkID: id3},
			"tags": {FloatingSubnetTags: "t"},
		},
	}
	for _, c := range []struct {
		annotations map[string]string
		want        subnets
	}{
		{nil, subnets{id: id1}},
		{map[string]string{"class": "other"}, subnets{id: id1}},
		{map[string]string{"class": "pattern"}, subnets{pattern: "class", tags: "t"}},
		{map[string]string{"class": "tags"}, subnets{tags: "t"}},
		{map[string]string{"class": "pattern", "floating-subnet-tags": "a"}, subnets{tags: "a"}},
		{map[string]string{"class": "pattern", "floating-subnet": "mine"}, subnets{pattern: "mine"}},
		{map[string]string{"floating-subnet": "mine", "floating-subnet-tags": "a"}, subnets{pattern: "mine", tags: "a"}},
		{map[string]string{"floating-subnet": "mine", "floating-subnet-id": id2}, subnets{id: id2}},
	} {
		got, problems := Of(short(c.annotations), defaults)
		if have := (subnets{
			got.FloatingSubnetID, got.FloatingSubnet,
			got.FloatingSubnetTags,
		}); have != c.want || len(problems) > 0 {
			t.Errorf("of %v the settings are %+v, want %+v; problems: %v",
				c.annotations, have, c.want,
				problems)
		}
	}
}

func TestOf_UnknownClass_NamesTheKnown(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.Classes = map[string]cloudconf.LoadBalancerClass{"office": {}, "dmz": {}}
	for name, want := range map[string]string{
		"x":      `loadbalancer.openstack.org/class: "x" is not a load balancer class: cloud.conf has dmz, office; correct it`,
		"offcie": `loadbalancer.openstack.org/class: "offcie" is not a load balancer class: cloud.conf has dmz, office; did you mean "office"?`,
	} {
		_, problems := Of(short(map[string]string{"class": name}), defaults)
		if len(problems) != 1 || !problems[0].Fatal || problems[0].String() != want {
			t.Errorf("the problems are %v, want %s", problems, want)
		}
	}
	for i := range 30 {
		defaults.Classes[fmt.Sprintf("class-%02d", i)] = cloudconf.LoadBalancerClass{}
	}
	_, problems := Of(short(map[string]string{"class": "x"}), defaults)
	if len(problems) != 1 || !strings.HasSuffix(problems[0].Why, "class-09 and 22 more") {
		t.Errorf("the problems are %v, want ten classes and 22 more", problems)
	}
}

func TestOf_InternalByOrder(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.LoadBalancer.InternalLB = true
	for value, told := range map[string]int{"": 0, "true": 0, "false": 1, "no": 1} {
		got, problems := Of(short(map[string]string{annotationInternal: value}), defaults)
		if !got.Internal || len(problems) != told || len(Fatal(problems)) > 0 {
			t.Errorf(
				"with %q internal is %v and the problems are %v, want true and %d that are not fatal", value, got.Internal, problems, told)
		}
	}
}

func TestOf_SourceRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec       []string
		annotation string
		want       []string
		problem    string
	}{
		{nil, "", nil, ""},
		{[]string{"192.168.1.7/24", " 10.0.0.0/8", "192.168.1.0/24"}, "172.16.0.0/12", []string{"10.0.0.0/8", "192.168.1.0/24"}, ""},
		{nil, "172.16.0.0/12", []string{"172.16.0.0/12"}, ""},
		{[]string{"::ffff:10.0.0.0/104"}, "", []string{"10.0.0.0/8"}, ""},
		{
			[]string{"10.0.0.0/8", "10.0.0.1"},
			"",
			[]string{"10.0.0.0/8"},
			`spec.loadBalancerSourceRanges: "10.0.0.0/8,10.0.0.1" is not usable: "10.0.0.1" is not a CIDR; correct it`,
		},
		{[]string{"x"}, "10.0.0.0/8", []string{}, `spec.loadBalancerSourceRanges: "x" is not usable: "x" is not a CIDR; correct it`},
		{[]string{""}, "", []string{}, `spec.loadBalancerSourceRanges is not usable: "" is not a CIDR; remove it`},
		{nil, "10.0.0.0/8,", []string{"10.0.0.0/8"}, `service.beta.kubernetes.io/load-balancer-source-ranges: "10.0.0.0/8," is not usable: "" is not a CIDR; correct it`},
	} {
		service := serviceWith(
			map[string]string{v1.AnnotationLoadBalancerSourceRangesKey: c.annotation})
		service.Spec.LoadBalancerSourceRanges = c.spec
		got, problems := Of(service, presets())
		if !reflect.DeepEqual(got.SourceRanges, c.want) {
			t.Errorf("of %q and %q the ranges are %#v, want %#v", c.spec, c.annotation,
				got.SourceRanges, c.want)
		}
		if c.problem == "" && len(problems) > 0 || c.problem != "" &&
			(len(Fatal(problems)) != 1 || problems[0].String() != c.problem) {
			t.Errorf("of %q and %q the problems are %v, want %q", c.spec, c.annotation, problems,
				c.problem)
		}
	}
}

func TestOf_Address(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"": "", "10.0.0.1": "10.0.0.1",
		"2001:DB8:0::1": "2001:db8::1", "front": "", "fe80::1%eth0": "", "10.0.0.1/32": "",
	} {
		service := serviceWith(nil)
		service.Spec.LoadBalancerIP = written
		got, problems := Of(service, presets())
		if got.Address != want || (want == "" && written != "") != (len(Fatal(problems)) == 1) {
			t.Errorf("of %q the address is %q, want %q; problems: %v", written, got.Address, want,
				problems)
		}
	}
}

// Each family of the Service has the address that the annotation or the field requests.
func TestOf_AddressByAnnotation_IsOfItsFamily(t *testing.T) {
	t.Parallel()
	const v4, v6 = "203.0.113.7", "2001:db8::7"
	four, six := []v1.IPFamily{v1.IPv4Protocol}, []v1.IPFamily{v1.IPv6Protocol}
	both, turned := append(four, six...), append(six, four...)
	for _, test := range []struct {
		families          []v1.IPFamily
		annotation, field string
		first, second     string
		// why is the reason of the refusal; "" for none.
		why string
	}{
		{four, v4, "", v4, "", ""},
		{six, v6, "", v6, "", ""},
		{both, v4, "", v4, "", ""},
		{both, v6, "", "", v6, ""},
		{both, v4 + ", " + v6, "", v4, v6, ""},
		{both, v6 + "," + v4, "", v4, v6, ""},
		{turned, v4 + "," + v6, "", v6, v4, ""},
		{both, "2001:DB8:0::7", "", "", v6, ""},
		{both, "", v6, "", v6, ""},
		{both, v6, v4, v4, v6, ""},
		{four, v4, v4, v4, "", ""},
		{both, v4 + "," + v6, v6, v4, v6, ""},

		{four, v4, "203.0.113.8", "203.0.113.8", "", "not usable: spec.loadBalancerIP requests 203.0.113.8; remove one of them"},
		{both, v4 + "," + v6, "2001:db8::8", "", "2001:db8::8", "not usable: spec.loadBalancerIP requests 2001:db8::8; remove one of them"},
		{four, v6, "", "", "", "not usable: 2001:db8::7 is an IPv6 address, and spec.ipFamilies has only IPv4"},
		{six, v4, "", "", "", "not usable: 203.0.113.7 is an IPv4 address, and spec.ipFamilies has only IPv6"},
		{both, v6 + "," + v4 + ",2001:db8::8", "", "", "", "not usable: it has two IPv6 addresses"},
	} {
		service := short(map[string]string{"address": test.annotation})
		service.Spec.IPFamilies, service.Spec.LoadBalancerIP = test.families, test.field
		got, problems := Of(service, presets())
		why := ""
		if fatal := Fatal(problems); len(fatal) > 0 && fatal[0].Annotation == annotationAddress {
			why = fatal[0].Why
		}
		if got.Address != test.first || got.AdditionalAddress != test.second || why != test.why ||
			len(problems) > 1 {
			t.Errorf("%q and %q of %v: addresses %q and %q, problems %v; want %q, %q and %q",
				test.annotation, test.field, test.families, got.Address, got.AdditionalAddress,
				problems, test.first, test.second, test.why)
		}
	}
}

func TestOf_FloatingIPOfAServiceThatHasNone_IsRefused(t *testing.T) {
	t.Parallel()
	for why, prepare := range map[string]func(*v1.Service, *Defaults){
		"not allowed together with service.beta.kubernetes.io/openstack-internal-load-balancer: an internal load balancer has no floating IP; remove one of them": func(service *v1.Service, _ *Defaults) {
			service.Annotations[annotationInternal] = "true"
		},
		"not allowed here: cloud.conf says internal-lb = true": func(_ *v1.Service, d *Defaults) {
			d.LoadBalancer.InternalLB = true
		},
		"not usable: the first of spec.ipFamilies is IPv6, which has no floating IPs": func(service *v1.Service, _ *Defaults) {
			service.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}
		},
	} {
		for _, name := range []string{annotationFloatingIPID, annotationFloatingIPTag} {
			service, defaults := serviceWith(map[string]string{name: id1}), presets()
			prepare(service, &defaults)
			_, problems := Of(service, defaults)
			if len(problems) != 1 || problems[0].Annotation != name || problems[0].Why != why ||
				!problems[0].Fatal {
				t.Errorf("the problems are %v, want %q of %s", problems, why, name)
			}
		}
	}
}

func TestOf_PoolBesideAnotherChoice_IsRefused(t *testing.T) {
	t.Parallel()
	const address, v6 = "203.0.113.7", "fd00::7"
	for name, test := range map[string]struct {
		annotations map[string]string
		field       string
		other       string
	}{
		"ID":                       {map[string]string{"floating-ip-id": id1}, "", annotationFloatingIPID},
		"address":                  {map[string]string{"address": address}, "", "annotation " + annotationAddress},
		"field":                    {nil, address, fieldAddress},
		"ID, internal":             {map[string]string{"floating-ip-id": id1, annotationInternal: "true"}, "", annotationFloatingIPID},
		"address of second family": {map[string]string{"address": v6}, "", ""},
	} {
		service := short(test.annotations)
		service.Annotations[annotationFloatingIPTag] = "pool"
		service.Spec.LoadBalancerIP = test.field
		service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
		_, problems := Of(service, presets())
		want := "not allowed together with " + test.other +
			": both choose the floating IP; remove one of them"
		switch {
		case test.other == "" && len(problems) == 0:
		case test.other == "" || len(problems) != 1 || !problems[0].Fatal ||
			problems[0].Annotation != annotationFloatingIPTag || problems[0].Why != want:
			t.Errorf("%s: the problems are %v, want %q", name, problems, want)
		}
	}
}

func TestAddressSource_NamesTheSettingThatRequestsTheAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ annotation, field, address, want string }{
		{"", "10.0.0.1", "10.0.0.1", fieldAddress},
		{"10.0.0.1", "", "10.0.0.1", "annotation " + annotationAddress},
		{"10.0.0.1,fd00::1", "10.0.0.1", "10.0.0.1", fieldAddress},
		{"10.0.0.1,fd00::1", "10.0.0.1", "fd00::1", "annotation " + annotationAddress},
	} {
		service := short(map[string]string{"address": test.annotation})
		service.Spec.LoadBalancerIP = test.field
		if got := AddressSource(service, test.address); got != test.want {
			t.Errorf("%s of %q and %q is by %s, want %s", test.address, test.annotation, test.field,
				got, test.want)
		}
	}
}

// Octavia runs a monitor whose timeout is not shorter than its delay, and so does OCCM.
func TestOf_MonitorTimeoutNotShorterThanTheDelay_IsKeptWithAWarning(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.LoadBalancer.MonitorDelay, defaults.LoadBalancer.MonitorTimeout = 20*time.Second,
		10*time.Second
	for _, c := range []struct {
		delay, timeout string
		want           [2]time.Duration
		told           string
	}{
		{"30", "30", [2]time.Duration{30 * time.Second, 30 * time.Second}, annotationHealthMonitorTimeout},
		{"30", "31", [2]time.Duration{30 * time.Second, 31 * time.Second}, annotationHealthMonitorTimeout},
		{"", "21", [2]time.Duration{20 * time.Second, 21 * time.Second}, annotationHealthMonitorTimeout},
		{"9", "", [2]time.Duration{9 * time.Second, 10 * time.Second}, annotationHealthMonitorDelay},
		{"10", "", [2]time.Duration{10 * time.Second, 10 * time.Second}, annotationHealthMonitorDelay},
		{"x", "30", [2]time.Duration{20 * time.Second, 30 * time.Second}, annotationHealthMonitorTimeout},
		{"9", "8", [2]time.Duration{9 * time.Second, 8 * time.Second}, ""},
		{"9", "x", [2]time.Duration{9 * time.Second, 10 * time.Second}, ""},
	} {
		got, problems := Of(
			short(map[string]string{
				"health-monitor-delay":   c.delay,
				"health-monitor-timeout": c.timeout,
			}), defaults)
		var told []string
		for _, p := range problems {
			if p.Used && !p.Fatal && !strings.Contains(p.String(), "the default is used") {
				told = append(told, p.Annotation)
			}
		}
		if have := [2]time.Duration{got.MonitorDelay, got.MonitorTimeout}; have != c.want ||
			strings.Join(told, ",") != c.told {
			t.Errorf("of %q and %q the times are %v, want %v; problems: %v, want one of %q",
				c.delay,
				c.timeout, have, c.want, problems, c.told)
		}
	}
}

func TestOf_MonitorTimesOfCloudConf_AreKeptWithoutAnEvent(t *testing.T) {
	t.Parallel()
	for _, c := range []cloudconf.LoadBalancer{
		{MonitorDelay: 20 * time.Second, MonitorTimeout: 30 * time.Second},
		{MonitorDelay: 10 * time.Second, MonitorTimeout: 10 * time.Second},
	} {
		got, problems := Of(serviceWith(nil), Defaults{LoadBalancer: c})
		if got.MonitorDelay != c.MonitorDelay || got.MonitorTimeout != c.MonitorTimeout ||
			len(problems) > 0 {
			t.Errorf("the times are %s and %s, want %s and %s; problems: %v", got.MonitorDelay,
				got.MonitorTimeout, c.MonitorDelay, c.MonitorTimeout, problems)
		}
	}
}

func TestOf_CloudConfOutOfRange_HasTheDefaultsOfOCCM(t *testing.T) {
	t.Parallel()
	for _, c := range []cloudconf.LoadBalancer{
		{},
		{MonitorMaxRetries: 11, MonitorMaxRetriesDown: -1},
		{MonitorDelay: 999 * time.Millisecond, MonitorTimeout: 900 * time.Millisecond},
		{MonitorDelay: 1 << 62, MonitorTimeout: 1 << 62},
	} {
		got, _ := Of(serviceWith(nil), Defaults{LoadBalancer: c})
		if got.MonitorDelay != 5*time.Second || got.MonitorTimeout != 3*time.Second ||
			got.MonitorMaxRetries != 1 || got.MonitorMaxRetriesDown != 3 {
			t.Errorf("of %+v the settings are %s, %s, %d and %d",
				c, got.MonitorDelay, got.MonitorTimeout,
				got.MonitorMaxRetries, got.MonitorMaxRetriesDown)
		}
	}
	got, _ := Of(serviceWith(nil),
		Defaults{LoadBalancer: cloudconf.LoadBalancer{
			MonitorDelay:   5900 * time.Millisecond,
			MonitorTimeout: 2100 * time.Millisecond,
		}})
	if got.MonitorDelay != 5*time.Second || got.MonitorTimeout != 2*time.Second {
		t.Errorf("5.9 s and 2.1 s are read as %s and %s, want whole seconds as with OCCM",
			got.MonitorDelay, got.MonitorTimeout)
	}
}

// Without the check of certificates, any reference is accepted.
func TestOf_CertificateElsewhere(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.LoadBalancer.ContainerStore = "external"
	got, problems := Of(short(map[string]string{"default-tls-container-ref": "vault:front"}),
		defaults)
	if got.CheckCertificates || got.TLSContainer != "vault:front" || len(problems) > 0 {
		t.Errorf("the certificate is %q, checked %v; problems: %v", got.TLSContainer,
			got.CheckCertificates, problems)
	}
}

// OCCM refuses both together, too.
func TestOf_ProxyProtocolBesideXForwardedFor_IsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		proxy, forwarded string
		refused          bool
	}{
		{"v2", "true", true},
		{"true", "true", true},
		{"false", "true", false},
		{"v2", "false", false},
		{"", "true", false},
	} {
		_, problems := Of(short(map[string]string{
			"proxy-protocol": c.proxy, "x-forwarded-for": c.forwarded,
		}), presets())
		if (len(Fatal(problems)) == 1) != c.refused || len(problems) > 1 {
			t.Fatalf("%q and %q: the problems are %v, refused: %t", c.proxy, c.forwarded, problems,
				c.refused)
		}
		const want = Prefix + `x-forwarded-for: "true" is not allowed together with ` +
			"proxy-protocol: both pass the address of the client; remove one of them"
		if c.refused && problems[0].String() != want {
			t.Errorf("%q and %q: the problem is %q, want %q", c.proxy, c.forwarded, problems[0],
				want)
		}
	}
}

func TestOf_ProblemsAreInTheOrderOfThePage(t *testing.T) {
	t.Parallel()
	service := short(map[string]string{
		"health-monitor-timeout": "0", "health-monitor-max-retries": "x", "subnet-id": "x",
		"class": "x", "default-tls-container-ref": "x", "hostname": "_",
	})
	service.Spec.LoadBalancerIP = "x"
	_, problems := Of(service, presets())
	var names []string
	for _, p := range problems {
		names = append(names, strings.TrimPrefix(p.Annotation, Prefix))
	}
	want := []string{
		"class", "subnet-id", "default-tls-container-ref", "health-monitor-timeout",
		"health-monitor-max-retries", "hostname", "spec.loadBalancerIP",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the problems are of %q, want %q", names, want)
	}
}

func TestListenerProtocols_Of(t *testing.T) {
	t.Parallel()
	single := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Prefix +
			"listener-protocols": "443=HTTPS"}},
		Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 443}}},
	}
	got, problems := Of(single, presets())
	if p := got.ListenerProtocols.Of(single.Spec.Ports[0]); p != "HTTPS" || len(problems) > 0 {
		t.Errorf("the port without a name has %q; problems: %v", p, problems)
	}
	several := short(map[string]string{"listener-protocols": "443=HTTP"})
	got, _ = Of(several, presets())
	for i, want := range []string{"", "HTTP", "", "", ""} {
		if port := several.Spec.Ports[i]; got.ListenerProtocols.Of(port) != want {
			t.Errorf("port %s has %q, want %q", port.Name, got.ListenerProtocols.Of(port), want)
		}
	}
}

func TestProblem_IsFitForAnEvent(t *testing.T) {
	t.Parallel()
	_, problems := Of(short(map[string]string{"connection-limit": strings.Repeat("x", 200) + "\n"}),
		presets())
	want := Prefix + `connection-limit: "` + strings.Repeat("x", 100) +
		`…" is not a whole number, at least -1; the default, -1, is used`
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("the problems are %v, want %s", problems, want)
	}
	if got := shown("a\x00b\xffc\u202ed\n"); got != "a\ufffdb\ufffdc\ufffdd\ufffd" {
		t.Errorf("shown is %q", got)
	}
}

func TestUnknown_MistypedAnnotations_AreNamed(t *testing.T) {
	t.Parallel()
	service := serviceWith(map[string]string{
		Prefix + "conection-limit":                                   "1",
		Prefix + "floating-subnet-tag":                               "1",
		Prefix + "something-of-others":                               "1",
		Prefix + "class":                                             "x",
		"service.beta.kubernetes.io/openstack-internal-loadbalancer": "true",
		"service.beta.kubernetes.io/aws-load-balancer-type":          "nlb",
		"conection-limit":                                            "1",
	})
	var got []string
	for _, p := range Unknown(service) {
		got = append(got, p.String())
		if p.Fatal {
			t.Errorf("%s is fatal", p)
		}
	}
	want := []string{
		`loadbalancer.openstack.org/conection-limit is not known, and has no effect; did you mean "loadbalancer.openstack.org/connection-limit"?`,
		`loadbalancer.openstack.org/floating-subnet-tag is not known, and has no effect; did you mean "loadbalancer.openstack.org/floating-subnet-tags"?`,
		`loadbalancer.openstack.org/something-of-others is not known, and has no effect; remove it`,
		`service.beta.kubernetes.io/openstack-internal-loadbalancer is not known, and has no effect; did you mean "service.beta.kubernetes.io/openstack-internal-load-balancer"?`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the problems are\n%s\nwant\n%s",
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		if known := serviceWith(map[string]string{row.about().name: "x"}); len(Unknown(known)) > 0 {
			t.Errorf("%s is not known", row.about().name)
		}
	}
}

// A name that is not very near must not lead to an annotation that attaches an object of another
// owner.
func TestUnknown_Suggestion_AttachesNoForeignObject(t *testing.T) {
	t.Parallel()
	const none = ""
	for name, want := range map[string]string{
		"loadBalancerIP":             "spec.loadBalancerIP",
		"load-balancer-ip":           "spec.loadBalancerIP",
		"loadbalancer-IP":            "spec.loadBalancerIP",
		"load_balancer_ips":          "spec.loadBalancerIP",
		"spec.loadBalancerIP":        "spec.loadBalancerIP",
		"loadBalancerSourceRanges":   "spec.loadBalancerSourceRanges",
		"load-balancer-source-range": "spec.loadBalancerSourceRanges",
		"externalTrafficPolicy":      "spec.externalTrafficPolicy",

		"load-balancer-idd":     "load-balancer-id",
		"loadBalancerID":        "load-balancer-id",
		"load-balancer-name":    none,
		"loadBalancerClass":     none, // the field would take the Service from this controller
		"load-balancer-class":   none,
		"loadbalancer-idx":      none,
		"ports-ids":             none,
		"post-it":               none,
		"floating-subnets-ids":  none,
		"floatingNetworkID":     "floating-network-id",
		"float-network-id":      none,
		"subnet_id":             "subnet-id",
		"default-tls-container": none,
		"health-monitor-dely":   "health-monitor-delay",
		"keep-floating-ip":      "keep-floatingip",
	} {
		problems := Unknown(serviceWith(map[string]string{Prefix + name: "x"}))
		_, got, _ := strings.Cut(problems[0].Why, "; ")
		switch {
		case strings.HasPrefix(want, "spec."):
			want = "set the field " + want + " instead"
		case want != none:
			want = fmt.Sprintf("did you mean %q?", Prefix+want)
		}
		if got != want {
			t.Errorf("the suggestion for %s is %q, want %q", name, got, want)
		}
	}
}

// The rows are OCCM's table of annotations, and fxccm's own.
func TestTable_IsComplete(t *testing.T) {
	t.Parallel()
	occm := strings.Fields(`class floating-network-id floating-subnet-id floating-subnet floating-subnet-tags keep-floatingip port-id lb-method proxy-protocol subnet-id
		network-id member-subnet-id timeout-client-data timeout-member-connect timeout-member-data timeout-tcp-inspect x-forwarded-for flavor-id availability-zone
		enable-health-monitor health-monitor-delay health-monitor-timeout health-monitor-max-retries health-monitor-max-retries-down hostname load-balancer-address
		default-tls-container-ref load-balancer-id node-selector connection-limit
		service.beta.kubernetes.io/openstack-internal-load-balancer service.beta.kubernetes.io/load-balancer-source-ranges`)
	own := strings.Fields(
		"region load-balancer-region address floating-ip-id floating-ip-tag lb-provider x-forwarded-port x-forwarded-proto listener-protocols additional-subnet-id recreate tls-versions member-target share-as")
	seen := map[string]int{}
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		e := row.about()
		seen[strings.TrimPrefix(e.name, Prefix)]++
		if e.own != slices.Contains(own, strings.TrimPrefix(e.name, Prefix)) {
			t.Errorf("%s is fxccm's own: %v", e.name, e.own)
		}
	}
	for _, name := range append(append(occm, own...), fieldSourceRanges, fieldAddress) {
		if seen[name] != 1 {
			t.Errorf("%s has %d rows, want 1", name, seen[name])
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("unexpected rows: %v", seen)
	}
}

func TestTable_OptionsAreTheDefaults(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(
		filepath.Join("..", "..", "..", "..", "..", "docs", "reference", "cloud-conf.md"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"internal-lb": "true", "create-monitor": "true", "monitor-delay": "9s",
		"monitor-timeout": "1s", "monitor-max-retries": "9",
		"monitor-max-retries-down": "9", "lb-method": "SOURCE_IP", "lb-provider": "f5",
		"node-selector": "a=b", "member-target": "pod",
	}
	nothing, _ := Of(serviceWith(nil), parsed(t, ""))
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		option := row.about().option
		if option == "" {
			continue
		}
		if !strings.Contains(string(page), "| `"+option+"` |") {
			t.Errorf("%s is no option", option)
		}
		value := values[option]
		if value == "" {
			value = id1
		}
		if got, _ := Of(serviceWith(nil),
			parsed(t, "[LoadBalancer]\n"+option+" = "+value+"\n")); reflect.DeepEqual(got,
			nothing) {
			t.Errorf("%s changes nothing", option)
		}
	}
}

func TestNodeSelector_EachText_SelectsByLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		selector string
		labels   map[string]string
		want     bool
	}{
		{"", nil, true},
		{",", nil, true},
		{"a", map[string]string{"a": ""}, true},
		{"a", map[string]string{"a": "x"}, true},
		{"a=", map[string]string{"a": "x"}, true},
		{"a", nil, false},
		{"a=x", map[string]string{"a": "x", "b": "y"}, true},
		{"a=x", map[string]string{"a": "y"}, false},
		{"a=x,b", map[string]string{"a": "x"}, false},
		{" a = x , b ", map[string]string{"a": "x", "b": "y"}, true},
		{"a=x=y", map[string]string{"a": "x=y"}, true},
		{"a=x,a=y", map[string]string{"a": "y"}, true},
		{"=x", map[string]string{"a": "x"}, false},
	} {
		selector := ParseNodeSelector(c.selector)
		if got := selector.Matches(c.labels); got != c.want {
			t.Errorf("%q selects %v: %v, want %v", c.selector, c.labels, got, c.want)
		}
		if again := ParseNodeSelector(selector.String()); !reflect.DeepEqual(again, selector) {
			t.Errorf("String of %q is %q", c.selector, selector)
		}
	}
}

// objectAnnotations returns the annotations and the field that name objects of the cloud, with a
// valid value for each.
func objectAnnotations() map[string]string {
	values := map[string]string{}
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		e := row.about()
		switch {
		case e.misuse == "":
		case e.name == fieldAddress, e.name == annotationAddress:
			values[e.name] = "203.0.113.1"
		case e.name == annotationTLSContainer:
			values[e.name] = "https://key/v1/containers/" + id1
		case e.typ == "UUID":
			values[e.name] = id1
		default:
			values[e.name] = "ovn"
		}
	}
	return values
}

func serviceNaming(name, value string) *v1.Service {
	if name == fieldAddress {
		service := serviceWith(nil)
		service.Spec.LoadBalancerIP = value
		return service
	}
	service := serviceWith(nil)
	service.Annotations = map[string]string{name: value}
	return service
}

func TestOf_ObjectOfTheCloudIsNotAllowed_ServiceIsRefusedAndTheDefaultStays(t *testing.T) {
	t.Parallel()
	forbidding, allowing := presets(), presets()
	forbidding.LoadBalancer.AllowedAnnotations = "none"
	defaults, _ := Of(serviceWith(nil), forbidding)
	for name, value := range objectAnnotations() {
		t.Run(name, func(t *testing.T) {
			option := optionNameOf(name)
			allowing.LoadBalancer.AllowedAnnotations = "flavor-id, " + option
			service := serviceNaming(name, value)
			got, problems := Of(service, allowing)
			if len(problems) > 0 {
				t.Errorf("an allowed annotation is refused: %v", problems)
			}
			want, _ := Of(service, presets())
			want.MayShare = got.MayShare
			if !reflect.DeepEqual(got, want) {
				t.Errorf("an allowed annotation results in %+v, want %+v", got, want)
			}
			got, problems = Of(service, forbidding)
			if name == AnnotationLoadBalancerID {
				if got.MayShare || len(problems) > 0 {
					t.Errorf("sharing is allowed, or fxccm's own ID is refused: %v", problems)
				}
				return
			}
			if !reflect.DeepEqual(got, defaults) {
				t.Errorf("a forbidden annotation has an effect: %+v", got)
			}
			if len(Fatal(problems)) != 1 || problems[0].AtCreation {
				t.Errorf("the problems are %v, want one that refuses the Service", problems)
			}
		})
	}
}

func optionNameOf(name string) string { return entry{name: name}.optionName() }

// Whatever has a UUID as its value names an object, and cloud.conf knows all of them.
func TestTable_AnnotationsThatNameObjects_AreKnownToCloudConf(t *testing.T) {
	t.Parallel()
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		e := row.about()
		if e.typ == "UUID" && e.misuse == "" {
			t.Errorf("%s names an object, but the table does not say what a user could do", e.name)
		}
		conf := "[LoadBalancer]\nallowed-annotations = " + e.optionName() + "\n"
		_, err := cloudconf.Read([]byte(conf), cloudconf.Options{})
		knows := err == nil || !strings.Contains(err.Error(), "allowed-annotations")
		if knows != (e.misuse != "") {
			t.Errorf("cloud.conf accepts %s: %t", e.optionName(), knows)
		}
	}
}

func TestOf_ClassGrantsAnnotationsToANamespace(t *testing.T) {
	t.Parallel()
	defaults := presets()
	defaults.LoadBalancer.AllowedAnnotations = "none"
	defaults.Classes = map[string]cloudconf.LoadBalancerClass{"trusted": {
		AllowedAnnotations: "subnet-id", Namespaces: []string{"platform"},
	}}
	service := short(map[string]string{"class": "trusted", "subnet-id": id1})
	service.Namespace = "platform"
	if got, problems := Of(service, defaults); got.SubnetID != id1 || len(problems) > 0 {
		t.Errorf("in its namespace: subnet %q, %v", got.SubnetID, problems)
	}
	service.Namespace = "shop"
	if got, problems := Of(service, defaults); got.SubnetID != "" || len(Fatal(problems)) != 2 {
		t.Errorf("in another namespace: subnet %q, %v", got.SubnetID, problems)
	}
}
