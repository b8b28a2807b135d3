package loadbalancer

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// announce writes the ID and the address of the load balancer to the Service, as OCCM does.
func (r *reconciler) announce(ctx context.Context) error {
	lb := r.found.balancer
	if lb == nil {
		return nil
	}
	address := r.found.address(r.settings.Internal)
	return r.of.Annotate(ctx, r.service, map[string]*string{
		settings.AnnotationLoadBalancerID: &lb.ID, settings.AnnotationLoadBalancerAddress: &address,
	})
}

func (r *reconciler) status() *v1.LoadBalancerStatus {
	return desired.Status(r.service, r.settings, r.found.addresses(r.settings.Internal)...)
}

// Annotate sets the annotations of the Service that differ; nil removes one.
func (l *LoadBalancers) Annotate(
	ctx context.Context, service *v1.Service, want map[string]*string,
) error {
	differ := map[string]*string{}
	for name, value := range want {
		has, ok := service.Annotations[name]
		if ok != (value != nil) || ok && has != *value {
			differ[name] = value
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return l.patch(ctx, service, "annotate the Service", map[string]any{
		"metadata": map[string]any{"uid": service.UID, "annotations": differ},
	})
}

// publish writes the status of the Service.
func (l *LoadBalancers) publish(
	ctx context.Context, service *v1.Service, status *v1.LoadBalancerStatus,
) error {
	return l.patch(ctx, service, "write the Service's status", map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": status.Ingress}},
	}, "status")
}

// patch changes a Service by a strategic merge patch, so that conditions of other writers stay.
// Because of the UID in it, the patch cannot change a later Service of the same name.
func (l *LoadBalancers) patch(
	ctx context.Context, service *v1.Service, doing string, patch any, subresources ...string,
) error {
	client, err := l.config.Kube()
	if err != nil {
		return fmt.Errorf("%s: get a client: %w", doing, err)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name,
		types.StrategicMergePatchType, body, metav1.PatchOptions{}, subresources...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
