package fake

import (
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var within = waittest.Context

// opener opens providers on a cloud, in this process or over HTTP.
type opener func(...ProviderOption) cloudprovider.Interface

// onBoth runs a test of behavior with a provider in memory and with one over HTTP, each on a cloud
// of its own.
func onBoth(t *testing.T, opts []Option, test func(t *testing.T, cloud *Cloud, open opener)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		cloud := New(opts...)
		test(t, cloud, cloud.Provider)
	})
	t.Run("http", func(t *testing.T) {
		cloud := New(opts...)
		test(t, cloud, dial(t, cloud).Provider)
	})
}

// dial serves the cloud and returns a client of it; both end with the test.
func dial(t *testing.T, cloud *Cloud, opts ...DialOption) *Client {
	t.Helper()
	client, err := Dial(within(t), serve(t, cloud), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func serve(t *testing.T, cloud *Cloud) (address string) {
	t.Helper()
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	// This cleanup runs first, because a hanging call prevents the end of the server.
	t.Cleanup(cloud.ClearFaults)
	return server.URL
}

// inBackground runs f in a goroutine. The caller must receive its result.
func inBackground(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func add(t *testing.T, cloud *Cloud, instances ...Instance) {
	t.Helper()
	if err := cloud.AddInstances(instances...); err != nil {
		t.Fatal(err)
	}
}

func nodeNamed(name string) *v1.Node {
	n := &v1.Node{}
	n.Name = name
	return n
}

func nodeWithID(name, providerID string) *v1.Node {
	n := nodeNamed(name)
	n.Spec.ProviderID = providerID
	return n
}

func nodesNamed(names ...string) (nodes []*v1.Node) {
	for _, name := range names {
		nodes = append(nodes, nodeNamed(name))
	}
	return nodes
}

// serviceNamed returns a Service in the namespace default, whose UID is derived from its name.
func serviceNamed(name string, families ...v1.IPFamily) *v1.Service {
	s := &v1.Service{}
	s.Namespace, s.Name, s.UID = "default", name, types.UID("uid-of-"+name)
	s.Spec.IPFamilies = families
	s.Spec.Ports = []v1.ServicePort{{
		Name: "http", Protocol: v1.ProtocolTCP, Port: 80,
		NodePort: 30080,
	}}
	return s
}

func balancersOf(t *testing.T, p cloudprovider.Interface) cloudprovider.LoadBalancer {
	t.Helper()
	b, ok := p.LoadBalancer()
	if !ok {
		t.Fatal("the provider has no load balancers")
	}
	return b
}

func instancesOf(t *testing.T, p cloudprovider.Interface) cloudprovider.InstancesV2 {
	t.Helper()
	i, ok := p.InstancesV2()
	if !ok {
		t.Fatal("the provider has no InstancesV2")
	}
	return i
}

func routesOf(t *testing.T, p cloudprovider.Interface) cloudprovider.Routes {
	t.Helper()
	r, ok := p.Routes()
	if !ok {
		t.Fatal("the provider has no routes")
	}
	return r
}
