package hostintegration_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// site is a cluster on a cloud.
type site struct {
	name   string
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	cloud  *fake.Cloud
	config *rest.Config
}

func newSite(t *testing.T, name string, cp *controlplane.ControlPlane) *site {
	t.Helper()
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	config, err := cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = agent(t) + "/" + name
	cloud := fake.New(fake.WithProviderName(name))
	if err := cloud.AddInstances(fake.Instance{Name: "twin"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.ClearFaults)
	return &site{name: name, cp: cp, client: client, cloud: cloud, config: config}
}

// options are the site's part of the app, under the site's name.
func (s *site) options() fx.Option {
	cfg := ccmtest.Config()
	cfg.ClusterName = s.name
	module := ccm.Named(s.name)
	return fx.Options(module.Module(), module.Supply(cfg, s.config),
		fx.Provide(module.AsProvider(func() ccm.Provider { return s.cloud.CCMProvider() })))
}

// One app serves two clusters on two independent clouds. Each has a Node and a Service of the same
// names.
func TestNamed_TwoClustersOnTwoCloudsInOneApp(t *testing.T) {
	t.Parallel()
	second := controlplane.ForTest(t)
	east, west := newSite(t, "east", shared.ControlPlane), newSite(t, "west", second)
	for _, path := range rules() {
		ccmtest.ApplyRBAC(t, west.client, path)
	}
	if err := waitForRules(t.Context(), west.client); err != nil {
		t.Fatal(err)
	}
	var both struct {
		fx.In
		East *ccm.Manager `name:"east"`
		West *ccm.Manager `name:"west"`
	}
	var said lines
	registry := prometheus.NewPedanticRegistry()
	app := fx.New(fx.NopLogger, east.options(), west.options(),
		fx.Supply(said.logger(), fx.Annotate(registry, fx.As(new(prometheus.Registerer)))),
		fx.Populate(&both))
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	managers := map[*site]*ccm.Manager{east: both.East, west: both.West}
	for s, m := range managers {
		ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(m))
		ccmtest.CreateNode(t, s.client,
			ccmtest.TaintedNode("twin", ccmtest.NodePodCIDRs("10.244.41.0/24")))
	}
	for s := range managers {
		node := ccmtest.Eventually(t, "the node is initialized",
			ccmtest.Initialized(s.client, "twin"))
		if !strings.HasPrefix(node.Spec.ProviderID, s.name+"://") {
			t.Errorf("the node in %s has the provider ID %s", s.name, node.Spec.ProviderID)
		}
		ccmtest.Eventually(t, "the node has an address",
			ccmtest.NodeAddress(s.client, "twin", "InternalIP"))
		ccmtest.Eventually(t, "the route exists",
			ccmtest.Routed(s.cloud, "twin", "10.244.41.0/24"))
		service := ccmtest.CreateService(t, s.client, ccmtest.LoadBalancerService("twin"))
		ccmtest.Eventually(t, "the Service has an address",
			ccmtest.ServiceAddress(s.client, service.Namespace, service.Name))
	}
	for _, m := range family(t, registry, "fxccm_leading") {
		if m.GetGauge().GetValue() != 1 {
			t.Errorf("by the metrics %s does not lead", label(m, "manager"))
		}
	}

	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	for s, m := range managers {
		if status := m.Status(); status.State != ccm.StateStopped || len(status.Running) > 0 ||
			m.Err() != nil {
			t.Errorf("%s after the stop: %+v, %v", s.name, status, m.Err())
		}
		if n := s.cloud.Stats().InFlight; n != 0 {
			t.Errorf("%d calls of cloud %s are in flight", n, s.name)
		}
		if got := said.containing(`"manager"="`+s.name+`"`, "Term has drained"); len(got) != 1 {
			t.Errorf("the drain of %s was logged like this: %q", s.name, got)
		}
		s.wantOwnOnly(t)
	}
}

// wantOwnOnly checks that only the site's own Manager has changed it.
func (s *site) wantOwnOnly(t *testing.T) {
	t.Helper()
	records, err := s.cp.Audit().All(controlplane.ByUserAgent(agent(t) + "/"))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) == 0 {
		t.Errorf("there are no requests to %s", s.name)
	}
	for _, r := range records {
		if !strings.Contains(r.UserAgent, "/"+s.name+"/") ||
			r.Decision != controlplane.DecisionAllow {
			t.Errorf("a request of another, or one that was not allowed: %s", r)
		}
	}
	if balancers := s.cloud.LoadBalancers(); len(balancers) != 1 || balancers[0].Cluster != s.name {
		t.Errorf("cloud %s has the load balancers %+v", s.name, balancers)
	}
}
