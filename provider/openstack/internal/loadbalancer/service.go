package loadbalancer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// announce writes the ID and the address of the load balancer to the Service, as OCCM does.
func (r *reconciler) announce(ctx context.Context) error {
	lb := r.found.balancer
	if lb == nil {
		return nil
	}
	address := r.found.address(r.settings.Internal)
	want := map[string]*string{
		settings.AnnotationLoadBalancerID: &lb.ID, settings.AnnotationLoadBalancerAddress: &address,
	}
	if lb.Status == octavia.PendingDelete && r.found.role == plan.Owner {
		// It is deleted to be created again: it must not be missed later. The address stays that of
		// its floating IP, which is detached now.
		want = map[string]*string{settings.AnnotationLoadBalancerID: nil}
	}
	annotated, err := r.of.annotate(ctx, r.service, want)
	if annotated != nil {
		now := digestOf(annotated.Annotations)
		r.annotated = &now
	}
	return err
}

func (r *reconciler) status() *v1.LoadBalancerStatus {
	return desired.Status(r.service, r.settings, r.found.addresses(r.settings.Internal)...)
}

// Annotate sets the annotations of the Service that differ; nil removes one.
func (l *LoadBalancers) Annotate(
	ctx context.Context, service *v1.Service, want map[string]*string,
) error {
	_, err := l.annotate(ctx, service, want)
	return err
}

// annotate is Annotate. It returns the Service after a change, and nil if none was needed.
func (l *LoadBalancers) annotate(
	ctx context.Context, service *v1.Service, want map[string]*string,
) (*v1.Service, error) {
	differ := map[string]*string{}
	for name, value := range want {
		has, ok := service.Annotations[name]
		if ok != (value != nil) || ok && has != *value {
			differ[name] = value
		}
	}
	if len(differ) == 0 {
		return nil, nil
	}
	return l.patch(ctx, service, "annotate the Service", map[string]any{
		"metadata": map[string]any{"uid": service.UID, "annotations": differ},
	})
}

// apiServer is the API server's name in texts.
const apiServer = "Kubernetes"

// publish writes the status of the Service.
func (l *LoadBalancers) publish(
	ctx context.Context, service *v1.Service, status *v1.LoadBalancerStatus,
) error {
	_, err := l.patch(ctx, service, "write the Service's status", map[string]any{
		"metadata": map[string]any{"uid": service.UID},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": status.Ingress}},
	}, "status")
	return err
}

// patch changes a Service by a strategic merge patch, so that conditions of other writers stay.
// Because of the UID in it, the patch cannot change a later Service of the same name.
func (l *LoadBalancers) patch(
	ctx context.Context, service *v1.Service, doing string, patch any, subresources ...string,
) (*v1.Service, error) {
	client, err := l.config.Kube()
	if err != nil {
		return nil, fmt.Errorf("%s: get a client: %w", doing, err)
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	patched, err := client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name,
		types.StrategicMergePatchType, body, metav1.PatchOptions{}, subresources...)
	right := strings.Join(append([]string{"patch services"}, subresources...), "/")
	l.config.Trouble.Wrote(right, string(service.UID), err)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, failure.New(apiServer, "", err))
	}
	return patched, nil
}

// ConditionType is the condition of a Service that is not served, with the status False, or that is
// served but for a part of what it requests, with the status True. Its reason and message hold the
// cause. It is removed when the Service is served without such a defect.
//
// Kubernetes has no standard condition for this: KEP-4631 was closed.
const ConditionType = "fxccm.dev/LoadBalancerReady"

// conditionDelay is how long a Service waits, or requests fail, before the condition is written.
// Most creations and most failures of the cloud are shorter, and need no write.
const conditionDelay = 30 * time.Second

// conditionOf returns the condition for a report; nil for none. written is the present one.
func conditionOf(
	report Report, service *v1.Service, written *metav1.Condition, now time.Time,
) *metav1.Condition {
	status := metav1.ConditionFalse
	passes := report.Reason == events.Waiting || report.Reason == events.RequestFailed
	switch {
	case report.State == Ready && report.Reason == events.Served:
		return nil
	case report.State == Ready:
		status = metav1.ConditionTrue
	case passes && now.Sub(report.Since) < conditionDelay:
		switch {
		case written == nil:
			return nil
		case written.Status == metav1.ConditionTrue:
			return written // the defects most likely stay
		}
	}
	return condition(report, service, status)
}

func condition(
	report Report, service *v1.Service, status metav1.ConditionStatus,
) *metav1.Condition {
	return &metav1.Condition{
		Type: ConditionType, Status: status,
		ObservedGeneration: service.Generation,
		LastTransitionTime: metav1.NewTime(report.Since.Truncate(time.Second)),
		Reason:             string(report.Reason), Message: report.Message,
	}
}

// sameCondition ignores the times.
func sameCondition(a, b *metav1.Condition) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Reason == b.Reason &&
		a.ObservedGeneration == b.ObservedGeneration && a.Message == b.Message
}

// informerLag is how long the Service may be older than the condition that was written to it.
const informerLag = 30 * time.Second

// writtenCondition returns the condition as written just now or, because another client may have
// changed it since, as read from the Service.
func (r *reconciler) writtenCondition() *metav1.Condition {
	if at := r.state.conditionAt; !at.IsZero() && r.of.config.Clock.Since(at) < informerLag {
		return r.state.condition
	}
	return meta.FindStatusCondition(r.service.Status.Conditions, ConditionType)
}

// publishCondition writes the condition of the Service if it has changed. A failure is logged once,
// and each reconcile tries again.
func (r *reconciler) publishCondition(ctx context.Context, want *metav1.Condition) {
	if sameCondition(r.writtenCondition(), want) {
		return
	}
	var patch any = want
	if want == nil {
		patch = map[string]any{"$patch": "delete", "type": ConditionType}
	}
	_, err := r.of.patch(ctx, r.service, "write the Service's condition", map[string]any{
		"metadata": map[string]any{"uid": r.service.UID},
		"status":   map[string]any{"conditions": []any{patch}},
	}, "status")
	switch {
	case err == nil:
		r.state.condition, r.state.conditionAt = want, r.of.config.Clock.Now()
		r.state.conditionFailure = ""
	case ctx.Err() == nil && !apierrors.IsNotFound(err) &&
		err.Error() != r.state.conditionFailure:
		r.state.conditionFailure = err.Error()
		r.of.config.Logger.Error(err, "Condition not written; each reconcile tries again",
			"service", r.service.Namespace+"/"+r.service.Name)
	}
}

// waitsSince returns the time since which the Service waits, even from an earlier term.
func waitsSince(service *v1.Service, now time.Time) time.Time {
	found := meta.FindStatusCondition(service.Status.Conditions, ConditionType)
	if found != nil && found.Status == metav1.ConditionFalse {
		return found.LastTransitionTime.Time
	}
	return now
}
