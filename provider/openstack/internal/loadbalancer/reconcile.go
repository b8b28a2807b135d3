package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// request is what a reconcile is for.
type request struct {
	cluster string
	service *v1.Service
	nodes   []*v1.Node
	// create a load balancer if it does not exist.
	create bool
	// repair: the load balancer may have drifted although nothing in Kubernetes has changed.
	repair bool
	// deep: compare all fields, also those that a status tree omits.
	deep bool
	// age is how old the lists may be for a repair. If there is something to repair, the reconcile
	// ends with errOld.
	age time.Duration
	// silent: write no events.
	silent bool
	// deletedCluster is the UID of a cluster without an API server, whose Service is deleted. Only
	// what has its tag counts. "": the cluster is that of the term.
	deletedCluster string
}

// reconciler is one reconcile of one Service. It holds the lock of the Service and, once that is
// found, of its load balancer.
type reconciler struct {
	*LoadBalancers
	request
	state    *serviceState
	unlock   []func()
	identity desired.Identity
	settings settings.Settings
	found    found
	// notices are what a silent reconcile would have written as events.
	notices []desired.Notice
}

// found is the load balancer of the Service and what reaches it.
type found struct {
	claim
	// apiMinor is the minor version of Octavia's API.
	apiMinor    int
	floatingIPs []neutron.FloatingIP
}

// begin locks the Service. The caller closes the reconciler.
func (l *LoadBalancers) begin(ctx context.Context, r request) (*reconciler, error) {
	unlock, _, err := l.locks.Lock(ctx, "service "+string(r.service.UID))
	if err != nil {
		return nil, err
	}
	state := l.states.get(r.service.UID)
	if state == nil {
		state = newServiceState()
	}
	return &reconciler{
		LoadBalancers: l, request: r, state: state, unlock: []func(){unlock},
	}, nil
}

func (r *reconciler) close() {
	for _, unlock := range r.unlock {
		unlock()
	}
}

// reconcile observes, decides, compares and applies, in this order.
func (r *reconciler) reconcile(ctx context.Context) (*v1.LoadBalancerStatus, error) {
	want, err := r.decide(ctx, r.waitWhilePending)
	if err == nil {
		err = r.converge(ctx, want)
	}
	if err == nil {
		err = r.deleteDuplicates(ctx)
	}
	if errors.Is(err, errOld) {
		return nil, err
	}
	r.report(ctx, err)
	if err != nil {
		return nil, explain(err)
	}
	r.tell(aboutWaiting)
	return r.status(), nil
}

// waitWhilePending ends the reconcile while Octavia is at work.
func (r *reconciler) waitWhilePending(ctx context.Context) error {
	lb := r.found.balancer
	switch {
	case lb == nil && r.found.deleting != nil:
		return r.waitFor(r.found.deleting, "is being deleted; a new one is created after that")
	case lb == nil && !r.create:
		return fmt.Errorf("service %s/%s has no load balancer yet", r.service.Namespace,
			r.service.Name)
	case lb == nil || !lb.Status.Pending():
		return nil
	}
	// OCCM writes the ID when all is done. Earlier, it survives a restart.
	if err := r.Annotate(ctx, r.service,
		map[string]*string{settings.AnnotationLoadBalancerID: &lb.ID}); err != nil {
		return err
	}
	return r.waitFor(lb, "is %s", lb.Status)
}

// converge takes the steps to the desired state. Nil: Octavia has done all of them.
func (r *reconciler) converge(ctx context.Context, want desired.State) error {
	if lb := r.found.balancer; lb == nil {
		r.inherit(&want)
	} else if lb.Status == octavia.Active {
		r.cache().Confirm(lb, r.config.Clock.Now())
	}
	is, todo, err := r.diff(ctx, want, false)
	if err != nil {
		return err
	}
	if r.age > 0 && (len(todo.Steps) > 0 || len(r.found.duplicates) > 0) {
		return errOld
	}
	r.reportDifferences(todo)
	blocked := r.tellPlan(todo.Notices)
	switch {
	case len(todo.Steps) > 0:
		err = r.apply(ctx, want, is, todo)
	case blocked == nil:
		err = r.finish(ctx, want, is)
	}
	if err != nil {
		return err
	}
	return blocked
}

// diff compares. If the plan hangs on what was not read from Octavia just now, all is read first.
func (r *reconciler) diff(
	ctx context.Context, want desired.State, complete bool,
) (observed, plan.Plan, error) {
	is, err := r.observe(ctx, want, complete)
	if err != nil {
		return observed{}, plan.Plan{}, err
	}
	todo := plan.Change(is.comparable(want), is.Observed)
	if complete || r.found.balancer == nil || is.suffices(want, todo) {
		return is, todo, nil
	}
	r.cache().Invalidate(r.found.balancer.ID, r.identity.UID)
	return r.diff(ctx, want, true)
}

// tellPlan writes what cannot be done, and returns what keeps the Service from being served.
func (r *reconciler) tellPlan(notes []plan.Notice) error {
	var blocked error
	list := make([]desired.Notice, 0, len(notes))
	for _, n := range notes {
		refused := &refusal{n.Reason, n.Message}
		if n.Blocks && blocked == nil {
			blocked = refused
		}
		list = append(list, refused.notice())
	}
	r.tell(aboutPlan, list...)
	return blocked
}
