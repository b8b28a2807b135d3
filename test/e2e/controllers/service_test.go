package controllers_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// runServiceLB runs the service controller alone, and returns when it has dealt with the nodes that
// exist. Upstream's controller reads in its node worker, without a lock, what its service workers
// write. So tests that are to pass with the race detector create their nodes before they call this
// and their Services afterwards, and leave the nodes alone; the others are in churn_test.go.
func runServiceLB(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	const passes = "service_controller_nodesync_latency_seconds"
	nodes, err := shared.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := metric(t, passes, nil)
	r := run(t, cloud, append([]func(*ccm.Params){only("service")}, change...)...)
	ccmtest.Eventually(t, "the service controller knows the nodes",
		func(context.Context) (float64, error) {
			n := metric(t, passes, nil) - before
			if n < float64(len(nodes.Items)) {
				return n, fmt.Errorf("%v of %d nodes are dealt with", n, len(nodes.Items))
			}
			return n, nil
		})
	return r
}

func serviceWorkers(n int32) func(*ccm.Params) {
	return func(p *ccm.Params) { p.Config.Service.ConcurrentSyncs = n }
}

// settle waits until all Services have been dealt with that were queued before it was called, if
// there is one service worker: the queue is a line then. A Service that is changed while it is
// dealt with goes to the end of the line once more, hence the second round.
func settle(t *testing.T, cloud *fake.Cloud) *corev1.Service {
	t.Helper()
	var last *corev1.Service
	for range 2 {
		last = bystander(t, cloud)
	}
	return last
}

// bystander creates a Service and waits until its load balancer is ensured.
func bystander(t *testing.T, cloud *fake.Cloud) *corev1.Service {
	t.Helper()
	service := ccmtest.LoadBalancerService("")
	service.GenerateName = "bystander-"
	service = ccmtest.CreateService(t, shared.Client(t), service)
	ccmtest.WaitCall(t, cloud, "the load balancer of a bystander is ensured",
		fake.CallFilter{
			Method: fake.EnsureLoadBalancer, Object: keyOf(service),
			Finished: true,
		}.Matches)
	return service
}

func keyOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

func createLoadBalancer(t *testing.T, name string, opts ...ccmtest.ServiceOption) *corev1.Service {
	t.Helper()
	service := ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService(name, opts...))
	ccmtest.WaitServiceAddress(t, shared.Client(t), service.Namespace, name)
	return service
}

func getService(t *testing.T, name string) *corev1.Service {
	t.Helper()
	service, err := shared.Client(t).CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(),
		name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// editService changes a Service as its owner.
func editService(t *testing.T, name string, edit func(*corev1.Service)) {
	t.Helper()
	services := shared.Client(t).CoreV1().Services(metav1.NamespaceDefault)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		service, err := services.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(service)
		_, err = services.Update(t.Context(), service, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("edit Service %s: %v", name, err)
	}
}

func annotate(value string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "example.org/edit", value)
	}
}

func deleteService(t *testing.T, name string) {
	t.Helper()
	if err := shared.Client(t).CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// servicePatches waits for n requests of the CCM that may have changed the Service, and returns all
// there are, each as verb, resource and code.
func servicePatches(t *testing.T, since controlplane.Mark, name string, n int) []string {
	t.Helper()
	records := waitRequests(t, since, n, controlplane.Mutating(), controlplane.ByName(name))
	slices.SortStableFunc(records,
		func(a, b controlplane.AuditRecord) int { return a.Time.Compare(b.Time) })
	var texts []string
	for _, r := range records {
		texts = append(texts, fmt.Sprintf("%s %s %d", r.Verb, r.ResourcePath(), r.Code))
	}
	return texts
}

// serviceEvents are the service controller's events about this very Service, in the order in which
// they were recorded first: their names end with that time in nanoseconds. The API server also has
// something to say at times, of cluster IPs that it has to repair.
func serviceEvents(ctx context.Context, service *corev1.Service) ([]corev1.Event, error) {
	selector := fields.Set{
		"involvedObject.kind": "Service",
		"involvedObject.uid":  string(service.UID),
		"source":              "service-controller",
	}.AsSelector().String()
	list, err := shared.Admin.CoreV1().Events(service.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// waitServiceEvents waits until the events about the Service are these, each as type and reason,
// and returns them. Repetitions count as one.
func waitServiceEvents(t *testing.T, service *corev1.Service, want ...string) []corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t,
		fmt.Sprintf("the events about Service %s are %q", service.Name, want),
		func(ctx context.Context) ([]corev1.Event, error) {
			events, err := serviceEvents(ctx, service)
			if err != nil {
				return nil, err
			}
			var got []string
			for _, e := range events {
				got = append(got, e.Type+" "+e.Reason)
			}
			if !slices.Equal(got, want) {
				return nil, fmt.Errorf("they are %q", got)
			}
			return events, nil
		})
}

// waitServiceEvent waits for one event of the reason.
func waitServiceEvent(t *testing.T, service *corev1.Service, reason string) corev1.Event {
	t.Helper()
	return ccmtest.Eventually(t,
		fmt.Sprintf("there is an event %s about Service %s", reason, service.Name),
		func(ctx context.Context) (corev1.Event, error) {
			events, err := serviceEvents(ctx, service)
			if err != nil {
				return corev1.Event{}, err
			}
			for _, e := range events {
				if e.Reason == reason {
					return e, nil
				}
			}
			return corev1.Event{}, fmt.Errorf("the events are %v", events)
		})
}

// mutatingCalls are the methods that changed the cloud for a Service, in the order of the calls.
func mutatingCalls(cloud *fake.Cloud, service string) []fake.Method {
	var methods []fake.Method
	for _, call := range cloud.Calls(fake.CallFilter{Object: service, Mutating: true}.Matches) {
		methods = append(methods, call.Method)
	}
	return methods
}

func TestService_OnlyThoseOfTypeLoadBalancerWithoutAClassGetOne(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, serviceWorkers(1))
	mark := shared.Audit().Mark()
	unwanted := map[string]func(*corev1.Service){
		"kind-clusterip": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
		"kind-nodeport":  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		"kind-external": func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{
				Type:         corev1.ServiceTypeExternalName,
				ExternalName: "example.org",
			}
		},
		"kind-class": ccmtest.ServiceClass("example.org/other"),
	}
	for name, opt := range unwanted {
		ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService(name, opt))
	}
	createLoadBalancer(t, "kind-loadbalancer")
	// Nor do their changes count.
	for name := range unwanted {
		editService(t, name, annotate("changed"))
	}
	settle(t, cloud)

	for name := range unwanted {
		if calls := cloud.Calls(fake.CallFilter{Object: "default/" + name}.Matches); len(
			calls) > 0 {
			t.Errorf("the cloud was called about %s: %+v", name, calls[0])
		}
		if r := requests(t, mark, controlplane.ByName(name)); len(r) > 0 {
			t.Errorf("%s was touched: %s", name, r[0])
		}
	}
}

// Otherwise a Service could go while its load balancer stays, and nobody would delete that any
// more.
func TestService_FinalizerStandsFromBeforeTheFirstCallUntilAfterTheLast(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	ensuring := cloud.On(fake.EnsureLoadBalancer).Hang()
	deleting := cloud.On(fake.EnsureLoadBalancerDeleted).Hang()
	runServiceLB(t, cloud)
	mark := shared.Audit().Mark()
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("finalizer"))

	ccmtest.WaitCall(t, cloud, "the load balancer is being made",
		callsOf(fake.EnsureLoadBalancer, "default/finalizer"))
	if s := getService(t, "finalizer"); !servicehelpers.HasLBFinalizer(s) ||
		len(s.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("while the load balancer is being made the finalizers are %v and the status %+v",
			s.Finalizers, s.Status)
	}
	ensuring()
	ccmtest.WaitServiceAddress(t, shared.Client(t), "default", "finalizer")

	deleteService(t, "finalizer")
	ccmtest.WaitCall(t, cloud, "the load balancer is being deleted",
		callsOf(fake.EnsureLoadBalancerDeleted, "default/finalizer"))
	if s := getService(t, "finalizer"); !servicehelpers.HasLBFinalizer(s) {
		t.Errorf("while the load balancer is being deleted the finalizers are %v", s.Finalizers)
	}
	deleting()
	ccmtest.WaitServiceGone(t, shared.Client(t), "default", "finalizer")

	if got, want := mutatingCalls(cloud, "default/finalizer"),
		[]fake.Method{fake.EnsureLoadBalancer, fake.EnsureLoadBalancerDeleted}; !slices.Equal(got,
		want) {
		t.Errorf("the cloud was changed by %v, want %v", got, want)
	}
	// Finalizer, address, finalizer; and then upstream clears the status of the Service that is
	// gone, and takes no offence.
	want := []string{
		"patch services/status 200", "patch services/status 200",
		"patch services/status 200", "patch services/status 404",
	}
	if got := servicePatches(t, mark, "finalizer", len(want)); !slices.Equal(got, want) {
		t.Errorf("requests that changed the Service: %q, want %q", got, want)
	}
}

// The load balancer would be made without anything that makes sure it is deleted again.
func TestService_WhenTheFinalizerCanNotBeSet_TheCloudIsNotCalled(t *testing.T) {
	t.Parallel()
	const user = "may-not-patch-services"
	identity, err := shared.ControlPlane.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, "test-service-reader",
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"nodes", "services"},
			Verbs: []string{"list", "watch"},
		}, user)
	grant(t, "test-service-events",
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"events"},
			Verbs: []string{"create", "patch"},
		}, user)
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, func(p *ccm.Params) {
		p.RESTConfig = suite.Confine(t, identity)
	})
	service := ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("forbidden"))
	event := waitServiceEvent(t, service, "SyncLoadBalancerFailed")
	if !strings.Contains(event.Message, "failed to add load balancer cleanup finalizer") ||
		!strings.Contains(event.Message, "forbidden") {
		t.Errorf("the event says %q", event.Message)
	}
	if calls := cloud.Calls(fake.CallFilter{Interface: fake.LoadBalancer}.Matches); len(calls) > 0 {
		t.Errorf("the cloud was called: %+v", calls)
	}
}

func TestService_EventsTellWhatBecomesOfItsLoadBalancer(t *testing.T) {
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("events-node"))
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)

	good := createLoadBalancer(t, "events-good")
	waitServiceEvents(t, good, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")
	deleteService(t, good.Name)
	waitServiceEvents(t, good, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")

	cloud.On(fake.EnsureLoadBalancer).For("default/events-bad").Times(1).Fail(
		errors.New("quota exceeded"))
	bad := createLoadBalancer(t, "events-bad")
	events := waitServiceEvents(t, bad, "Normal EnsuringLoadBalancer",
		"Warning SyncLoadBalancerFailed", "Normal EnsuredLoadBalancer")
	if got, want := events[1].Message,
		"Error syncing load balancer: failed to ensure load balancer: quota exceeded"; got != want {
		t.Errorf("the failure is told as %q, want %q", got, want)
	}
}

// answeringMode lets the cloud tell what kind of address a load balancer has, or nothing about it.
func answeringMode(cloud *fake.Cloud, mode *corev1.LoadBalancerIPMode) func(*ccm.Params) {
	return func(p *ccm.Params) {
		p.Providers = []ccm.Provider{{
			Name: "fake",
			New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
				return modeCloud{cloud.Provider(), mode}, nil
			},
		}}
	}
}

type modeCloud struct {
	cloudprovider.Interface
	mode *corev1.LoadBalancerIPMode
}

func (c modeCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancers, ok := c.Interface.LoadBalancer()
	return modeBalancers{balancers, c.mode}, ok
}

type modeBalancers struct {
	cloudprovider.LoadBalancer
	mode *corev1.LoadBalancerIPMode
}

func (b modeBalancers) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	status, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	if status != nil {
		for i := range status.Ingress {
			status.Ingress[i].IPMode = b.mode
		}
	}
	return status, err
}

// The API server completes an address without a mode by the mode VIP. Upstream compares what the
// cloud says with that, so to a cloud that says nothing of the mode each status looks changed. The
// write then changes nothing.
func TestService_StatusIsWrittenOnlyWhenTheAddressesChange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mode   *corev1.LoadBalancerIPMode
		writes int // by a pass that finds the same address
	}{
		"status-mode":    {ptr.To(corev1.LoadBalancerIPModeVIP), 0},
		"status-no-mode": {nil, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, nil)
			runServiceLB(t, cloud, serviceWorkers(1), answeringMode(cloud, test.mode))
			mark := shared.Audit().Mark()
			ensures := callsOf(fake.EnsureLoadBalancer, "default/"+name)
			createLoadBalancer(t, name)
			before := getService(t, name)
			if b, _ := cloud.LoadBalancer("default/" + name); !slices.Equal(addressesOf(before),
				b.Ingress) {
				t.Errorf("the status has the addresses %v, the load balancer %v",
					addressesOf(before), b.Ingress)
			}
			wantPatches := func(n int) {
				t.Helper()
				want := slices.Repeat([]string{"patch services/status 200"}, n)
				if got := servicePatches(t, mark, name, n); !slices.Equal(got, want) {
					t.Errorf("requests that changed the Service: %q, want %q", got, want)
				}
			}
			wantPatches(2) // finalizer, address

			editService(t, name, annotate("same address"))
			edited := getService(t, name).ResourceVersion
			waitCalls(t, cloud, "the load balancer is ensured again", 2, ensures)
			settle(t, cloud)
			wantPatches(2 + test.writes)
			if now := getService(t, name).ResourceVersion; now != edited {
				t.Errorf(
					"the Service is at version %s, it was at %s before its load balancer was ensured again", now, edited)
			}

			editService(t, name, func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
			})
			ccmtest.WaitService(t, shared.Client(t), "default", name,
				"the Service has both addresses", func(s *corev1.Service) error {
					if b, _ := cloud.LoadBalancer("default/" + name); len(b.Ingress) != 2 ||
						!slices.Equal(addressesOf(s), b.Ingress) {
						return fmt.Errorf("it has %v, the load balancer %v", addressesOf(s),
							b.Ingress)
					}
					return nil
				})
			wantPatches(3 + test.writes)
		})
	}
}

func addressesOf(s *corev1.Service) []string {
	var addresses []string
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		addresses = append(addresses, ingress.IP)
	}
	return addresses
}

func TestService_ChangesThatMatterToALoadBalancer(t *testing.T) {
	t.Parallel()
	port := func(s *corev1.Service) *corev1.ServicePort { return &s.Spec.Ports[0] }
	tests := map[string]struct {
		before  func(*corev1.Service)
		change  func(*corev1.Service)
		matters bool
	}{
		"source-ranges":  {nil, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }, true},
		"port-name":      {nil, func(s *corev1.Service) { port(s).Name = "renamed" }, true},
		"port-protocol":  {nil, func(s *corev1.Service) { port(s).Protocol = corev1.ProtocolUDP }, true},
		"port-number":    {nil, func(s *corev1.Service) { port(s).Port = 81 }, true},
		"port-node":      {nil, func(s *corev1.Service) { port(s).NodePort = 30011 }, true},
		"port-target":    {nil, func(s *corev1.Service) { port(s).TargetPort = intstr.FromInt32(8080) }, true},
		"port-app":       {nil, func(s *corev1.Service) { port(s).AppProtocol = ptr.To("http") }, true},
		"port-added":     {nil, func(s *corev1.Service) { ccmtest.ServicePorts(80, 443)(s) }, true},
		"affinity":       {nil, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, true},
		"affinity-time":  {clientIPFor(600), clientIPFor(900), true},
		"ip":             {nil, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.200" }, true},
		"external-ips":   {nil, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.7"} }, true},
		"external-ip":    {externalIP("198.51.100.8"), externalIP("198.51.100.9"), true},
		"annotation":     {nil, annotate("any"), true},
		"traffic-policy": {nil, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }, true},
		"ip-families":    {nil, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack) }, true},
		"type": {func(s *corev1.Service) {
			s.Spec.Type = corev1.ServiceTypeNodePort
		}, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }, true},

		"label":    {nil, func(s *corev1.Service) { s.Labels["team"] = "red" }, false},
		"selector": {nil, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }, false},
		"internal-policy": {nil, func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}, false},
		"not-ready":     {nil, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }, false},
		"no-node-ports": {nil, func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false) }, false},
	}
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, serviceWorkers(1))
	ensured := func(name string) int {
		return len(cloud.Calls(callsOf(fake.EnsureLoadBalancer, "default/change-"+name)))
	}
	wanted := map[string]int{}
	for name, test := range tests {
		service := ccmtest.LoadBalancerService("change-" + name)
		if test.before != nil {
			test.before(service)
		}
		ccmtest.CreateService(t, shared.Client(t), service)
	}
	settle(t, cloud)
	for name, test := range tests {
		wanted[name] = ensured(name)
		if test.matters {
			wanted[name]++
		}
		editService(t, "change-"+name, test.change)
	}
	settle(t, cloud)
	for name, want := range wanted {
		if got := ensured(name); got != want {
			t.Errorf("%s: the load balancer was ensured %d times, want %d", name, got, want)
		}
	}
}

func clientIPFor(seconds int32) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func externalIP(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ExternalIPs = []string{ip} }
}

func TestService_NodesOfALoadBalancer(t *testing.T) {
	exclude := func(value string) ccmtest.NodeOption {
		return ccmtest.NodeLabel(corev1.LabelNodeExcludeBalancers, value)
	}
	tests := map[string]struct {
		opts   []ccmtest.NodeOption
		member bool
	}{
		"member-ready":     {nil, true},
		"member-not-ready": {[]ccmtest.NodeOption{ccmtest.NodeNotReady()}, true},
		"member-cordoned":  {[]ccmtest.NodeOption{func(n *corev1.Node) { n.Spec.Unschedulable = true }}, true},
		"member-uninitialised": {
			[]ccmtest.NodeOption{ccmtest.NodeTaint(
				cloudproviderapi.TaintExternalCloudProvider, "true", corev1.TaintEffectNoSchedule)},
			true,
		},
		"member-label-false": {[]ccmtest.NodeOption{exclude("false")}, true},
		"member-label-true":  {[]ccmtest.NodeOption{exclude("true")}, false},
		"member-label-empty": {[]ccmtest.NodeOption{exclude("")}, false},
		"member-label-word":  {[]ccmtest.NodeOption{exclude("please")}, false},
		"member-scaled-down": {[]ccmtest.NodeOption{ccmtest.NodeTaint("ToBeDeletedByClusterAutoscaler", "", corev1.TaintEffectNoSchedule)}, false},
		"member-deleted":     {[]ccmtest.NodeOption{func(n *corev1.Node) { n.Finalizers = []string{"example.org/hold"} }}, false},
	}
	var want []string
	for name, test := range tests {
		ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(name, test.opts...))
		if test.member {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	t.Cleanup(func() { patchNode(t, "member-deleted", `{"metadata":{"finalizers":null}}`) })
	if err := shared.Client(t).CoreV1().Nodes().Delete(t.Context(), "member-deleted",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	createLoadBalancer(t, "members")
	if balancer, _ := cloud.LoadBalancer("default/members"); !slices.Equal(balancer.Members, want) {
		t.Errorf("the load balancer has the nodes %v, want %v", balancer.Members, want)
	}
}

func TestService_WithoutNodes_GetsALoadBalancerAndAWarning(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	service := createLoadBalancer(t, "nodeless")
	events := waitServiceEvents(t, service, "Normal EnsuringLoadBalancer",
		"Warning UnAvailableLoadBalancer", "Normal EnsuredLoadBalancer")
	if got, want := events[1].Message,
		"There are no available nodes for LoadBalancer"; got != want {
		t.Errorf("the warning says %q, want %q", got, want)
	}
	if balancer, _ := cloud.LoadBalancer("default/nodeless"); len(balancer.Members) > 0 {
		t.Errorf("the load balancer has the nodes %v", balancer.Members)
	}
}

func TestService_AsManyAreDealtWithAtOnceAsConfigured(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	release := cloud.On(fake.EnsureLoadBalancer).Hang()
	runServiceLB(t, cloud, serviceWorkers(3))
	for i := range 7 {
		ccmtest.CreateService(t, shared.Client(t),
			ccmtest.LoadBalancerService(fmt.Sprintf("parallel-%d", i)))
	}
	waitInFlight(t, cloud, 3)
	release()
	waitCalls(t, cloud, "all load balancers are ensured", 7,
		fake.CallFilter{Method: fake.EnsureLoadBalancer, Finished: true}.Matches)
	if most := mostInFlight(cloud); most != 3 {
		t.Errorf("up to %d load balancers were ensured at once, want 3", most)
	}
}

func TestService_OneIsNeverDealtWithTwiceAtOnce(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	release := cloud.On(fake.EnsureLoadBalancer).For("default/twice").Hang()
	runServiceLB(t, cloud, serviceWorkers(4))
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("twice"))
	ensures := callsOf(fake.EnsureLoadBalancer, "default/twice")
	waitCalls(t, cloud, "the load balancer is being made", 1, ensures)
	for _, value := range []string{"first", "second", "third"} {
		editService(t, "twice", annotate(value))
	}
	bystander(t, cloud)
	if calls := cloud.Calls(ensures); len(calls) != 1 {
		t.Errorf("the load balancer is ensured %d times at once", len(calls))
	}

	// What happened meanwhile is one more pass, with the last state.
	release()
	waitCalls(t, cloud, "the changes arrive in the cloud", 2, ensures)
	ccmtest.WaitCloud(t, cloud, "the load balancer has the last annotation", func() error {
		if b, _ := cloud.LoadBalancer(
			"default/twice"); b.Annotations["example.org/edit"] != "third" {
			return fmt.Errorf("it has %v", b.Annotations)
		}
		return nil
	})
	for range 2 {
		bystander(t, cloud)
	}
	if calls := cloud.Calls(ensures); len(calls) != 2 {
		t.Errorf("the load balancer was ensured %d times, want twice", len(calls))
	}
}

// Nobody knows what became of them while no CCM ran.
func TestService_AtEachStartEveryOneIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	r := runServiceLB(t, cloud)
	names := []string{"restart-kept", "restart-changed", "restart-deleted", "restart-retyped"}
	for _, name := range names {
		createLoadBalancer(t, name)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	cloud.ResetCalls()
	kept := getService(t, "restart-kept")
	editService(t, "restart-changed", annotate("while nobody looked"))
	deleteService(t, "restart-deleted")
	editService(t, "restart-retyped",
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })

	runServiceLB(t, cloud)
	ccmtest.WaitServiceGone(t, shared.Client(t), "default", "restart-deleted")
	ccmtest.WaitService(t, shared.Client(t), "default", "restart-retyped", "the finalizer is gone",
		withoutFinalizer)
	for _, name := range names[:2] {
		ccmtest.WaitCall(t, cloud, "the load balancer is ensured",
			fake.CallFilter{
				Method: fake.EnsureLoadBalancer, Object: "default/" + name,
				Finished: true,
			}.Matches)
	}
	if b, _ := cloud.LoadBalancer(
		"default/restart-changed"); b.Annotations["example.org/edit"] == "" {
		t.Errorf("the change did not arrive in the cloud: %+v", b)
	}
	for range 2 {
		bystander(t, cloud)
	}
	for name, want := range map[string][]fake.Method{
		"restart-kept":    {fake.EnsureLoadBalancer},
		"restart-changed": {fake.EnsureLoadBalancer},
		"restart-deleted": {fake.EnsureLoadBalancerDeleted},
		"restart-retyped": {fake.EnsureLoadBalancerDeleted},
	} {
		if got := mutatingCalls(cloud, "default/"+name); !slices.Equal(got, want) {
			t.Errorf("for %s the cloud was changed by %v, want %v", name, got, want)
		}
	}
	if s := getService(t, "restart-kept"); s.ResourceVersion != kept.ResourceVersion {
		t.Errorf("a Service that is as it was is at version %s, it was at %s", s.ResourceVersion,
			kept.ResourceVersion)
	}
}

func withoutFinalizer(s *corev1.Service) error {
	if s == nil {
		return errors.New("it does not exist")
	}
	if servicehelpers.HasLBFinalizer(s) {
		return fmt.Errorf("its finalizers are %v", s.Finalizers)
	}
	return nil
}
