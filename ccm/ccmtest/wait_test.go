package ccmtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
	"github.com/fxccm/fxccm/provider/fake"
)

func clientOf(t testing.TB, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestEventually_ReturnsTheValueOrTellsTheLastError(t *testing.T) {
	tries := 0
	got := ccmtest.Eventually(t, "the third try is made", func(context.Context) (int, error) {
		if tries++; tries < 3 {
			return 0, errors.New("too early")
		}
		return tries, nil
	})
	if got != 3 {
		t.Errorf("got %d", got)
	}
	wantFailure(t, func(t testing.TB) {
		ccmtest.Eventually(t, "pigs fly",
			func(context.Context) (int, error) { return 0, errors.New("one walks") })
	}, "timed out waiting until pigs fly", "one walks")
}

func TestWaits_AtTheLimit_FailWithTheLastStateSeen(t *testing.T) {
	client := clientOf(t, cluster.RESTConfig())
	ccmtest.CreateNode(t, client, ccmtest.TaintedNode("in-vain"))
	ccmtest.CreateService(t, client,
		ccmtest.LoadBalancerService("in-vain", ccmtest.ServiceClass("example.com/other")))
	cloud := cloudWith(t, "in-vain")
	cases := map[string]struct {
		wait func(t testing.TB)
		want []string
	}{
		"node": {
			func(t testing.TB) { ccmtest.WaitNodeInitialized(t, client, "in-vain") },
			[]string{
				"Node in-vain is initialised",
				"it bears the taint node.cloudprovider.kubernetes.io/uninitialized",
				"kubernetes.io/hostname: in-vain",
			},
		},
		"no node": {
			func(t testing.TB) { ccmtest.WaitNodeInitialized(t, client, "nowhere") },
			[]string{"Node nowhere is initialised", "it does not exist"},
		},
		"address of node": {
			func(t testing.TB) {
				ccmtest.WaitNodeAddress(t, client, "in-vain", corev1.NodeInternalIP)
			},
			[]string{"has an address of type InternalIP", "{Hostname in-vain}"},
		},
		"gone": {
			func(t testing.TB) { ccmtest.WaitNodeGone(t, client, "in-vain") },
			[]string{"Node in-vain is gone", "it exists"},
		},
		"service": {
			func(t testing.TB) { ccmtest.WaitServiceAddress(t, client, "default", "in-vain") },
			[]string{
				"Service default/in-vain has an address", "its status has no load balancer",
				"loadBalancerClass: example.com/other",
			},
		},
		"service gone": {
			func(t testing.TB) { ccmtest.WaitServiceGone(t, client, "default", "in-vain") },
			[]string{"Service default/in-vain is gone", "it exists"},
		},
		"route": {
			func(t testing.TB) { ccmtest.WaitRoute(t, cloud, "in-vain", "10.244.9.0/24") },
			[]string{"a route for 10.244.9.0/24 to node in-vain", "the routes are []"},
		},
		"call": {
			func(t testing.TB) {
				ccmtest.WaitCall(t, cloud, "metadata is read",
					fake.CallFilter{Method: fake.InstanceMetadata}.Matches)
			},
			[]string{"metadata is read", "the cloud's counts"},
		},
		"no API server": {
			func(t testing.TB) {
				ccmtest.WaitNodeGone(t, clientOf(t, &rest.Config{Host: "https://127.0.0.1:1"}),
					"in-vain")
			},
			[]string{"Node in-vain is gone", "connection refused"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantFailure(t, c.wait, c.want...) })
	}
}

func TestWaitState_WhenInVain_ShowsTheStatus(t *testing.T) {
	elector := ccmtest.NewManualElector()
	app := ccmtest.StartApp(t, cluster, fake.New(), ccmtest.WithElector(elector))
	app.WaitState(ccm.StateStandby)
	wantFailure(t, func(t testing.TB) { ccmtest.WaitReady(t, app.Manager) },
		"the Manager leads and is ready", `"state": "standby"`, `"provider": "fake"`)
	app.VerifyNoLeaks()
}

// behindProxy reaches the shared API server through a proxy, which refuses connections.
func behindProxy(t *testing.T) (*netfault.Proxy, *rest.Config) {
	t.Helper()
	cfg := cluster.RESTConfig()
	proxy, err := netfault.Listen(strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	set(t, proxy, netfault.Refuse())
	cfg.Host = "https://" + proxy.Addr()
	return proxy, cfg
}

func set(t *testing.T, proxy *netfault.Proxy, fault netfault.Fault) {
	t.Helper()
	if err := proxy.Set(fault); err != nil {
		t.Fatal(err)
	}
}

// A watch breaks when its API server stops; what is waited for must not be lost with it.
func TestWaitNode_WhenItsConnectionIsReset_WatchesAgain(t *testing.T) {
	proxy, cfg := behindProxy(t)
	set(t, proxy, netfault.Pass())
	client, admin := clientOf(t, cfg), clientOf(t, cluster.RESTConfig())
	ccmtest.CreateNode(t, admin, ccmtest.ReadyNode("node-a"))
	looked := make(chan struct{})
	result := make(chan *corev1.Node, 1)
	go func() {
		seen := 0
		result <- ccmtest.WaitNode(t, client, "node-a", "the node is marked",
			func(n *corev1.Node) error {
				if seen++; seen == 1 {
					close(looked)
				}
				if n == nil || n.Labels["marked"] == "" {
					return errors.New("it is not")
				}
				return nil
			})
	}()
	<-looked
	set(t, proxy, netfault.Refuse())
	set(t, proxy, netfault.Pass())
	node := ccmtest.Eventually(t, "the node is marked by the test",
		func(ctx context.Context) (*corev1.Node, error) {
			n, err := admin.CoreV1().Nodes().Get(ctx, "node-a", getNow)
			if err != nil {
				return nil, err
			}
			n.Labels["marked"] = "yes"
			return admin.CoreV1().Nodes().Update(ctx, n, updateNow)
		})
	if got := receive(t, result); got.ResourceVersion != node.ResourceVersion {
		t.Errorf("the wait returned version %s, want %s", got.ResourceVersion, node.ResourceVersion)
	}
}

func TestBuilders_MakeWhatTheirOptionsSay(t *testing.T) {
	node := ccmtest.TaintedNode("a", ccmtest.NodeNotReady(),
		ccmtest.NodePodCIDRs("10.244.1.0/24", "fd00::/64"),
		ccmtest.NodeLabel("l", "1"), ccmtest.NodeAnnotation("n", "2"),
		ccmtest.NodeProviderID("fake://r/a"))
	if node.Spec.PodCIDR != "10.244.1.0/24" || len(node.Spec.PodCIDRs) != 2 ||
		node.Labels["l"] != "1" ||
		node.Annotations["n"] != "2" || node.Spec.ProviderID != "fake://r/a" ||
		node.Status.Conditions[0].Status != corev1.ConditionFalse || len(node.Spec.Taints) != 1 {
		t.Errorf("the node is %+v", node)
	}
	if taints := ccmtest.ReadyNode("b").Spec.Taints; len(taints) > 0 {
		t.Errorf("a ready node has taints: %+v", taints)
	}
	service := ccmtest.LoadBalancerService("s", ccmtest.ServiceNamespace("n"),
		ccmtest.ServicePorts(1, 2), ccmtest.ServiceAnnotation("a", "b"))
	if service.Namespace != "n" || len(service.Spec.Ports) != 2 ||
		service.Annotations["a"] != "b" || service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("the service is %+v", service)
	}
}

func TestVerifyNoLeaks_FindsAGoroutineThatIsLeft(t *testing.T) {
	release := make(chan struct{})
	ended := make(chan struct{})
	before := ccmtest.IgnoringCurrent()
	go func() { // a forgotten goroutine
		defer close(ended)
		<-release
	}()
	failing := &failingTest{TB: t}
	ccmtest.VerifyNoLeaks(failing, before)
	if said := strings.Join(failing.messages, "\n"); !strings.Contains(said,
		"TestVerifyNoLeaks_FindsAGoroutineThatIsLeft") {
		t.Errorf("a goroutine is left, and the check said %q", said)
	}
	close(release)
	<-ended
	ccmtest.VerifyNoLeaks(t, before)
}
