package ccmtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
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

func TestEventually_ReturnsTheValueOrTheLastError(t *testing.T) {
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

func TestProbes_AtTheLimit_FailWithTheLastStateSeen(t *testing.T) {
	client := clientOf(t, cluster.RESTConfig())
	ccmtest.CreateNode(t, client, ccmtest.TaintedNode("in-vain"))
	ccmtest.CreateService(t, client,
		ccmtest.LoadBalancerService("in-vain", ccmtest.ServiceClass("example.com/other")))
	cloud, nodes := cloudWith(t, "in-vain"), client.CoreV1().Nodes()
	unreachable := clientOf(t, &rest.Config{Host: "https://127.0.0.1:1"})
	cases := map[string]struct {
		wait func(t testing.TB)
		want []string
	}{
		"node": {eventually(ccmtest.Initialized(client, "in-vain")), []string{
			"it bears the taint node.cloudprovider.kubernetes.io/uninitialized",
			"kubernetes.io/hostname: in-vain",
		}},
		"no node": {
			eventually(ccmtest.Initialized(client, "nowhere")),
			[]string{`nodes "nowhere" not found`},
		},
		"address of node": {
			eventually(ccmtest.NodeAddress(client, "in-vain", corev1.NodeInternalIP)),
			[]string{"its addresses are [{Hostname in-vain}]"},
		},
		"gone": {
			eventually(ccmtest.Gone(nodes.Get, "in-vain")), []string{"it exists", "name: in-vain"},
		},
		"service": {eventually(ccmtest.ServiceAddress(client, "default", "in-vain")), []string{
			"its status has no load balancer", "loadBalancerClass: example.com/other",
		}},
		"route": {
			eventually(ccmtest.Routed(cloud, "in-vain", "10.244.9.0/24")),
			[]string{"node in-vain has no route for 10.244.9.0/24; the routes are []"},
		},
		"call": {
			eventually(ccmtest.Called(cloud,
				fake.CallFilter{Method: "InstanceMetadata"}.Matches)),
			[]string{"the cloud's counts"},
		},
		"no API server": {
			eventually(ccmtest.Gone(unreachable.CoreV1().Nodes().Get, "in-vain")),
			[]string{"connection refused"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wantFailure(t, c.wait, append(c.want, "timed out waiting until it holds")...)
		})
	}
}

func eventually[T any](probe func(context.Context) (T, error)) func(testing.TB) {
	return func(t testing.TB) { ccmtest.Eventually(t, "it holds", probe) }
}

func TestEventually_ManagerIsNotReady_ShowsTheStatus(t *testing.T) {
	elector := ccmtest.NewManualElector()
	app := ccmtest.StartApp(t, cluster, fake.New(), ccmtest.WithElector(elector))
	ccmtest.Eventually(t, "the Manager is a standby", ccmtest.State(app.Manager, status.Standby))
	wantFailure(t, eventually(ccmtest.Ready(app.Manager)),
		`state: standby`, `provider: fake`)
	app.VerifyNoLeaks()
}

func TestBuilders_ApplyTheirOptions(t *testing.T) {
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
	before := goleak.IgnoreCurrent()
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
