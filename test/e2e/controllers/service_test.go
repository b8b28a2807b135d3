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

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// runServiceLB runs the service controller alone.
func runServiceLB(t *testing.T, cloud *fake.Cloud, change ...func(*ccm.Params)) *replica {
	t.Helper()
	return run(t, cloud, append([]func(*ccm.Params){only("service")}, change...)...)
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
