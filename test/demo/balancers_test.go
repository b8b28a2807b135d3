package main

import (
	"cmp"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// balanced adds a load balancer of the Service with this UID, with the machines as members, and a
// floating IP.
func (o *openStack) balanced(
	t *testing.T, uid string, machines ...string,
) openstacktest.LoadBalancer {
	t.Helper()
	pool := openstacktest.Pool{Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN"}
	for _, name := range machines {
		m, err := o.machine(name)
		if err != nil {
			t.Fatal(err)
		}
		pool.Members = append(pool.Members,
			openstacktest.Member{Address: m.address, ProtocolPort: 30080})
	}
	lb := openstacktest.LoadBalancer{VIPNetworkID: o.network, Pools: []openstacktest.Pool{pool}}
	lb.Tags = []string{"fxccm-service=" + uid}
	made, err := o.server.LoadBalancer(o.server.AddLoadBalancer(lb))
	if err != nil {
		t.Fatal(err)
	}
	o.server.AddFloatingIP(openstacktest.FloatingIP{NetworkID: o.outside, PortID: made.VIPPortID})
	return made
}

func webService(address string) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "one"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	if address != "" {
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
	return service
}

func TestBalancer_IsFoundByTheUIDOfItsService(t *testing.T) {
	o := newOpenStack(t)
	o.addMachine("node-1")
	o.balanced(t, "another", "node-1")
	if lb, ok := o.balancerOf(webService("")); ok {
		t.Errorf("the load balancer of another Service was taken for its own: %+v", lb)
	}
	want := o.balanced(t, "one", "node-1")
	lb, ok := o.balancerOf(webService(""))
	if !ok || lb.ID != want.ID {
		t.Errorf("found %v %s, want %s", ok, lb.ID, want.ID)
	}
	if ip := o.floatingIPOf(lb); ip == "" || ip == lb.VIPAddress {
		t.Errorf("its floating IP is %q", ip)
	}
}

func TestServiceTable_ShowsTheStateAndTheMachinesBehindIt(t *testing.T) {
	o := newOpenStack(t)
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		o.addMachine(name)
	}
	lb := o.balanced(t, "one", "node-3", "node-1")
	c := &cluster{openStack: o, fake: newFakeCloud()}
	for status, address := range map[string]string{
		openstacktest.StatusPendingCreate: "",
		openstacktest.StatusActive:        "203.0.113.2",
		openstacktest.StatusError:         "203.0.113.2",
	} {
		if err := o.server.SetProvisioningStatus(lb.ID, status); err != nil {
			t.Fatal(err)
		}
		got := serviceTable([]corev1.Service{*webService(address)}, c.backendOf).rows
		want := [][]string{{"web", cmp.Or(address, "pending"), status, "node-1 node-3"}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("rows of the Service: %q, want %q", got, want)
		}
	}
	if has := (&cluster{openStack: newOpenStack(t), fake: newFakeCloud()}).backendOf(
		webService("")); has.state != "" || has.members != nil {
		t.Errorf("a Service that is in no cloud has %+v", has)
	}
}

func TestHoldings_CountObjectsOfServicesOnly(t *testing.T) {
	o := newOpenStack(t)
	before := o.holdings()
	o.addMachine("node-1")
	if got := o.holdings(); got != before {
		t.Errorf("with another machine it is %+v, want %+v as before", got, before)
	}
	o.balanced(t, "one", "node-1")
	o.server.AddSecurityGroup(openstacktest.SecurityGroup{Name: "web"})
	got := o.holdings()
	// The load balancer and the floating IP have a port each.
	want := holdings{
		before.balancers + 1, before.floatingIPs + 1, before.securityGroups + 1,
		before.ports + 2,
	}
	if got != want {
		t.Errorf("with a load balancer it is %+v, want %+v", got, want)
	}
}

func TestMemberAddresses_AreSorted(t *testing.T) {
	pool := openstacktest.Pool{Members: []openstacktest.Member{
		{Address: "10.0.0.3"},
		{Address: "10.0.0.2"},
	}}
	if got := memberAddresses(pool); !slices.Equal(got, []string{"10.0.0.2", "10.0.0.3"}) {
		t.Errorf("they are %v", got)
	}
}
