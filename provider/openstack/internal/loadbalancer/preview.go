package loadbalancer

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// Preview is what a pass would do.
type Preview struct {
	// LoadBalancer is what the Service has; nil for nothing.
	LoadBalancer *octavia.LoadBalancer
	Role         plan.Role
	// Notices are the events that would be written, as sentences.
	Notices []string
	// Refused: the Service would not be served, as one of the notices says. There is no plan then.
	Refused bool
	Plan    plan.Plan
}

// Preview tells what would be done for a Service, or for its deletion if it is being deleted, and
// does nothing. All there is is compared.
func (l *LoadBalancers) Preview(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (Preview, error) {
	r := &reconciler{
		LoadBalancers: l,
		request: request{
			cluster: clusterName, service: service, nodes: nodes, create: true,
			repair: true, deep: true, silent: true,
		},
		state: newServiceState(),
	}
	defer r.close()
	todo, err := r.preview(ctx)
	var refused *refusal
	if err != nil && !errors.As(err, &refused) {
		return Preview{}, err
	}
	preview := Preview{
		LoadBalancer: r.found.balancer, Role: r.found.role, Plan: todo,
		Refused: refused != nil,
	}
	for _, n := range r.notices {
		preview.Notices = append(preview.Notices, string(n.Reason)+": "+n.Message)
	}
	return preview, nil
}

// preview is reconcile, or delete, without acting.
func (r *reconciler) preview(ctx context.Context) (plan.Plan, error) {
	if !requestsLoadBalancer(r.service) {
		if err := r.findAny(ctx); err != nil {
			return plan.Plan{}, err
		}
		is, err := r.observeBeside(ctx)
		if err != nil {
			return plan.Plan{}, err
		}
		if err := r.observeAllContents(ctx, &is); err != nil {
			return plan.Plan{}, err
		}
		todo := r.removal(is)
		return todo, r.tellPlan(todo.Notices)
	}
	want, err := r.decide(ctx, func(context.Context) error { return nil })
	if err != nil {
		return plan.Plan{}, err
	}
	_, todo, err := r.diff(ctx, want, false)
	if err != nil {
		return plan.Plan{}, err
	}
	// A notice that blocks does not keep the other steps from being taken.
	_ = r.tellPlan(todo.Notices)
	return todo, nil
}
