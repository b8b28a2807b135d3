package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// runLifecycle runs the cloud-node-lifecycle controller alone, with a pass every 100 ms.
func runLifecycle(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	return run(t, cloud,
		append([]func(*ccm.Params){only("cloud-node-lifecycle"), passEvery(100 * time.Millisecond)},
			change...)...)
}

func passEvery(d time.Duration) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Config.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: d}
	}
}

// passMarker adds a node that is not ready and has an instance. Each pass asks the cloud for it
// once. When it is asked for, nodes that were created before are known to the controller.
func passMarker(t *testing.T, cloud *fake.Cloud, name string) {
	t.Helper()
	addInstance(t, cloud, fake.Instance{Name: name})
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode(name, ccmtest.NodeNotReady(), ccmtest.NodeProviderID(ownID(name))))
}

// waitPasses waits until n whole passes that began after now have ended. The pass that is in
// progress does not count, and the last one has ended when the next asks for the marker.
func waitPasses(t *testing.T, cloud *fake.Cloud, marker string, n int) {
	t.Helper()
	before := len(cloud.Calls(callsOf(fake.InstanceExists, marker)))
	waitCalls(t, cloud, fmt.Sprintf("%d passes are over", n), before+n+2,
		callsOf(fake.InstanceExists, marker))
}

// shutdownTaint is what the controller puts on nodes whose instance does not run.
func shutdownTaint() ccmtest.NodeOption {
	return ccmtest.NodeTaint(cloudproviderapi.TaintNodeShutdown, "", corev1.TaintEffectNoSchedule)
}

func isShutDown(node *corev1.Node) bool {
	return hasTaint(node, cloudproviderapi.TaintNodeShutdown, corev1.TaintEffectNoSchedule)
}

// waitShutdownTaint waits until the node bears the taint, or does not.
func waitShutdownTaint(t *testing.T, name string, want bool) *corev1.Node {
	t.Helper()
	return ccmtest.WaitNode(t, shared.Client(t), name,
		fmt.Sprintf("%s bears the shutdown taint: %v", name, want), func(n *corev1.Node) error {
			if n == nil {
				return errors.New("it does not exist")
			}
			if isShutDown(n) != want {
				return fmt.Errorf("its taints are %v", n.Spec.Taints)
			}
			return nil
		})
}

// readyCondition makes the condition Ready what it says, or takes it away.
func readyCondition(status corev1.ConditionStatus) ccmtest.NodeOption {
	return func(n *corev1.Node) {
		n.Status.Conditions = nil
		if status != "" {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		}
	}
}

func TestLifecycle_ReadyNode_LosesTheShutdownTaintAndIsNotAskedFor(t *testing.T) {
	t.Parallel()
	// The cloud has no instance of the ready nodes, and nobody finds out.
	cloud := newCloud(t, nil)
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("ready-tainted", shutdownTaint(),
		ccmtest.NodeTaint(cloudproviderapi.TaintNodeShutdown, "", corev1.TaintEffectNoExecute),
		ccmtest.NodeTaint("dedicated", "db", corev1.TaintEffectNoSchedule)))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("ready-plain"))
	passMarker(t, cloud, "ready-marker")
	runLifecycle(t, cloud)

	node := waitShutdownTaint(t, "ready-tainted", false)
	if !hasTaint(node, cloudproviderapi.TaintNodeShutdown, corev1.TaintEffectNoExecute) ||
		!hasTaint(node, "dedicated", corev1.TaintEffectNoSchedule) {
		t.Errorf("other taints are gone: %v", node.Spec.Taints)
	}
	waitPasses(t, cloud, "ready-marker", 2)
	if got := nodeRequests(t, mark, "ready-tainted", 1); countOf(got, "patch nodes 200") != 1 ||
		countOf(got, "delete nodes 200") != 0 {
		t.Errorf("requests that changed the tainted node: %q, want one patch", got)
	}
	if got := nodeRequests(t, mark, "ready-plain", 0); len(got) != 0 {
		t.Errorf("requests that changed the plain node: %q, want none", got)
	}
	for _, name := range []string{"ready-tainted", "ready-plain"} {
		if methods := methodsAbout(cloud, name); len(methods) > 0 {
			t.Errorf("the cloud was asked about %s, which is ready: %v", name, methods)
		}
	}
}

func TestLifecycle_NotReadyNodeWithoutInstance_IsDeletedWithAnEvent(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runLifecycle(t, cloud)
	for name, test := range map[string]struct {
		ready corev1.ConditionStatus
		opts  []ccmtest.NodeOption
	}{
		"gone-false":   {ready: corev1.ConditionFalse},
		"gone-unknown": {ready: corev1.ConditionUnknown},
		"gone-silent":  {ready: ""},
		"gone-known":   {ready: corev1.ConditionFalse, opts: []ccmtest.NodeOption{ccmtest.NodeProviderID(ownID("gone-known"))}},
		// A node that has just registered is asked for too: a provider must not say "no" because it
		// does not know yet.
		"gone-uninitialised": {
			ready: corev1.ConditionFalse,
			opts: []ccmtest.NodeOption{ccmtest.NodeTaint(
				cloudproviderapi.TaintExternalCloudProvider, "true",
				corev1.TaintEffectNoSchedule)},
		},
		"gone-shutdown": {ready: corev1.ConditionFalse, opts: []ccmtest.NodeOption{shutdownTaint()}},
	} {
		t.Run(name, func(t *testing.T) {
			mark := shared.Audit().Mark()
			node := ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.ReadyNode(name, append(test.opts, readyCondition(test.ready))...))
			ccmtest.WaitNodeGone(t, shared.Client(t), name)
			event := nodeEvent(t, node, "DeletingNode")
			if want := fmt.Sprintf(
				"Deleting node %s because it does not exist in the cloud provider",
				name); event.Type != corev1.EventTypeNormal ||
				event.Message != want ||
				event.Source.Component != "cloud-node-lifecycle-controller" {
				t.Errorf("event: %s %q from %s", event.Type, event.Message, event.Source.Component)
			}
			// If the informer is late the next pass deletes it again.
			if got := nodeRequests(t, mark, name, 1); countOf(got, "delete nodes 200") != 1 ||
				countOf(got, "delete nodes 404") != len(got)-1 {
				t.Errorf("requests that changed the node: %q, want one deletion", got)
			}
			if methods := methodsAbout(cloud, name); !slices.Equal(methods,
				[]fake.Method{fake.InstanceExists}) {
				t.Errorf("the cloud was asked by %v, want InstanceExists alone", methods)
			}
		})
	}
}

func TestLifecycle_WhenTheDeletionFails_AWarningSaysSoAndTheNextPassTriesAgain(t *testing.T) {
	t.Parallel()
	const user = "node-keeper"
	identity, err := shared.ControlPlane.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, "test-node-keeper", rbacv1.PolicyRule{
		APIGroups: []string{"", "coordination.k8s.io", "events.k8s.io"},
		Resources: []string{"nodes", "events", "leases"},
		Verbs:     []string{"get", "list", "watch", "create", "update", "patch"},
	}, user)
	cloud := newCloud(t, nil)
	mark := shared.Audit().Mark()
	node := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("kept-1", ccmtest.NodeNotReady()))
	runLifecycle(t, cloud, func(p *ccm.Params) { p.RESTConfig = suite.Confine(t, identity) })

	event := nodeEvent(t, node, "DeletingNodeFailed")
	if event.Type != corev1.EventTypeWarning ||
		!strings.HasPrefix(event.Message, "Failed deleting node kept-1: ") ||
		!strings.Contains(event.Message, `cannot delete resource "nodes"`) {
		t.Errorf("event: %s %q", event.Type, event.Message)
	}
	grant(t, "test-node-deleter",
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"nodes"},
			Verbs: []string{"delete"},
		}, user)
	ccmtest.WaitNodeGone(t, shared.Client(t), "kept-1")
	deletions := []controlplane.Filter{
		controlplane.ByUser(user), controlplane.ByName("kept-1"),
		controlplane.ByVerb("delete"),
	}
	ctx, cancel := context.WithTimeout(t.Context(), ccmtest.WaitLimit)
	defer cancel()
	if _, err := shared.Audit().Wait(ctx, mark, 1,
		append(deletions, controlplane.ByCode(http.StatusOK))...); err != nil {
		t.Fatal(err)
	}
	if refused, err := shared.Audit().Since(mark,
		append(deletions, controlplane.Denied())...); err != nil || len(refused) == 0 {
		t.Errorf("deletions that were refused: %v, %v", refused, err)
	}
}

// Upstream deletes by name, whatever node has it by then. This is kept, and known.
func TestLifecycle_ANodeThatCameBackBeforeTheDeletion_IsDeletedToo(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	gone := ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("reborn-1", ccmtest.NodeNotReady()))
	var reborn *corev1.Node
	var once sync.Once
	runLifecycle(t, cloud, interfering(func(req *http.Request) {
		if req.Method != http.MethodDelete || req.URL.Path != "/api/v1/nodes/reborn-1" {
			return
		}
		once.Do(func() {
			nodes := shared.Client(t).CoreV1().Nodes()
			if err := nodes.Delete(context.Background(), "reborn-1",
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			var err error
			if reborn, err = nodes.Create(context.Background(), ccmtest.ReadyNode("reborn-1"),
				metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}))
	nodeEvent(t, gone, "DeletingNode")
	ccmtest.WaitNode(t, shared.Client(t), "reborn-1",
		"the node that was made meanwhile is gone, too", func(n *corev1.Node) error {
			if n != nil {
				return fmt.Errorf("it exists, with UID %s", n.UID)
			}
			return nil
		})
	once.Do(func() { t.Error("the node was not deleted by the controller") })
	if reborn != nil && reborn.UID == gone.UID {
		t.Error("the node was not made anew")
	}
}

func TestLifecycle_ShutdownTaint_ComesWithTheShutdownAndGoesWithReadiness(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"down-1"})
	passMarker(t, cloud, "down-marker")
	runLifecycle(t, cloud)
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode("down-1", ccmtest.NodeNotReady(),
			ccmtest.NodeTaint("dedicated", "db", corev1.TaintEffectNoSchedule)))
	waitCallsAbout(t, cloud, "down-1", 2)
	waitPasses(t, cloud, "down-marker", 1)
	if got := nodeRequests(t, mark, "down-1", 0); len(got) > 0 {
		t.Errorf("a node whose instance runs was changed: %q", got)
	}

	if err := cloud.StopInstance("down-1"); err != nil {
		t.Fatal(err)
	}
	if node := waitShutdownTaint(t, "down-1", true); !hasTaint(node, "dedicated",
		corev1.TaintEffectNoSchedule) {
		t.Errorf("other taints are gone: %v", node.Spec.Taints)
	}
	waitPasses(t, cloud, "down-marker", 2)
	if got := nodeRequests(t, mark, "down-1", 1); countOf(got, "patch nodes 200") != 1 {
		t.Errorf("requests that changed the node: %q, want one patch", got)
	}

	// That the instance runs again is not enough: the kubelet has to say so.
	if err := cloud.StartInstance("down-1"); err != nil {
		t.Fatal(err)
	}
	waitPasses(t, cloud, "down-marker", 2)
	if !isShutDown(getNode(t, "down-1")) {
		t.Error("the taint is gone although the node is not ready")
	}
	patchNode(t, "down-1", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	waitShutdownTaint(t, "down-1", false)
	if methods := methodsAbout(cloud, "down-1"); !slices.Equal(methods,
		[]fake.Method{fake.InstanceExists, fake.InstanceShutdown}) {
		t.Errorf("the cloud was asked by %v, want InstancesV2 alone", methods)
	}
}

func TestLifecycle_WhenTheCloudFails_NothingIsDeletedOrTainted(t *testing.T) {
	t.Parallel()
	failures := map[string]func(fake.FaultBuilder) func(){
		"any": func(s fake.FaultBuilder) func() {
			return s.Fail(errors.New("503 Service Unavailable"))
		},
		"deadline": func(s fake.FaultBuilder) func() { return s.Fail(context.DeadlineExceeded) },
		"retry": func(s fake.FaultBuilder) func() {
			return s.Fail(cloudproviderapi.NewRetryError("busy", time.Hour))
		},
		// An answer would be (false, nil); an error is none, whatever it says.
		"notfound": func(s fake.FaultBuilder) func() {
			return s.Fail(cloudprovider.InstanceNotFound)
		},
		"panic": func(s fake.FaultBuilder) func() { return s.Panic("index out of range") },
	}
	for method, recovered := range map[fake.Method]func(t *testing.T, name string){
		// The instance of the first is gone, that of the second is shut down.
		fake.InstanceExists: func(t *testing.T, name string) {
			ccmtest.WaitNodeGone(t, shared.Client(t), name)
		},
		fake.InstanceShutdown: func(t *testing.T, name string) { waitShutdownTaint(t, name, true) },
	} {
		t.Run(string(method), func(t *testing.T) {
			cloud := newCloud(t, nil)
			r := runLifecycle(t, cloud)
			mark := shared.Audit().Mark()
			created, heal := map[string]*corev1.Node{}, map[string]func(){}
			for kind, fail := range failures {
				name := strings.ToLower(fmt.Sprintf("doubt-%s-%s", method, kind))
				if method == fake.InstanceShutdown {
					addInstance(t, cloud, fake.Instance{Name: name, Shutdown: true})
				}
				heal[name] = fail(cloud.On(method).For(name))
				created[name] = ccmtest.CreateNode(t, shared.Client(t),
					ccmtest.ReadyNode(name, ccmtest.NodeNotReady()))
			}
			for name, node := range created {
				waitCalls(t, cloud, "the cloud is asked in each pass", 3, callsOf(method, name))
				if now := getNode(t, name); now.UID != node.UID || isShutDown(now) {
					t.Errorf("%s: the node was changed: taints %v", name, now.Spec.Taints)
				}
				if got := nodeRequests(t, mark, name, 0); len(got) > 0 {
					t.Errorf("%s: requests that changed the node: %q", name, got)
				}
				heal[name]()
				recovered(t, name)
			}
			if s := r.Status(); s.Term != 1 || !s.Ready {
				t.Errorf("the cloud's failures are the nodes' alone, but the Manager is %+v", s)
			}
		})
	}
}

func TestLifecycle_V1_AsksByProviderIDOrFindsItByName(t *testing.T) {
	t.Parallel()
	const (
		kept = iota
		deleted
		tainted
	)
	broken := errors.New("503 Service Unavailable")
	for name, test := range map[string]struct {
		hasID    bool
		instance *fake.Instance
		fails    fake.Method
		err      error

		outcome int
		methods []fake.Method
	}{
		"v1-runs": {
			instance: &fake.Instance{},
			outcome:  kept,
			methods: []fake.Method{
				fake.InstanceID, fake.InstanceExistsByProviderID,
				fake.InstanceShutdownByProviderID,
			},
		},
		"v1-runs-id": {
			hasID: true, instance: &fake.Instance{},
			outcome: kept,
			methods: []fake.Method{
				fake.InstanceExistsByProviderID,
				fake.InstanceShutdownByProviderID,
			},
		},
		"v1-gone":    {outcome: deleted, methods: []fake.Method{fake.InstanceID}},
		"v1-gone-id": {hasID: true, outcome: deleted, methods: []fake.Method{fake.InstanceExistsByProviderID}},
		"v1-down": {
			instance: &fake.Instance{Shutdown: true},
			outcome:  tainted,
			methods: []fake.Method{
				fake.InstanceID, fake.InstanceExistsByProviderID,
				fake.InstanceShutdownByProviderID,
			},
		},
		"v1-down-id": {
			hasID: true, instance: &fake.Instance{Shutdown: true},
			outcome: tainted,
			methods: []fake.Method{
				fake.InstanceExistsByProviderID,
				fake.InstanceShutdownByProviderID,
			},
		},
		"v1-no-shutdowns": {
			hasID: true, instance: &fake.Instance{Shutdown: true},
			fails: fake.InstanceShutdownByProviderID, err: cloudprovider.NotImplemented,
			outcome: kept,
			methods: []fake.Method{
				fake.InstanceExistsByProviderID,
				fake.InstanceShutdownByProviderID,
			},
		},
		"v1-no-ids":   {fails: fake.InstanceID, err: cloudprovider.NotImplemented, outcome: kept, methods: []fake.Method{fake.InstanceID}},
		"v1-id-fails": {fails: fake.InstanceID, err: broken, outcome: kept, methods: []fake.Method{fake.InstanceID}},
		"v1-exist-fails": {
			hasID: true, fails: fake.InstanceExistsByProviderID, err: broken,
			outcome: kept, methods: []fake.Method{fake.InstanceExistsByProviderID},
		},
		"v1-down-fails": {
			hasID: true, instance: &fake.Instance{Shutdown: true},
			fails: fake.InstanceShutdownByProviderID, err: broken,
			outcome: kept,
			methods: []fake.Method{
				fake.InstanceExistsByProviderID,
				fake.InstanceShutdownByProviderID,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, nil, fake.Without(fake.InstancesV2))
			if test.instance != nil {
				test.instance.Name = name
				addInstance(t, cloud, *test.instance)
			}
			if test.err != nil {
				cloud.On(test.fails).Fail(test.err)
			}
			var opts []ccmtest.NodeOption
			if test.hasID {
				opts = append(opts, ccmtest.NodeProviderID(ownID(name)))
			}
			mark := shared.Audit().Mark()
			node := ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.ReadyNode(name, append(opts, ccmtest.NodeNotReady())...))
			runLifecycle(t, cloud)
			switch test.outcome {
			case deleted:
				ccmtest.WaitNodeGone(t, shared.Client(t), name)
				nodeEvent(t, node, "DeletingNode")
			case tainted:
				waitShutdownTaint(t, name, true)
			case kept:
				last := test.methods[len(test.methods)-1]
				waitCalls(t, cloud, "the cloud is asked in each pass", 3, callsOf(last, name))
				if now := getNode(t, name); now.UID != node.UID || isShutDown(now) {
					t.Errorf("the node was changed: taints %v", now.Spec.Taints)
				}
				if got := nodeRequests(t, mark, name, 0); len(got) > 0 {
					t.Errorf("requests that changed the node: %q", got)
				}
			}
			if methods := methodsAbout(cloud, name); !slices.Equal(methods, test.methods) {
				t.Errorf("the cloud was asked by %v, want %v", methods, test.methods)
			}
		})
	}
}

// Failures are neither backed off nor rationed: a node whose lookup fails is asked for as often as
// one whose lookup works.
func TestLifecycle_EachPassAsksForEachNodeOnce(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"pass-fails"})
	cloud.On(fake.InstanceExists).For("pass-fails").Fail(errors.New("503 Service Unavailable"))
	runLifecycle(t, cloud, passEvery(20*time.Millisecond))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("pass-fails", ccmtest.NodeNotReady()))
	passMarker(t, cloud, "pass-marker")
	waitCallsAbout(t, cloud, "pass-fails", 1)
	waitCallsAbout(t, cloud, "pass-marker", 1)

	asked := func(name string) int { return len(cloud.Calls(callsOf(fake.InstanceExists, name))) }
	fails, works := asked("pass-fails"), asked("pass-marker")
	waitPasses(t, cloud, "pass-marker", 15)
	works, fails = asked("pass-marker")-works, asked("pass-fails")-fails
	// A pass may be in progress at the beginning, and at the end.
	if fails < works-2 || fails > works+2 {
		t.Errorf("in the same time %d lookups that fail were made, and %d that work", fails, works)
	}
}

func TestLifecycle_AsksForAsManyNodesAtOnceAsConfigured(t *testing.T) {
	t.Parallel()
	for workers, syncs := range map[int]int32{1: 1, 3: 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			cloud := newCloud(t, nil)
			release := cloud.On(fake.InstanceExists).Hang()
			for i := range 6 {
				passMarker(t, cloud, fmt.Sprintf("workers-%d-%d", workers, i))
			}
			runLifecycle(t, cloud,
				func(p *ccm.Params) { p.Config.NodeLifecycle.ConcurrentSyncs = syncs })
			waitInFlight(t, cloud, workers)
			release()
			waitPasses(t, cloud, fmt.Sprintf("workers-%d-5", workers), 1)
			if most := mostInFlight(cloud); most != workers {
				t.Errorf("%d nodes were looked at at once, want %d", most, workers)
			}
		})
	}
}

func TestLifecycle_MetricsCountCallsByOperationAndResult(t *testing.T) {
	const calls, passes = "cloud_node_lifecycle_controller_cloud_provider_calls_total",
		"cloud_node_lifecycle_controller_monitor_nodes_duration_seconds"
	results := []string{"success", "error", "instance_not_found", "not_implemented", "canceled"}
	v1 := []fake.Option{fake.Without(fake.InstancesV2)}
	for name, test := range map[string]struct {
		cloud     []fake.Option
		fails     fake.Method
		err       error
		operation string
		result    string
		// absent is an instance that is answered to be gone, without an error.
		absent bool
	}{
		"metric-exists":          {operation: "instance_exists", result: "success"},
		"metric-exists-gone":     {operation: "instance_exists", result: "instance_not_found", absent: true},
		"metric-exists-error":    {fails: fake.InstanceExists, err: errors.New("503"), operation: "instance_exists", result: "error"},
		"metric-exists-canceled": {fails: fake.InstanceExists, err: context.Canceled, operation: "instance_exists", result: "canceled"},
		"metric-exists-notimpl":  {fails: fake.InstanceExists, err: cloudprovider.NotImplemented, operation: "instance_exists", result: "not_implemented"},
		"metric-down":            {operation: "instance_shutdown", result: "success"},
		"metric-down-error":      {fails: fake.InstanceShutdown, err: errors.New("503"), operation: "instance_shutdown", result: "error"},
		"metric-down-notimpl":    {fails: fake.InstanceShutdown, err: cloudprovider.NotImplemented, operation: "instance_shutdown", result: "not_implemented"},
		"metric-v1-id":           {cloud: v1, operation: "instance_metadata", result: "success"},
		"metric-v1-id-gone":      {cloud: v1, operation: "instance_metadata", result: "instance_not_found", absent: true},
		"metric-v1-down-notimpl": {
			cloud: v1, fails: fake.InstanceShutdownByProviderID,
			err: cloudprovider.NotImplemented, operation: "instance_shutdown",
			result: "not_implemented",
		},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(result string) float64 {
				return metric(t, calls,
					map[string]string{"operation": test.operation, "result": result})
			}
			before := map[string]float64{}
			for _, result := range results {
				before[result] = count(result)
			}
			passed := metric(t, passes, nil)

			cloud := newCloud(t, nil, test.cloud...)
			if !test.absent {
				addInstance(t, cloud, fake.Instance{Name: name})
			}
			if test.err != nil {
				cloud.On(test.fails).Fail(test.err)
			}
			ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(name, ccmtest.NodeNotReady()))
			runLifecycle(t, cloud)
			ccmtest.Eventually(t, "the call and a pass are counted",
				func(context.Context) (bool, error) {
					if n, p := count(test.result)-before[test.result],
						metric(t, passes, nil)-passed; n < 1 || p < 1 {
						return false, fmt.Errorf("%v calls, %v passes", n, p)
					}
					return true, nil
				})
			for _, result := range results {
				if result != test.result && count(result) != before[result] {
					t.Errorf("%s was counted as %s too", test.operation, result)
				}
			}
		})
	}
}

func TestLifecycle_ThePauseBeginsWhenThePassHasEnded(t *testing.T) {
	t.Parallel()
	const period, takes = 150 * time.Millisecond, 100 * time.Millisecond
	cloud := newCloud(t, nil)
	cloud.On(fake.InstanceExists).Delay(takes)
	runLifecycle(t, cloud, passEvery(period))
	passMarker(t, cloud, "pause-marker")
	begins := waitCalls(t, cloud, "there are four passes", 4,
		callsOf(fake.InstanceExists, "pause-marker"))
	ends := cloud.Calls(callsOf(fake.InstanceShutdown, "pause-marker"))
	for i := range begins[1:] {
		if pause := begins[i+1].Started.Sub(ends[i].Ended); pause < period {
			t.Errorf("the pause after pass %d was %s, want at least %s", i+1, pause, period)
		}
	}
}
