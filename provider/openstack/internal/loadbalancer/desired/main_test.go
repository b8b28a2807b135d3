package desired

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/events/eventstest"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	certificate = "https://keys.example/v1/containers/5f0b"
	clusterUID  = "6d9c9e7f-0a57-4a7e-9d0b-1a4c1c1b7a10"
	serviceUID  = "0b1f6f0e-7c1d-4f57-8a55-3f1f2c9e4d21"
)

// latest returns the features of the latest amphora, ovn those of the latest ovn.
func latest() Features { return FeaturesOf("amphora", 27, false) }

func ovn() Features { return FeaturesOf(octavia.ProviderOVN, 27, false) }

// given returns an external IPv4 Service with port 80/TCP and two nodes, in a cloud with all
// features, after the changes.
func given(changes ...func(*Input)) Input {
	service := &v1.Service{}
	service.Namespace, service.Name, service.UID = "shop", "web", serviceUID
	service.Spec.Type = v1.ServiceTypeLoadBalancer
	service.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol}
	service.Spec.SessionAffinity = v1.ServiceAffinityNone
	service.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyCluster
	service.Spec.Ports = []v1.ServicePort{{
		Name: "http", Protocol: v1.ProtocolTCP, Port: 80,
		NodePort: 30080,
	}}
	in := Input{
		Identity: Identity{
			ClusterName: "kubernetes", ClusterUID: clusterUID,
			Namespace: "shop", Name: "web", UID: serviceUID,
		},
		Service: service,
		Nodes:   []Node{{Node: node("n1", "10.0.0.1")}, {Node: node("n2", "10.0.0.2")}},
		Settings: settings.Settings{
			ConnectionLimit: -1, TimeoutClientData: 50000, TimeoutMemberConnect: 5000,
			TimeoutMemberData: 50000,
			MonitorDelay:      5 * time.Second, MonitorTimeout: 3 * time.Second,
			MonitorMaxRetries:     1,
			MonitorMaxRetriesDown: 3,
			CascadeDelete:         true, IngressHostnameSuffix: "nip.io",
		},
		Features: latest(),
		Places: Places{
			VIP: octavia.VIP{SubnetID: "vip subnet"},
			Member: MemberPlace{
				Subnet: neutron.Subnet{ID: "member subnet", CIDR: "10.0.0.0/16"},
			},
			FloatingNetworkID: "public",
		},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func node(name string, addresses ...string) *v1.Node {
	n := &v1.Node{}
	n.Name = name
	n.Spec.ProviderID = "openstack:///" + serverOf(name)
	for _, text := range addresses {
		kind := v1.NodeInternalIP
		for _, other := range []v1.NodeAddressType{
			v1.NodeExternalIP, v1.NodeExternalDNS,
			v1.NodeHostName, v1.NodeInternalDNS,
		} {
			if prefix := string(other) + ":"; len(text) > len(prefix) &&
				text[:len(prefix)] == prefix {
				kind, text = other, text[len(prefix):]
			}
		}
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: kind, Address: text})
	}
	return n
}

// serverOf returns the ID of the server of the node n1, n2 and so on.
func serverOf(name string) string {
	return fmt.Sprintf("00000000-0000-0000-0000-00000000000%s", name[1:2])
}

func withPorts(ports ...v1.ServicePort) func(*Input) {
	return func(in *Input) { in.Service.Spec.Ports = ports }
}

func withProtocols(protocols ...v1.Protocol) func(*Input) {
	return func(in *Input) {
		in.Service.Spec.Ports = nil
		for i, protocol := range protocols {
			in.Service.Spec.Ports = append(in.Service.Spec.Ports, v1.ServicePort{
				Name: fmt.Sprint("p", i), Protocol: protocol, Port: int32(80 + i),
				NodePort: int32(30080 + i),
			})
		}
	}
}

func withFeatures(f Features) func(*Input) { return func(in *Input) { in.Features = f } }

func withSettings(change func(*settings.Settings)) func(*Input) {
	return func(in *Input) { change(&in.Settings) }
}

func withNodes(nodes ...*v1.Node) func(*Input) {
	return func(in *Input) {
		in.Nodes = nil
		for _, n := range nodes {
			in.Nodes = append(in.Nodes, Node{Node: n})
		}
	}
}

func withFamilies(families ...v1.IPFamily) func(*Input) {
	return func(in *Input) { in.Service.Spec.IPFamilies = families }
}

// withLocal sets externalTrafficPolicy: Local.
func withLocal(in *Input) {
	in.Service.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	in.Service.Spec.HealthCheckNodePort = 31000
}

func withMonitor(in *Input) { in.Settings.Monitor = true }

func build(t *testing.T, changes ...func(*Input)) (State, []events.Notice) {
	t.Helper()
	d, notices, err := Build(given(changes...))
	if err != nil {
		t.Fatalf("cannot be served: %v", err)
	}
	for _, n := range notices {
		if n.Warning {
			eventstest.CheckShape(t, n.Message)
		}
	}
	return d, notices
}

func refused(t *testing.T, changes ...func(*Input)) error {
	t.Helper()
	d, _, err := Build(given(changes...))
	if err == nil {
		t.Fatalf("served as %+v", d)
	}
	eventstest.CheckShape(t, err.Error())
	return err
}

// told returns the reasons, with an exclamation mark after those of warnings.
func told(notices []events.Notice) []string {
	reasons := []string{}
	for _, n := range notices {
		reason := string(n.Reason)
		if n.Warning {
			reason += "!"
		}
		reasons = append(reasons, reason)
	}
	return reasons
}

// annotated sets an annotation of fxccm. Only the names in messages depend on it.
func annotated(name, value string) func(*Input) {
	return func(in *Input) {
		in.Service.Annotations = map[string]string{settings.Prefix + name: value}
	}
}

// wantMessage checks that a notice has this message.
func wantMessage(t *testing.T, notices []events.Notice, want string) {
	t.Helper()
	if !slices.ContainsFunc(notices, func(n events.Notice) bool { return n.Message == want }) {
		t.Errorf("the notices are %+v, want %q", notices, want)
	}
}

func wantTold(t *testing.T, notices []events.Notice, want ...string) {
	t.Helper()
	if got := told(notices); !slices.Equal(got, want) {
		t.Errorf("the notices are %q (%+v), want %q", got, notices, want)
	}
}
