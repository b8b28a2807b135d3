package controllers_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/retry"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// runServiceLB runs the service controller alone, and returns when it has handled the existing
// nodes. Upstream's node worker reads without a lock what its service workers write. So tests that
// must pass with the race detector create their nodes before this call and their Services
// afterwards, and do not change the nodes; the others are in churn_test.go.
func runServiceLB(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	const passes = "service_controller_nodesync_latency_seconds"
	nodes, err := shared.Client(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := metric(t, passes)
	r := run(t, cloud, append([]func(*ccm.Params){only("service")}, change...)...)
	ccmtest.Eventually(t, "the service controller knows the nodes",
		func(context.Context) (float64, error) {
			n := metric(t, passes) - before
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

// settle waits until all Services that were queued before have been handled. This needs a single
// service worker, so that the queue is sequential. A Service that changes while it is handled is
// queued again at the end, hence the second round.
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
	ccmtest.Eventually(t, "the load balancer of a bystander is ensured",
		ccmtest.Called(cloud, fake.CallFilter{
			Method: fake.EnsureLoadBalancer, Object: keyOf(service),
			Finished: true,
		}.Matches))
	return service
}

func keyOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

func createLoadBalancer(t *testing.T, name string, opts ...ccmtest.ServiceOption) *corev1.Service {
	t.Helper()
	service := ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService(name, opts...))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Client(t), service.Namespace, name))
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
// of them, each as verb, resource and code.
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

// serviceEvents are the service controller's events about exactly this Service, in the order of
// their first record: their names end with that time in nanoseconds. The API server may also record
// events, about repaired cluster IPs.
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

// mutatingCalls are the methods that changed the cloud for a Service, in the order of the calls.
func mutatingCalls(cloud *fake.Cloud, service string) []fake.Method {
	var methods []fake.Method
	for _, call := range cloud.Calls(fake.CallFilter{Object: service, Mutating: true}.Matches) {
		methods = append(methods, call.Method)
	}
	return methods
}

func TestService_OnlyTypeLoadBalancerWithoutAClass_GetsALoadBalancer(t *testing.T) {
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
	// Changes of these Services have no effect either.
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

// Otherwise a Service could be deleted while its load balancer exists, and no controller would
// delete the load balancer any more.
func TestService_FinalizerStandsFromBeforeTheFirstCallUntilAfterTheLast(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	ensuring := cloud.On(fake.EnsureLoadBalancer).Hang()
	deleting := cloud.On(fake.EnsureLoadBalancerDeleted).Hang()
	runServiceLB(t, cloud)
	mark := shared.Audit().Mark()
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("finalizer"))

	ccmtest.Eventually(t, "the load balancer is being made",
		ccmtest.Called(cloud, callsOf(fake.EnsureLoadBalancer, "default/finalizer")))
	if s := getService(t, "finalizer"); !servicehelpers.HasLBFinalizer(s) ||
		len(s.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("while the load balancer is being made the finalizers are %v and the status %+v",
			s.Finalizers, s.Status)
	}
	ensuring()
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(shared.Client(t), "default", "finalizer"))

	deleteService(t, "finalizer")
	ccmtest.Eventually(t, "the load balancer is being deleted",
		ccmtest.Called(cloud, callsOf(fake.EnsureLoadBalancerDeleted, "default/finalizer")))
	if s := getService(t, "finalizer"); !servicehelpers.HasLBFinalizer(s) {
		t.Errorf("while the load balancer is being deleted the finalizers are %v", s.Finalizers)
	}
	deleting()
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Services("default").Get, "finalizer"))

	if got, want := mutatingCalls(cloud, "default/finalizer"),
		[]fake.Method{fake.EnsureLoadBalancer, fake.EnsureLoadBalancerDeleted}; !slices.Equal(got,
		want) {
		t.Errorf("the cloud was changed by %v, want %v", got, want)
	}
	// The order is finalizer, address, finalizer. Upstream then clears the status of the deleted
	// Service, and ignores the error.
	want := []string{
		"patch services/status 200", "patch services/status 200",
		"patch services/status 200", "patch services/status 404",
	}
	if got := servicePatches(t, mark, "finalizer", len(want)); !slices.Equal(got, want) {
		t.Errorf("requests that changed the Service: %q, want %q", got, want)
	}
}

func TestService_LoadBalancerChanges_EventsReportIt(t *testing.T) {
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("events-node"))
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)

	good := createLoadBalancer(t, "events-good")
	waitServiceEvents(t, good, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")
	deleteService(t, good.Name)
	waitServiceEvents(t, good, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
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
