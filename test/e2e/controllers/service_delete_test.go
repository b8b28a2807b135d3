package controllers_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

func waitNoLoadBalancer(t *testing.T, cloud *fake.Cloud, service string) {
	t.Helper()
	ccmtest.WaitCloud(t, cloud, "the load balancer of "+service+" is gone", func() error {
		if b, ok := cloud.LoadBalancer(service); ok {
			return fmt.Errorf("there is %+v", b)
		}
		return nil
	})
}

// withFinalizer makes a Service whose load balancer another CCM has made.
func withFinalizer(s *corev1.Service) {
	s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
}

func TestService_WhenItsTypeChanges_LosesItsLoadBalancerAndGetsANewOne(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	service := createLoadBalancer(t, "retyped")

	editService(t, "retyped", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	after := ccmtest.WaitService(t, shared.Client(t), "default", "retyped", "the finalizer is gone",
		withoutFinalizer)
	if _, ok := cloud.LoadBalancer("default/retyped"); ok ||
		len(after.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("as a ClusterIP it has the status %+v, and a load balancer: %t", after.Status, ok)
	}
	waitServiceEvents(t, service, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer",
		"Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")

	editService(t, "retyped",
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
	ccmtest.WaitServiceAddress(t, shared.Client(t), "default", "retyped")
	want := []fake.Method{
		fake.EnsureLoadBalancer, fake.EnsureLoadBalancerDeleted,
		fake.EnsureLoadBalancer,
	}
	if got := mutatingCalls(cloud, "default/retyped"); !slices.Equal(got, want) {
		t.Errorf("the cloud was changed by %v, want %v", got, want)
	}
}

func TestService_WhenTheCloudHasNoLoadBalancerToDelete_IsLetGo(t *testing.T) {
	t.Parallel()
	service := ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService("orphan", withFinalizer))
	deleteService(t, service.Name)
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	ccmtest.WaitServiceGone(t, shared.Client(t), "default", "orphan")
	waitServiceEvents(t, service, "Normal DeletedLoadBalancer")
	var methods []fake.Method
	for _, call := range cloud.Calls(fake.CallFilter{Object: "default/orphan"}.Matches) {
		methods = append(methods, call.Method)
	}
	if !slices.Equal(methods, []fake.Method{fake.GetLoadBalancer}) {
		t.Errorf("the cloud was called by %v, want GetLoadBalancer alone", methods)
	}
}

func TestService_WhenItsLoadBalancerCanNotBeDeleted_StaysWithItsFinalizer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method fake.Method
		says   string
	}{
		"stays-delete": {fake.EnsureLoadBalancerDeleted, "Error syncing load balancer: failed to delete load balancer: the API is down"},
		"stays-get":    {fake.GetLoadBalancer, "Error syncing load balancer: failed to check if load balancer exists before cleanup: the API is down"},
	}
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, serviceWorkers(1))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cloud.On(test.method).For("default/" + name).Fail(errors.New("the API is down"))
			service := createLoadBalancer(t, name)
			deleteService(t, name)
			if e := waitServiceEvent(t, service,
				"SyncLoadBalancerFailed"); e.Message != test.says ||
				e.Type != corev1.EventTypeWarning {
				t.Errorf("%s event %q, want the Warning %q", e.Type, e.Message, test.says)
			}
			settle(t, cloud)
			if s := getService(t, name); !servicehelpers.HasLBFinalizer(s) {
				t.Errorf("its finalizers are %v", s.Finalizers)
			}
			if _, ok := cloud.LoadBalancer("default/" + name); !ok {
				t.Error("the load balancer is gone")
			}
		})
	}
}

// vanish creates a Service and deletes it past its finalizer while its load balancer is being made,
// and returns when the service controller must have seen that. release lets the load balancer be
// made.
func vanish(
	t *testing.T, cloud *fake.Cloud, name string,
) (service *corev1.Service, release func()) {
	t.Helper()
	release = cloud.On(fake.EnsureLoadBalancer).For("default/" + name).Hang()
	service = ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService(name))
	ccmtest.WaitCall(t, cloud, "the load balancer is being made",
		callsOf(fake.EnsureLoadBalancer, keyOf(service)))
	// Upstream does not look at deletions. It is the annotation that makes it come back to the
	// Service, which it has in memory.
	editService(t, name, func(s *corev1.Service) {
		s.Finalizers = nil
		annotate("farewell")(s)
	})
	deleteService(t, name)
	ccmtest.WaitServiceGone(t, shared.Client(t), service.Namespace, name)
	return service, release
}

func TestService_WhenItVanishesPastItsFinalizer_ItsLoadBalancerIsDeletedFromMemory(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	// Upstream flattens this error on the way of the finalizer, but not here: it is retried when
	// the cloud says.
	cloud.On(fake.EnsureLoadBalancerDeleted).For("default/vanished").Times(1).Fail(
		cloudproviderapi.NewRetryError("in use", time.Millisecond))
	runServiceLB(t, cloud)
	service, release := vanish(t, cloud, "vanished")
	bystander(t, cloud)
	release()
	waitCalls(t, cloud, "the load balancer is deleted", 2,
		callsOf(fake.EnsureLoadBalancerDeleted, "default/vanished"))
	waitNoLoadBalancer(t, cloud, "default/vanished")
	waitServiceEvents(t, service, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer",
		"Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
}

// On the way of the finalizer the same answer counts as a deletion.
func TestService_WhenItVanishesPastItsFinalizer_ImplementedElsewhereIsAnError(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	cloud.On(fake.EnsureLoadBalancerDeleted).For("default/vanished-elsewhere").Fail(
		cloudprovider.ImplementedElsewhere)
	runServiceLB(t, cloud)
	service, release := vanish(t, cloud, "vanished-elsewhere")
	bystander(t, cloud)
	release()
	if e := waitServiceEvent(t, service,
		"DeleteLoadBalancerFailed"); e.Type != corev1.EventTypeWarning ||
		!strings.Contains(e.Message, cloudprovider.ImplementedElsewhere.Error()) {
		t.Errorf("%s event %q", e.Type, e.Message)
	}
}

func TestService_WhenAnotherOneTakesItsName_TheOldLoadBalancerIsDeletedFirst(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	old, release := vanish(t, cloud, "namesake")
	service := ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService("namesake"))
	bystander(t, cloud)
	release()

	// Before that it has the address of the old one: upstream's patch of the status carries no UID.
	ccmtest.WaitService(t, shared.Client(t), "default", "namesake",
		"the new Service has the address of its own load balancer", func(s *corev1.Service) error {
			if b, _ := cloud.LoadBalancer("default/namesake"); b.UID != service.UID || s == nil ||
				!slices.Equal(addressesOf(s), b.Ingress) {
				return fmt.Errorf("the load balancer is %+v", b)
			}
			return nil
		})
	want := []fake.Method{
		fake.EnsureLoadBalancer, fake.EnsureLoadBalancerDeleted,
		fake.EnsureLoadBalancer,
	}
	if got := mutatingCalls(cloud, "default/namesake"); !slices.Equal(got, want) {
		t.Errorf("the cloud was changed by %v, want %v", got, want)
	}
	for _, b := range cloud.LoadBalancers() {
		if b.UID == old.UID {
			t.Errorf("the load balancer of the old Service is still there: %+v", b)
		}
	}
	waitServiceEvents(t, old, "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer",
		"Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
}
