package settings

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// FuzzAnnotations gives a Service the annotations name=value, one a line. Each value is either
// valid for Octavia or reported.
func FuzzAnnotations(f *testing.F) {
	for _, seed := range []string{
		"", "subnet-id=" + id1 + "\nclass=fast\nfloating-subnet=~^a",
		"health-monitor-delay=1\nhealth-monitor-timeout=9\nconnection-limit=-1",
		"listener-protocols=http=HTTP,443=UDP,443=TERMINATED_HTTPS\nproxy-protocol=v2\nx-forwarded-for=true", "node-selector=a=b,c,=\nhostname=a.b",
		"service.beta.kubernetes.io/load-balancer-source-ranges=10.0.0.1/8,::/0,x\nservice.beta.kubernetes.io/openstack-internal-load-balancer=false",
		"spec.loadBalancerSourceRanges=10.0.0.0/8 ::ffff:0:0/96\nspec.loadBalancerIP=::ffff:10.0.0.1",
		"subnet-id=\xff\x00\nclas=x\ntimeout-client-data=99999999999999999999",
		"default-tls-container-ref=/containers/x\nlb-method=\nlb-provider=\nflavor-id=11111111111141118111111111111111",
		"port-id=" + id1 + "\nload-balancer-id=" + id1 +
			"\nspec.loadBalancerIP=203.0.113.1\nfloating-subnet-tags=a",
		"address=10.0.0.1 , ::ffff:10.0.0.1\nspec.loadBalancerIP=10.0.0.2", "address=10.0.0.1,,\x00",
		"floating-ip-tag=pool\nfloating-ip-id=" + id1 + "\naddress=10.0.0.1",
		"lb-provider=\nflavor-id=\navailability-zone=\nfloating-network-id=\ndefault-tls-container-ref=\ntls-versions=TLSv1.2, SSLv3,,x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		annotations, address, ranges := map[string]string{}, "", []string(nil)
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, "=")
			switch {
			case name == fieldAddress:
				address = value
			case name == fieldSourceRanges:
				ranges = strings.Fields(value)
			default:
				annotations[name] = value
			}
		}
		service := short(annotations)
		service.Spec.LoadBalancerIP, service.Spec.LoadBalancerSourceRanges = address, ranges
		defaults := presets()
		defaults.Classes = map[string]cloudconf.LoadBalancerClass{"fast": {
			SubnetID:       id1,
			FloatingSubnet: "x*",
		}}

		before := service.DeepCopy()
		s, problems := Of(service, defaults)
		again, same := Of(service, defaults)
		if !reflect.DeepEqual(s, again) || !reflect.DeepEqual(problems, same) {
			t.Errorf("the same Service has other settings: %+v, %+v", s, again)
		}
		if !reflect.DeepEqual(service, before) {
			t.Error("the Service was changed")
		}
		inRange(t, s)
		namesNoObject(t, service)
		if len(ranges) > 0 && s.SourceRanges == nil {
			t.Errorf("%q admits all clients", ranges)
		}
		for _, p := range append(problems, Unknown(service)...) {
			fits(t, p)
		}
		for _, p := range problems {
			said := service.Annotations[p.Annotation]
			switch p.Annotation {
			case fieldAddress:
				said = address
			case fieldSourceRanges:
				said = strings.Join(ranges, ",")
			}
			if said == "" {
				t.Errorf("a problem of an unset value: %s", p)
			}
		}
	})
}

// namesNoObject fails the test if a user names an object of the cloud although the operator forbids
// it.
func namesNoObject(t *testing.T, service *v1.Service) {
	t.Helper()
	forbidding := presets()
	forbidding.LoadBalancer.AllowedAnnotations = "none"
	objects := func(of *v1.Service) []string {
		s, _ := Of(of, forbidding)
		return []string{
			s.NetworkID, s.SubnetID, s.PortID, s.AdditionalSubnetID, s.MemberSubnetID,
			s.FloatingNetworkID, s.FloatingSubnetID, s.FloatingSubnet, s.FloatingSubnetTags,
			s.FlavorID, s.AvailabilityZone, s.Provider, s.TLSContainer, s.Address,
			s.AdditionalAddress, s.FloatingIPID, s.FloatingIPTag,
		}
	}
	if got, want := objects(service), objects(serviceWith(nil)); !slices.Equal(got, want) {
		t.Errorf("a user names objects of the cloud: %q, want %q", got, want)
	}
	if s, _ := Of(service, forbidding); s.MayShare {
		t.Error("a user may name a load balancer of another owner")
	}
}

// inRange fails the test for values that Octavia or the API server would refuse.
func inRange(t *testing.T, s Settings) {
	t.Helper()
	for _, id := range []string{
		s.NetworkID, s.SubnetID, s.PortID, s.AdditionalSubnetID,
		s.MemberSubnetID, s.FloatingNetworkID, s.FloatingSubnetID, s.FlavorID, s.LoadBalancerID,
		s.FloatingIPID,
	} {
		if normal, ok := parseUUID(id); id != "" && (!ok || normal != id) {
			t.Errorf("%q is not a UUID", id)
		}
	}
	if s.ConnectionLimit < -1 {
		t.Errorf("the connection limit is %d", s.ConnectionLimit)
	}
	for _, timeout := range []int{
		s.TimeoutClientData, s.TimeoutMemberConnect, s.TimeoutMemberData,
		s.TimeoutTCPInspect,
	} {
		if timeout < 0 || timeout > 2073600000 {
			t.Errorf("a timeout is %d", timeout)
		}
	}
	if s.MonitorTimeout < time.Second || s.MonitorDelay < time.Second ||
		s.MonitorDelay%time.Second != 0 || s.MonitorTimeout%time.Second != 0 {
		t.Errorf("the monitor's times are %s and %s", s.MonitorDelay, s.MonitorTimeout)
	}
	if min(s.MonitorMaxRetries, s.MonitorMaxRetriesDown) < 1 ||
		max(s.MonitorMaxRetries, s.MonitorMaxRetriesDown) > 10 {
		t.Errorf("the retries are %d and %d", s.MonitorMaxRetries, s.MonitorMaxRetriesDown)
	}
	if !slices.Contains([]string{"", "PROXY", "PROXYV2"}, s.ProxyProtocol) ||
		!slices.Contains([]string{
			"", "ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP",
			"SOURCE_IP_PORT",
		}, s.Algorithm) {
		t.Errorf("the PROXY protocol is %q, the algorithm %q", s.ProxyProtocol, s.Algorithm)
	}
	for i, r := range s.SourceRanges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil || prefix.Masked().String() != r || i > 0 && s.SourceRanges[i-1] >= r {
			t.Errorf("the source ranges are %q", s.SourceRanges)
		}
	}
	for _, address := range []string{s.Address, s.AdditionalAddress} {
		if ip, err := netip.ParseAddr(address); address != "" &&
			(err != nil || ip.Unmap().String() != address) {
			t.Errorf("the address is %q", address)
		}
	}
	if s.FloatingSubnetID != "" && s.FloatingSubnet+s.FloatingSubnetTags != "" {
		t.Errorf("floating subnets are by id %s, and by %q and %q", s.FloatingSubnetID,
			s.FloatingSubnet, s.FloatingSubnetTags)
	}
	for port, protocol := range s.ListenerProtocols {
		if !slices.ContainsFunc(serviceWith(nil).Spec.Ports, func(p v1.ServicePort) bool {
			return portKey(p) == port && slices.Contains(protocolsOver(p), protocol)
		}) {
			t.Errorf("port %q has %q", port, protocol)
		}
	}
}

// fits fails the test unless a problem can be reported in an event.
func fits(t *testing.T, p Problem) {
	t.Helper()
	text := p.String()
	if utf8.RuneCountInString(text) > 700 || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) ||
		p.Why == "" {
		t.Errorf("a problem does not fit an event: %q", text)
	}
}
