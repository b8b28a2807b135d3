package loadbalancer

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// Preview describes what a reconcile would do.
type Preview struct {
	// LoadBalancer is the Service's load balancer; nil for none.
	LoadBalancer *octavia.LoadBalancer
	Role         plan.Role
	// Notices are the events that would be written, as sentences.
	Notices []string
	// Refused: the Service would not be served, as the last notice explains. Then no plan exists.
	Refused bool
	Plan    plan.Plan
	// Desired and Observed describe the objects for people, one a line. Desired is empty if the
	// Service is refused, leaves a shared load balancer, or its load balancer is to be deleted.
	Desired, Observed []string
}

// Preview returns what would be done for a Service, or for its deletion if it is being deleted, and
// changes nothing. It compares all fields of all parts. slices are the EndpointSlices of a Service
// for which WantsEndpoints returns true. Desired is known even beside an error, if Octavia does not
// answer.
func (l *LoadBalancers) Preview(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
	slices []*discoveryv1.EndpointSlice,
) (Preview, error) {
	r := l.reconciler(request{
		cluster: clusterName, service: service, nodes: nodes,
		mode: mode{create: true, repair: true, deep: true},
	}, newServiceState(), true)
	defer r.close()
	if l.WantsEndpoints(service) {
		r.state.endpoints = &endpoints{slices}
	}
	preview := Preview{}
	var refused *events.Notice
	err := r.preview(ctx, &preview)
	if errors.As(err, &refused) {
		err = r.previewRefused(ctx, &preview)
	}
	if err != nil {
		return Preview{Desired: preview.Desired}, events.ExplainOnce(err)
	}
	preview.LoadBalancer, preview.Role = r.found.balancer, r.found.role
	preview.Refused = refused != nil
	for _, n := range r.notes.collected {
		if refused == nil || n != *refused {
			preview.Notices = append(preview.Notices, string(n.Reason)+": "+n.Message)
		}
	}
	if refused != nil {
		preview.Notices = append(preview.Notices, string(refused.Reason)+": "+refused.Message)
	}
	return preview, nil
}

// preview is reconcile, or delete, without changes.
func (r *reconciler) preview(ctx context.Context, preview *Preview) error {
	if !requestsLoadBalancer(r.service) {
		if err := r.findAny(ctx); err != nil {
			return err
		}
		is, err := r.observeBeside(ctx)
		if err != nil {
			return err
		}
		if err := r.allContents(ctx, &is); err != nil {
			return err
		}
		preview.Observed, preview.Plan = is.Outline(), r.removal(is)
		return r.notes.tellPlan(preview.Plan.Notices)
	}
	if err := r.find(ctx); err != nil {
		var refused *events.Notice
		if !errors.As(err, &refused) {
			r.previewDesired(ctx, preview)
		}
		return err
	}
	if r.found.whyLeaves != "" {
		return r.previewLeaving(ctx, preview)
	}
	want, err := r.decide(ctx)
	if err != nil {
		return err
	}
	want, is, todo, err := r.diff(ctx, want, false)
	if err != nil {
		return err
	}
	if r.found.whyLeaves = r.collision(is.Listeners); r.found.whyLeaves != "" {
		return r.previewLeaving(ctx, preview)
	}
	preview.Desired, preview.Observed, preview.Plan = plan.OutlineDesired(want), is.Outline(), todo
	// A notice that blocks does not prevent the other steps.
	_ = r.notes.tellPlan(todo.Notices)
	return nil
}

// latestAPI is a minor version of Octavia's API that has all features.
const latestAPI = 30

// previewDesired describes what the Service requests if Octavia does not answer. Without Neutron,
// that is unknown.
func (r *reconciler) previewDesired(ctx context.Context, preview *Preview) {
	if r.found.apiMinor == 0 {
		r.found.apiMinor = latestAPI
	}
	if want, err := r.decide(ctx); err == nil {
		preview.Desired = plan.OutlineDesired(want)
	}
}

// previewRefused reads the load balancer that a refused Service has.
func (r *reconciler) previewRefused(ctx context.Context, preview *Preview) error {
	is := r.observeFound()
	err := r.allContents(ctx, &is)
	preview.Observed, preview.Plan = is.Outline(), plan.Plan{}
	return err
}
