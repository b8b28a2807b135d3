package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/metrics/metricstest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// firstNode is the name of a node that exists when the cloud-node controller starts.
func firstNode(t *testing.T) string { return "first-" + suite.ClusterName(t) }

// runCloudNode runs the cloud-node controller alone. It returns when upstream's refresh at the
// start has begun. Nodes that are created later are not part of the refresh, so every call for them
// has another reason.
func runCloudNode(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	addInstance(t, cloud, fake.Instance{Name: firstNode(t)})
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode(firstNode(t), ccmtest.NodeProviderID(ownID(firstNode(t)))))
	r := run(t, cloud, append([]func(*ccm.Params){only("cloud-node")}, change...)...)
	waitCallsAbout(t, cloud, firstNode(t), 1)
	return r
}

// oneAtATime makes the queue of nodes sequential: when a node is initialized, all nodes that were
// queued before it have been handled.
func oneAtATime(p *ccm.Params) { p.Config.Node.ConcurrentSyncs = 1 }

func refreshEvery(d time.Duration) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Config.Node.StatusUpdateFrequency = metav1.Duration{Duration: d}
	}
}

func ownID(node string) string { return "fake://region-1/" + node }

func addInstance(t *testing.T, cloud *fake.Cloud, instances ...fake.Instance) {
	t.Helper()
	if err := cloud.AddInstances(instances...); err != nil {
		t.Fatal(err)
	}
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := shared.Client(t).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// patchNode changes a node as another client.
func patchNode(t *testing.T, name, patch string, subresources ...string) {
	t.Helper()
	_, err := shared.Client(t).CoreV1().Nodes().Patch(context.Background(), name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Errorf("patch node %s: %v", name, err)
	}
}

func hasTaint(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == key && taint.Effect == effect
	})
}

func uninitialized(node *corev1.Node) bool {
	return hasTaint(node, cloudproviderapi.TaintExternalCloudProvider, corev1.TaintEffectNoSchedule)
}

// initialize creates a tainted node with an instance, and waits until it is initialized.
func initialize(t *testing.T, cloud *fake.Cloud, name string) {
	t.Helper()
	addInstance(t, cloud, fake.Instance{Name: name})
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(shared.Client(t), name))
}

// nodeVersions returns the versions of the node after each change since its creation, until the
// condition holds.
func nodeVersions(
	t *testing.T, created *corev1.Node, until func(*corev1.Node) bool,
) []*corev1.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ccmtest.WaitLimit)
	defer cancel()
	events, err := shared.Client(t).CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", created.Name).String(),
		ResourceVersion: created.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	var versions []*corev1.Node
	for event := range events.ResultChan() {
		node, ok := event.Object.(*corev1.Node)
		if !ok {
			t.Fatalf("watch of node %s: %v", created.Name, event.Object)
		}
		if versions = append(versions, node); until(node) {
			return versions
		}
	}
	t.Fatalf("the condition does not hold for node %s; its versions: %v", created.Name,
		versions)
	return nil
}

// nodeRequests waits for n requests of the node controllers that may have changed the node, and
// returns all of them, each as verb, resource and code.
func nodeRequests(t *testing.T, since controlplane.Mark, name string, n int) []string {
	t.Helper()
	records := waitRequests(t, since, n, ofNode(name)...)
	slices.SortStableFunc(records,
		func(a, b controlplane.AuditRecord) int { return a.Time.Compare(b.Time) })
	var texts []string
	for _, r := range records {
		texts = append(texts, fmt.Sprintf("%s %s %d", r.Verb, r.ResourcePath(), r.Code))
	}
	return texts
}

// ofNode excludes the test's own requests by their user agent, because both may be the same user.
func ofNode(name string) []controlplane.Filter {
	return []controlplane.Filter{
		controlplane.ByUserAgent("/node-controller"),
		controlplane.ByName(name), controlplane.Mutating(),
	}
}

func countOf(texts []string, text string) int {
	n := 0
	for _, other := range texts {
		if other == text {
			n++
		}
	}
	return n
}

// nodeEvent waits for an event about exactly this node, not about another one of its name.
func nodeEvent(t *testing.T, node *corev1.Node, reason string) corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t,
		fmt.Sprintf("the event %s about node %s exists", reason, node.Name),
		func(ctx context.Context) (corev1.Event, error) {
			all, err := nodeEvents(ctx, node)
			if err != nil {
				return corev1.Event{}, err
			}
			for _, event := range all {
				if event.Reason == reason {
					return event, nil
				}
			}
			return corev1.Event{}, fmt.Errorf("the events are %v", all)
		})
}

func nodeEvents(ctx context.Context, node *corev1.Node) ([]corev1.Event, error) {
	selector := fields.Set{
		"involvedObject.kind": "Node",
		"involvedObject.uid":  string(node.UID),
	}.AsSelector().String()
	list, err := shared.Admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func callsOf(method fake.Method, node string) func(fake.Call) bool {
	return fake.CallFilter{Method: method, Object: node}.Matches
}

// methodsAbout are the methods that were called for the node, each once, in the order of their
// first call.
func methodsAbout(cloud *fake.Cloud, node string) []fake.Method {
	var methods []fake.Method
	for _, call := range cloud.Calls(fake.CallFilter{Object: node}.Matches) {
		if !slices.Contains(methods, call.Method) {
			methods = append(methods, call.Method)
		}
	}
	return methods
}

// waitCallsAbout waits until the cloud has been called n times for the node.
func waitCallsAbout(t *testing.T, cloud *fake.Cloud, node string, n int) {
	t.Helper()
	waitCalls(t, cloud, fmt.Sprintf("the cloud is called %d times about node %s", n, node), n,
		fake.CallFilter{Object: node}.Matches)
}

func waitCalls(
	t *testing.T, cloud *fake.Cloud, what string, n int, where func(fake.Call) bool,
) []fake.Call {
	t.Helper()
	var calls []fake.Call
	ccmtest.Eventually(t, what, func(context.Context) (struct{}, error) {
		if calls = cloud.Calls(where); len(calls) < n {
			return struct{}{}, fmt.Errorf("there were %d of %d calls", len(calls), n)
		}
		return struct{}{}, nil
	})
	return calls
}

// metric is the sum of all series; see [metricstest.Value].
func metric(t *testing.T, name string) float64 {
	t.Helper()
	sum, _ := metricstest.Value(t, legacyregistry.DefaultGatherer, name)
	return sum
}

func TestNode_WhenTainted_IsInitializedOnceByOneUpdate(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	addInstance(t, cloud,
		fake.Instance{Name: "once-1", Type: "large", Zone: "zone-a", Region: "region-1"})
	runCloudNode(t, cloud, oneAtATime)
	mark := shared.Audit().Mark()
	created := ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("once-1",
		ccmtest.NodeTaint("dedicated", "db", corev1.TaintEffectNoExecute),
		ccmtest.NodeLabel("team", "blue")))

	versions := nodeVersions(t, created, func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Addresses,
			func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	})
	if len(versions) != 2 {
		t.Fatalf("the node was changed %d times, want 2: the cloud's data, and its addresses",
			len(versions))
	}
	// A node without the taint must have its provider ID and labels, because the scheduler uses it.
	first := versions[0]
	if uninitialized(first) || !hasTaint(first, "dedicated", corev1.TaintEffectNoExecute) {
		t.Errorf("taints after the first change: %v", first.Spec.Taints)
	}
	if first.Spec.ProviderID != ownID("once-1") {
		t.Errorf("provider ID after the first change: %q", first.Spec.ProviderID)
	}
	for key, want := range map[string]string{
		"team": "blue", corev1.LabelTopologyZone: "zone-a",
		corev1.LabelInstanceTypeStable: "large",
	} {
		if got := first.Labels[key]; got != want {
			t.Errorf("label %s after the first change is %q, want %q", key, got, want)
		}
	}

	// Later changes of the node must not cause calls to the cloud.
	patchNode(t, "once-1", `{"metadata":{"labels":{"team":"red"}}}`)
	initialize(t, cloud, "once-sentinel")
	nodeRequests(t, mark, "once-sentinel", 1)
	if got, want := nodeRequests(t, mark, "once-1", 2),
		[]string{"update nodes 200", "patch nodes/status 200"}; !slices.Equal(got, want) {
		t.Errorf("requests that changed the node: %q, want %q", got, want)
	}
	if calls := cloud.Calls(callsOf(fake.InstanceMetadata, "once-1")); len(calls) != 1 {
		t.Errorf("the metadata was fetched %d times, want once", len(calls))
	}
	// The fake also serves the older Instances and Zones.
	if methods := methodsAbout(cloud, "once-1"); !slices.Equal(methods,
		[]fake.Method{fake.InstanceMetadata}) {
		t.Errorf("the cloud got the calls %v, want only InstancesV2", methods)
	}
}

func containsAll(labels, want map[string]string) bool {
	for key, value := range want {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func TestNode_WhenInitialized_AnEventAndTwoHistogramsReportIt(t *testing.T) {
	cloud := newCloud(t, []string{"event-1"})
	cloud.On(fake.InstanceMetadata).For("event-1").Times(2).Fail(cloudprovider.InstanceNotFound)
	runCloudNode(t, cloud)
	delays := []string{
		"node_controller_cloud_provider_taint_removal_delay_seconds",
		"node_controller_initial_node_sync_delay_seconds",
	}
	before := []float64{metric(t, delays[0]), metric(t, delays[1])}
	node := ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("event-1"))
	event := nodeEvent(t, node, "Synced")
	if event.Type != corev1.EventTypeNormal || event.Message != "Node synced successfully" ||
		event.Source.Component != "cloud-node-controller" || event.Count != 1 {
		t.Errorf("event: %s %s %q from %s, %d times", event.Type, event.Reason, event.Message,
			event.Source.Component, event.Count)
	}
	// The second histogram is observed when the event has been handled.
	ccmtest.Eventually(t, "both delays are observed", func(context.Context) (bool, error) {
		for i, name := range delays {
			if n := metric(t, name) - before[i]; n != 1 {
				return false, fmt.Errorf("%s has %v more observations, want 1", name, n)
			}
		}
		return true, nil
	})
	all, err := nodeEvents(t.Context(), node)
	if err != nil || len(all) != 1 {
		t.Errorf("events: %v, %v; earlier failures are not reported as events", all, err)
	}
}

func TestNode_ConcurrentSyncs_LimitsParallelInitializations(t *testing.T) {
	t.Parallel()
	for workers, syncs := range map[int]int32{1: 1, 3: 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			cloud := newCloud(t, nil)
			release := cloud.On(fake.InstanceMetadata).Hang()
			var names []string
			for i := range 6 {
				names = append(names, fmt.Sprintf("syncs-%d-%d", workers, i))
				addInstance(t, cloud, fake.Instance{Name: names[i]})
				ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(names[i]))
			}
			// All nodes exist when the controller starts.
			run(t, cloud, only("cloud-node"),
				func(p *ccm.Params) { p.Config.Node.ConcurrentSyncs = syncs })
			waitInFlight(t, cloud, workers)
			release()
			for _, name := range names {
				ccmtest.Eventually(t, "the node is initialized",
					ccmtest.Initialized(shared.Client(t), name))
			}
			if most := mostInFlight(cloud); most != workers {
				t.Errorf("%d nodes were initialized at once, want %d", most, workers)
			}
		})
	}
}

func TestNode_ConcurrentUpdates_LimitsParallelRefreshes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ syncs, updates, want int32 }{
		"own":   {syncs: 1, updates: 3, want: 3},
		"syncs": {syncs: 2, updates: 0, want: 2}, // 0 means the same as syncs
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, nil)
			release := cloud.On(fake.InstanceMetadata).Hang()
			for i := range 6 {
				node := fmt.Sprintf("updates-%s-%d", name, i)
				addInstance(t, cloud, fake.Instance{Name: node})
				ccmtest.CreateNode(t, shared.Client(t),
					ccmtest.ReadyNode(node, ccmtest.NodeProviderID(ownID(node))))
			}
			run(t, cloud, only("cloud-node"), refreshEvery(100*time.Millisecond),
				func(p *ccm.Params) {
					p.Config.Node.ConcurrentSyncs = test.syncs
					p.Config.Node.ConcurrentStatusUpdates = test.updates
				})
			waitInFlight(t, cloud, int(test.want))
			release()
			last := fmt.Sprintf("updates-%s-5", name)
			waitCallsAbout(t, cloud, last, 3)
			if most := mostInFlight(cloud); most != int(test.want) {
				t.Errorf("%d nodes were refreshed at once, want %d", most, test.want)
			}
		})
	}
}

func waitInFlight(t *testing.T, cloud *fake.Cloud, n int) {
	t.Helper()
	ccmtest.Eventually(t, fmt.Sprintf("%d calls are in flight", n),
		func(context.Context) (struct{}, error) {
			if now := cloud.Stats().InFlight; now != n {
				return struct{}{}, fmt.Errorf("%d are in flight", now)
			}
			return struct{}{}, nil
		})
}

func mostInFlight(cloud *fake.Cloud) int {
	most := 0
	for _, stats := range cloud.Stats().Callers {
		most = max(most, stats.MaxInFlight)
	}
	return most
}
