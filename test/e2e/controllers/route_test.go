package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// runRoutes runs the route controller alone, by default with a pass every twentieth of a second.
func runRoutes(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	return run(t, cloud,
		append([]func(*ccm.Params){only("route"), reconcileEvery(50 * time.Millisecond)},
			change...)...)
}

func reconcileEvery(d time.Duration) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Config.Route.ReconciliationPeriod = metav1.Duration{Duration: d}
	}
}

func clusterCIDR(cidrs string) func(*ccm.Params) {
	return func(p *ccm.Params) { p.Config.ClusterCIDR = cidrs }
}

// waitRoutePasses waits for n whole passes of the route controller that begin after now. Each
// begins with a list of the routes, so they have ended when another pass begins.
func waitRoutePasses(t *testing.T, cloud *fake.Cloud, n int) {
	t.Helper()
	lists := fake.CallFilter{Method: fake.ListRoutes}.Matches
	waitCalls(t, cloud, fmt.Sprintf("routes are reconciled %d times", n),
		len(cloud.Calls(lists))+n+1, lists)
}

// waitNetwork waits until the node has the condition NetworkUnavailable with the status and the
// reason.
func waitNetwork(t *testing.T, node string, status corev1.ConditionStatus, reason string) {
	t.Helper()
	ccmtest.Eventually(t,
		fmt.Sprintf("node %s has NetworkUnavailable %s for %s", node, status, reason),
		ccmtest.Object(shared.Client(t).CoreV1().Nodes().Get, node, func(n *corev1.Node) error {
			if c := network(n); c == nil || c.Status != status || c.Reason != reason {
				return fmt.Errorf("it has %+v", c)
			}
			return nil
		}))
}

// network is the node's condition NetworkUnavailable, or nil.
func network(node *corev1.Node) *corev1.NodeCondition {
	if node == nil {
		return nil
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable
	})
	if i < 0 {
		return nil
	}
	return &node.Status.Conditions[i]
}

// routePatches returns the requests that change a node, when two whole passes have not changed it.
// A pass repeats a write that its informer has not seen yet; such repetitions count as one.
func routePatches(t *testing.T, cloud *fake.Cloud, since controlplane.Mark, node string) []string {
	t.Helper()
	changes := func() []controlplane.AuditRecord {
		return requests(t, since, controlplane.Mutating(), controlplane.ByName(node))
	}
	records := ccmtest.Eventually(t, "passes no longer change node "+node,
		func(context.Context) ([]controlplane.AuditRecord, error) {
			before := len(changes())
			waitRoutePasses(t, cloud, 2)
			after := changes()
			if len(after) > before {
				return nil, fmt.Errorf("two passes made %d requests", len(after)-before)
			}
			return after, nil
		})
	var texts []string
	for _, r := range records {
		texts = append(texts, fmt.Sprintf("%s %s %d", r.Verb, r.ResourcePath(), r.Code))
	}
	return slices.Compact(texts)
}

func addRoutes(t *testing.T, cloud *fake.Cloud, routes ...fake.Route) {
	t.Helper()
	for i := range routes {
		routes[i].Cluster = "kubernetes"
	}
	if err := cloud.AddRoutes(routes...); err != nil {
		t.Fatal(err)
	}
}

// destinations are the routes' destinations, sorted.
func destinations(cloud *fake.Cloud) []string {
	var all []string
	for _, r := range cloud.Routes() {
		all = append(all, r.DestinationCIDR)
	}
	slices.Sort(all)
	return all
}

func TestRoute_OneForEachPodCIDROfEachNode(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"wanted-1", "wanted-2", "wanted-none"},
		fake.WithRouteNodeAddresses())
	runRoutes(t, cloud, clusterCIDR("10.244.0.0/16,fd00:10:244::/56"))
	mark := shared.Audit().Mark()
	one := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("wanted-1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	two := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("wanted-2", ccmtest.NodePodCIDRs("10.244.2.0/24", "fd00:10:244:2::/64")))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("wanted-none"))
	for _, name := range []string{"wanted-1", "wanted-2"} {
		waitNetwork(t, name, corev1.ConditionFalse, "RouteCreated")
	}

	var got []string
	for _, r := range cloud.Routes() {
		got = append(got,
			fmt.Sprintf("%s via %s %v, %s", r.DestinationCIDR, r.TargetNode, r.TargetNodeAddresses,
				r.Name))
	}
	var want []string
	for _, node := range []*corev1.Node{one, two} {
		for _, cidr := range node.Spec.PodCIDRs {
			// The cloud names the routes after cluster and hint, which is the node's UID.
			name := "kubernetes-" + string(node.UID) + "-" + strings.ReplaceAll(cidr, "/", "-")
			want = append(want,
				fmt.Sprintf("%s via %s %v, %s", cidr, node.Name, node.Status.Addresses, name))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the routes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if calls := cloud.Calls(fake.CallFilter{Interface: fake.Routes, Mutating: true}.Matches); len(
		calls) != 3 {
		t.Errorf("%d calls changed the routes, want 3: %+v", len(calls), calls)
	}
	for name, want := range map[string][]string{
		"wanted-1": {"patch nodes/status 200"},
		"wanted-2": {"patch nodes/status 200"}, "wanted-none": nil,
	} {
		if got := routePatches(t, cloud, mark, name); !slices.Equal(got, want) {
			t.Errorf("%s was changed by %v, want %v", name, got, want)
		}
	}
}

func TestRoute_OnlyLeftoversOfTheCluster_AreDeleted(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"leftover-1"})
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("leftover-1", ccmtest.NodePodCIDRs("10.245.1.0/24")))
	to := func(node, cidr string) fake.Route {
		return fake.Route{TargetNode: node, DestinationCIDR: cidr}
	}
	tests := []struct {
		route fake.Route
		stays bool
		why   string
	}{
		{to("leftover-1", "10.245.1.0/24"), true, "the node has this pod CIDR"},
		{to("leftover-1", "10.245.2.0/24"), false, "the node does not have this pod CIDR"},
		{to("leftover-gone", "10.245.3.0/24"), false, "the node does not exist"},
		{to("", "10.245.4.0/24"), false, "it leads to no node"},
		{fake.Route{TargetNode: "leftover-1", DestinationCIDR: "10.245.5.0/24", Blackhole: true}, false, "it is a blackhole"},
		{to("leftover-gone", "10.244.0.0/15"), false, "its last address is in the cluster CIDR"},
		{to("leftover-gone", "10.245.128.0/17"), false, "its first address is in the cluster CIDR"},

		{to("leftover-gone", "10.246.1.0/24"), true, "it is outside of the cluster CIDR"},
		{fake.Route{DestinationCIDR: "10.246.2.0/24", Blackhole: true}, true, "it is outside of the cluster CIDR, blackhole or not"},
		{to("leftover-gone", "10.240.0.0/12"), true, "it is larger than the cluster CIDR: neither end is in it"},
		{to("leftover-gone", "fd00:10:244:1::/64"), true, "the cluster CIDR does not have its IP family"},
	}
	var want []string
	for _, test := range tests {
		addRoutes(t, cloud, test.route)
		if test.stays {
			want = append(want, test.route.DestinationCIDR)
		}
	}
	runRoutes(t, cloud, clusterCIDR("10.245.0.0/16"), unreadableRoute(cloud))
	waitRoutePasses(t, cloud, 1)

	left := destinations(cloud)
	for _, test := range tests {
		if got := slices.Contains(left, test.route.DestinationCIDR); got != test.stays {
			t.Errorf("the route %+v exists: %t, want %t, because %s", test.route, got, test.stays,
				test.why)
		}
	}
	if failed := cloud.Calls(fake.CallFilter{Method: fake.DeleteRoute, Failed: true}.Matches); len(
		failed) > 0 {
		t.Errorf("the cloud refused a deletion: %+v", failed)
	}
	if len(left) != len(want) {
		t.Errorf("the routes are %v, want %v", left, want)
	}
}

// unreadableRoute adds a route to the cloud's list whose destination is not a CIDR.
func unreadableRoute(cloud *fake.Cloud) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Providers = []ccm.Provider{{
			Name: "fake",
			New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
				return unreadableCloud{cloud.Provider()}, nil
			},
		}}
	}
}

type unreadableCloud struct{ cloudprovider.Interface }

func (c unreadableCloud) Routes() (cloudprovider.Routes, bool) {
	routes, ok := c.Interface.Routes()
	return unreadableRoutes{routes}, ok
}

type unreadableRoutes struct{ cloudprovider.Routes }

func (r unreadableRoutes) ListRoutes(
	ctx context.Context, cluster string,
) ([]*cloudprovider.Route, error) {
	routes, err := r.Routes.ListRoutes(ctx, cluster)
	return append(routes,
		&cloudprovider.Route{
			Name: "unreadable", TargetNode: "leftover-gone",
			DestinationCIDR: "default",
		}), err
}

func TestRoute_CannotBeCreated_NodeHasTheConditionUntilItCan(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"failing-1"})
	takeBack := cloud.On(fake.CreateRoute).For("failing-1").Fail(errors.New("quota exceeded"))
	runRoutes(t, cloud)
	mark := shared.Audit().Mark()
	node := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("failing-1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	waitNetwork(t, "failing-1", corev1.ConditionTrue, "NoRouteCreated")
	event := nodeEvent(t, node, "FailedToCreateRoute")
	if event.Type != corev1.EventTypeWarning || event.Source.Component != "route_controller" ||
		!strings.HasPrefix(event.Message,
			fmt.Sprintf("Could not create route %s 10.244.1.0/24 for node failing-1 after ",
				node.UID)) || !strings.HasSuffix(event.Message, ": quota exceeded") {
		t.Errorf("%s event of %s: %q", event.Type, event.Source.Component, event.Message)
	}

	// Each pass tries once, whatever the result.
	calls := func(m fake.Method) int { return len(cloud.Calls(fake.CallFilter{Method: m}.Matches)) }
	lists, creates := calls(fake.ListRoutes), calls(fake.CreateRoute)
	waitRoutePasses(t, cloud, 3)
	if passes, tries := calls(fake.ListRoutes)-lists,
		calls(fake.CreateRoute)-creates; tries < 3 || tries > passes+1 {
		t.Errorf("in %d passes there were %d tries", passes, tries)
	}
	takeBack()
	waitNetwork(t, "failing-1", corev1.ConditionFalse, "RouteCreated")
	if got, want := routePatches(t, cloud, mark, "failing-1"),
		[]string{"patch nodes/status 200"}; !slices.Equal(got, want) {
		t.Errorf("the node was changed by %v, want %v", got, want)
	}
}

// The period begins with a pass, so a pass that takes longer than the period is followed by the
// next one at once.
func TestRoute_ReconciliationPeriod_CountsFromTheBeginningOfAPass(t *testing.T) {
	t.Parallel()
	const period = time.Second
	cloud := newCloud(t, nil)
	cloud.On(fake.ListRoutes).Times(1).Delay(period + period/5)
	runRoutes(t, cloud, reconcileEvery(period))
	calls := waitCalls(t, cloud, "routes are reconciled three times", 3,
		fake.CallFilter{Method: fake.ListRoutes}.Matches)
	if pause := calls[1].Started.Sub(calls[0].Ended); pause > period*4/5 {
		t.Errorf("after a pass that took longer than the period the next one began after %s", pause)
	}
	if apart := calls[2].Started.Sub(calls[0].Started); apart < period*3/2 {
		t.Errorf("three passes began within %s", apart)
	}
}
