package loadbalancer

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// Preview is what a pass would do.
type Preview struct {
	// LoadBalancer is what the Service has; nil for nothing.
	LoadBalancer *balancer.LoadBalancer
	Role         balancer.Role
	// Notices are the events that would be written, as sentences.
	Notices []string
	// Refused: the Service would not be served, as one of the notices says. There is no plan then.
	Refused bool
	Plan    plan.Plan
}

// Preview tells what would be done for a Service, or for its deletion if it is being deleted, and does nothing. All there is is compared.
func (l *LoadBalancers) Preview(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (Preview, error) {
	p := &pass{
		LoadBalancers: l,
		request:       request{cluster: clusterName, service: service, nodes: nodes, create: true, repair: true, deep: true, silent: true},
		memory:        newMemory(),
	}
	defer p.release()
	todo, err := p.foresee(ctx)
	var refused *refusal
	if err != nil && !errors.As(err, &refused) {
		return Preview{}, err
	}
	preview := Preview{LoadBalancer: p.claim.balancer, Role: p.claim.role, Plan: todo, Refused: refused != nil}
	for _, heard := range p.heard {
		preview.Notices = append(preview.Notices, heard.reason+": "+heard.message)
	}
	return preview, nil
}

// foresee is run without what follows from it.
func (p *pass) foresee(ctx context.Context) (plan.Plan, error) {
	if !wanted(p.service) {
		if err := p.look(ctx); err != nil {
			return plan.Plan{}, err
		}
		if err := p.lookBeside(ctx); err != nil {
			return plan.Plan{}, err
		}
		if err := p.readContents(ctx); err != nil {
			return plan.Plan{}, err
		}
		todo := p.removal()
		return todo, p.tell(todo.Notices)
	}
	for _, step := range []func(context.Context) error{p.identify, p.read, p.locate, p.admit, p.decide} {
		if err := step(ctx); err != nil {
			return plan.Plan{}, err
		}
	}
	want, err := p.observe(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	todo := plan.Change(want, p.observed)
	// What blocks does not keep the rest from being done.
	_ = p.tell(todo.Notices)
	return todo, nil
}
