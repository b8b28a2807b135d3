package initfunc_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/app"
	cpconfig "k8s.io/cloud-provider/config"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/initfunc"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// only enables the named controllers, and no others.
func only(controllers ...string) ccmtest.Option {
	return ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.Controllers = controllers })
}

func allocating(c *cpconfig.CloudControllerManagerConfiguration) {
	c.KubeCloudShared.AllocateNodeCIDRs = true
}

// podRanges returns the constructors of a third party's command. made receives each built
// controller.
func podRanges(made chan<- *podRangeController) map[string]app.ControllerInitFuncConstructor {
	return map[string]app.ControllerInitFuncConstructor{"pod-range-controller": {
		InitContext: app.ControllerInitContext{ClientName: "mycloud-pod-range-controller"},
		Constructor: startPodRangeController(func(c *podRangeController) { made <- c }),
	}}
}

func waitPodRange(t *testing.T, c *ccmtest.CCM, node string) {
	t.Helper()
	ccmtest.Eventually(t, "has a pod range",
		ccmtest.Object(c.Client.CoreV1().Nodes().Get, node, func(n *corev1.Node) error {
			if n.Spec.PodCIDR == "" {
				return fmt.Errorf("pod range is %q", n.Spec.PodCIDR)
			}
			return nil
		}))
}

func TestController_WrittenForUpstream_WorksInEachTerm(t *testing.T) {
	addKind(t, "Pool", "blue")
	made := make(chan *podRangeController, 10)
	controllers := initfunc.Controllers(podRanges(made),
		map[string]string{"pod-range": "pod-range-controller"},
		initfunc.WithComponentConfig(allocating))
	c := ccmtest.StartManager(t, cluster, fake.New(), ccmtest.WithControllers(controllers...),
		only("pod-range"))
	c.WaitReady()

	// The controller waits for InformersStarted, and reads the pools from a metadata informer.
	ccmtest.CreateNode(t, c.Client,
		ccmtest.ReadyNode("node-a", ccmtest.NodeLabel(poolLabel, "blue")))
	waitPodRange(t, c, "node-a")
	waitEvent(t, c, "node-a", "PodRangeGiven")

	first := <-made
	if err := health(t, c, "pod-range-controller"); err != nil {
		t.Errorf("unhealthy: %v", err)
	}
	first.sick.Store(true)
	if err := health(t, c, "pod-range-controller"); err == nil ||
		err.Error() != "no range is left" {
		t.Errorf("health is %v, want the controller's own error", err)
	}

	c.Elector.Lose(nil)
	if release := c.Elector.WaitReleased(t); !release.Drained {
		t.Fatalf("the term has not drained: %v", release.Err)
	}
	c.Elector.Lead()
	c.WaitReady()
	ccmtest.CreateNode(t, c.Client,
		ccmtest.ReadyNode("node-b", ccmtest.NodeLabel(poolLabel, "blue")))
	waitPodRange(t, c, "node-b")
	if second := <-made; second == first {
		t.Error("the second term uses the controller of the first term")
	}
	if err := health(t, c, "pod-range-controller"); err != nil {
		t.Errorf("unhealthy in the second term: %v", err)
	}
	c.VerifyNoLeaks()
}

func TestController_KindIsAddedWhileItRuns_IsMapped(t *testing.T) {
	addKind(t, "Pool")
	controllers := initfunc.Controllers(podRanges(make(chan *podRangeController, 10)), nil,
		initfunc.WithComponentConfig(allocating))
	c := ccmtest.StartManager(t, cluster, fake.New(), ccmtest.WithControllers(controllers...),
		only("pod-range-controller"))
	c.WaitReady()
	count := func(node, kind, want string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kindAnnotation, kind)
		if _, err := c.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		ccmtest.Eventually(t, "has the number of objects of "+kind,
			ccmtest.Object(c.Client.CoreV1().Nodes().Get, node, func(n *corev1.Node) error {
				if got := n.Annotations[countAnnotation]; got != want {
					return fmt.Errorf("the number is %q, want %s", got, want)
				}
				return nil
			}))
	}
	ccmtest.CreateNode(t, c.Client, ccmtest.ReadyNode("node-a"))
	count("node-a", "Pool", "0") // the mapper has read the discovery now
	addKind(t, "Gadget", "one", "two")
	count("node-a", "Gadget", "2")
	c.VerifyNoLeaks()
}

func TestController_ClientName_IsItsIdentity(t *testing.T) {
	addKind(t, "Pool", "blue")
	before := cluster.Audit().Mark()
	controllers := initfunc.Controllers(podRanges(make(chan *podRangeController, 10)), nil,
		initfunc.WithComponentConfig(allocating))
	c := ccmtest.StartManager(t, cluster, fake.New(), ccmtest.WithControllers(controllers...),
		only("pod-range-controller"),
		ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.UseServiceAccountCredentials = true }))
	allowServiceAccounts(t, c)
	c.WaitReady()
	ccmtest.CreateNode(t, c.Client,
		ccmtest.ReadyNode("node-a", ccmtest.NodeLabel(poolLabel, "blue")))
	waitPodRange(t, c, "node-a")

	account := controlplane.ByUser(controlplane.ServiceAccountUser("kube-system",
		"mycloud-pod-range-controller"))
	ctx := waittest.Context(t)
	for what, request := range map[string][]controlplane.Filter{
		"the InitFunc's client": {
			account, controlplane.ByResource("", "nodes"),
			controlplane.ByVerb("patch"),
		},
		"its metadata informer": {
			account, controlplane.ByResource(pools.Group, pools.Resource),
			controlplane.ByVerb("list"),
		},
	} {
		if _, err := cluster.Audit().Wait(ctx, before, 1, request...); err != nil {
			t.Errorf("%s has sent no request under its ServiceAccount: %v", what, err)
		}
	}
	c.VerifyNoLeaks()
}

// allowServiceAccounts grants all permissions to the ServiceAccounts of the clients.
func allowServiceAccounts(t *testing.T, c *ccmtest.CCM) {
	t.Helper()
	bindings := c.Client.RbacV1().ClusterRoleBindings()
	all := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "upstream-test"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "cluster-admin",
		},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind,
			Name: "system:serviceaccounts:kube-system",
		}},
	}
	if _, err := bindings.Create(t.Context(), all, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bindings.Delete(context.Background(), all.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// The kind of the controller's metadata informer never exists.
func TestController_MetadataInformerNeverSyncs_TermOpensAndDrains(t *testing.T) {
	before := cluster.Audit().Mark()
	controllers := initfunc.Controllers(podRanges(make(chan *podRangeController, 10)), nil,
		initfunc.WithComponentConfig(allocating))
	c := ccmtest.StartManager(t, cluster, fake.New(), ccmtest.WithControllers(controllers...),
		only("pod-range-controller"))
	c.WaitReady()
	ctx := waittest.Context(t)
	refused := []controlplane.Filter{
		controlplane.ByUser(c.User()),
		controlplane.ByResource(pools.Group,
			pools.Resource), controlplane.ByCode(http.StatusNotFound),
	}
	if _, err := cluster.Audit().Wait(ctx, before, 1, refused...); err != nil {
		t.Fatalf("wait until the informer has requested the missing kind: %v", err)
	}
	c.Elector.Lose(nil)
	if release := c.Elector.WaitReleased(t); !release.Drained {
		t.Errorf("the term has not drained: %v", release.Err)
	}
	c.VerifyNoLeaks()
}

// upstreams returns upstream's four controllers under other names than the Manager's.
func upstreams() map[string]app.ControllerInitFuncConstructor {
	constructors := map[string]app.ControllerInitFuncConstructor{}
	for name, constructor := range app.DefaultInitFuncConstructors {
		constructors["upstream-"+name] = constructor
	}
	return constructors
}

func startUpstreams(t *testing.T, cloud *fake.Cloud) *ccmtest.CCM {
	t.Helper()
	constructors := upstreams()
	return ccmtest.StartApp(t, cluster, cloud,
		ccmtest.WithControllers(initfunc.Controllers(constructors, nil)...),
		only(slices.Sorted(maps.Keys(constructors))...))
}

func TestUpstreamsFour_RunACluster(t *testing.T) {
	cloud := fake.New()
	for _, name := range []string{"node-a", "node-b"} {
		if err := cloud.AddInstances(fake.Instance{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	c := startUpstreams(t, cloud)
	current := c.WaitReady()
	for name := range upstreams() {
		if got := statusOf(current, name); got.State != status.ControllerRunning {
			t.Errorf("%s is %s (%s), want it to run", name, got.State, got.Reason)
		}
	}
	ccmtest.CreateNode(t, c.Client,
		ccmtest.TaintedNode("node-a", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(c.Client, "node-a"))
	ccmtest.Eventually(t, "the node has an address",
		ccmtest.NodeAddress(c.Client, "node-a", corev1.NodeInternalIP))
	ccmtest.Eventually(t, "the route exists", ccmtest.Routed(cloud, "node-a", "10.244.1.0/24"))
	ccmtest.CreateService(t, c.Client, ccmtest.LoadBalancerService("web"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(c.Client, "default", "web"))
	if err := c.Client.CoreV1().Services("default").Delete(t.Context(), "web",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(c.Client.CoreV1().Services("default").Get, "web"))

	c.Elector.Lose(nil)
	if release := c.Elector.WaitReleased(t); !release.Drained {
		t.Fatalf("the term has not drained: %v", release.Err)
	}
	c.Elector.Lead()
	c.WaitReady()
	if err := cloud.RemoveInstance("node-a"); err != nil {
		t.Fatal(err)
	}
	notReady(t, c, "node-a")
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(c.Client.CoreV1().Nodes().Get, "node-a"))
	ccmtest.CreateNode(t, c.Client, ccmtest.TaintedNode("node-b"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(c.Client, "node-b"))
	c.VerifyNoLeaks()
}

func statusOf(current status.Manager, name string) status.Controller {
	for _, c := range current.Controllers {
		if c.Name == name {
			return c
		}
	}
	return status.Controller{Name: name, State: "absent"}
}

// health calls a controller's health check.
func health(t *testing.T, c *ccmtest.CCM, name string) error {
	t.Helper()
	for _, check := range c.Manager.LivenessChecks() {
		if check.Name == name {
			return check.Check(nil)
		}
	}
	t.Fatalf("%s has no health check", name)
	return nil
}

func waitEvent(t *testing.T, c *ccmtest.CCM, object, reason string) {
	t.Helper()
	waittest.Until(t, "event "+reason+" of "+object+" is recorded",
		func(ctx context.Context) error {
			events, err := c.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Reason == reason && e.InvolvedObject.Name == object &&
					e.Source.Component == "cloud-controller-manager" {
					return nil
				}
			}
			return fmt.Errorf("%d other events", len(events.Items))
		})
}

func notReady(t *testing.T, c *ccmtest.CCM, name string) {
	t.Helper()
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`
	if _, err := c.Client.CoreV1().Nodes().PatchStatus(t.Context(), node.Name,
		[]byte(patch)); err != nil {
		t.Fatal(err)
	}
}
