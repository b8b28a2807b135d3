package members_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/internal/members"
)

// A state is that of an endpoint's pod.
type state discoveryv1.EndpointConditions

var (
	unknown  = state{}
	ready    = state{Ready: new(true), Serving: new(true), Terminating: new(false)}
	starting = state{Ready: new(false), Serving: new(false), Terminating: new(false)}
	draining = state{Ready: new(false), Serving: new(true), Terminating: new(true)}
	ended    = state{Ready: new(false), Serving: new(false), Terminating: new(true)}
	// always is an endpoint of a Service with publishNotReadyAddresses.
	always = state{Ready: new(true), Serving: new(false), Terminating: new(true)}
)

func endpoint(is state, address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions(is),
	}
}

// slice returns an EndpointSlice of TCP port 8080 without a name.
func slice(
	family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint,
) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		AddressType: family, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
	}
}

func withPorts(
	s *discoveryv1.EndpointSlice, ports ...discoveryv1.EndpointPort,
) *discoveryv1.EndpointSlice {
	s.Ports = ports
	return s
}

func TestEndpoints_EachCase_AreThoseOfKubernetes(t *testing.T) {
	const four, six = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	for name, test := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		port   v1.ServicePort
		family v1.IPFamily
		want   string
	}{
		"none": {want: ""},
		"the states": {
			slices: []*discoveryv1.EndpointSlice{slice(four,
				endpoint(ready, "10.0.0.1"), endpoint(starting, "10.0.0.2"),
				endpoint(draining, "10.0.0.3"), endpoint(ended, "10.0.0.4"),
				endpoint(unknown, "10.0.0.5"), endpoint(always, "10.0.0.6"))},
			want: "10.0.0.1:8080 10.0.0.3:8080-draining 10.0.0.5:8080 10.0.0.6:8080",
		},
		"only terminating ones": {
			slices: []*discoveryv1.EndpointSlice{slice(four,
				endpoint(draining, "10.0.0.3"), endpoint(ended, "10.0.0.4"))},
			want: "10.0.0.3:8080",
		},
		"a ready one that must not be a member": {
			slices: []*discoveryv1.EndpointSlice{slice(four,
				endpoint(draining, "10.0.0.3"), endpoint(ready, "10.0.0.99"))},
			want: "10.0.0.3:8080",
		},
		"two slices, sorted": {slices: []*discoveryv1.EndpointSlice{
			slice(four, endpoint(ready, "10.0.0.10")), slice(four, endpoint(ready, "10.0.0.9")),
		}, want: "10.0.0.9:8080 10.0.0.10:8080"},
		"in two slices for a moment": {slices: []*discoveryv1.EndpointSlice{
			slice(four, endpoint(draining, "10.0.0.1")), slice(four, endpoint(ready, "10.0.0.1")),
		}, want: "10.0.0.1:8080"},
		"another family": {slices: []*discoveryv1.EndpointSlice{
			slice(four, endpoint(ready, "10.0.0.1")), slice(six, endpoint(ready, "fd00::1")),
		}, family: v1.IPv6Protocol, want: "[fd00::1]:8080"},
		"names of hosts": {slices: []*discoveryv1.EndpointSlice{
			slice(discoveryv1.AddressTypeFQDN, endpoint(ready, "example.com")),
		}, want: ""},
		"no address": {slices: []*discoveryv1.EndpointSlice{
			slice(four, endpoint(ready, "nonsense"), discoveryv1.Endpoint{}),
		}, want: ""},
		"a named target port has several numbers": {slices: []*discoveryv1.EndpointSlice{
			withPorts(slice(four, endpoint(ready, "10.0.0.1")),
				discoveryv1.EndpointPort{Name: new("web"), Port: new(int32(80))},
				discoveryv1.EndpointPort{Name: new("admin"), Port: new(int32(81))}),
			withPorts(slice(four, endpoint(ready, "10.0.0.2")),
				discoveryv1.EndpointPort{Name: new("web"), Port: new(int32(8080))}),
		}, port: v1.ServicePort{Name: "web"}, want: "10.0.0.1:80 10.0.0.2:8080"},
		"the same name by another protocol": {slices: []*discoveryv1.EndpointSlice{
			withPorts(slice(four, endpoint(ready, "10.0.0.1")),
				discoveryv1.EndpointPort{
					Name: new("dns"), Port: new(int32(53)), Protocol: new(v1.ProtocolTCP),
				},
				discoveryv1.EndpointPort{
					Name: new("dns"), Port: new(int32(5353)), Protocol: new(v1.ProtocolUDP),
				}),
		}, port: v1.ServicePort{Name: "dns", Protocol: v1.ProtocolUDP}, want: "10.0.0.1:5353"},
		"all ports": {slices: []*discoveryv1.EndpointSlice{
			withPorts(slice(four, endpoint(ready, "10.0.0.1")), discoveryv1.EndpointPort{}),
		}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			family := test.family
			if family == "" {
				family = v1.IPv4Protocol
			}
			var got []string
			for _, e := range members.Endpoints(test.slices, test.port, family,
				func(e members.Endpoint) bool { return e.Address.String() != "10.0.0.99" }) {
				text := fmt.Sprintf("%s:%d", e.Address, e.Port)
				if e.Address.Is6() {
					text = fmt.Sprintf("[%s]:%d", e.Address, e.Port)
				}
				if e.Draining {
					text += "-draining"
				}
				got = append(got, text)
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// An endpoint that is not ready may have open connections.
func TestPorts_EachState_AreThoseOfAllThatMayBeMembers(t *testing.T) {
	at := func(number int32, is state, address string) *discoveryv1.EndpointSlice {
		return withPorts(slice(discoveryv1.AddressTypeIPv4, endpoint(is, address)),
			discoveryv1.EndpointPort{Port: &number})
	}
	got := members.Ports([]*discoveryv1.EndpointSlice{
		at(5, ended, "10.0.0.1"), at(4, draining, "10.0.0.1"), at(3, starting, "10.0.0.1"),
		at(2, ready, "10.0.0.1"), at(1, ready, "10.0.0.99"), at(2, ready, "10.0.0.2"),
		slice(discoveryv1.AddressTypeIPv6, endpoint(ready, "fd00::1")),
	}, v1.ServicePort{}, v1.IPv4Protocol,
		func(e members.Endpoint) bool { return e.Address.String() != "10.0.0.99" })
	if want := []int32{2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTrimEndpointSlice_OfPods_KeepsWhatProvidersGet(t *testing.T) {
	full := slice(discoveryv1.AddressTypeIPv4, discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions(ready),
		Hostname: new("web-0"), NodeName: new("node-1"), Zone: new("a"),
		TargetRef: &v1.ObjectReference{Kind: "Pod", Name: "web-0"},
		Hints:     &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}},
	})
	full.ObjectMeta = metav1.ObjectMeta{
		Namespace: "default", Name: "web-1", UID: "1", ResourceVersion: "2",
		GenerateName: "web-",
		Labels: map[string]string{
			discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "controller",
		},
		Annotations:     map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{Name: "web"}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
	want := slice(discoveryv1.AddressTypeIPv4, discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions(ready),
		NodeName: new("node-1"),
	})
	want.ObjectMeta = metav1.ObjectMeta{
		Namespace: "default", Name: "web-1", UID: "1", ResourceVersion: "2",
		Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
	}
	got, err := members.TrimEndpointSlice(full)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
