package routes

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	routecontroller "k8s.io/cloud-provider/controllers/route"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	_ "k8s.io/controller-manager/pkg/features/register"
)

func (s *site) has(names ...string) func() bool {
	return func() bool {
		var got []string
		for _, r := range s.Routes(s.router) {
			got = append(got, r.Destination+via+r.NextHop)
		}
		slices.Sort(got)
		return slices.Equal(got, slices.Sorted(slices.Values(names)))
	}
}

// countedRoutes counts the controller's passes.
type countedRoutes struct {
	*Routes
	passes atomic.Int64
}

func (r *countedRoutes) ListRoutes(ctx context.Context,
	cluster string,
) ([]*cloudprovider.Route, error) {
	r.passes.Add(1)
	return r.Routes.ListRoutes(ctx, cluster)
}

// Upstream's own controller, on the life of a small cluster.
func TestUpstreamsController_KeepsTheRoutes(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	ctx, stop := context.WithCancel(t.Context())

	s.addPort("other", "10.0.0.66")
	foreign := []string{"10.244.200.0/24 via 10.0.0.66", "192.168.0.0/16 via 10.0.0.99"}
	s.setRoutes(append(slices.Clone(foreign), "10.244.9.0/24 via 10.0.0.99")...)

	client := fake.NewClientset()
	nodes := client.CoreV1().Nodes()
	must := func(_ *v1.Node, err error) {
		t.Helper()
		c.must(err)
	}
	s.addPort("server-of-a", "10.0.0.11", "fd00::11")
	b := s.addPort("server-of-b", "10.0.0.12")
	must(nodes.Create(ctx, node("a", []string{"10.0.0.11", "fd00::11"}, "10.244.1.0/24",
		"fd00:1::/64"), metav1.CreateOptions{}))
	must(nodes.Create(ctx, node("b", []string{"10.0.0.12"}, "10.244.2.0/24"),
		metav1.CreateOptions{}))

	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Nodes()
	c.SetNodes(informer.Lister(), informer.Informer().HasSynced)
	_, v4, _ := net.ParseCIDR("10.244.0.0/16")
	_, v6, _ := net.ParseCIDR("fd00:1::/48")
	counted := &countedRoutes{Routes: c.Routes}
	controller, err := routecontroller.New(counted, client, informer, "cluster",
		[]*net.IPNet{v4, v6})
	c.must(err)
	factory.Start(ctx.Done())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.Run(ctx, 20*time.Millisecond,
			controllersmetrics.NewControllerManagerMetrics("routes"))
	}()
	defer func() {
		stop()
		<-ended
		factory.Shutdown()
	}()

	want := append(slices.Clone(foreign), "10.244.1.0/24 via 10.0.0.11", "fd00:1::/64 via fd00::11",
		"10.244.2.0/24 via 10.0.0.12")
	eventually(t, "the blackhole is gone and the nodes have their routes", s.has(want...))
	eventually(t, "the nodes have a network", func() bool {
		n, err := nodes.Get(ctx, "b", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(n.Status.Conditions,
			func(c v1.NodeCondition) bool {
				return c.Type == v1.NodeNetworkUnavailable && c.Status == v1.ConditionFalse
			})
	})

	// b's server gets another address.
	c.must(s.DeletePort(b))
	s.addPort("server-of-b", "10.0.0.22")
	must(nodes.Update(ctx, node("b", []string{"10.0.0.22"}, "10.244.2.0/24"),
		metav1.UpdateOptions{}))
	want[len(want)-1] = "10.244.2.0/24 via 10.0.0.22"
	eventually(t, "the route follows the node's address", s.has(want...))

	// b leaves the cluster; its server stays.
	c.must(nodes.Delete(ctx, "b", metav1.DeleteOptions{}))
	eventually(t, "the route of the node that has left is gone", s.has(want[:len(want)-1]...))
	eventually(t, "its port may not send any more", func() bool {
		return len(s.pairs("10.0.0.22")) == 0
	})

	// Three more passes write nothing.
	s.ForgetCalls()
	passes := counted.passes.Load()
	eventually(t, "the controller has passed", func() bool {
		return counted.passes.Load() > passes+3
	})
	for _, call := range s.Calls() {
		if call.Method != "GET" {
			t.Errorf("a cluster at rest costs %s %s", call.Method, call.Path)
		}
	}
}
