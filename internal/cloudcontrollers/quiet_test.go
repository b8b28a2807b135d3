package cloudcontrollers_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/pkg/features"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/nodes"
	"github.com/fxccm/fxccm/internal/servicelb"
	"github.com/fxccm/fxccm/provider/fake"
)

// period is that of the controllers' passes.
const period = 10 * time.Second

// klogLines records klog's output at --v=2.
type klogLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func recordKlog(t *testing.T) *klogLines {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true", "v": "2",
	} {
		before := flags.Lookup(name).Value.String()
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flags.Set(name, before) })
	}
	l := &klogLines{}
	klog.SetOutput(l)
	t.Cleanup(func() {
		klog.Flush()
		klog.SetOutput(os.Stderr)
	})
	return l
}

// Write implements io.Writer.
func (l *klogLines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// take returns the lines since the last call.
func (l *klogLines) take() (lines []string) {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	text, _ := io.ReadAll(&l.text)
	return slices.Collect(strings.Lines(string(text)))
}

// errorLines are the lines that begin with E.
func errorLines(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines),
		func(line string) bool { return !strings.HasPrefix(line, "E") })
}

// quietTerm runs a controller in a term with nodes and a fake cloud.
func quietTerm(
	t *testing.T, build func(*term) (cloudcontrollers.Run, error), nodes ...*v1.Node,
) (*term, *fake.Cloud) {
	t.Helper()
	cloud, client := fake.New(), kubefake.NewClientset()
	tm := &term{
		client: client, cloud: cloud.Provider(),
		metrics: controllersmetrics.NewControllerManagerMetrics("test"),
	}
	for _, node := range nodes {
		if err := cloud.AddInstances(fake.Instance{Name: node.Name}); err != nil {
			t.Fatal(err)
		}
		if err := client.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	tm.informers = informers.NewSharedInformerFactory(client, 0)
	run, err := build(tm)
	if err != nil {
		t.Fatal(err)
	}
	runController(t, tm, run)
	return tm, cloud
}

func routed(t *term) (cloudcontrollers.Run, error) {
	return cloudcontrollers.NodeRoute(t, labels.Everything(), period, "10.0.0.0/16")
}

// pass waits for passes of the controller.
func pass(n int) {
	time.Sleep(time.Duration(n) * period)
	synctest.Wait()
}

func podNode(i int, addresses ...string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("node-", i), UID: "uid",
	}, Spec: v1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.0.%d.0/24", i)}}}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses,
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: address})
	}
	return node
}

// network is the condition NetworkUnavailable of a node.
func (t *term) network(test *testing.T, name string) string {
	test.Helper()
	node, err := t.client.CoreV1().Nodes().Get(test.Context(), name, metav1.GetOptions{})
	if err != nil {
		test.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeNetworkUnavailable {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func (t *term) warnings(test *testing.T) (texts []string) {
	test.Helper()
	list, err := t.client.CoreV1().Events("").List(test.Context(), metav1.ListOptions{})
	if err != nil {
		test.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Type == v1.EventTypeWarning {
			texts = append(texts, e.Source.Component+" "+e.Reason+" "+e.Message)
		}
	}
	return texts
}

func (t *term) setAddress(test *testing.T, name, address string) {
	test.Helper()
	nodes := t.client.CoreV1().Nodes()
	node, err := nodes.Get(test.Context(), name, metav1.GetOptions{})
	if err != nil {
		test.Fatal(err)
	}
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
	if _, err := nodes.UpdateStatus(test.Context(), node, metav1.UpdateOptions{}); err != nil {
		test.Fatal(err)
	}
}

func count(cloud *fake.Cloud, method fake.Method) int {
	return len(cloud.Calls(func(c fake.Call) bool { return c.Method == method }))
}

func TestNodeRoute_NothingChanges_NoLineIsLogged(t *testing.T) {
	log := recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		var nodes []*v1.Node
		for i := range 20 {
			nodes = append(nodes, podNode(i, fmt.Sprintf("10.1.0.%d", i+1)))
		}
		tm, cloud := quietTerm(t, routed, nodes...)
		pass(2)
		if got := tm.network(t, "node-7"); got != "False RouteCreated" {
			t.Fatalf("the condition is %q", got)
		}
		_, before := log.take(), count(cloud, "ListRoutes")
		pass(100)
		if lines := log.take(); len(lines) > 0 {
			t.Errorf("%d lines are logged, such as %s", len(lines), lines[0])
		}
		if n := count(cloud, "ListRoutes") - before; n != 100 {
			t.Errorf("the routes were listed %d times in 100 passes", n)
		}
	})
}

func TestNodeRoute_NodeHasNoAddressYet_WaitsWithoutAFailure(t *testing.T) {
	log := recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed, podNode(1))
		pass(5)
		if got := tm.network(t, "node-1"); got != "True NoRouteCreated" {
			t.Errorf("without an address the condition is %q, so pods come too early", got)
		}
		if n := count(cloud, "CreateRoute"); n > 0 {
			t.Errorf("CreateRoute was called %d times", n)
		}
		tm.setAddress(t, "node-1", "10.1.0.1")
		pass(1)
		if got := tm.network(t, "node-1"); got != "False RouteCreated" {
			t.Errorf("with an address the condition is %q", got)
		}
		if lines := errorLines(log.take()); len(lines) > 0 {
			t.Errorf("a failure is logged: %s", lines[0])
		}
		if warnings := tm.warnings(t); len(warnings) > 0 {
			t.Errorf("the warnings are %q", warnings)
		}
	})
}

func TestNodeRoute_CloudFails_IsTriedLaterEachTimeAndReportedOnce(t *testing.T) {
	log := recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed)
		cloud.On("CreateRoute").Fail(errors.New("quota exceeded"))
		if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tm.client.CoreV1().Nodes().Create(t.Context(), podNode(1, "10.1.0.1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(60) // ten minutes
		if n := count(cloud, "CreateRoute"); n < 10 || n > 14 {
			t.Errorf("CreateRoute was called %d times in ten minutes, want 10 to 14", n)
		}
		if lines := errorLines(log.take()); len(lines) > 14 {
			t.Errorf("%d errors are logged in ten minutes", len(lines))
		}
		warnings := tm.warnings(t)
		const want = "route_controller FailedToCreateRoute quota exceeded"
		if len(warnings) != 1 || warnings[0] != want {
			t.Errorf("the warnings are %q, want one with the cause alone, %q", warnings, want)
		}
		if got := tm.network(t, "node-1"); got != "True NoRouteCreated" {
			t.Errorf("the condition is %q", got)
		}
		tm.mustHaveTroubles(t, map[string]string{
			"routes": "create the route of node node-1 to 10.0.1.0/24: quota exceeded",
		})
		cloud.ClearFaults()
		tm.setAddress(t, "node-1", "10.1.0.2")
		pass(1)
		tm.mustHaveTroubles(t, nil)
		if got := tm.network(t, "node-1"); got != "False RouteCreated" {
			t.Errorf("after a change of the node the condition is %q; a change ends the pause", got)
		}
	})
}

// refusedRequests is an error with the ID of another request each time, as of many clouds.
type refusedRequests struct{ count atomic.Int64 }

func (r *refusedRequests) Error() string {
	return fmt.Sprintf("403 Forbidden (request %032x)", r.count.Add(1))
}

func TestNodeRoute_FailuresDifferInTheRequestID_AreReportedOnce(t *testing.T) {
	recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed)
		cloud.On("CreateRoute").Fail(&refusedRequests{})
		if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tm.client.CoreV1().Nodes().Create(t.Context(), podNode(1, "10.1.0.1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(60) // ten minutes
		if n := count(cloud, "CreateRoute"); n < 10 {
			t.Errorf("CreateRoute was called %d times in ten minutes, want 10 or more", n)
		}
		if warnings := tm.warnings(t); len(warnings) != 1 {
			t.Errorf("the warnings are %q, want one", warnings)
		}
	})
}

func TestNodeRoute_ListFails_IsTriedLaterEachTimeAndATroubleUntilItSucceeds(t *testing.T) {
	log := recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed, podNode(1, "10.1.0.1"))
		pass(2)
		log.take()
		cloud.On("ListRoutes").Fail(errors.New("503 Service Unavailable"))
		pass(1)
		tm.mustHaveTroubles(t, nil) // one failure may be a blip
		pass(59)
		tm.mustHaveTroubles(t, map[string]string{
			"routes": "list the routes: 503 Service Unavailable",
		})
		if lines := errorLines(log.take()); len(lines) == 0 || len(lines) > 14 {
			t.Errorf("%d errors are logged in ten minutes, want 1 to 14", len(lines))
		}
		cloud.ClearFaults()
		pass(7)
		if got := tm.network(t, "node-1"); got != "False RouteCreated" {
			t.Errorf("the condition is %q", got)
		}
		if n := count(cloud, "DeleteRoute"); n > 0 {
			t.Errorf("%d routes were deleted", n)
		}
		tm.mustHaveTroubles(t, nil)
	})
}

// The node of such a route may be gone, so no event about a node can report the failure.
func TestNodeRoute_DeletionFails_IsATroubleUntilItSucceeds(t *testing.T) {
	recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed, podNode(1, "10.1.0.1"), podNode(2, "10.1.0.2"))
		pass(2)
		cloud.On("DeleteRoute").Fail(errors.New("403 Forbidden"))
		for _, name := range []string{"node-1", "node-2"} {
			if err := tm.client.CoreV1().Nodes().Delete(t.Context(), name,
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pass(60)
		if n := count(cloud, "DeleteRoute"); n < 2*10 || n > 2*14 {
			t.Errorf("DeleteRoute was called %d times in ten minutes, want 20 to 28", n)
		}
		tm.mustHaveTroubles(t, map[string]string{
			"routes": "delete the route of node node-1 to 10.0.1.0/24: 403 Forbidden " +
				"(further failures: 1)",
		})
		cloud.ClearFaults()
		pass(7)
		tm.mustHaveTroubles(t, nil)
		if left := cloud.Routes(); len(left) > 0 {
			t.Errorf("the routes %v are left", left)
		}
	})
}

func TestNodeRoute_ConditionsCannotBeWritten_AreTriedLaterEachTimeAndATrouble(t *testing.T) {
	resource := v1.Resource("nodes")
	for name, test := range map[string]struct {
		err     error
		subject string
	}{
		"a right is missing": {
			apierrors.NewForbidden(resource, "", errors.New("no rule")),
			"permission to patch nodes/status for routes",
		},
		"a webhook denies it": {
			apierrors.NewForbidden(resource, "",
				errors.New(`admission webhook "x" denied the request: no`)),
			"routes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			recordKlog(t)
			synctest.Test(t, func(t *testing.T) {
				nodes := []*v1.Node{podNode(19)} // without an address
				for i := range 19 {
					nodes = append(nodes, podNode(i, fmt.Sprintf("10.1.0.%d", i+1)))
				}
				var refused atomic.Int32
				var isAllowed atomic.Bool
				tm, cloud := quietTerm(t, func(tm *term) (cloudcontrollers.Run, error) {
					tm.client.PrependReactor("patch", "nodes/status",
						func(clienttesting.Action) (bool, runtime.Object, error) {
							if isAllowed.Load() {
								return false, nil, nil
							}
							refused.Add(1)
							return true, nil, test.err
						})
					return routed(tm)
				}, nodes...)
				pass(60)
				if n := refused.Load(); n < 20*10 || n > 20*14 {
					t.Errorf("%d conditions were written in ten minutes, want 200 to 280", n)
				}
				if n := count(cloud, "CreateRoute"); n != 19 {
					t.Errorf("CreateRoute was called %d times, want 19", n)
				}
				tm.mustHaveTroubles(t, map[string]string{
					test.subject: "write the condition NetworkUnavailable of node node-0: " +
						test.err.Error() + " (further failures: 19)",
				})
				isAllowed.Store(true)
				pass(7)
				if got := tm.network(t, "node-7"); got != "False RouteCreated" {
					t.Errorf("the condition of a node with a route is %q", got)
				}
				if got := tm.network(t, "node-19"); got != "True NoRouteCreated" {
					t.Errorf("the condition of a node without an address is %q", got)
				}
				tm.mustHaveTroubles(t, nil)
			})
		})
	}
}

// The answer to a creation may be lost, and another client may delete a leftover.
func TestNodeRoute_FailedTryHadItsEffect_IsNoTrouble(t *testing.T) {
	recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed, podNode(1, "10.1.0.1"))
		pass(2)
		cloud.On("DeleteRoute").Fail(errors.New("403 Forbidden"))
		nodes := tm.client.CoreV1().Nodes()
		if err := nodes.Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(6)
		if len(tm.troubles) != 1 {
			t.Errorf("the troubles are %q, want that of the deletion", tm.troubles)
		}
		if _, err := nodes.Create(t.Context(), podNode(1, "10.1.0.1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(12)
		if got := tm.network(t, "node-1"); got != "False RouteCreated" {
			t.Errorf("the condition is %q", got)
		}
		tm.mustHaveTroubles(t, nil)
	})
}

// With the feature gate, upstream makes a pass only after a change of a node.
func TestNodeRoute_PassesFollowChangesOfNodes_FailuresAreTriedAgain(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate,
		features.CloudControllerManagerWatchBasedRoutesReconciliation, true)
	log := recordKlog(t)
	handlers := utilruntime.ErrorHandlers
	// The other handler pauses after each error, by a clock that all bubbles share.
	utilruntime.ErrorHandlers = handlers[:1]
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed)
		if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
			t.Fatal(err)
		}
		cloud.On("ListRoutes").Fail(errors.New("503 Service Unavailable"))
		if _, err := tm.client.CoreV1().Nodes().Create(t.Context(), podNode(1, "10.1.0.1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(60)
		if n := count(cloud, "ListRoutes"); n < 8 || n > 16 {
			t.Errorf("ListRoutes was called %d times in ten minutes, want 8 to 16", n)
		}
		// Upstream logs each failure, and that it tries again.
		if lines := errorLines(log.take()); len(lines) > 16 {
			t.Errorf("%d errors are logged in ten minutes", len(lines))
		}
		tm.mustHaveTroubles(t, map[string]string{
			"routes": "list the routes: 503 Service Unavailable",
		})
		cloud.ClearFaults()
		cloud.On("CreateRoute").Fail(errors.New("quota exceeded"))
		pass(60)
		if n := count(cloud, "CreateRoute"); n < 8 || n > 16 {
			t.Errorf("CreateRoute was called %d times in ten minutes, want 8 to 16", n)
		}
		if got := tm.network(t, "node-1"); got != "True NoRouteCreated" {
			t.Errorf("the condition is %q", got)
		}
		cloud.ClearFaults()
		pass(9)
		if got := tm.network(t, "node-1"); got != "False RouteCreated" {
			t.Errorf("the condition is %q", got)
		}
		tm.mustHaveTroubles(t, nil)
		cloud.ResetCalls()
		pass(60)
		if n := count(cloud, "ListRoutes"); n > 0 {
			t.Errorf("the routes were listed %d times although nothing had failed", n)
		}
	})
}

func TestNodeRoute_RoutesAreStaleOrLost_AreMended(t *testing.T) {
	recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		tm, cloud := quietTerm(t, routed, podNode(1, "10.1.0.1"), podNode(2, "10.1.0.2"))
		pass(2)
		routes, _ := cloud.Provider().Routes()
		list, err := routes.ListRoutes(t.Context(), "test")
		if err != nil || len(list) != 2 {
			t.Fatalf("the routes are %v: %v", list, err)
		}
		if err := routes.DeleteRoute(t.Context(), "test", list[0]); err != nil {
			t.Fatal(err)
		}
		gone := string(list[1].TargetNode)
		if err := tm.client.CoreV1().Nodes().Delete(t.Context(), gone,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(2)
		now, err := routes.ListRoutes(t.Context(), "test")
		if err != nil || len(now) != 1 || now[0].TargetNode != list[0].TargetNode {
			t.Errorf("the routes are %v (%v), want one to %s", now, err, list[0].TargetNode)
		}
	})
}

func TestNodeRoute_NodeIsNotSelected_ItsRoutesAreLeftAlone(t *testing.T) {
	recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		edge := podNode(2, "10.1.0.2")
		edge.Labels = map[string]string{"edge": "yes"}
		tm, cloud := quietTerm(t, func(t *term) (cloudcontrollers.Run, error) {
			selector, err := labels.Parse("edge!=yes")
			if err != nil {
				return nil, err
			}
			return cloudcontrollers.NodeRoute(t, selector, period, "10.0.0.0/16")
		}, podNode(1, "10.1.0.1"), edge)
		routes, _ := cloud.Provider().Routes()
		if err := routes.CreateRoute(t.Context(), "test", "own", &cloudprovider.Route{
			TargetNode: "node-2", DestinationCIDR: "10.0.7.0/24",
		}); err != nil {
			t.Fatal(err)
		}
		cloud.ResetCalls()
		pass(10)
		if made, gone := count(cloud, "CreateRoute"),
			count(cloud, "DeleteRoute"); made > 1 || gone > 0 {
			t.Errorf("%d routes were created and %d deleted, want at most that of node-1", made, gone)
		}
		if got := tm.network(t, "node-2"); got != "" {
			t.Errorf("the condition of node-2 is %q", got)
		}
	})
}

// canonicalCloud lists the destinations of its routes in canonical form, as Neutron does.
type canonicalCloud struct{ cloudprovider.Interface }

func (c canonicalCloud) Routes() (cloudprovider.Routes, bool) {
	routes, ok := c.Interface.Routes()
	return canonicalRoutes{routes}, ok
}

type canonicalRoutes struct{ cloudprovider.Routes }

func (r canonicalRoutes) ListRoutes(
	ctx context.Context, cluster string,
) ([]*cloudprovider.Route, error) {
	all, err := r.Routes.ListRoutes(ctx, cluster)
	for _, route := range all {
		route.DestinationCIDR = netip.MustParsePrefix(route.DestinationCIDR).Masked().String()
	}
	return all, err
}

func TestNodeRoute_PodCIDRInAnotherSpelling_IsTheSameRoute(t *testing.T) {
	recordKlog(t)
	synctest.Test(t, func(t *testing.T) {
		node := podNode(1, "10.1.0.1")
		node.Spec.PodCIDRs = []string{"10.0.1.7/24", "2001:DB8:0:0::/64"}
		tm, cloud := quietTerm(t, func(t *term) (cloudcontrollers.Run, error) {
			t.cloud = canonicalCloud{t.cloud}
			return cloudcontrollers.NodeRoute(t, labels.Everything(), period,
				"10.0.0.0/16,2001:db8::/56")
		}, node)
		pass(10)
		if made, gone := count(cloud, "CreateRoute"),
			count(cloud, "DeleteRoute"); made != 2 || gone > 0 {
			t.Errorf("%d routes were created and %d deleted, want 2 and none", made, gone)
		}
		if got := tm.network(t, "node-1"); got != "False RouteCreated" {
			t.Errorf("the condition is %q", got)
		}
		if err := tm.client.CoreV1().Nodes().Delete(t.Context(), "node-1",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(2)
		if left := cloud.Routes(); len(left) > 0 {
			t.Errorf("the routes %v are left", left)
		}
	})
}

// Upstream's broadcaster has four goroutines, and ours has none at rest. A fleet has as many for
// each cluster.
func TestGoroutines_OfBroadcasters_OnlyWithRoutes(t *testing.T) {
	for name, test := range map[string]struct {
		build func(*term) (cloudcontrollers.Run, error)
		want  int
	}{
		"routes": {routed, 4},
		"services": {func(tm *term) (cloudcontrollers.Run, error) {
			return cloudcontrollers.ServiceLB(tm, labels.Everything(), 1,
				servicelb.Classes{Default: true})
		}, 0},
		"nodes": {func(tm *term) (cloudcontrollers.Run, error) {
			tm.record = nodes.NewRecord(func(string, error) {})
			return cloudcontrollers.CloudNode(tm, labels.Everything(), period, 1, nodes.Refresh{})
		}, 0},
		"lifecycle": {func(tm *term) (cloudcontrollers.Run, error) {
			tm.record = nodes.NewRecord(func(string, error) {})
			return cloudcontrollers.CloudNodeLifecycle(tm, labels.Everything(), period, 1)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := len(broadcasters())
				quietTerm(t, test.build)
				pass(1)
				found := broadcasters()
				if n := len(found) - before; n != test.want {
					t.Errorf("there are %d more, want %d:\n%s", n, test.want,
						strings.Join(found, "\n\n"))
				}
			})
		})
	}
}

// broadcasters returns the stacks of the goroutines of client-go's broadcasters.
func broadcasters() (found []string) {
	all := make([]byte, 1<<20)
	all = all[:goruntime.Stack(all, true)]
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(stack, "client-go/tools/record") ||
			strings.Contains(stack, "watch.(*Broadcaster)") {
			found = append(found, stack)
		}
	}
	return found
}
