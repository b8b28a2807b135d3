package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// request is the input of a reconcile.
type request struct {
	cluster string
	service *v1.Service
	nodes   []*v1.Node
	// deletedCluster is the UID of a cluster without an API server, whose Service is deleted. Only
	// objects with its tag count. "": the cluster of the term.
	deletedCluster string
	mode
}

// mode limits what a reconcile may do, and how much it reads.
type mode struct {
	// create a load balancer if it does not exist.
	create bool
	// nodes: only nodes have changed.
	nodes bool
	// repair: the load balancer may have drifted although nothing in Kubernetes has changed.
	repair bool
	// deep: compare all fields, also those that a status tree omits.
	deep bool
	// age is how old the lists may be for a repair. If a repair is needed, the reconcile ends with
	// errOld.
	age time.Duration
}

// listAge is how old a list may be that shows Octavia's progress.
func (r *reconciler) listAge() time.Duration {
	if r.repair {
		return r.age
	}
	return r.of.config.Octavia.ListMaxAge()
}

// reconciler is one reconcile of one Service. It holds the lock of the Service and, once the load
// balancer is found, the lock of that.
type reconciler struct {
	request
	of       *LoadBalancers
	state    *serviceState
	unlock   []func()
	identity desired.Identity
	settings settings.Settings
	found    found
	notes    *notifier
}

// begin locks the Service. The caller closes the reconciler. A silent one writes only events about
// waiting.
func (l *LoadBalancers) begin(ctx context.Context, of request, silent bool) (*reconciler, error) {
	unlock, _, err := l.locks.Lock(ctx, "service "+string(of.service.UID))
	if err != nil {
		return nil, err
	}
	state := l.states.get(of.service.UID)
	if state == nil {
		state = newServiceState()
	}
	r := l.reconciler(of, state, silent)
	r.unlock = append(r.unlock, unlock)
	return r, nil
}

func (l *LoadBalancers) reconciler(of request, state *serviceState, silent bool) *reconciler {
	return &reconciler{of: l, request: of, state: state, notes: &notifier{
		service: of.service, recorder: l.config.Recorder, written: state.events, silent: silent,
	}}
}

func (r *reconciler) close() {
	for _, unlock := range r.unlock {
		unlock()
	}
}

// reconcile finds the load balancer, decides its desired state, compares and applies.
func (r *reconciler) reconcile(ctx context.Context) (*v1.LoadBalancerStatus, error) {
	err := r.find(ctx)
	if err == nil {
		err = r.waitWhilePending(ctx)
	}
	var want desired.State
	if err == nil {
		want, err = r.decide(ctx)
	}
	if err == nil {
		err = r.converge(ctx, want)
	}
	if err == nil {
		err = r.deleteDuplicates(ctx)
	}
	if errors.Is(err, errOld) {
		return nil, err
	}
	if isWait(err) {
		r.state.floatingIPs.extend(r.of.config.Clock.Now(), r.mode)
	}
	r.report(ctx, err)
	if err != nil {
		return nil, explain(err)
	}
	r.notes.tell(aboutWaiting)
	return r.status(), nil
}

// waitWhilePending ends the reconcile while Octavia is at work.
func (r *reconciler) waitWhilePending(ctx context.Context) error {
	lb := r.found.balancer
	switch {
	case lb == nil && r.found.deleting != nil:
		return r.waitFor(r.found.deleting,
			"is being deleted; a new one is created after that")
	case lb == nil && !r.create:
		return fmt.Errorf("service %s/%s has no load balancer yet", r.service.Namespace,
			r.service.Name)
	case lb == nil || !lb.Status.Pending():
		return nil
	}
	// OCCM writes the ID at the end. Written earlier, it survives a restart.
	if err := r.of.Annotate(ctx, r.service,
		map[string]*string{settings.AnnotationLoadBalancerID: &lb.ID}); err != nil {
		return err
	}
	return r.waitFor(lb, "is %s", lb.Status)
}

// converge takes the steps to the desired state. It returns nil if Octavia has completed all of
// them.
func (r *reconciler) converge(ctx context.Context, want desired.State) error {
	if lb := r.found.balancer; lb == nil {
		r.inherit(&want)
	} else if lb.Status == octavia.Active {
		r.of.cache().Confirm(lb, r.of.config.Clock.Now())
	}
	is, todo, err := r.diff(ctx, want, false)
	if err != nil {
		return err
	}
	if r.age > 0 && (len(todo.Steps) > 0 || len(r.found.duplicates) > 0) {
		return errOld
	}
	r.reportDifferences(todo)
	blocked := r.notes.tellPlan(todo.Notices)
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

// diff compares. If the plan depends on fields that were not read just now, all are read first.
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
	r.of.cache().Invalidate(r.found.balancer.ID, r.identity.UID)
	return r.diff(ctx, want, true)
}
