package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
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
	// silent: write no events.
	silent bool
}

// reconciler is one reconcile of one Service. It holds the lock of the Service and, once that is
// found, of its load balancer.
type reconciler struct {
	*LoadBalancers
	request
	state    *serviceState
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
	unlock      func()
}

// wanted is the desired state. Its hash is that of what lies below the load balancer.
type wanted struct {
	desired.State
	hash string
}

func (r *reconciler) close() {
	if r.found.unlock != nil {
		r.found.unlock()
	}
}

// reconcile observes, decides, compares and acts, in this order.
func (r *reconciler) reconcile(ctx context.Context) (*v1.LoadBalancerStatus, error) {
	want, err := r.prepare(ctx, r.waitWhilePending)
	if err == nil {
		err = r.converge(ctx, want)
	}
	if err == nil {
		err = r.deleteDuplicates(ctx)
	}
	r.report(ctx, err)
	if err != nil {
		return nil, explain(err)
	}
	r.tell(aboutWaiting)
	return r.status(), nil
}

// prepare finds the load balancer and decides what it should be. admit may end the reconcile in
// between.
func (r *reconciler) prepare(
	ctx context.Context, admit func(context.Context) error,
) (wanted, error) {
	if err := r.identify(ctx); err != nil {
		return wanted{}, err
	}
	problems := r.readSettings()
	if err := r.find(ctx); err != nil {
		return wanted{}, err
	}
	if err := r.rejectFatal(problems); err != nil {
		return wanted{}, err
	}
	if err := admit(ctx); err != nil {
		return wanted{}, err
	}
	return r.desire(ctx)
}

// converge takes the steps from what there is to what is wanted. Nil: Octavia has done all of them.
func (r *reconciler) converge(ctx context.Context, want wanted) error {
	if lb := r.found.balancer; lb != nil && lb.Status == octavia.Active {
		r.cache().Confirm(lb, r.config.Clock.Now())
	}
	if r.found.balancer == nil {
		r.inherit(&want)
	}
	is, todo, err := r.diff(ctx, want)
	if err != nil {
		return err
	}
	r.reportDifferences(todo)
	blocked := r.tellPlan(todo.Notices)
	if len(todo.Steps) > 0 {
		if err := r.apply(ctx, want, is, todo); err != nil {
			return err
		}
		return blocked
	}
	if blocked != nil {
		return blocked
	}
	return r.finish(ctx, want, is)
}

// diff compares. If the plan hangs on what was not read from Octavia just now, that is read first.
func (r *reconciler) diff(ctx context.Context, want wanted) (observed, plan.Plan, error) {
	is, err := r.observe(ctx, want, cached)
	if err != nil {
		return observed{}, plan.Plan{}, err
	}
	todo := plan.Change(is.comparable(want), is.Observed)
	if r.found.balancer == nil || is.suffices(want, todo) {
		return is, todo, nil
	}
	r.cache().Invalidate(r.found.balancer.ID, r.identity.UID)
	if is, err = r.observe(ctx, want, complete); err != nil {
		return observed{}, plan.Plan{}, err
	}
	return is, plan.Change(is.comparable(want), is.Observed), nil
}

// tellPlan writes what cannot be done, and returns what keeps the Service from being served.
func (r *reconciler) tellPlan(notes []plan.Notice) error {
	var blocked error
	list := make([]desired.Notice, 0, len(notes))
	for _, n := range notes {
		if n.Blocks && blocked == nil {
			blocked = &refusal{n.Reason, n.Message}
		}
		list = append(list, desired.Notice{Reason: n.Reason, Message: n.Message, Warning: true})
	}
	r.tell(aboutPlan, list...)
	return blocked
}

func (r *reconciler) identify(ctx context.Context) error {
	uid, err := r.config.ClusterUID(ctx)
	if err != nil {
		return err
	}
	r.identity = identity(r.cluster, uid, r.service)
	return nil
}

func (r *reconciler) readSettings() []settings.Problem {
	var problems []settings.Problem
	r.settings, problems = settings.Of(r.service, r.config.Defaults)
	list := make([]desired.Notice, 0, len(problems))
	for _, problem := range append(slices.Clone(problems), settings.Unknown(r.service)...) {
		list = append(list,
			desired.Notice{
				Reason: events.InvalidAnnotation, Message: problem.String(),
				Warning: true,
			})
	}
	r.tell(aboutSettings, list...)
	return problems
}

// rejectFatal rejects settings that cannot be served. A setting that only counts at creation does
// not stop the updates of a load balancer that exists; but it must not be recreated with it.
func (r *reconciler) rejectFatal(problems []settings.Problem) error {
	for _, problem := range settings.Fatal(problems) {
		if r.found.balancer == nil || !problem.AtCreation {
			return &refusal{events.InvalidAnnotation, problem.String()}
		}
		r.settings.Recreate = false
	}
	return nil
}

// waitWhilePending ends the reconcile while Octavia is at work.
func (r *reconciler) waitWhilePending(ctx context.Context) error {
	if lb := r.found.balancer; lb != nil && lb.Status.Pending() {
		// OCCM writes the ID when all is done. Earlier, it survives a restart.
		if err := r.annotate(ctx, r.service,
			map[string]*string{settings.AnnotationLoadBalancerID: &lb.ID}); err != nil {
			return err
		}
		return r.waitFor(lb, "is %s", lb.Status)
	}
	if lb := r.found.deleting; lb != nil && r.found.balancer == nil {
		return r.waitFor(lb, "is being deleted; a new one is created after that")
	}
	if r.found.balancer == nil && !r.create {
		return fmt.Errorf("service %s/%s has no load balancer yet", r.service.Namespace,
			r.service.Name)
	}
	return nil
}

// desire decides what there should be.
func (r *reconciler) desire(ctx context.Context) (wanted, error) {
	if err := r.readFloatingIPs(ctx); err != nil {
		return wanted{}, err
	}
	if err := r.checkCertificate(ctx); err != nil {
		return wanted{}, err
	}
	input := desired.Input{
		Identity: r.identity,
		Service:  r.service,
		Nodes:    desired.Candidates(r.nodes),
		Settings: r.settings,
		Features: r.features(),

		Guest:         r.found.role == plan.Guest,
		HasFloatingIP: r.hasFloatingIP(),
	}
	if r.found.balancer != nil {
		input.LoadBalancerName = r.found.balancer.Name
	}
	var notes []desired.Notice
	var err error
	input.Places, notes, err = desired.Resolve(ctx, r.config.Neutron, input, r.found.balancer)
	var impossible *desired.ImpossibleError
	switch {
	case errors.Is(err, desired.ErrNoNode):
		return wanted{}, r.wait(r.lastChange(), "%v", err)
	case errors.As(err, &impossible):
		return wanted{}, r.refuse(aboutPlaces, &refusal{events.Unsupported, impossible.Message})
	case err != nil:
		return wanted{}, err
	}
	r.tell(aboutPlaces, notes...)
	want, notes, unsupported := desired.Build(input)
	if unsupported != nil {
		notes = append(notes,
			desired.Notice{Reason: events.Unsupported, Message: unsupported.Error(), Warning: true})
	}
	r.tell(aboutDesired, notes...)
	if unsupported != nil {
		return wanted{}, &refusal{events.Unsupported, unsupported.Error()}
	}
	return wanted{want, desired.Hash(below(want))}, nil
}

func (r *reconciler) features() desired.Features {
	provider := r.settings.Provider
	if r.found.balancer != nil {
		provider = r.found.balancer.Provider
	}
	return desired.FeaturesOf(provider, r.found.apiMinor, r.settings.Serial)
}

func (r *reconciler) checkCertificate(ctx context.Context) error {
	if r.settings.TLSContainer == "" || !r.settings.CheckCertificates {
		return nil
	}
	err := r.config.Neutron.CheckCertificate(ctx, r.settings.TLSContainer)
	if errors.Is(err, neutron.ErrNoCertificate) {
		return r.refuse(aboutPlaces, &refusal{events.CertificateNotFound, err.Error()})
	}
	return err
}

// below is what of a desired state lies below the load balancer, with the security group. The rest
// is compared in each reconcile, because that costs no request.
func below(d desired.State) desired.State {
	d.LoadBalancer, d.FloatingIP = octavia.LoadBalancer{}, nil
	return d
}

// A refusal says what a user must change before the Service can be served.
type refusal struct {
	reason  events.Reason
	message string
}

func (r *refusal) Error() string { return r.message }

// refuse writes a refusal.
func (r *reconciler) refuse(about topic, refused *refusal) error {
	r.tell(about, desired.Notice{Reason: refused.reason, Message: refused.message, Warning: true})
	return refused
}

// explain has the service controller retry a refused Service late and without a Warning.
func explain(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return retryAfter(refusalRecheck, "%s", refused.message)
	}
	return err
}

func retryAfter(pause time.Duration, format string, arguments ...any) error {
	return api.NewRetryError(fmt.Sprintf(format, arguments...), pause)
}

// wait ends the reconcile, and reports once what it waits for. It pauses for a tenth of the time
// since the last progress.
func (r *reconciler) wait(since time.Time, format string, arguments ...any) error {
	waited := r.config.Clock.Since(since)
	pause := min(max(waited/10, minRetryDelay), maxRetryDelay)
	return r.waitAndTell(pause, fmt.Sprintf(format, arguments...))
}

// waitFor ends the reconcile until Octavia's work on a load balancer is expected to end.
func (r *reconciler) waitFor(lb *octavia.LoadBalancer, format string, arguments ...any) error {
	pause := max(r.config.Octavia.NextLook(lb.ID, lb.Status), minRetryDelay)
	if c := &r.state.creation; c.loadBalancer != nil && c.loadBalancer.ID == lb.ID {
		now := r.config.Clock.Now()
		if now.Before(c.nextLook) {
			// A reconcile that comes earlier does not put the look off.
			pause = c.nextLook.Sub(now)
		} else {
			c.nextLook = now.Add(pause)
		}
	}
	return r.waitAndTell(pause,
		fmt.Sprintf("load balancer %s %s", lb.ID, fmt.Sprintf(format, arguments...)))
}

func (r *reconciler) waitAndTell(pause time.Duration, message string) error {
	r.notify(aboutWaiting, desired.Notice{Reason: events.Waiting, Message: message})
	return retryAfter(pause, "%s", message)
}

// lastChange is when the load balancer last changed. Before it exists, the Service waits since its
// creation.
func (r *reconciler) lastChange() time.Time {
	lb := cmp.Or(r.found.balancer, r.found.deleting)
	switch {
	case lb == nil:
		return r.service.CreationTimestamp.Time
	case lb.UpdatedAt.After(lb.CreatedAt):
		return lb.UpdatedAt
	}
	return lb.CreatedAt
}
