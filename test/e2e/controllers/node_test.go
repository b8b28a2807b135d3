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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// firstNode is the name of a node that is there when the cloud-node controller starts.
func firstNode(t *testing.T) string { return "first-" + suite.ClusterName(t) }

// runCloudNode runs the cloud-node controller alone. It returns when the refresh that upstream
// makes at the start has begun: nodes that are created from then on are not part of it, so every
// call about them has another reason.
func runCloudNode(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	addInstance(t, cloud, fake.Instance{Name: firstNode(t)})
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.ReadyNode(firstNode(t), ccmtest.NodeProviderID(ownID(firstNode(t)))))
	r := run(t, cloud, append([]func(*ccm.Params){only("cloud-node")}, change...)...)
	waitCallsAbout(t, cloud, firstNode(t), 1)
	return r
}

// oneAtATime makes the queue of nodes a line: when a node has been initialised, what was queued
// before it has been dealt with.
func oneAtATime(p *ccm.Params) { p.Config.Node.ConcurrentSyncs = 1 }

func refreshEvery(d time.Duration) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Config.Node.StatusUpdateFrequency = metav1.Duration{Duration: d}
	}
}

// editing lets a test change what the cloud says of a node: the fake fills in what an instance
// lacks.
func editing(
	cloud *fake.Cloud, edit func(node string, m *cloudprovider.InstanceMetadata),
) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Providers = []ccm.Provider{{
			Name: "fake",
			New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
				return editedCloud{cloud.Provider(), edit}, nil
			},
		}}
	}
}

type editedCloud struct {
	cloudprovider.Interface
	edit func(string, *cloudprovider.InstanceMetadata)
}

func (c editedCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	instances, ok := c.Interface.InstancesV2()
	return editedInstances{instances, c.edit}, ok
}

type editedInstances struct {
	cloudprovider.InstancesV2
	edit func(string, *cloudprovider.InstanceMetadata)
}

func (i editedInstances) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	metadata, err := i.InstancesV2.InstanceMetadata(ctx, node)
	if metadata != nil {
		i.edit(node.Name, metadata)
	}
	return metadata, err
}

// interfering calls before on the way of each request of the CCM to the API server.
func interfering(before func(*http.Request)) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.RESTConfig = rest.CopyConfig(p.RESTConfig)
		p.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return interference{next, before}
		})
	}
}

type interference struct {
	next   http.RoundTripper
	before func(*http.Request)
}

func (i interference) RoundTrip(req *http.Request) (*http.Response, error) {
	i.before(req)
	return i.next.RoundTrip(req)
}

func ownID(node string) string { return "fake://region-1/" + node }

func addInstance(t *testing.T, cloud *fake.Cloud, instances ...fake.Instance) {
	t.Helper()
	if err := cloud.AddInstances(instances...); err != nil {
		t.Fatal(err)
	}
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func external(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
}

func hostname(name string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeHostName, Address: name}
}

func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := shared.Client(t).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// patchNode changes a node as somebody else.
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

// initialize creates a tainted node with an instance, and waits until it is initialised.
func initialize(t *testing.T, cloud *fake.Cloud, name string) {
	t.Helper()
	addInstance(t, cloud, fake.Instance{Name: name})
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name))
	ccmtest.WaitNodeInitialized(t, shared.Client(t), name)
}

// nodeVersions returns what the node looked like after each change since it was created, until the
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
	t.Fatalf("node %s did not come to what was waited for; its versions: %v", created.Name,
		versions)
	return nil
}

// nodeRequests waits for n requests of the node controllers that may have changed the node, and
// returns all there are, each as verb, resource and code.
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

// ofNode leaves the test's own requests out by their user agent, should both be the same user.
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

// nodeEvent waits for an event about this very node.
func nodeEvent(t *testing.T, node *corev1.Node, reason string) corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t,
		fmt.Sprintf("there is an event %s about node %s", reason, node.Name),
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

// methodsAbout are the methods that were called about the node, each once, in the order of their
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

// waitCallsAbout waits until the cloud has been called n times about the node.
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
	ccmtest.WaitCloud(t, cloud, what, func() error {
		if calls = cloud.Calls(where); len(calls) < n {
			return fmt.Errorf("there were %d of %d calls", len(calls), n)
		}
		return nil
	})
	return calls
}

// waitRefreshes waits until the addresses of all nodes have been looked at in n whole passes that
// began after now. Passes follow each other, so the third call about a node from now on tells that
// one pass lies behind.
func waitRefreshes(t *testing.T, cloud *fake.Cloud, method fake.Method, n int) {
	t.Helper()
	before := len(cloud.Calls(callsOf(method, firstNode(t))))
	waitCalls(t, cloud, fmt.Sprintf("nodes are refreshed %d times", n), before+n+2,
		callsOf(method, firstNode(t)))
}

// metric is the value of a counter, or the number of observations of a histogram, summed over the
// series that have the labels.
func metric(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			matching := 0
			for _, label := range series.GetLabel() {
				if labels[label.GetName()] == label.GetValue() {
					matching++
				}
			}
			if matching == len(labels) {
				sum += series.GetCounter().GetValue() +
					float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func TestNode_WhenTainted_IsInitialisedOnceByOneUpdate(t *testing.T) {
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
		t.Fatalf("the node was changed %d times, want 2: what the cloud knows, and its addresses",
			len(versions))
	}
	// Nobody may see a node without the taint that lacks its provider ID or its labels: the
	// scheduler would use it.
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

	// Later changes of the node are no reason to ask the cloud again.
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
		t.Errorf("the cloud was asked by %v, want InstancesV2 alone", methods)
	}
}

func TestNode_ProviderID_IsSetOnlyWhereThereIsNone(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"id-none", "id-same", "id-other", "id-silent"})
	runCloudNode(t, cloud, editing(cloud, func(node string, m *cloudprovider.InstanceMetadata) {
		switch node {
		case "id-other":
			m.ProviderID = "fake://region-2/elsewhere"
		case "id-silent":
			m.ProviderID = ""
		}
	}))
	for name, own := range map[string]string{
		"id-none":   "",
		"id-same":   ownID("id-same"),
		"id-other":  ownID("id-other"),
		"id-silent": ownID("id-silent"), // the cloud names none: the node's own will do
	} {
		ccmtest.CreateNode(t, shared.Client(t),
			ccmtest.TaintedNode(name, ccmtest.NodeProviderID(own)))
		// The API server would refuse a change.
		if node := ccmtest.WaitNodeInitialized(t, shared.Client(t),
			name); node.Spec.ProviderID != ownID(name) {
			t.Errorf("provider ID of %s: %q, want %q", name, node.Spec.ProviderID, ownID(name))
		}
	}
}

func TestNode_WithoutAnyProviderID_KeepsTheTaintUntilTheCloudNamesOne(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"unnamed-1"})
	var named atomic.Bool
	runCloudNode(t, cloud, editing(cloud, func(_ string, m *cloudprovider.InstanceMetadata) {
		if !named.Load() {
			m.ProviderID = ""
		}
	}))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("unnamed-1"))
	waitCallsAbout(t, cloud, "unnamed-1", 4)
	if node := getNode(t, "unnamed-1"); !uninitialized(node) || node.Spec.ProviderID != "" {
		t.Errorf("the node has provider ID %q and taints %v", node.Spec.ProviderID,
			node.Spec.Taints)
	}
	named.Store(true)
	if node := ccmtest.WaitNodeInitialized(t, shared.Client(t),
		"unnamed-1"); node.Spec.ProviderID != ownID("unnamed-1") {
		t.Errorf("provider ID: %q", node.Spec.ProviderID)
	}
}

func TestNode_LabelsOfTypeZoneAndRegion(t *testing.T) {
	t.Parallel()
	ofCloud := []string{
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelFailureDomainBetaZone,
		corev1.LabelTopologyZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion,
	}
	full := cloudprovider.InstanceMetadata{
		InstanceType: "large", Zone: "zone-a",
		Region: "region-1",
	}
	tests := map[string]struct {
		metadata cloudprovider.InstanceMetadata
		own      map[string]string
		want     []string // in the order of ofCloud
	}{
		"label-all":    {full, nil, []string{"large", "large", "zone-a", "zone-a", "region-1", "region-1"}},
		"label-type":   {cloudprovider.InstanceMetadata{InstanceType: "large"}, nil, []string{"large", "large", "", "", "", ""}},
		"label-zone":   {cloudprovider.InstanceMetadata{Zone: "zone-a"}, nil, []string{"", "", "zone-a", "zone-a", "", ""}},
		"label-region": {cloudprovider.InstanceMetadata{Region: "region-1"}, nil, []string{"", "", "", "", "region-1", "region-1"}},
		"label-none":   {cloudprovider.InstanceMetadata{}, nil, []string{"", "", "", "", "", ""}},
		// What the kubelet has set gives way, unlike with additional labels.
		"label-over": {
			full,
			map[string]string{
				corev1.LabelInstanceTypeStable: "small",
				corev1.LabelTopologyZone:       "zone-b",
			},
			[]string{"large", "large", "zone-a", "zone-a", "region-1", "region-1"},
		},
	}
	cloud := newCloud(t, nil)
	runCloudNode(t, cloud, editing(cloud, func(node string, m *cloudprovider.InstanceMetadata) {
		told := tests[node].metadata
		m.InstanceType, m.Zone, m.Region = told.InstanceType, told.Zone, told.Region
	}))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			addInstance(t, cloud, fake.Instance{Name: name})
			node := ccmtest.TaintedNode(name)
			for key, value := range test.own {
				node.Labels[key] = value
			}
			ccmtest.CreateNode(t, shared.Client(t), node)
			node = ccmtest.WaitNodeInitialized(t, shared.Client(t), name)
			for i, key := range ofCloud {
				got, set := node.Labels[key]
				if got != test.want[i] || set != (test.want[i] != "") {
					t.Errorf("label %s is %q (set: %v), want %q", key, got, set, test.want[i])
				}
			}
		})
	}
}

func TestNode_AdditionalLabels_NeitherOverwriteNorTouchKubernetesOwn(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	addInstance(t, cloud, fake.Instance{Name: "extra-1", AdditionalLabels: map[string]string{
		"example.org/rack":                 "r7",
		"example.org/owner":                "cloud",
		"plain":                            "yes",
		"notkubernetes.io/fine":            "yes",
		"kubernetes.io/role":               "no",
		"k8s.io/role":                      "no",
		"node.kubernetes.io/role":          "no",
		"node-role.kubernetes.io/master":   "no",
		"deep.below.k8s.io/role":           "no",
		"topology.kubernetes.io/zone":      "no",
		"kubernetes.io.example.org/fine":   "yes",
		"example.org/kubernetes.io_is_not": "yes",
	}})
	runCloudNode(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.TaintedNode("extra-1", ccmtest.NodeLabel("example.org/owner", "kubelet")))
	node := ccmtest.WaitNodeInitialized(t, shared.Client(t), "extra-1")
	want := map[string]string{
		"example.org/rack": "r7", "example.org/owner": "kubelet", "plain": "yes",
		"notkubernetes.io/fine":          "yes",
		"kubernetes.io.example.org/fine": "yes", "example.org/kubernetes.io_is_not": "yes",
		corev1.LabelHostname:     "extra-1",
		corev1.LabelTopologyZone: "region-1a", // the cloud's zone, not the label
	}
	for key, value := range want {
		if node.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], value)
		}
	}
	for key, value := range node.Labels {
		if value == "no" {
			t.Errorf("label %s was taken from the cloud", key)
		}
	}
}

func TestNode_ProvidedNodeIP_OrdersAndFiltersTheAddresses(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runCloudNode(t, cloud)
	told := []corev1.NodeAddress{
		internal("10.1.0.1"), internal("10.1.0.2"), external("192.0.2.1"),
		external("192.0.2.2"), internal("fd00::1"), internal("fd00::2"),
	}
	for name, test := range map[string]struct {
		ip   string
		want []corev1.NodeAddress
	}{
		"ip-internal": {"10.1.0.2", []corev1.NodeAddress{internal("10.1.0.2"), external("192.0.2.1"), external("192.0.2.2")}},
		"ip-external": {
			"192.0.2.2",
			[]corev1.NodeAddress{
				external("192.0.2.2"), internal("10.1.0.1"), internal("10.1.0.2"),
				internal("fd00::1"), internal("fd00::2"),
			},
		},
		"ip-dualstack": {"fd00::2,10.1.0.1", []corev1.NodeAddress{internal("fd00::2"), internal("10.1.0.1"), external("192.0.2.1"), external("192.0.2.2")}},
	} {
		t.Run(name, func(t *testing.T) {
			addInstance(t, cloud, fake.Instance{Name: name, Addresses: told})
			ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.TaintedNode(name,
					ccmtest.NodeAnnotation(cloudproviderapi.AnnotationAlphaProvidedIPAddr,
						test.ip)))
			ccmtest.WaitNodeAddress(t, shared.Client(t), name, corev1.NodeInternalIP)
			want := append(slices.Clone(test.want), hostname(name))
			if got := getNode(t, name).Status.Addresses; !slices.Equal(got, want) {
				t.Errorf("addresses: %v, want %v", got, want)
			}
		})
	}
}

func TestNode_ProvidedNodeIP_WhenNoneOfTheCloud_KeepsTheTaint(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runCloudNode(t, cloud)
	for name, ip := range map[string]string{
		"ip-unknown": "10.2.0.9",
		"ip-half":    "10.2.0.1,fd00::9",
	} {
		t.Run(name, func(t *testing.T) {
			addInstance(t, cloud,
				fake.Instance{Name: name, Addresses: []corev1.NodeAddress{internal("10.2.0.1")}})
			ccmtest.CreateNode(t, shared.Client(t),
				ccmtest.TaintedNode(name,
					ccmtest.NodeAnnotation(cloudproviderapi.AnnotationAlphaProvidedIPAddr, ip)))
			waitCallsAbout(t, cloud, name, 4)
			if node := getNode(t, name); !uninitialized(node) {
				t.Error("the node was initialised")
			}
			addInstance(t, cloud,
				fake.Instance{
					Name: name,
					Addresses: []corev1.NodeAddress{
						internal("10.2.0.1"), internal("10.2.0.9"),
						internal("fd00::9"),
					},
				})
			ccmtest.WaitNodeInitialized(t, shared.Client(t), name)
		})
	}
}

// What is no IP address at all can only be put right in the node itself, and that is an event of
// the node.
func TestNode_ProvidedNodeIP_WhenNoIP_KeepsTheTaintUntilItIsCorrected(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	addInstance(t, cloud,
		fake.Instance{Name: "ip-nonsense", Addresses: []corev1.NodeAddress{internal("10.2.0.1")}})
	runCloudNode(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t),
		ccmtest.TaintedNode("ip-nonsense",
			ccmtest.NodeAnnotation(cloudproviderapi.AnnotationAlphaProvidedIPAddr, "eth0")))
	waitCallsAbout(t, cloud, "ip-nonsense", 4)
	if node := getNode(t, "ip-nonsense"); !uninitialized(node) {
		t.Error("the node was initialised")
	}
	patchNode(t, "ip-nonsense",
		`{"metadata":{"annotations":{"alpha.kubernetes.io/provided-node-ip":"10.2.0.1"}}}`)
	ccmtest.WaitNodeInitialized(t, shared.Client(t), "ip-nonsense")
}

func TestNode_Addresses_AreWrittenRightAfterTheInitialisation(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runCloudNode(t, cloud)
	for name, test := range map[string]struct{ told, want []corev1.NodeAddress }{
		"address-kubelets-hostname": {
			[]corev1.NodeAddress{internal("10.3.0.1"), external("192.0.2.3")},
			[]corev1.NodeAddress{
				internal("10.3.0.1"), external("192.0.2.3"),
				hostname("address-kubelets-hostname"),
			},
		},
		"address-clouds-hostname": {
			[]corev1.NodeAddress{hostname("vm-7"), internal("10.3.0.2")},
			[]corev1.NodeAddress{hostname("vm-7"), internal("10.3.0.2")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			addInstance(t, cloud, fake.Instance{Name: name, Addresses: test.told})
			ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name))
			ccmtest.WaitNodeAddress(t, shared.Client(t), name, corev1.NodeInternalIP)
			if got := getNode(t, name).Status.Addresses; !slices.Equal(got, test.want) {
				t.Errorf("addresses: %v, want %v", got, test.want)
			}
			// The next refresh is five minutes away.
			if calls := cloud.Calls(callsOf(fake.InstanceMetadata, name)); len(calls) != 1 {
				t.Errorf("the cloud was asked %d times, want once for all", len(calls))
			}
		})
	}
}

func TestNode_Refresh_WritesAddressesOnlyWhereTheyChange(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runCloudNode(t, cloud, refreshEvery(100*time.Millisecond))
	nodes := map[string]struct {
		instance   *fake.Instance
		annotation string
		script     func(fake.FaultBuilder)
		// written is whether the node gets the cloud's addresses, always whether it is written in
		// each pass from then on.
		written, always bool
	}{
		"refresh-plain": {instance: &fake.Instance{}, written: true},
		// Upstream compares one address of each type: dual-stack nodes always look changed.
		"refresh-dualstack": {instance: &fake.Instance{Addresses: []corev1.NodeAddress{internal(
			"10.4.0.1"), internal("fd00::4")}}, written: true, always: true},
		"refresh-empty":    {instance: &fake.Instance{Addresses: []corev1.NodeAddress{}}},
		"refresh-gone":     {},
		"refresh-other-ip": {instance: &fake.Instance{}, annotation: "10.9.9.9"},
		"refresh-error":    {instance: &fake.Instance{}, script: func(s fake.FaultBuilder) { s.Fail(errors.New("maintenance")) }},
		// Upstream ends the process in both cases.
		"refresh-panic":   {instance: &fake.Instance{}, script: func(s fake.FaultBuilder) { s.Panic("index out of range") }},
		"refresh-nothing": {instance: &fake.Instance{}, script: func(s fake.FaultBuilder) { s.ReturnZero() }},
	}
	begin := shared.Audit().Mark()
	for name, n := range nodes {
		if n.instance != nil {
			n.instance.Name = name
			addInstance(t, cloud, *n.instance)
		}
		if n.script != nil {
			n.script(cloud.On(fake.InstanceMetadata).For(name))
		}
		node := ccmtest.ReadyNode(name, ccmtest.NodeProviderID(ownID(name)))
		if n.annotation != "" {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta,
				cloudproviderapi.AnnotationAlphaProvidedIPAddr, n.annotation)
		}
		ccmtest.CreateNode(t, shared.Client(t), node)
	}
	for name, n := range nodes {
		if n.written {
			ccmtest.WaitNodeAddress(t, shared.Client(t), name, corev1.NodeInternalIP)
		}
	}
	// When a node that comes later is seen the informer knows all that came before.
	initialize(t, cloud, "refresh-seen")
	waitRefreshes(t, cloud, fake.InstanceMetadata, 1)
	settled := shared.Audit().Mark()
	waitRefreshes(t, cloud, fake.InstanceMetadata, 3)

	// A change of the cloud is written, and what the audit log has then is all there was.
	addInstance(t, cloud,
		fake.Instance{
			Name:      "refresh-seen",
			Addresses: []corev1.NodeAddress{hostname("refresh-seen"), internal("10.4.0.7")},
		})
	ccmtest.WaitNode(t, shared.Client(t), "refresh-seen", "the new address is written",
		func(n *corev1.Node) error {
			if n == nil || !slices.Contains(n.Status.Addresses, internal("10.4.0.7")) {
				return errors.New("not yet")
			}
			return nil
		})
	nodeRequests(t, settled, "refresh-seen", 1)
	for name, n := range nodes {
		since, least := settled, 0
		if !n.written {
			since = begin
		}
		if n.always {
			least = 3
		}
		got := nodeRequests(t, since, name, least)
		if !n.always && len(got) > 0 {
			t.Errorf("%s was written without need: %q", name, got)
		}
		if countOf(got, "patch nodes/status 200") != len(got) {
			t.Errorf("%s was written by %q, want patches of its status alone", name, got)
		}
		if !n.written {
			if got := getNode(t, name).Status.Addresses; !slices.Equal(got,
				[]corev1.NodeAddress{hostname(name)}) {
				t.Errorf("addresses of %s: %v, want those of the kubelet", name, got)
			}
		}
	}
}

func TestNode_Refresh_LeavesUninitialisedNodesAlone(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"unready-1"})
	release := cloud.On(fake.InstanceMetadata).For("unready-1").Hang()
	runCloudNode(t, cloud, refreshEvery(50*time.Millisecond))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("unready-1"))
	waitCallsAbout(t, cloud, "unready-1", 1) // by the one that initialises it
	waitRefreshes(t, cloud, fake.InstanceMetadata, 3)
	if calls := cloud.Calls(callsOf(fake.InstanceMetadata, "unready-1")); len(calls) != 1 {
		t.Errorf("the cloud was asked %d times about a node that is not initialised, want once",
			len(calls))
	}
	release()
	ccmtest.WaitNodeInitialized(t, shared.Client(t), "unready-1")
}

func TestNode_BetaLabels_AreTheSourceOfTheStableOnes(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runCloudNode(t, cloud, oneAtATime)
	mark := shared.Audit().Mark()
	tests := map[string]struct {
		own, want map[string]string
		patches   int
	}{
		"beta-other": {
			own: map[string]string{
				corev1.LabelFailureDomainBetaZone: "zone-a",
				corev1.LabelTopologyZone:          "zone-b",
			},
			want: map[string]string{
				corev1.LabelFailureDomainBetaZone: "zone-a",
				corev1.LabelTopologyZone:          "zone-a",
			},
			patches: 1,
		},
		"beta-alone": {
			own: map[string]string{
				corev1.LabelFailureDomainBetaRegion: "region-1",
				corev1.LabelInstanceType:            "large",
			},
			want: map[string]string{
				corev1.LabelTopologyRegion:     "region-1",
				corev1.LabelInstanceTypeStable: "large",
			},
			patches: 1,
		},
		"beta-same": {
			own: map[string]string{
				corev1.LabelInstanceType:       "large",
				corev1.LabelInstanceTypeStable: "large",
			},
			want: map[string]string{
				corev1.LabelInstanceType:       "large",
				corev1.LabelInstanceTypeStable: "large",
			},
		},
		"beta-none": {
			own: map[string]string{corev1.LabelTopologyZone: "zone-b"},
			want: map[string]string{
				corev1.LabelTopologyZone:          "zone-b",
				corev1.LabelFailureDomainBetaZone: "",
			},
		},
	}
	for name, test := range tests {
		node := ccmtest.ReadyNode(name, ccmtest.NodeProviderID(ownID(name)))
		for key, value := range test.own {
			node.Labels[key] = value
		}
		ccmtest.CreateNode(t, shared.Client(t), node)
	}
	initialize(t, cloud, "beta-sentinel")
	nodeRequests(t, mark, "beta-sentinel", 1)
	for name, test := range tests {
		// The sentinel may be initialised before the patch of the last node has been seen here, but
		// not before it was made.
		want := slices.Repeat([]string{"patch nodes 200"}, test.patches)
		if got := nodeRequests(t, mark, name, test.patches); !slices.Equal(got, want) {
			t.Errorf("%s was written by %q, want %q", name, got, want)
		}
		if labels := getNode(t, name).Labels; !containsAll(labels, test.want) {
			t.Errorf("labels of %s: %v, want %v", name, labels, test.want)
		}
		if calls := cloud.Calls(fake.CallFilter{Object: name}.Matches); len(calls) > 0 {
			t.Errorf("the cloud was asked about %s, which is initialised: %v", name, calls)
		}
	}

	// Each event of a node is an occasion.
	patchNode(t, "beta-same",
		`{"metadata":{"labels":{"node.kubernetes.io/instance-type":"small"}}}`)
	ccmtest.WaitNode(t, shared.Client(t), "beta-same",
		"the stable label follows the beta label again", func(n *corev1.Node) error {
			if n == nil || n.Labels[corev1.LabelInstanceTypeStable] != "large" {
				return errors.New("it does not")
			}
			return nil
		})
}

func containsAll(labels, want map[string]string) bool {
	for key, value := range want {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// Upstream leaves the node alone until its next event, or the resync after half a day or more. Here
// it is an error like any other.
func TestNode_WhenTheCloudGivesNeitherMetadataNorAnError_IsRetried(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"nothing-1"})
	cloud.On(fake.InstanceMetadata).For("nothing-1").Times(3).ReturnZero()
	runCloudNode(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("nothing-1"))
	ccmtest.WaitNodeInitialized(t, shared.Client(t), "nothing-1")
	if calls := cloud.Calls(callsOf(fake.InstanceMetadata, "nothing-1")); len(calls) != 4 {
		t.Errorf("the cloud was asked %d times, want 4", len(calls))
	}
}

func TestNode_WhenTheCloudFails_IsRetriedWithADelayThatDoubles(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"backoff-1"})
	heal := cloud.On(fake.InstanceMetadata).For("backoff-1").Fail(cloudprovider.InstanceNotFound)
	runCloudNode(t, cloud)
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("backoff-1"))
	const failures = 7
	calls := waitCalls(t, cloud, "the cloud is asked again and again", failures,
		callsOf(fake.InstanceMetadata, "backoff-1"))
	if node := getNode(t, "backoff-1"); !uninitialized(node) {
		t.Error("the taint was taken away")
	}
	heal()
	for i := range failures - 1 {
		pause, least := calls[i+1].Started.Sub(calls[i].Ended), 5*time.Millisecond<<i
		if pause < least {
			t.Errorf("pause %d was %s, want at least %s", i+1, pause, least)
		}
	}
	ccmtest.WaitNodeInitialized(t, shared.Client(t), "backoff-1")
	if got := nodeRequests(t, mark, "backoff-1", 1)[0]; got != "update nodes 200" {
		t.Errorf("the first change of the node was %q, want the update after the last failure", got)
	}
}

func TestNode_WhenTheCloudFails_EveryErrorIsRetried(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	r := runCloudNode(t, cloud)
	for name, fail := range map[string]func(fake.FaultBuilder) func(){
		"fail-any": func(s fake.FaultBuilder) func() {
			return s.Fail(errors.New("503 Service Unavailable"))
		},
		"fail-notfound": func(s fake.FaultBuilder) func() {
			return s.Fail(cloudprovider.InstanceNotFound)
		},
		"fail-notimplemented": func(s fake.FaultBuilder) func() {
			return s.Fail(cloudprovider.NotImplemented)
		},
		"fail-elsewhere": func(s fake.FaultBuilder) func() {
			return s.Fail(cloudprovider.ImplementedElsewhere)
		},
		"fail-deadline": func(s fake.FaultBuilder) func() {
			return s.Fail(context.DeadlineExceeded)
		},
		// Only the service controller heeds the time that it names.
		"fail-retry": func(s fake.FaultBuilder) func() {
			return s.Fail(cloudproviderapi.NewRetryError("busy", time.Hour))
		},
		"fail-panic": func(s fake.FaultBuilder) func() {
			return s.Panic("assignment to entry in nil map")
		},
	} {
		t.Run(name, func(t *testing.T) {
			addInstance(t, cloud, fake.Instance{Name: name})
			heal := fail(cloud.On(fake.InstanceMetadata).For(name))
			ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name))
			waitCallsAbout(t, cloud, name, 4)
			if node := getNode(t, name); !uninitialized(node) || node.Spec.ProviderID != "" {
				t.Errorf("the node was changed: provider ID %q, taints %v", node.Spec.ProviderID,
					node.Spec.Taints)
			}
			heal()
			ccmtest.WaitNodeInitialized(t, shared.Client(t), name)
		})
	}
	if s := r.Status(); s.Term != 1 || !s.Ready {
		t.Errorf("the cloud's failures are the nodes' alone, but the Manager is %+v", s)
	}
}

// All nodes together are retried a hundred times at once, then ten times a second.
func TestNode_WhenTheCloudFailsForManyNodes_RetriesAreLimitedTogether(t *testing.T) {
	t.Parallel()
	const nodes = 110
	cloud := newCloud(t, nil)
	failsOnce := cloud.On(fake.InstanceMetadata).Times(1)
	var first, last time.Time
	runCloudNode(t, cloud)
	for i := range nodes {
		name := fmt.Sprintf("many-%d", i)
		addInstance(t, cloud, fake.Instance{Name: name})
		failsOnce.For(name).Fail(errors.New("503 Service Unavailable"))
		ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name))
	}
	for i := range nodes {
		name := fmt.Sprintf("many-%d", i)
		ccmtest.WaitNodeInitialized(t, shared.Client(t), name)
		calls := cloud.Calls(callsOf(fake.InstanceMetadata, name))
		if len(calls) != 2 {
			t.Fatalf("the cloud was asked %d times about %s, want twice", len(calls), name)
		}
		if failed := calls[0].Ended; first.IsZero() || failed.Before(first) {
			first = failed
		}
		if retried := calls[1].Started; retried.After(last) {
			last = retried
		}
	}
	if took, least := last.Sub(first), (nodes-100)*100*time.Millisecond; took < least {
		t.Errorf("%d retries took %s, want at least %s", nodes, took, least)
	}
}

func TestNode_WhenTheNodeIsGone_RetriesEnd(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"leaving-1", "leaving-2"})
	failing := cloud.On(fake.InstanceMetadata)
	failing.For("leaving-1").Fail(cloudprovider.InstanceNotFound)
	runCloudNode(t, cloud)
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("leaving-1"))
	waitCallsAbout(t, cloud, "leaving-1", 3)
	if err := shared.Client(t).CoreV1().Nodes().Delete(t.Context(), "leaving-1",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	initialize(t, cloud, "leaving-2") // the informer has seen the deletion
	asked := len(cloud.Calls(callsOf(fake.InstanceMetadata, "leaving-1")))

	// Another node waits for longer than the next retry of the first would have.
	failing.For("leaving-3").Times(asked + 1).Fail(cloudprovider.InstanceNotFound)
	initialize(t, cloud, "leaving-3")
	if now := len(cloud.Calls(callsOf(fake.InstanceMetadata, "leaving-1"))); now != asked {
		t.Errorf("the cloud was asked %d more times about a node that is gone", now-asked)
	}
}

func TestNode_WhenTheAPIServerRefusesTheUpdate_IsRetriedFromTheBeginning(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	addInstance(t, cloud,
		fake.Instance{
			Name:             "refused-1",
			AdditionalLabels: map[string]string{"example.org/rack": "no label: it has blanks"},
		})
	runCloudNode(t, cloud)
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("refused-1"))
	for _, refused := range nodeRequests(t, mark, "refused-1", 3) {
		if refused != "update nodes 422" {
			t.Errorf("the API server answered %q", refused)
		}
	}
	addInstance(t, cloud,
		fake.Instance{
			Name:             "refused-1",
			AdditionalLabels: map[string]string{"example.org/rack": "r7"},
		})
	if node := ccmtest.WaitNodeInitialized(t, shared.Client(t),
		"refused-1"); node.Labels["example.org/rack"] != "r7" {
		t.Errorf("labels: %v", node.Labels)
	}
}

// labelBeforeUpdates lets somebody else change the node just before each of the first n updates of
// the CCM, which then conflict.
func labelBeforeUpdates(t *testing.T, node string, n int32) func(*ccm.Params) {
	var updates atomic.Int32
	return interfering(func(req *http.Request) {
		if req.Method != http.MethodPut || req.URL.Path != "/api/v1/nodes/"+node {
			return
		}
		if i := updates.Add(1); i <= n {
			patchNode(t, node,
				fmt.Sprintf(`{"metadata":{"labels":{"example.org/writer-%d":"was-here"}}}`, i))
		}
	})
}

func TestNode_WhenTheUpdateConflicts_IsRetriedOnTheNewNodeWithWhatTheCloudSaid(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"conflict-1"})
	runCloudNode(t, cloud, labelBeforeUpdates(t, "conflict-1", 3))
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("conflict-1"))
	node := ccmtest.WaitNodeInitialized(t, shared.Client(t), "conflict-1")
	for i := 1; i <= 3; i++ {
		if key := fmt.Sprintf("example.org/writer-%d", i); node.Labels[key] != "was-here" {
			t.Errorf("the other writer's label %s is lost: %v", key, node.Labels)
		}
	}
	if node.Spec.ProviderID != ownID("conflict-1") {
		t.Errorf("provider ID: %q", node.Spec.ProviderID)
	}
	// There are more conflicts if the informer is late.
	got := nodeRequests(t, mark, "conflict-1", 5)
	if conflicts := countOf(got, "update nodes 409"); conflicts < 3 ||
		countOf(got, "update nodes 200") != 1 {
		t.Errorf("updates: %q, want 3 conflicts and one success", got)
	}
	if calls, want := cloud.Calls(callsOf(fake.InstanceMetadata, "conflict-1")),
		callsFor(got); len(calls) != want {
		t.Errorf("the cloud was asked %d times, want %d", len(calls), want)
	}
}

// callsFor is how often the cloud is asked: upstream asks once and then tries the update twenty
// times.
func callsFor(requests []string) int {
	return 1 + countOf(requests, "update nodes 409")/20
}

func TestNode_WhenTwentyUpdatesConflict_TheCloudIsAskedAnew(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, []string{"conflict-20"})
	runCloudNode(t, cloud, labelBeforeUpdates(t, "conflict-20", 20))
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("conflict-20"))
	ccmtest.WaitNodeInitialized(t, shared.Client(t), "conflict-20")
	got := nodeRequests(t, mark, "conflict-20", 22)
	if conflicts := countOf(got, "update nodes 409"); conflicts < 20 ||
		countOf(got, "update nodes 200") != 1 {
		t.Errorf("updates: %q, want 20 conflicts and one success", got)
	}
	if calls, want := cloud.Calls(callsOf(fake.InstanceMetadata, "conflict-20")),
		callsFor(got); len(calls) != want {
		t.Errorf("the cloud was asked %d times, want %d", len(calls), want)
	}
}

func TestNode_WhenInitialised_AnEventAndTwoHistogramsSaySo(t *testing.T) {
	cloud := newCloud(t, []string{"event-1"})
	cloud.On(fake.InstanceMetadata).For("event-1").Times(2).Fail(cloudprovider.InstanceNotFound)
	runCloudNode(t, cloud)
	delays := []string{
		"node_controller_cloud_provider_taint_removal_delay_seconds",
		"node_controller_initial_node_sync_delay_seconds",
	}
	before := []float64{metric(t, delays[0], nil), metric(t, delays[1], nil)}
	node := ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("event-1"))
	event := nodeEvent(t, node, "Synced")
	if event.Type != corev1.EventTypeNormal || event.Message != "Node synced successfully" ||
		event.Source.Component != "cloud-node-controller" || event.Count != 1 {
		t.Errorf("event: %s %s %q from %s, %d times", event.Type, event.Reason, event.Message,
			event.Source.Component, event.Count)
	}
	// The second one is observed when the event has been handed over.
	ccmtest.Eventually(t, "both delays are observed", func(context.Context) (bool, error) {
		for i, name := range delays {
			if n := metric(t, name, nil) - before[i]; n != 1 {
				return false, fmt.Errorf("%s has %v more observations, want 1", name, n)
			}
		}
		return true, nil
	})
	all, err := nodeEvents(t.Context(), node)
	if err != nil || len(all) != 1 {
		t.Errorf("events: %v, %v; failures before are not told as events", all, err)
	}
}

func TestNode_InitialisesAsManyNodesAtOnceAsConfigured(t *testing.T) {
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
			// All are there already when the controller starts.
			run(t, cloud, only("cloud-node"),
				func(p *ccm.Params) { p.Config.Node.ConcurrentSyncs = syncs })
			waitInFlight(t, cloud, workers)
			release()
			for _, name := range names {
				ccmtest.WaitNodeInitialized(t, shared.Client(t), name)
			}
			if most := mostInFlight(cloud); most != workers {
				t.Errorf("%d nodes were initialised at once, want %d", most, workers)
			}
		})
	}
}

func TestNode_RefreshesAsManyNodesAtOnceAsConfigured(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ syncs, updates, want int32 }{
		"own":   {syncs: 1, updates: 3, want: 3},
		"syncs": {syncs: 2, updates: 0, want: 2}, // 0 means as many as are initialised at once
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
					p.Config.Node.ConcurrentSyncs, p.Config.Node.ConcurrentStatusUpdates = test.syncs,
						test.updates
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
	ccmtest.WaitCloud(t, cloud, fmt.Sprintf("%d calls are in flight", n), func() error {
		if now := cloud.Stats().InFlight; now != n {
			return fmt.Errorf("there are %d", now)
		}
		return nil
	})
}

func mostInFlight(cloud *fake.Cloud) int {
	most := 0
	for _, stats := range cloud.Stats().Callers {
		most = max(most, stats.MaxInFlight)
	}
	return most
}

// A host whose provider has no instances goes without; its nodes stay as they are.
func TestNode_WhenTheProviderHasNoInstances_IsSkippedWithAReason(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil, fake.Without(fake.InstancesV2, fake.Instances))
	mark := shared.Audit().Mark()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode("noinstances-1"))
	r := run(t, cloud, only("cloud-node", "cloud-node-lifecycle"))
	for _, c := range r.Status().Controllers {
		if (c.Name == "cloud-node-controller" || c.Name == "cloud-node-lifecycle-controller") &&
			(c.State != ccm.ControllerSkipped ||
				!strings.Contains(c.Reason, "it has no instances")) {
			t.Errorf("%s is %s (%s), want it skipped because the provider has no instances", c.Name,
				c.State, c.Reason)
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if got := nodeRequests(t, mark, "noinstances-1", 0); len(got) > 0 ||
		!uninitialized(getNode(t, "noinstances-1")) {
		t.Errorf("the node was changed: %q", got)
	}
}
