package desired

import (
	"slices"
	"strings"
	"testing"
)

func web() Identity {
	return Identity{
		ClusterName: "kubernetes",
		ClusterUID:  "6d9c9e7f-0a57-4a7e-9d0b-1a4c1c1b7a10",
		Namespace:   "shop",
		Name:        "web",
		UID:         "0b1f6f0e-7c1d-4f57-8a55-3f1f2c9e4d21",
	}
}

// OCCM recognizes its objects by these names, and fxccm recognizes OCCM's: no letter may change.
func TestNames_AreOCCMs(t *testing.T) {
	t.Parallel()
	id := web()
	lb := id.LoadBalancerName()
	for name, test := range map[string]struct{ got, want string }{
		"load balancer":              {lb, "kube_service_kubernetes_shop_web"},
		"legacy load balancer":       {id.LegacyName(), "a0b1f6f0e7c1d4f578a553f1f2c9e4d2"},
		"load balancer, description": {id.LoadBalancerDescription(), "Kubernetes external service shop/web from cluster kubernetes"},
		"floating IP, description":   {id.FloatingIPDescription(), "Floating IP for Kubernetes external service shop/web from cluster kubernetes"},
		"security group":             {id.SecurityGroupName(), "lb-sg-0b1f6f0e-7c1d-4f57-8a55-3f1f2c9e4d21-shop-web"},
		"security group, description": {
			id.SecurityGroupDescription(),
			"Security Group for shop/web Service LoadBalancer in cluster kubernetes",
		},
		"listener":              {ListenerName(0, lb), "listener_0_kube_service_kubernetes_shop_web"},
		"pool":                  {PoolName(12, lb), "pool_12_kube_service_kubernetes_shop_web"},
		"monitor":               {MonitorName(1, lb), "monitor_1_kube_service_kubernetes_shop_web"},
		"member, made alone":    {MemberName("node-1", "10.0.0.7", 30080), "member_node-1_10.0.0.7_30080"},
		"all empty":             {Identity{}.LoadBalancerName(), "kube_service___"},
		"all empty, group":      {Identity{}.SecurityGroupName(), "lb-sg---"},
		"UID empty, legacy":     {Identity{}.LegacyName(), "a"},
		"the cluster has a _":   {Identity{ClusterName: "a_b", Namespace: "c", Name: "d"}.LoadBalancerName(), "kube_service_a_b_c_d"},
		"child of another name": {ListenerName(0, "my own"), "listener_0_my own"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}

// Names that are too long are cut. A child's name is derived from the cut name, and cut again.
func TestNames_AreCutAt255(t *testing.T) {
	t.Parallel()
	id := web()
	id.Namespace, id.Name = strings.Repeat("n", 63), strings.Repeat("s", 300)
	lb := "kube_service_kubernetes_" + strings.Repeat("n", 63) + "_" +
		strings.Repeat("s", 255-24-63-1)
	for name, test := range map[string]struct{ got, want string }{
		"load balancer":  {id.LoadBalancerName(), lb},
		"listener":       {ListenerName(0, lb), "listener_0_" + lb[:255-len("listener_0_")]},
		"pool":           {PoolName(10, lb), "pool_10_" + lb[:255-len("pool_10_")]},
		"monitor":        {MonitorName(0, lb), "monitor_0_" + lb[:255-len("monitor_0_")]},
		"member":         {MemberName(strings.Repeat("m", 253), "10.0.0.7", 30080), "member_" + strings.Repeat("m", 248)},
		"security group": {id.SecurityGroupName(), "lb-sg-" + id.UID + "-" + strings.Repeat("n", 63) + "-" + strings.Repeat("s", 255-6-36-1-63-1)},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
		if len(test.got) != 255 {
			t.Errorf("%s is %d long", name, len(test.got))
		}
	}
	id.Name = strings.Repeat("s", 167)
	if got := id.LoadBalancerName(); len(got) != 255 || !strings.HasSuffix(got, "_"+id.Name) {
		t.Errorf("a name of 255 is cut: %q", got)
	}
}

func TestTags_SayWhoseItIs(t *testing.T) {
	t.Parallel()
	id := web()
	want := []string{
		"kube_service_kubernetes_shop_web",
		"fxccm-cluster=6d9c9e7f-0a57-4a7e-9d0b-1a4c1c1b7a10",
		"fxccm-service=0b1f6f0e-7c1d-4f57-8a55-3f1f2c9e4d21",
	}
	if got := id.Tags(); !slices.Equal(got, want) {
		t.Errorf("tags of a load balancer: %q, want %q", got, want)
	}
	if got := id.NetworkTags(); !slices.Equal(got, want[1:]) {
		t.Errorf("tags of a floating IP: %q, want %q", got, want[1:])
	}
	for _, tag := range id.NetworkTags() {
		if len(tag) > 60 || strings.ContainsAny(tag, "/,") {
			t.Errorf("Neutron refuses the tag %q", tag)
		}
	}
	if got := ClusterOf(want); got != id.ClusterUID {
		t.Errorf("cluster %q, want %q", got, id.ClusterUID)
	}
	if got := ServicesOf(append(want, "fxccm-service=other", "kube_service_x")); !slices.Equal(got,
		[]string{id.UID, "other"}) {
		t.Errorf("Services %q", got)
	}
	if cluster, services := ClusterOf(want[:1]),
		ServicesOf(want[:2]); cluster != "" || services != nil {
		t.Errorf("OCCM's tag names cluster %q, the cluster's tag Services %q", cluster, services)
	}
}

// Two clusters of one name have load balancers of the same names, but with different tags.
func TestClusters_OfOneName_HaveDifferentTags(t *testing.T) {
	t.Parallel()
	one, other := web(), web()
	other.ClusterUID, other.UID = "another", "another one"
	if one.LoadBalancerName() != other.LoadBalancerName() {
		t.Error("the names differ, so OCCM's objects cannot be found")
	}
	for i := range one.NetworkTags() {
		if one.NetworkTags()[i] == other.NetworkTags()[i] {
			t.Errorf("both have the tag %q", one.NetworkTags()[i])
		}
	}
}
