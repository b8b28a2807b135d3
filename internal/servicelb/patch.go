package servicelb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"
)

// toPatch is the right without which no Service is served or cleaned up. All patches are of the
// status, which a rule for services alone does not allow.
const toPatch = "permission to patch services/status"

// claim sets the finalizer and the mark, unless the Service has them, and returns the Service. The
// finalizer comes before the load balancer, so that the Service lasts until the clean-up. If the
// Service has changed since it was read, claim fails with a conflict: the Service may have gone to
// another class, whose controller has marked it.
func (c *Controller) claim(ctx context.Context, service *v1.Service) (*v1.Service, error) {
	if isClaimed(service) {
		return service, nil
	}
	return c.patch(ctx, service, map[string]any{
		"resourceVersion": service.ResourceVersion,
		"annotations": map[string]any{
			ServedClass: ptr.Deref(service.Spec.LoadBalancerClass, ""),
		},
		"finalizers": []string{servicehelper.LoadBalancerCleanupFinalizer},
	}, nil)
}

// isClaimed reports whether a Service has what the clean-up needs.
func isClaimed(service *v1.Service) bool {
	class, marked := service.Annotations[ServedClass]
	return marked && class == ptr.Deref(service.Spec.LoadBalancerClass, "") &&
		servicehelper.HasLBFinalizer(service)
}

// publish writes the answer of the provider to the status, unless it is there, and returns the
// Service.
func (c *Controller) publish(
	ctx context.Context, service *v1.Service, status *v1.LoadBalancerStatus,
) (*v1.Service, error) {
	if sameStatus(&service.Status.LoadBalancer, status) {
		return service, nil
	}
	return c.patch(ctx, service, map[string]any{}, map[string]any{"ingress": status.Ingress})
}

// withdraw removes the address of a load balancer that is about to be deleted, and returns the
// Service. An address that the Service has afterwards is another controller's, and a next run, for
// which the cloud has no load balancer any more, knows that, too. A deleted Service needs none of
// this.
func (c *Controller) withdraw(
	ctx context.Context, service *v1.Service, old *v1.LoadBalancerStatus,
) (*v1.Service, error) {
	shown := &service.Status.LoadBalancer
	if service.DeletionTimestamp != nil || len(shown.Ingress) == 0 || old == nil ||
		!sameStatus(shown, old) {
		return service, nil
	}
	return c.patch(ctx, service, map[string]any{"resourceVersion": service.ResourceVersion},
		map[string]any{"ingress": nil})
}

// release removes the finalizer, the mark and the address, after the load balancer with that
// status. If the Service has changed since it was read, it fails with a conflict: the controller of
// another class may have claimed it.
//
// A Service that has another address by now is served by another controller, which needs the
// finalizer, too.
func (c *Controller) release(
	ctx context.Context, service *v1.Service, old *v1.LoadBalancerStatus,
) error {
	metadata := map[string]any{
		"resourceVersion": service.ResourceVersion,
		"annotations":     map[string]any{ServedClass: nil},
	}
	status := map[string]any{"ingress": nil}
	shown := &service.Status.LoadBalancer
	isBalanced := service.DeletionTimestamp == nil &&
		service.Spec.Type == v1.ServiceTypeLoadBalancer
	if isBalanced && len(shown.Ingress) > 0 && (old == nil || !sameStatus(shown, old)) {
		status = nil
	} else {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{
			servicehelper.LoadBalancerCleanupFinalizer,
		}
	}
	_, err := c.patch(ctx, service, metadata, status)
	return err
}

// patch changes only what it names, and only in this Service, not in a later one of its name.
func (c *Controller) patch(
	ctx context.Context, service *v1.Service, metadata map[string]any, loadBalancer map[string]any,
) (*v1.Service, error) {
	metadata["uid"] = service.UID
	patch := map[string]any{"metadata": metadata}
	if loadBalancer != nil {
		patch["status"] = map[string]any{"loadBalancer": loadBalancer}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	patched, err := c.Client.Services(service.Namespace).Patch(ctx, service.Name,
		types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	c.missing.Wrote(toPatch, keyOf(service).String(), err)
	if err == nil && (keyOf(patched) != keyOf(service) || patched.UID != service.UID) {
		// Unlike those of the informers, its name and UID have not been checked.
		return nil, errors.New("the API server has answered a patch with another Service")
	}
	return patched, err
}

// isOfAnother reports whether a patch was refused because the Service has another UID.
func isOfAnother(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool {
			return c.Field == "metadata.uid"
		})
}
