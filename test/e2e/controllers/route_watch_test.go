package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/controller-manager/pkg/features"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// routeInterval is the time between two passes of a route controller that watches nodes, and the
// most that a change waits.
const routeInterval = 10 * time.Second

// passes chooses the call with which each pass of the route controller begins.
var passes = fake.CallFilter{Method: fake.ListRoutes}.Matches

// watchRoutes runs a route controller on a cloud of its own, for which there is one node in the
// cluster: that of the given name.
func watchRoutes(t *testing.T, name string, cloud *fake.Cloud, change ...func(*ccm.Params)) {
	t.Helper()
	runRoutes(t, cloud, append(change, seeingOnly(name))...)
}

func seeingOnly(node string) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.RESTConfig = rest.CopyConfig(p.RESTConfig)
		p.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return oneNode{next, node}
		})
	}
}

type oneNode struct {
	next http.RoundTripper
	node string
}

func (o oneNode) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/api/v1/nodes") {
		req = req.Clone(req.Context())
		query := req.URL.Query()
		query.Set("fieldSelector", fields.OneTermEqualSelector("metadata.name", o.node).String())
		req.URL.RawQuery = query.Encode()
	}
	return o.next.RoundTrip(req)
}

func address(ip string) string {
	return fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, ip)
}

// With the feature gate, events of nodes lead to passes, which are ten seconds apart. Each case is
// a CCM with a cloud and a node of its own, so that all can wait for the same ten seconds.
func TestRoute_WhenItWatchesNodes_PassesFollowTheirChanges(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.CloudControllerManagerWatchBasedRoutesReconciliation, true)
	const cidr = "10.244.1.0/24"
	counted := func(trigger string) float64 {
		return metric(t, "route_controller_route_sync_total", map[string]string{"trigger": trigger})
	}
	periodic, changes := counted("periodic"), counted("node_change")

	// A route that could not be made or deleted is left as it is: nothing reminds the controller of
	// it, nor do changes of the node that have nothing to do with routes. It begins before the
	// others, so when they have been reminded it would have been, too.
	forgotten := newCloud(t, []string{"watch-forgotten"}, fake.WithRouteNodeAddresses())
	addRoutes(t, forgotten, fake.Route{TargetNode: "gone", DestinationCIDR: "10.244.9.0/24"})
	forgotten.On(fake.CreateRoute).Times(1).Fail(errors.New("quota exceeded"))
	forgotten.On(fake.DeleteRoute).Times(1).Fail(errors.New("the API is down"))
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("watch-forgotten", ccmtest.NodePodCIDRs(cidr)))
	watchRoutes(t, "watch-forgotten", forgotten)
	waitNetwork(t, "watch-forgotten", corev1.ConditionTrue, "NoRouteCreated")
	patchNode(t, "watch-forgotten", `{"metadata":{"labels":{"team":"red"}}}`)
	patchNode(t, "watch-forgotten", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
		"status")

	tests := []struct {
		name   string
		cidrs  []string
		before func(*fake.Cloud)
		params func(*ccm.Params)
		change func(node string) // after the first pass
		want   []string          // destination and addresses of the node's routes, after the second
	}{
		{name: "watch-cidrs", change: func(node string) {
			patchNode(t, node, fmt.Sprintf(`{"spec":{"podCIDR":%[1]q,"podCIDRs":[%[1]q]}}`, cidr))
		}, want: []string{cidr + " watch-cidrs"}},
		{name: "watch-addresses", cidrs: []string{cidr}, change: func(node string) {
			// Together they come to one pass.
			for _, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
				patchNode(t, node, address(ip), "status")
			}
		}, want: []string{cidr + " watch-addresses 192.0.2.3"}},
		{name: "watch-deleted", cidrs: []string{cidr}, change: func(node string) {
			if err := shared.Client(t).CoreV1().Nodes().Delete(t.Context(), node,
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}},
		// That the routes could not be listed is the one failure after which the controller tries
		// again by itself.
		{name: "watch-list-fails", cidrs: []string{cidr}, before: func(cloud *fake.Cloud) {
			cloud.On(fake.ListRoutes).Times(1).Fail(errors.New("the API is down"))
		}, want: []string{cidr + " watch-list-fails"}},
		// And the informers' resync, every 12 to 24 hours unless configured otherwise, is a
		// reminder.
		{name: "watch-resync", cidrs: []string{cidr}, before: func(cloud *fake.Cloud) {
			cloud.On(fake.CreateRoute).Times(1).Fail(errors.New("quota exceeded"))
		}, params: func(p *ccm.Params) {
			p.Config.MinResyncPeriod = metav1.Duration{Duration: time.Second}
		}, want: []string{cidr + " watch-resync"}},
	}
	clouds := map[string]*fake.Cloud{}
	for _, test := range tests {
		cloud := newCloud(t, []string{test.name}, fake.WithRouteNodeAddresses())
		clouds[test.name] = cloud
		if test.before != nil {
			test.before(cloud)
		}
		ccmtest.CreateNode(t, shared.Client(t),
			ccmtest.ReadyNode(test.name, ccmtest.NodePodCIDRs(test.cidrs...)))
		if test.params == nil {
			test.params = func(*ccm.Params) {}
		}
		watchRoutes(t, test.name, cloud, test.params)
		waitCalls(t, cloud, test.name+": routes are reconciled at the start", 1,
			fake.CallFilter{Method: fake.ListRoutes, Finished: true}.Matches)
		if test.change != nil {
			if test.cidrs != nil {
				waitNetwork(t, test.name, corev1.ConditionFalse, "RouteCreated")
			}
			test.change(test.name)
		}
	}

	// A first event is followed at once, and without one there is no pass.
	added := newCloud(t, []string{"watch-added"})
	watchRoutes(t, "watch-added", added)
	created := time.Now()
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("watch-added", ccmtest.NodePodCIDRs(cidr)))
	ccmtest.WaitRoute(t, added, "watch-added", cidr)
	if calls := added.Calls(passes); len(calls) != 1 || calls[0].Started.Before(created) ||
		calls[0].Started.After(created.Add(slack)) {
		t.Errorf("a node was added at %s, and the passes are %+v; want one at once", created, calls)
	}

	for _, test := range tests {
		calls := waitCalls(t, clouds[test.name], test.name+": routes are reconciled once more", 2,
			passes)
		if pause := calls[1].Started.Sub(calls[0].Started); pause < routeInterval-2*time.Second ||
			pause > routeInterval+slack {
			t.Errorf("%s: the second pass came after %s, want %s", test.name, pause, routeInterval)
		}
		ccmtest.WaitCloud(t, clouds[test.name], test.name+": the routes are as wanted",
			func() error {
				if got := routesOfNodes(clouds[test.name]); !slices.Equal(got, test.want) {
					return fmt.Errorf("they are %q, want %q", got, test.want)
				}
				return nil
			})
		if calls := clouds[test.name].Calls(passes); len(calls) != 2 &&
			test.name != "watch-resync" {
			t.Errorf("%s: there were %d passes, want 2", test.name, len(calls))
		}
	}

	if calls := forgotten.Calls(passes); len(calls) != 1 {
		t.Errorf("after a route could not be made there were %d passes, want none but the first",
			len(calls))
	}
	patchNode(t, "watch-forgotten", address("192.0.2.9"), "status")
	ccmtest.WaitRoute(t, forgotten, "watch-forgotten", cidr)
	ccmtest.WaitRouteGone(t, forgotten, "10.244.9.0/24")
	// A pass is counted when it has ended, which is after its last call to the cloud.
	ccmtest.Eventually(t, "the passes are counted by what led to them",
		func(context.Context) (bool, error) {
			if n := counted("periodic") - periodic; n < 1 {
				return false, fmt.Errorf("%v were periodic, want the one after the resync", n)
			}
			if n := counted("node_change") - changes; n < float64(2*len(tests)) {
				return false, fmt.Errorf("%v were after changes of nodes, want %d", n, 2*len(tests))
			}
			return true, nil
		})
}

// routesOfNodes are the destinations of the routes with their nodes and those addresses of the
// nodes that are more than names.
func routesOfNodes(cloud *fake.Cloud) []string {
	var all []string
	for _, r := range cloud.Routes() {
		text := r.DestinationCIDR + " " + r.TargetNode
		for _, a := range r.TargetNodeAddresses {
			if a.Type != corev1.NodeHostName {
				text += " " + a.Address
			}
		}
		all = append(all, text)
	}
	return all
}
