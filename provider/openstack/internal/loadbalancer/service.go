package loadbalancer

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// announce writes the ID and the address of the load balancer to the Service, as OCCM does.
func (r *reconciler) announce(ctx context.Context) error {
	lb := r.found.balancer
	if lb == nil {
		return nil
	}
	address := r.address()
	return r.annotate(ctx, r.service, map[string]*string{
		settings.AnnotationLoadBalancerID: &lb.ID, settings.AnnotationLoadBalancerAddress: &address,
	})
}

// address is that of the floating IP, or else of the VIP.
func (r *reconciler) address() string {
	vip := r.found.balancer.VIP
	if r.settings.Internal && r.found.role == plan.Guest {
		return vip.Address
	}
	for _, ip := range r.found.floatingIPs {
		if vip.PortID != "" && ip.PortID == vip.PortID {
			return ip.Address
		}
	}
	return vip.Address
}

func (r *reconciler) status() *v1.LoadBalancerStatus {
	addresses := []string{r.address()}
	for _, vip := range r.found.balancer.AdditionalVIPs {
		addresses = append(addresses, vip.Address)
	}
	return desired.Status(r.service, r.settings, addresses...)
}

// annotate sets annotations of the Service that differ; nil removes one.
func (l *LoadBalancers) annotate(
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
	client, err := l.config.Kube()
	if err != nil {
		return fmt.Errorf("get a client to annotate the Service: %w", err)
	}
	// The UID keeps it from a Service of the same name that was made since.
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"uid": service.UID, "annotations": differ}})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name,
		types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotate the Service: %w", err)
	}
	return nil
}

// publish writes the status if it differs.
func (l *LoadBalancers) publish(
	ctx context.Context, service *v1.Service, status *v1.LoadBalancerStatus,
) error {
	client, err := l.config.Kube()
	if err != nil {
		return fmt.Errorf("get a client to write the Service's status: %w", err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": status.Ingress}},
	})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name,
		types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("write the Service's status: %w", err)
	}
	return nil
}
