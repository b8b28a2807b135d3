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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// runNodes runs the controllers of nodes alone.
func runNodes(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	return run(t, cloud,
		append([]func(*ccm.Params){only("cloud-node", "cloud-node-lifecycle")}, change...)...)
}

// initializeNode creates a node like a kubelet, and waits until it is initialized.
func initializeNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	taintedNode(t, name)
	return ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), name))
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := shared.Client(t).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// waitNodeEvent waits for an event about exactly this node.
func waitNodeEvent(t *testing.T, node *corev1.Node, reason string) corev1.Event {
	t.Helper()
	selector := fields.Set{
		"involvedObject.kind": "Node", "involvedObject.uid": string(node.UID), "reason": reason,
	}.AsSelector().String()
	return ccmtest.Eventually(t,
		fmt.Sprintf("there is an event %s about node %s", reason, node.Name),
		func(ctx context.Context) (corev1.Event, error) {
			list, err := shared.Admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{FieldSelector: selector})
			switch {
			case err != nil:
				return corev1.Event{}, err
			case len(list.Items) == 0:
				return corev1.Event{}, errors.New("it does not exist yet")
			}
			return list.Items[0], nil
		})
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the text is %q, want %q in it", text, part)
		}
	}
}

// The cloud fails for one node, and another node is not of this cloud.
func TestNode_LookupFails_IsRepeatedButNotForNodesOfOthers(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"looked-up-1"})
	cloud.On("InstanceMetadata").For("looked-up-1").Times(3).Fail(errors.New("503"))
	cloud.On("InstanceMetadata").For("looked-up-2").ReturnZero()
	r := runNodes(t, cloud)
	taintedNode(t, "looked-up-2")
	calls := callsOf("InstanceMetadata", "looked-up-2")
	waitCalls(t, cloud, "the node of another component is looked up", 1, calls)
	initializeNode(t, "looked-up-1")
	if n := len(cloud.Calls(calls)); n != 1 {
		t.Errorf("the node of another component was looked up %d times", n)
	}
	ccmtest.Eventually(t, "no node waits",
		ccmtest.Status(r.Manager, func(s status.Manager) bool { return len(s.Nodes) == 0 }))
}

// The pauses are a Manager's own. After 8 s of failures they are 5 s, the longest until 50 s, so an
// outage of 15 s ends in the same moment of a pause as one of 45 s, which the unit test has.
func TestNode_CloudIsDownUntilThePausesAreLong_InitializedByTheNextLookup(t *testing.T) {
	t.Parallel()
	const name = "outage-1"
	cloud := newCloud(t, []string{name})
	end := cloud.On("InstanceMetadata").For(name).Fail(errors.New("503 Service Unavailable"))
	runNodes(t, cloud)
	taintedNode(t, name)
	calls := waitCalls(t, cloud, "the pauses are the longest", 6,
		callsOf("InstanceMetadata", name))
	if pause := calls[5].Started.Sub(calls[4].Started); pause < 4500*time.Millisecond {
		t.Fatalf("the pause before the sixth lookup was %s, want 5 s", pause)
	}
	<-time.After(2 * time.Second)
	end()
	failed := len(cloud.Calls(callsOf("InstanceMetadata", name)))
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), name))
	calls = cloud.Calls(callsOf("InstanceMetadata", name))
	if len(calls) <= failed || calls[failed].Err != "" {
		t.Fatalf("after the outage the lookups are %+v", calls[failed:])
	}
}

func TestNode_InitializedWithoutAnAddress_GetsItWhenTheCloudHasIt(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	instance := fake.Instance{Name: "addressless-1", Addresses: []corev1.NodeAddress{}}
	if err := cloud.AddInstances(instance); err != nil {
		t.Fatal(err)
	}
	runNodes(t, cloud)
	initializeNode(t, instance.Name)
	instance.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.240.0.77"},
	}
	if err := cloud.AddInstances(instance); err != nil {
		t.Fatal(err)
	}
	// The next refresh of all nodes is later than the limit of the wait.
	ccmtest.Eventually(t, "the node has its address",
		ccmtest.NodeAddress(shared.Client(t), instance.Name, corev1.NodeInternalIP))
}

func TestNode_InstanceChanges_LabelsFollowIfConfigured(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"resized-1"})
	runNodes(t, cloud, func(p *ccm.Params) {
		p.Config.Node.UpdateLabels = true
		p.Config.Node.StatusUpdateFrequency = metav1.Duration{Duration: 100 * time.Millisecond}
	})
	initializeNode(t, "resized-1")
	if err := cloud.AddInstances(fake.Instance{
		Name: "resized-1", Type: "large", Zone: "zone-2",
	}); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the labels are those of the instance",
		ccmtest.Object(shared.Client(t).CoreV1().Nodes().Get, "resized-1",
			func(n *corev1.Node) error {
				kind, zone := n.Labels[corev1.LabelInstanceTypeStable],
					n.Labels[corev1.LabelTopologyZone]
				if kind != "large" || zone != "zone-2" {
					return fmt.Errorf("type %q, zone %q", kind, zone)
				}
				return nil
			}))
}

func TestNode_LabelValueIsInvalid_IsChangedWithAnEvent(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	if err := cloud.AddInstances(fake.Instance{
		Name: "mislabeled-1", Type: "m1 large (gpu)",
	}); err != nil {
		t.Fatal(err)
	}
	runNodes(t, cloud)
	node := initializeNode(t, "mislabeled-1")
	if got := node.Labels[corev1.LabelInstanceTypeStable]; got != "m1-large-gpu" {
		t.Errorf("the type is %q", got)
	}
	mustContain(t, waitNodeEvent(t, node, "InvalidLabelChanged").Message,
		`"m1-large-gpu", because "m1 large (gpu)"`)
}

func TestNode_ProviderServesNoInstances_StatusAndEventNameTheCause(t *testing.T) {
	t.Parallel()
	const cause = "the cloud provider serves no instances, so it cannot initialize nodes"
	r := runNodes(t, newCloud(t, nil, fake.Without("InstancesV2", "Instances", "Zones")))
	node := ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("uninitialized-1"))
	current := ccmtest.Eventually(t, "the node waits in the status",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return len(s.Nodes) == 1 && s.Nodes[0].Reason == "InitializationFailed"
		}))
	if current.Nodes[0].Name != node.Name {
		t.Errorf("the status has node %s", current.Nodes[0].Name)
	}
	mustContain(t, current.Nodes[0].Message, cause, "--cloud-provider=external")
	ready := r.ReadinessChecks()[0]
	if err := ready.Check(nil); err != nil {
		t.Errorf("readiness: %v", err)
	}
	const detail = "ok; nodes whose initialization has failed and is retried: 1"
	if got := ready.Detail(); got != detail {
		t.Errorf("the detail of readiness is %q, want %q", got, detail)
	}
	// The event comes after 15 seconds: another program may initialize the node.
	mustContain(t, waitNodeEvent(t, node, "InitializationFailed").Message, cause,
		"--cloud-provider=external")
}

func TestNode_LosesTheAddressOfItsNodeIP_StatusAndEventNameTheCauseUntilItIsBack(t *testing.T) {
	t.Parallel()
	const name, cause = "moved-1", "the kubelet's --node-ip 10.240.0.78 is not an address"
	cloud := newCloud(t, nil)
	move := func(address string) {
		if err := cloud.AddInstances(fake.Instance{
			Name:      name,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	move("10.240.0.78")
	r := runNodes(t, cloud, func(p *ccm.Params) {
		p.Config.Node.StatusUpdateFrequency = metav1.Duration{Duration: 100 * time.Millisecond}
	})
	node := ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name,
		ccmtest.NodeAnnotation(api.AnnotationAlphaProvidedIPAddr, "10.240.0.78")))
	ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Client(t), name))
	move("10.240.0.79")
	current := ccmtest.Eventually(t, "the node is in the status",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return len(s.Nodes) == 1 && s.Nodes[0].Reason == "NodeUpdateFailed"
		}))
	if current.Nodes[0].Name != name {
		t.Errorf("the status has node %s", current.Nodes[0].Name)
	}
	mustContain(t, current.Nodes[0].Message, cause)
	const detail = "ok; nodes whose update or deletion has failed and is retried: 1"
	if got := r.ReadinessChecks()[0].Detail(); got != detail {
		t.Errorf("the detail of readiness is %q, want %q", got, detail)
	}
	mustContain(t, waitNodeEvent(t, node, "NodeUpdateFailed").Message, cause)
	move("10.240.0.78")
	ccmtest.Eventually(t, "no node is in the status",
		ccmtest.Status(r.Manager, func(s status.Manager) bool { return len(s.Nodes) == 0 }))
}

// reportingCloud lists one node in its status.
type reportingCloud struct {
	cloudprovider.Interface
	listed string
}

func (c reportingCloud) LoadBalancerStatus() []status.LoadBalancer { return nil }

func (c reportingCloud) NodeStatus() []status.Node {
	return []status.Node{{Name: c.listed, Reason: "Mine"}}
}

func TestNode_ProviderReportsObjects_ControllerWritesEventsOfNodesThatItDoesNotList(t *testing.T) {
	t.Parallel()
	const listed, unlisted = "listed-1", "unlisted-1"
	cloud := newCloud(t, []string{listed, unlisted})
	runNodes(t, cloud, func(p *ccm.Params) {
		p.Providers = []ccm.Provider{{
			Name: "fake",
			New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
				return reportingCloud{cloud.Provider(), listed}, nil
			},
		}}
	})
	nodes := map[string]*corev1.Node{}
	for _, name := range []string{listed, unlisted} {
		nodes[name] = ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name,
			ccmtest.NodeAnnotation(api.AnnotationAlphaProvidedIPAddr, "192.0.2.1")))
	}
	waitCalls(t, cloud, "the node that the provider lists is looked up again", 3,
		callsOf("InstanceMetadata", listed))
	mustContain(t, waitNodeEvent(t, nodes[unlisted], "InitializationFailed").Message, "--node-ip")
	events, err := shared.Admin.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(),
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.uid",
			string(nodes[listed].UID)).String()})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Items) > 0 {
		t.Errorf("the node that the provider lists has the events %+v", events.Items)
	}
}

func TestNode_YoungNodeHasNoInstanceYet_Stays(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runNodes(t, cloud)
	node := ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("young-1",
		ccmtest.NodeNotReady(), ccmtest.NodeProviderID("fake://region-1/young-1")))
	waitCalls(t, cloud, "the cloud has said three times that it has no instance", 3,
		fake.CallFilter{Method: "InstanceExists", Object: "young-1", Finished: true}.Matches)
	if now := getNode(t, "young-1"); now.UID != node.UID || now.DeletionTimestamp != nil {
		t.Errorf("the node is %+v", now.ObjectMeta)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A kubelet registers its node again when the deletion is on its way to the API server.
func TestNode_RegistersAgainBeforeItsDeletion_Stays(t *testing.T) {
	t.Parallel()
	const name = "reborn-1"
	cloud := newCloud(t, []string{name})
	nodes := shared.Client(t).CoreV1().Nodes()
	reborn := make(chan types.UID, 1)
	again := sync.OnceFunc(func() {
		err := nodes.Delete(t.Context(), name, metav1.DeleteOptions{})
		var node *corev1.Node
		if err == nil {
			node, err = nodes.Create(t.Context(), ccmtest.ReadyNode(name, ccmtest.NodeNotReady(),
				ccmtest.NodeProviderID("fake://region-1/"+name)), metav1.CreateOptions{})
		}
		if err != nil {
			t.Errorf("register the node again: %v", err)
			return
		}
		reborn <- node.UID
	})
	runNodes(t, cloud, func(p *ccm.Params) {
		p.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/nodes/"+name) {
					again()
				}
				return next.RoundTrip(r)
			})
		})
	})
	initializeNode(t, name)
	// The cloud has shown the instance, so its absence counts although the node is young.
	if err := cloud.RemoveInstance(name); err != nil {
		t.Fatal(err)
	}
	setNotReady(t, name)
	uid := ccmtest.Eventually(t, "the node registers again",
		func(ctx context.Context) (types.UID, error) {
			select {
			case uid := <-reborn:
				return uid, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	// A later lookup begins when the API server has answered the deletion.
	lookups := callsOf("InstanceExists", name)
	waitCalls(t, cloud, "the new node is looked up", len(cloud.Calls(lookups))+1, lookups)
	if now := getNode(t, name); now.UID != uid || now.DeletionTimestamp != nil {
		t.Errorf("the node is %+v, want the UID %s", now.ObjectMeta, uid)
	}
}

func TestNode_RightToDeleteIsMissing_IsReportedUntilItIsGranted(t *testing.T) {
	t.Parallel()
	const user, name = "without-deletion", "undeletable-1"
	const right = "permission to delete nodes"
	identity, err := shared.ControlPlane.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, "test-undeletable-nodes", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"},
		Verbs: []string{"get", "list", "watch", "patch"},
	}, user)
	grant(t, "test-undeletable-events", rbacv1.PolicyRule{
		APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"},
		Verbs: []string{"create", "patch"},
	}, user)
	cloud := newCloud(t, []string{name})
	r := runNodes(t, cloud, func(p *ccm.Params) { p.RESTConfig = suite.Confine(t, identity) })
	node := initializeNode(t, name)
	if err := cloud.RemoveInstance(name); err != nil {
		t.Fatal(err)
	}
	setNotReady(t, name)

	current := ccmtest.Eventually(t, "the missing right is a trouble",
		ccmtest.Status(r.Manager, func(s status.Manager) bool {
			return slices.ContainsFunc(s.Troubles,
				func(trouble status.Trouble) bool { return trouble.Subject == right })
		}))
	mustContain(t, current.Troubles[0].Reason, user, `cannot delete resource "nodes"`)
	ready := r.ReadinessChecks()[0]
	if err := ready.Check(nil); err != nil {
		t.Errorf("readiness: %v", err)
	}
	mustContain(t, ready.Detail(), "problem with "+right)
	mustContain(t, waitNodeEvent(t, node, "DeletingNodeFailed").Message, user)

	grant(t, "test-undeletable-delete", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"},
	}, user)
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, name))
	ccmtest.Eventually(t, "the trouble is over",
		ccmtest.Status(r.Manager, func(s status.Manager) bool { return len(s.Troubles) == 0 }))
}
