package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
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

// passMarker adds a node that is not ready and has an instance. Each pass calls the cloud for it
// once. The call shows that the controller has seen all nodes that were created before.
func passMarker(t *testing.T, cloud *fake.Cloud, name string) {
	t.Helper()
	addInstance(t, cloud, fake.Instance{Name: name})
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode(name, ccmtest.NodeNotReady(), ccmtest.NodeProviderID(ownID(name))))
}

// waitPasses waits until n whole passes that began after now have ended. The current pass does not
// count, and the last one has ended when the next calls the cloud for the marker.
func waitPasses(t *testing.T, cloud *fake.Cloud, marker string, n int) {
	t.Helper()
	before := len(cloud.Calls(callsOf(fake.InstanceExists, marker)))
	waitCalls(t, cloud, fmt.Sprintf("%d passes are over", n), before+n+2,
		callsOf(fake.InstanceExists, marker))
}

// shutdownTaint is the controller's taint for nodes whose instance does not run.
func shutdownTaint() ccmtest.NodeOption {
	return ccmtest.NodeTaint(cloudproviderapi.TaintNodeShutdown, "", corev1.TaintEffectNoSchedule)
}

func isShutDown(node *corev1.Node) bool {
	return hasTaint(node, cloudproviderapi.TaintNodeShutdown, corev1.TaintEffectNoSchedule)
}

// waitShutdownTaint waits until the node has the taint, or does not have it.
func waitShutdownTaint(t *testing.T, name string, want bool) *corev1.Node {
	t.Helper()
	return ccmtest.Eventually(t, fmt.Sprintf("%s bears the shutdown taint: %v", name, want),
		ccmtest.Object(shared.Client(t).CoreV1().Nodes().Get, name, func(n *corev1.Node) error {
			if isShutDown(n) != want {
				return fmt.Errorf("its taints are %v", n.Spec.Taints)
			}
			return nil
		}))
}

// readyCondition sets or removes the condition Ready.
func readyCondition(status corev1.ConditionStatus) ccmtest.NodeOption {
	return func(n *corev1.Node) {
		n.Status.Conditions = nil
		if status != "" {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
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
		// The controller also checks a node that has just registered: a provider must not report an
		// instance as absent because its data are old.
		"gone-uninitialized": {
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
			ccmtest.Eventually(t, "the node is gone",
				ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, name))
			event := nodeEvent(t, node, "DeletingNode")
			if want := fmt.Sprintf(
				"Deleting node %s because it does not exist in the cloud provider",
				name); event.Type != corev1.EventTypeNormal ||
				event.Message != want ||
				event.Source.Component != "cloud-node-lifecycle-controller" {
				t.Errorf("event: %s %q from %s", event.Type, event.Message, event.Source.Component)
			}
			// If the informer is late, the next pass deletes it again.
			if got := nodeRequests(t, mark, name, 1); countOf(got, "delete nodes 200") != 1 ||
				countOf(got, "delete nodes 404") != len(got)-1 {
				t.Errorf("requests that changed the node: %q, want one deletion", got)
			}
			if methods := methodsAbout(cloud, name); !slices.Equal(methods,
				[]fake.Method{fake.InstanceExists}) {
				t.Errorf("the cloud got the calls %v, want only InstanceExists", methods)
			}
		})
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

	// A running instance is not enough: the kubelet must report that the node is ready.
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
		t.Errorf("the cloud got the calls %v, want only InstancesV2", methods)
	}
}

func TestLifecycle_ConcurrentSyncs_LimitsParallelChecks(t *testing.T) {
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
				t.Errorf("%d nodes were checked in parallel, want %d", most, workers)
			}
		})
	}
}
