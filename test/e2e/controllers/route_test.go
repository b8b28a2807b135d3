package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// runRoutes runs the route controller alone, unless told otherwise with a pass every twentieth of a
// second.
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

// onePass leaves it at the pass that the route controller makes when it starts.
var onePass = reconcileEvery(time.Hour)

func clusterCIDR(cidrs string) func(*ccm.Params) {
	return func(p *ccm.Params) { p.Config.ClusterCIDR = cidrs }
}

// waitRoutePasses waits for n whole passes of the route controller that begin after now. Each
// begins with a list of the routes, so the beginning of one more tells that they are over.
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
	ccmtest.WaitNode(t, shared.Client(t), node,
		fmt.Sprintf("node %s has NetworkUnavailable %s for %s", node, status, reason),
		func(n *corev1.Node) error {
			if c := network(n); c == nil || c.Status != status || c.Reason != reason {
				return fmt.Errorf("it has %+v", c)
			}
			return nil
		})
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

// routePatches returns the requests that change a node until two whole passes leave it alone. A
// pass repeats a write that its informer has not seen yet; such repetitions count as one.
func routePatches(t *testing.T, cloud *fake.Cloud, since controlplane.Mark, node string) []string {
	t.Helper()
	changes := func() []controlplane.AuditRecord {
		return requests(t, since, controlplane.Mutating(), controlplane.ByName(node))
	}
	records := ccmtest.Eventually(t, "passes leave node "+node+" alone",
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
			// The cloud names them after cluster and hint, which is the node's UID.
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

// With upstream, the process would end.
func TestRoute_WhenTheClusterCIDRMakesNoSense_TheManagerIsNotMade(t *testing.T) {
	t.Parallel()
	for _, cidrs := range []string{
		"10.244.0.0", "10.244.0.0/16,10.245.0.0/16",
		"fd00:1::/56,fd00:2::/56", "10.244.0.0/16,fd00:1::/56,fd00:2::/56",
	} {
		_, err := ccm.New(params(t, newCloud(t, nil), only("route"), clusterCIDR(cidrs)))
		var wrong *ccm.ConfigError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "clusterCIDR") {
			t.Errorf("%s: New returned %v, want an error that names the field", cidrs, err)
		}
	}
}

func TestRoute_LeftoversOfTheClusterAreDeletedAndNothingElse(t *testing.T) {
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
		{to("leftover-1", "10.245.2.0/24"), false, "the node has not this pod CIDR"},
		{to("leftover-gone", "10.245.3.0/24"), false, "there is no such node"},
		{to("", "10.245.4.0/24"), false, "it leads to no node"},
		{fake.Route{TargetNode: "leftover-1", DestinationCIDR: "10.245.5.0/24", Blackhole: true}, false, "it is a blackhole"},
		{to("leftover-gone", "10.244.0.0/15"), false, "its last address is in the cluster CIDR"},
		{to("leftover-gone", "10.245.128.0/17"), false, "its first address is in the cluster CIDR"},

		{to("leftover-gone", "10.246.1.0/24"), true, "it is outside of the cluster CIDR"},
		{fake.Route{DestinationCIDR: "10.246.2.0/24", Blackhole: true}, true, "it is outside of the cluster CIDR, blackhole or not"},
		{to("leftover-gone", "10.240.0.0/12"), true, "it is larger than the cluster CIDR: neither end is in it"},
		{to("leftover-gone", "fd00:10:244:1::/64"), true, "it is of an IP family that the cluster CIDR has not"},
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
			t.Errorf("the route %+v is there: %t, want %t, for %s", test.route, got, test.stays,
				test.why)
		}
	}
	if failed := cloud.Calls(fake.CallFilter{Method: fake.DeleteRoute, Failed: true}.Matches); len(
		failed) > 0 {
		t.Errorf("a deletion was tried that the cloud does not understand: %+v", failed)
	}
	if len(left) != len(want) {
		t.Errorf("the routes are %v, want %v", left, want)
	}
}

// unreadableRoute lets the cloud list one more route, whose destination is no CIDR.
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

func TestRoute_GoesWithItsNode(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"route-leaving-1", "route-leaving-2"})
	runRoutes(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("route-leaving-1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("route-leaving-2", ccmtest.NodePodCIDRs("10.244.2.0/24")))
	ccmtest.WaitRoute(t, cloud, "route-leaving-1", "10.244.1.0/24")
	ccmtest.WaitRoute(t, cloud, "route-leaving-2", "10.244.2.0/24")
	// a matter for the next pass
	cloud.On(fake.DeleteRoute).Times(1).Fail(errors.New("the API is down"))
	if err := shared.Client(t).CoreV1().Nodes().Delete(t.Context(), "route-leaving-1",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.WaitRouteGone(t, cloud, "10.244.1.0/24")
	// A blackhole is replaced, though its node is still there and wants it.
	addRoutes(t, cloud,
		fake.Route{
			TargetNode: "route-leaving-2", DestinationCIDR: "10.244.2.0/24",
			Blackhole: true,
		})
	ccmtest.WaitRoute(t, cloud, "route-leaving-2", "10.244.2.0/24")
}

func TestRoute_WhenTheNodesAddressesChange_IsReplaced(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"moved-1"}, fake.WithRouteNodeAddresses())
	runRoutes(t, cloud)
	node := ccmtest.ReadyNode("moved-1", ccmtest.NodePodCIDRs("10.244.1.0/24"))
	node.Status.Addresses = []corev1.NodeAddress{internal("192.0.2.1")}
	ccmtest.CreateNode(t, shared.Client(t), node)
	waitNetwork(t, "moved-1", corev1.ConditionFalse, "RouteCreated")
	cloud.ResetCalls()
	// The deletion takes its time, and is waited for.
	cloud.On(fake.DeleteRoute).Delay(100 * time.Millisecond)

	patchNode(t, "moved-1",
		`{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.2"}]}}`, "status")
	want := getNode(t, "moved-1").Status.Addresses
	ccmtest.WaitCloud(t, cloud, "the route has the new address", func() error {
		routes := cloud.Routes()
		if len(routes) != 1 || !slices.Equal(routes[0].TargetNodeAddresses, want) {
			return fmt.Errorf("the routes are %+v", routes)
		}
		return nil
	})
	waitRoutePasses(t, cloud, 1)
	calls := cloud.Calls(fake.CallFilter{Interface: fake.Routes, Mutating: true}.Matches)
	if len(calls) != 2 || calls[0].Method != fake.DeleteRoute ||
		calls[1].Method != fake.CreateRoute || calls[1].Started.Before(calls[0].Ended) {
		t.Errorf("the routes were changed by %+v, want DeleteRoute and then CreateRoute", calls)
	}
}

func TestRoute_WhenItCanNotBeCreated_TheNodeSaysSoUntilItCan(t *testing.T) {
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

	// One try a pass, whatever it comes to.
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

func TestRoute_ConditionIsWrittenOnlyWhenStatusOrReasonDiffer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		condition corev1.NodeCondition
		written   bool
	}{
		"condition-same":   {corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "RouteCreated", Message: "said by another"}, false},
		"condition-reason": {corev1.NodeCondition{Status: corev1.ConditionFalse, Reason: "CalicoIsUp"}, true},
		"condition-status": {corev1.NodeCondition{Status: corev1.ConditionUnknown, Reason: "RouteCreated"}, true},
		"condition-true":   {corev1.NodeCondition{Status: corev1.ConditionTrue, Reason: "NoRouteCreated"}, true},
	}
	cloud := newCloud(t, nil)
	cidr := 0
	for name, test := range tests {
		addInstance(t, cloud, fake.Instance{Name: name})
		cidr++
		node := ccmtest.ReadyNode(name, ccmtest.NodePodCIDRs(fmt.Sprintf("10.244.%d.0/24", cidr)))
		test.condition.Type = corev1.NodeNetworkUnavailable
		node.Status.Conditions = append(node.Status.Conditions, test.condition)
		ccmtest.CreateNode(t, shared.Client(t), node)
	}
	mark := shared.Audit().Mark()
	runRoutes(t, cloud)
	waitRoutePasses(t, cloud, 2)
	for name, test := range tests {
		waitNetwork(t, name, corev1.ConditionFalse, "RouteCreated")
		if got := routePatches(t, cloud, mark, name); (len(got) == 1) != test.written ||
			len(got) > 1 {
			t.Errorf("%s was changed by %v, want a write: %t", name, got, test.written)
		}
		if c := network(getNode(t, name)); !test.written && c.Message != test.condition.Message {
			t.Errorf("%s has the condition %+v", name, c)
		}
	}
}

// The node lost its pod CIDR, as one that was created again under its name.
func TestRoute_WhenANodeHasARouteButNoPodCIDR_ItsNetworkIsUnavailable(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"stripped-1", "stripped-2"})
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("stripped-1"))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("stripped-2"))
	addRoutes(t, cloud, fake.Route{TargetNode: "stripped-1", DestinationCIDR: "10.244.1.0/24"})
	runRoutes(t, cloud, onePass)
	waitNetwork(t, "stripped-1", corev1.ConditionTrue, "NoRouteCreated")
	ccmtest.WaitRouteGone(t, cloud, "10.244.1.0/24")
	if c := network(getNode(t, "stripped-2")); c != nil {
		t.Errorf("a node without route and pod CIDR got the condition %+v", c)
	}
}

func TestRoute_OnlyAConflictIsTriedAgainInTheSamePass(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "routers"}, "router",
		errors.New("it has changed"))
	tests := map[string]struct {
		err   error
		times int
		tries int
		made  bool
	}{
		"again-error":    {errors.New("quota exceeded"), 1, 1, false},
		"again-conflict": {conflict, 4, 5, true},
		"again-ever":     {conflict, 5, 5, false},
	}
	cloud := newCloud(t, nil)
	cidr := 0
	for name, test := range tests {
		addInstance(t, cloud, fake.Instance{Name: name})
		cidr++
		ccmtest.CreateNode(t, shared.Client(t),
			ccmtest.ReadyNode(name, ccmtest.NodePodCIDRs(fmt.Sprintf("10.244.%d.0/24", cidr))))
		cloud.On(fake.CreateRoute).For(name).Times(test.times).Fail(test.err)
	}
	runRoutes(t, cloud, onePass)
	for name, test := range tests {
		if test.made {
			waitNetwork(t, name, corev1.ConditionFalse, "RouteCreated")
		} else {
			waitNetwork(t, name, corev1.ConditionTrue, "NoRouteCreated")
		}
		if tries := len(cloud.Calls(callsOf(fake.CreateRoute, name))); tries != test.tries {
			t.Errorf("%s: there were %d tries in one pass, want %d", name, tries, test.tries)
		}
	}
}

func TestRoute_WhenTheConditionConflicts_ItIsWrittenAgainInTheSamePass(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"route-conflict-1"})
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("route-conflict-1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	var patches atomic.Int32
	runRoutes(t, cloud, onePass, answering(func(req *http.Request) int {
		if req.Method == http.MethodPatch &&
			strings.HasSuffix(req.URL.Path, "/nodes/route-conflict-1/status") &&
			patches.Add(1) < 5 {
			return http.StatusConflict
		}
		return 0
	}))
	waitNetwork(t, "route-conflict-1", corev1.ConditionFalse, "RouteCreated")
	if n := patches.Load(); n != 5 {
		t.Errorf("the condition was written %d times, want 5", n)
	}
}

func TestRoute_UpToTwoHundredAreChangedAtOnce(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	var leftovers []fake.Route
	for i := range 230 {
		leftovers = append(leftovers,
			fake.Route{TargetNode: "nowhere", DestinationCIDR: fmt.Sprintf("10.244.%d.0/24", i)})
	}
	addRoutes(t, cloud, leftovers...)
	release := cloud.On(fake.DeleteRoute).Hang()
	runRoutes(t, cloud, onePass)
	waitInFlight(t, cloud, 200)
	release()
	ccmtest.WaitCloud(t, cloud, "all routes are deleted", func() error {
		if n := len(cloud.Routes()); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	if most := mostInFlight(cloud); most != 200 {
		t.Errorf("up to %d routes were deleted at once, want 200", most)
	}
}

// The period is the time from the beginning of a pass to the beginning of the next, so after one
// that took longer the next one follows at once.
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

func TestRoute_PassesAreCountedByOutcome(t *testing.T) {
	cloud := newCloud(t, []string{"outcome-1", "outcome-2"})
	counted := func(outcome string) float64 {
		return metric(t, "route_controller_route_sync_total",
			map[string]string{"outcome": outcome, "trigger": "periodic"})
	}
	pass := func(outcome string) {
		t.Helper()
		before := map[string]float64{}
		for _, o := range []string{"changed", "noop", "error"} {
			before[o] = counted(o)
		}
		r := runRoutes(t, cloud, onePass)
		ccmtest.Eventually(t, "the pass is counted as "+outcome,
			func(context.Context) (bool, error) {
				for o, n := range before {
					want := n
					if o == outcome {
						want++
					}
					if now := counted(o); now != want {
						return false, fmt.Errorf("%s went from %v to %v", o, n, now)
					}
				}
				return true, nil
			})
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("outcome-1", ccmtest.NodePodCIDRs("10.244.1.0/24")))
	pass("changed")
	pass("noop")
	cloud.On(fake.ListRoutes).Times(1).Fail(errors.New("the API is down"))
	pass("error")
	// Of a route that fails the count says nothing: that is in the event and in the node's
	// condition.
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("outcome-2", ccmtest.NodePodCIDRs("10.244.2.0/24")))
	cloud.On(fake.CreateRoute).Times(1).Fail(errors.New("quota exceeded"))
	pass("noop")
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("outcome-3", ccmtest.NodePodCIDRs("10.244.3.0/24")))
	cloud.On(fake.CreateRoute).For("outcome-3").Times(1).Fail(errors.New("quota exceeded"))
	pass("changed")
}
