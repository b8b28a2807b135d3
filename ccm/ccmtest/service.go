package ccmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/internal/waittest"
)

// A ServiceOption changes the Service of [LoadBalancerService].
type ServiceOption func(*corev1.Service)

// LoadBalancerService is a Service of type LoadBalancer with the port 80, in the namespace default.
func LoadBalancerService(name string, opts ...ServiceOption) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{servicePort(80)},
		},
	}
	for _, opt := range opts {
		opt(service)
	}
	return service
}

// ServiceNamespace sets the namespace, which must exist.
func ServiceNamespace(namespace string) ServiceOption {
	return func(s *corev1.Service) { s.Namespace = namespace }
}

// ServicePorts sets the TCP ports.
func ServicePorts(ports ...int32) ServiceOption {
	return func(s *corev1.Service) {
		s.Spec.Ports = nil
		for _, port := range ports {
			s.Spec.Ports = append(s.Spec.Ports, servicePort(port))
		}
	}
}

// ServiceAnnotation sets an annotation.
func ServiceAnnotation(key, value string) ServiceOption {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

// ServiceClass sets spec.loadBalancerClass: the service controller ignores such a Service.
func ServiceClass(class string) ServiceOption {
	return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }
}

func servicePort(port int32) corev1.ServicePort {
	return corev1.ServicePort{
		Name: fmt.Sprintf("port-%d", port), Protocol: corev1.ProtocolTCP,
		Port: port, TargetPort: intstr.FromInt32(port),
	}
}

// CreateService creates the Service, and deletes it at the end of the test. If no service
// controller runs any more, it also removes the finalizer. If it fails, the test fails.
func CreateService(
	t testing.TB, client kubernetes.Interface, service *corev1.Service,
) *corev1.Service {
	t.Helper()
	ctx, cancel := waittest.Limited(t)
	defer cancel()
	created, err := client.CoreV1().Services(service.Namespace).Create(ctx, service,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create Service %s/%s: %v", service.Namespace, service.Name, err)
		return nil
	}
	t.Cleanup(func() {
		ctx, cancel := waittest.Limited(t)
		defer cancel()
		if err := removeService(ctx, client, created); err != nil {
			t.Errorf("delete Service %s/%s: %v", service.Namespace, service.Name, err)
		}
	})
	return created
}

func removeService(
	ctx context.Context, client kubernetes.Interface, service *corev1.Service,
) error {
	services := client.CoreV1().Services(service.Namespace)
	if err := services.Delete(ctx, service.Name, metav1.DeleteOptions{}); unexpected(err) {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"$deleteFromPrimitiveList/finalizers": []string{
			servicehelpers.LoadBalancerCleanupFinalizer,
		},
	}})
	if err != nil {
		return err
	}
	_, err = services.Patch(ctx, service.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	if unexpected(err) {
		return fmt.Errorf("take its finalizer away: %w", err)
	}
	return nil
}

// unexpected reports whether a cleanup failed for another reason than a missing object.
func unexpected(err error) bool { return err != nil && !apierrors.IsNotFound(err) }
