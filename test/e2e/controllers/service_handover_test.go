package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

func asClusterIP(s *corev1.Service) {
	s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
}

func ofClass(class string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
	}
}

// classed makes a Manager serve one class, or the Services without one.
func classed(class string) func(*ccm.Params) {
	return func(p *ccm.Params) {
		if class != "" {
			p.Config.Service.DefaultLoadBalancer = false
			p.Config.Service.LoadBalancerClasses = []string{class}
		}
	}
}

// waitReleased waits until a Service has neither a load balancer, nor its finalizer and address.
func waitReleased(t *testing.T, cloud *fake.Cloud, name string) {
	t.Helper()
	waittest.Until(t, "nothing of the load balancer is left", func() error {
		s := getService(t, name)
		_, exists := cloud.LoadBalancer(keyOf(s))
		if exists || servicehelpers.HasLBFinalizer(s) ||
			len(s.Status.LoadBalancer.Ingress) > 0 {
			return fmt.Errorf("in the cloud: %v, finalizers %q, addresses %v", exists,
				s.Finalizers, s.Status.LoadBalancer.Ingress)
		}
		return nil
	})
}

// waitMembers waits until a load balancer has these nodes.
func waitMembers(t *testing.T, cloud *fake.Cloud, service string, nodes ...string) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the members are %q", nodes), func() error {
		lb, _ := cloud.LoadBalancer(service)
		if !slices.Equal(lb.Members, nodes) {
			return fmt.Errorf("they are %q", lb.Members)
		}
		return nil
	})
}

func TestService_ChangesHandsWhileNoManagerRuns_IsReleasedAtTheStart(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	first := runServiceLB(t, cloud)
	createLoadBalancer(t, "handed-over")
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	editService(t, "handed-over", asClusterIP)
	editService(t, "handed-over", ofClass("example.com/other"))
	runServiceLB(t, cloud)
	waitReleased(t, cloud, "handed-over")
	deleteService(t, "handed-over")
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Services("default").Get, "handed-over"))
}

// The other Manager sees the change of type, and has a Service of its own to serve after it.
func TestService_ChangesTypeWhileItsManagerIsDown_IsLeftToIt(t *testing.T) {
	t.Parallel()
	const class = "example.com/b"
	for _, owner := range []string{"", class} {
		t.Run("class "+owner, func(t *testing.T) {
			other := class
			if owner == class {
				other = ""
			}
			name, mine, others := "left-to-none", newCloud(t, nil), newCloud(t, nil)
			var options []ccmtest.ServiceOption
			if owner != "" {
				name, options = "left-to-b", append(options, ccmtest.ServiceClass(owner))
			}
			m := runServiceLB(t, mine, classed(owner))
			createLoadBalancer(t, name, options...)
			if err := m.stop(); err != nil {
				t.Fatal(err)
			}
			runServiceLB(t, others, classed(other))
			editService(t, name, asClusterIP)
			var later []ccmtest.ServiceOption
			if other != "" {
				later = append(later, ccmtest.ServiceClass(other))
			}
			createLoadBalancer(t, name+"-later", later...)
			if s := getService(t, name); !servicehelpers.HasLBFinalizer(s) {
				t.Fatal("another Manager has removed the finalizer")
			}
			calls := others.Calls(fake.CallFilter{Object: "default/" + name}.Matches)
			if len(calls) > 0 {
				t.Errorf("the cloud of another Manager got %+v", calls)
			}
			runServiceLB(t, mine, classed(owner))
			waitReleased(t, mine, name)
		})
	}
}

func TestService_IsDeletedButHasAnotherFinalizer_IsLeftAlone(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	m := runServiceLB(t, cloud)
	service := createLoadBalancer(t, "detained", finalizers("example.com/mine"))
	deleteService(t, service.Name)
	waitReleased(t, cloud, service.Name)
	mark := shared.Audit().Mark()
	editService(t, service.Name, annotate("changed"))
	createLoadBalancer(t, "detained-later")
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	runServiceLB(t, cloud)
	createLoadBalancer(t, "detained-last")
	if r := requests(t, mark, controlplane.ByName(service.Name)); len(r) > 0 {
		t.Errorf("the Service was touched: %s", r[0])
	}
	want := []fake.Method{"EnsureLoadBalancer", "EnsureLoadBalancerDeleted"}
	if got := mutatingCalls(cloud, keyOf(service)); !slices.Equal(got, want) {
		t.Errorf("the cloud had the calls %q, want %q", got, want)
	}
	waitServiceEvents(t, service, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer",
		"Normal EnsuredLoadBalancer", "Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
	editService(t, service.Name, func(s *corev1.Service) { s.Finalizers = nil })
}

func TestService_AnotherClientEmptiesTheStatus_IsRestored(t *testing.T) {
	t.Parallel()
	runServiceLB(t, newCloud(t, nil))
	service := createLoadBalancer(t, "emptied")
	services := shared.Client(t).CoreV1().Services("default")
	now := getService(t, service.Name)
	now.Status.LoadBalancer.Ingress = nil
	if _, err := services.UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "the Service has its address again",
		ccmtest.ServiceAddress(shared.Client(t), "default", service.Name))
}

func TestService_ManagerStartsAgain_WritesNothing(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	m := runServiceLB(t, cloud)
	names := []string{"again-1", "again-2", "again-3"}
	for _, name := range names {
		createLoadBalancer(t, name)
	}
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	mark := shared.Audit().Mark()
	runServiceLB(t, cloud)
	for _, name := range names {
		waitCalls(t, cloud, "the Service is ensured again", 2,
			callsOf("EnsureLoadBalancer", "default/"+name))
	}
	createLoadBalancer(t, "again-later")
	for _, name := range names {
		for _, r := range requests(t, mark, controlplane.ByName(name)) {
			t.Errorf("the start has sent %s", r)
		}
	}
}

// A load balancer follows each change of a node, one call at a time, also during slow calls.
func TestService_NodesChangeDuringSlowCalls_LastCallHasThem(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	nodes := shared.Client(t).CoreV1().Nodes()
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("slow-1"))
	service := keyOf(createLoadBalancer(t, "slow"))
	waitMembers(t, cloud, service, "slow-1")

	cloud.On("EnsureLoadBalancer").Times(2).AfterEffect().Fail(unready())
	cloud.On("EnsureLoadBalancer", "UpdateLoadBalancer").Delay(300 * time.Millisecond)
	editService(t, "slow", annotate("changed"))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("slow-2"))
	waitMembers(t, cloud, service, "slow-1", "slow-2")

	change := func(name string, change func(*corev1.Node)) {
		t.Helper()
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(node)
		if _, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mutating := fake.CallFilter{Object: service, Mutating: true}.Matches
	before := len(cloud.Calls(mutating))
	change("slow-2", func(node *corev1.Node) {
		metav1.SetMetaDataLabel(&node.ObjectMeta, "example.com/pool", "b")
	})
	waitCalls(t, cloud, "a label is passed on", before+1, mutating)
	before = len(cloud.Calls(mutating))
	node, err := nodes.Get(t.Context(), "slow-2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = append(node.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.2"})
	if _, err := nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitCalls(t, cloud, "an address is passed on", before+1, mutating)
	change("slow-2", func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{
			Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule,
		}}
	})
	waitMembers(t, cloud, service, "slow-1")
	calls := cloud.Calls(mutating)
	for i, call := range calls[1:] {
		if before := calls[i]; call.Started.Before(before.Ended) {
			t.Errorf("%+v began during %+v", call, before)
		}
	}
}

// balancerCalls keeps what each call for a load balancer got, which [fake.Call] does not have.
type balancerCalls struct {
	mu    sync.Mutex
	calls []balancerCall
}

type balancerCall struct {
	method  fake.Method
	service *corev1.Service
	nodes   string
}

// of returns the calls for a Service, in the order in which they began.
func (b *balancerCalls) of(service string) (calls []balancerCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if keyOf(c.service) == service {
			calls = append(calls, c)
		}
	}
	return calls
}

func (b *balancerCalls) add(method fake.Method, s *corev1.Service, nodes []*corev1.Node) {
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, balancerCall{method, s.DeepCopy(), strings.Join(names, " ")})
}

// wrap makes a Manager's provider keep its calls here.
func (b *balancerCalls) wrap(p *ccm.Params) {
	open := p.Providers[0].New
	p.Providers[0].New = func(
		ctx context.Context, env ccm.ProviderEnv,
	) (cloudprovider.Interface, error) {
		cloud, err := open(ctx, env)
		return keptCloud{cloud, b}, err
	}
}

type keptCloud struct {
	cloudprovider.Interface
	kept *balancerCalls
}

func (c keptCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	lb, ok := c.Interface.LoadBalancer()
	return keptBalancers{lb, c.kept}, ok
}

type keptBalancers struct {
	cloudprovider.LoadBalancer
	kept *balancerCalls
}

func (b keptBalancers) EnsureLoadBalancer(
	ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	b.kept.add("EnsureLoadBalancer", s, nodes)
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, s, nodes)
}

func (b keptBalancers) UpdateLoadBalancer(
	ctx context.Context, cluster string, s *corev1.Service, nodes []*corev1.Node,
) error {
	b.kept.add("UpdateLoadBalancer", s, nodes)
	return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, s, nodes)
}

func (b keptBalancers) EnsureLoadBalancerDeleted(
	ctx context.Context, cluster string, s *corev1.Service,
) error {
	b.kept.add("EnsureLoadBalancerDeleted", s, nil)
	return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, s)
}

// A change of a label alone leads to no call. The other Service is in the same watch, so the
// Manager has seen the label when it serves a later change of the other one.
func TestService_LabelChangesBeforeANodeJoins_UpdateHasTheServiceAsItIs(t *testing.T) {
	t.Parallel()
	cloud, kept := newCloud(t, nil), &balancerCalls{}
	runServiceLB(t, cloud, kept.wrap)
	service := keyOf(createLoadBalancer(t, "relabeled"))
	other := keyOf(createLoadBalancer(t, "relabeled-other"))
	editService(t, "relabeled", func(s *corev1.Service) {
		metav1.SetMetaDataLabel(&s.ObjectMeta, "example.com/team", "b")
	})
	editService(t, "relabeled-other", annotate("changed"))
	waitCalls(t, cloud, "the other Service is ensured again", 2,
		callsOf("EnsureLoadBalancer", other))

	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("relabeled-1"))
	waitMembers(t, cloud, service, "relabeled-1")
	calls := kept.of(service)
	last := calls[len(calls)-1]
	if last.method != "UpdateLoadBalancer" {
		t.Fatalf("the last call is %s", last.method)
	}
	if got := last.service.Labels["example.com/team"]; got != "b" {
		t.Errorf("the update has the label %q, want b", got)
	}
	if !servicehelpers.HasLBFinalizer(last.service) {
		t.Errorf("the update has the finalizers %q", last.service.Finalizers)
	}
	got, want := last.service.Status.LoadBalancer, getService(t, "relabeled").Status.LoadBalancer
	if !servicehelpers.LoadBalancerStatusEqual(&got, &want) || len(got.Ingress) == 0 {
		t.Errorf("the update has the addresses %v, want %v", got.Ingress, want.Ingress)
	}
}

// The Manager has seen the node when the other load balancer has it.
func TestService_NodeJoinsWhileTheCloudBuilds_EachLaterCallHasIt(t *testing.T) {
	t.Parallel()
	cloud, kept := newCloud(t, nil), &balancerCalls{}
	runServiceLB(t, cloud, kept.wrap)
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("joins-1"))
	other := keyOf(createLoadBalancer(t, "joins-other"))
	waitMembers(t, cloud, other, "joins-1")

	const service = "default/joins"
	ensure := cloud.On("EnsureLoadBalancer").For(service)
	release := ensure.Times(1).Hang()
	ensure.Times(3).Fail(cloudproviderapi.NewRetryError("still building", time.Second))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("joins"))
	waitCalls(t, cloud, "the load balancer is created", 1,
		callsOf("EnsureLoadBalancer", service))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("joins-2"))
	waitMembers(t, cloud, other, "joins-1", "joins-2")
	release()
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Client(t), "default", "joins"))
	calls := kept.of(service)
	if len(calls) < 4 {
		t.Fatalf("there were %d calls, want at least 4", len(calls))
	}
	if calls[0].nodes != "joins-1" {
		t.Errorf("the first call has the nodes %s", calls[0].nodes)
	}
	for i, call := range calls[1:] {
		if call.nodes != "joins-1 joins-2" {
			t.Errorf("call %d, %s, has the nodes %s", i+2, call.method, call.nodes)
		}
	}
}

// The condition Ready of the node without a network has no time, so only the network keeps the node
// out. The Manager has seen the node when the later one is a member.
func TestService_NewNodeHasNoNetwork_IsNoMemberUntilReady(t *testing.T) {
	t.Parallel()
	cloud, client := newCloud(t, nil), shared.Client(t)
	runServiceLB(t, cloud)
	ccmtest.CreateNode(t, client, ccmtest.ReadyNode("network-1"))
	service := keyOf(createLoadBalancer(t, "network"))
	waitMembers(t, cloud, service, "network-1")
	ccmtest.CreateNode(t, client, ccmtest.ReadyNode("network-2", ccmtest.NodeNotReady(),
		func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue,
				Reason: "NoRouteCreated",
			})
		}))
	ccmtest.CreateNode(t, client, ccmtest.ReadyNode("network-3"))
	waitMembers(t, cloud, service, "network-1", "network-3")
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"},
		{"type":"NetworkUnavailable","status":"False"}]}}`)
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), "network-2",
		types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	waitMembers(t, cloud, service, "network-1", "network-2", "network-3")
}

// The Manager has seen the node when the other load balancer has it.
func TestService_NodeJoinsDuringADeletion_NoUpdateArrives(t *testing.T) {
	t.Parallel()
	cloud, kept := newCloud(t, nil), &balancerCalls{}
	m := runServiceLB(t, cloud, kept.wrap)
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("deletion-1"))
	service := keyOf(createLoadBalancer(t, "deletion"))
	other := keyOf(createLoadBalancer(t, "deletion-other"))
	for _, name := range []string{service, other} {
		waitMembers(t, cloud, name, "deletion-1")
	}

	release := cloud.On("EnsureLoadBalancerDeleted").For(service).Hang()
	deleteService(t, "deletion")
	waitCalls(t, cloud, "the deletion begins", 1, callsOf("EnsureLoadBalancerDeleted", service))
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("deletion-2"))
	waitMembers(t, cloud, other, "deletion-1", "deletion-2")
	release()
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Services("default").Get, "deletion"))
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	calls := kept.of(service)
	begun := slices.IndexFunc(calls, func(c balancerCall) bool {
		return c.method == "EnsureLoadBalancerDeleted"
	})
	for _, call := range calls[begun+1:] {
		t.Errorf("after the deletion began, there was %s with the nodes %s", call.method,
			call.nodes)
	}
}
