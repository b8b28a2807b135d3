package fake

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func TestLoadBalancer_LivesFromEnsureToDelete(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		balancers, web := balancersOf(t, open()), serviceNamed("web")
		web.Annotations = map[string]string{"example.org/size": "big"}
		ctx := t.Context()

		if status, exists, err := balancers.GetLoadBalancer(ctx, "c", web); status != nil ||
			exists || err != nil {
			t.Errorf("before Ensure it is %v, %v, %v", status, exists, err)
		}
		status, err := balancers.EnsureLoadBalancer(ctx, "c", web, nodesNamed("b", "a"))
		want := &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}}
		if err != nil || !reflect.DeepEqual(status, want) {
			t.Fatalf("Ensure answers %v, %v; want %v", status, err, want)
		}
		if status, exists, err := balancers.GetLoadBalancer(ctx, "c", web); !exists || err != nil ||
			!reflect.DeepEqual(status, want) {
			t.Errorf("after Ensure it is %v, %v, %v", status, exists, err)
		}
		got, _ := cloud.LoadBalancer("default/web")
		if wanted := (Balancer{
			Name: cloudprovider.DefaultLoadBalancerName(web), Cluster: "c", Service: "default/web",
			UID:     web.UID,
			Ingress: []string{"192.0.2.1"}, Members: []string{
				"a",
				"b",
			}, Ports: web.Spec.Ports, Annotations: web.Annotations,
		}); !reflect.DeepEqual(got, wanted) {
			t.Errorf("the cloud has %+v, want %+v", got, wanted)
		}
		if name := balancers.GetLoadBalancerName(ctx, "c", web); name != got.Name {
			t.Errorf("the name is %q, want %q", name, got.Name)
		}

		if err := balancers.UpdateLoadBalancer(ctx, "c", web, nodesNamed("c")); err != nil {
			t.Error(err)
		}
		if got, _ := cloud.LoadBalancer("default/web"); !reflect.DeepEqual(got.Members,
			[]string{"c"}) || len(got.Ports) != 1 {
			t.Errorf("after Update the cloud has %+v", got)
		}

		for range 2 {
			if err := balancers.EnsureLoadBalancerDeleted(ctx, "c", web); err != nil {
				t.Error(err)
			}
		}
		if left := cloud.LoadBalancers(); len(left) != 0 {
			t.Errorf("after the deletion the cloud has %v", left)
		}
		if err := balancers.UpdateLoadBalancer(ctx, "c", web, nil); err == nil ||
			!strings.Contains(err.Error(), "default/web does not exist") {
			t.Errorf("an Update after the deletion answers %v", err)
		}
	})
}

func TestLoadBalancer_WhenEnsuredAgain_KeepsItsAddresses(t *testing.T) {
	cloud := New()
	balancers, ctx := balancersOf(t, cloud.Provider()), t.Context()
	ensure := func(name string, families ...v1.IPFamily) []string {
		t.Helper()
		if _, err := balancers.EnsureLoadBalancer(ctx, "c", serviceNamed(name, families...),
			nil); err != nil {
			t.Fatal(err)
		}
		b, _ := cloud.LoadBalancer("default/" + name)
		return b.Ingress
	}
	ensure("other")
	for _, step := range []struct {
		families []v1.IPFamily
		want     []string
	}{
		{[]v1.IPFamily{v1.IPv4Protocol}, []string{"192.0.2.2"}},
		{[]v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}, []string{"2001:db8::1", "192.0.2.2"}},
		{[]v1.IPFamily{v1.IPv6Protocol}, []string{"2001:db8::1"}},
	} {
		if got := ensure("web", step.families...); !reflect.DeepEqual(got, step.want) {
			t.Errorf("with the families %v it has %v, want %v", step.families, got, step.want)
		}
	}
	if cloud.ingressIPv4.used[netip.MustParseAddr("192.0.2.2")] {
		t.Error("the unused address was not released")
	}
}

func TestLoadBalancer_WhenTheFamilyIsUnknown_FailsAndTakesNoAddress(t *testing.T) {
	cloud := New()
	_, err := balancersOf(t, cloud.Provider()).EnsureLoadBalancer(t.Context(), "c",
		serviceNamed("web", v1.IPv4Protocol, "IPX"), nil)
	if err == nil || !strings.Contains(err.Error(), "default/web") ||
		!strings.Contains(err.Error(), `"IPX"`) {
		t.Errorf("the error is %v", err)
	}
	if len(cloud.LoadBalancers()) != 0 || len(cloud.ingressIPv4.used) != 0 {
		t.Error("a load balancer or an address is left behind")
	}
}

func TestLoadBalancer_BelongsToOneServiceUIDOfOneCluster(t *testing.T) {
	cloud := New()
	balancers, ctx := balancersOf(t, cloud.Provider()), t.Context()
	web := serviceNamed("web")
	if _, err := balancers.EnsureLoadBalancer(ctx, "c", web, nil); err != nil {
		t.Fatal(err)
	}
	again := web.DeepCopy()
	again.UID = "another"
	if _, exists, _ := balancers.GetLoadBalancer(ctx, "c", again); exists {
		t.Error("a new Service of the same name finds the load balancer of the old one")
	}
	if _, exists, _ := balancers.GetLoadBalancer(ctx, "d", web); exists {
		t.Error("another cluster finds the load balancer")
	}
	if _, _, err := balancers.GetLoadBalancer(ctx, "c", &v1.Service{}); err == nil ||
		!strings.Contains(err.Error(), "UID") {
		t.Errorf("for a Service without UID the error is %v", err)
	}
	if _, err := balancers.EnsureLoadBalancer(ctx, "c", nil, []*v1.Node{nil}); err == nil {
		t.Error("no Service is accepted as one")
	}
}

func TestPool_AllRangesAreUsed_IsAnError(t *testing.T) {
	p := newPool("192.0.2.0/30", "198.51.100.0/29")
	var got []string
	for {
		address, err := p.take()
		if errors.Is(err, errNoAddressLeft) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, address)
	}
	want := []string{
		"192.0.2.1", "192.0.2.2",
		"198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4", "198.51.100.5",
		"198.51.100.6",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the pool gave %v, want %v", got, want)
	}
	p.giveBack("198.51.100.2")
	if address, err := p.take(); err != nil || address != "198.51.100.2" {
		t.Errorf("a released address is not reused: %q, %v", address, err)
	}
}

func TestPool_DoesNotReuseAnAddressAtOnce(t *testing.T) {
	p := newPool("192.0.2.0/24")
	first, _ := p.take()
	p.giveBack(first)
	if second, _ := p.take(); second == first {
		t.Errorf("%s is allocated twice in a row", first)
	}
}

func TestIngressRanges_FollowOneAnother(t *testing.T) {
	p := New().ingressIPv4
	var last string
	for _, wanted := range []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1"} {
		for last != wanted {
			var err error
			if last, err = p.take(); err != nil {
				t.Fatalf("the pool ended before %s: %v", wanted, err)
			}
		}
	}
	if taken := len(p.used); taken != 3*254+1 {
		t.Errorf("198.18.0.1 was address number %d, want %d", taken, 3*254+1)
	}
}
