package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// find reads the settings of the Service, and finds its load balancer.
func (r *reconciler) find(ctx context.Context) error {
	if err := r.identify(ctx); err != nil {
		return err
	}
	problems := r.readSettings()
	if err := r.lookUp(ctx); err != nil {
		return err
	}
	return r.rejectFatal(problems)
}

func (r *reconciler) identify(ctx context.Context) error {
	uid := r.deletedCluster
	if uid == "" {
		var err error
		if uid, err = r.of.config.ClusterUID(ctx); err != nil {
			return err
		}
	}
	r.identity = identity(r.cluster, uid, r.service)
	return nil
}

func (r *reconciler) readSettings() []settings.Problem {
	var problems []settings.Problem
	r.settings, problems = settings.Of(r.service, r.of.config.Defaults)
	list := make([]desired.Notice, 0, len(problems))
	for _, problem := range append(slices.Clone(problems), settings.Unknown(r.service)...) {
		list = append(list, (&refusal{events.InvalidAnnotation, problem.String()}).notice())
	}
	r.notes.tell(aboutSettings, list...)
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

// lookUp finds the load balancer and locks it. It does not use a list from before the creation,
// because the load balancer would be missing there and be created twice.
func (r *reconciler) lookUp(ctx context.Context) error {
	var err error
	if r.found.apiMinor, err = r.of.config.Octavia.Version(ctx); err != nil {
		return fmt.Errorf("learn the version of Octavia's API: %w", err)
	}
	if lb := r.state.creation.pending(r.of.config.Clock.Now(), r.settings.LoadBalancerID,
		r.mode); lb != nil {
		r.found.claim = claim{balancer: lb, role: plan.Owner}
		return nil
	}
	// An older list shows whether Octavia has finished, but not the latest writes of fxccm.
	age := r.listAge()
	begun, err := r.findInList(ctx, age)
	isMissing := r.found.balancer == nil && r.found.deleting == nil &&
		(r.settings.LoadBalancerID != "" || wasServed(r.service))
	// Octavia may have finished since the old list.
	isWork := r.age > 0 && r.found.balancer != nil && r.found.balancer.Status != octavia.Active
	isOld := isWork || r.of.cache().WrittenSince(r.identity.UID, begun)
	if age > 0 && (err != nil || isMissing || isOld) {
		begun, err = r.findInList(ctx, 0)
	}
	if lb := r.found.balancer; lb == nil || lb.Status != octavia.PendingCreate {
		r.state.creation.loadBalancer = nil
	}
	if err == nil && r.found.balancer != nil {
		err = r.lockFound(ctx, begun)
	}
	return r.tellFound(err)
}

// lockFound locks the load balancer, and finds it again if another Service may have written to it
// after the list was begun.
func (r *reconciler) lockFound(ctx context.Context, begun time.Time) error {
	id := r.found.balancer.ID
	unlock, waited, err := r.of.locks.Lock(ctx, "load balancer "+id)
	if err != nil {
		return err
	}
	r.unlock = append(r.unlock, unlock)
	if waited || r.of.cache().WrittenSince(id, begun) {
		_, err = r.findInList(ctx, 0)
	}
	return err
}

// findInList finds the load balancer in a list of at most this age, and returns when the list was
// begun.
func (r *reconciler) findInList(
	ctx context.Context, age time.Duration,
) (begun time.Time, err error) {
	all, err := r.of.config.Octavia.LoadBalancers(ctx, age)
	if err != nil {
		return time.Time{}, err
	}
	candidates := all.All()
	if r.deletedCluster != "" {
		candidates = taggedFor(r.identity, candidates)
	}
	r.found.claim, err = claimOf(r.identity, r.service, r.settings.LoadBalancerID, candidates,
		r.found.hasTags())
	if err != nil {
		return all.Begun, err
	}
	return all.Begun, r.found.admitGuest(r.identity, r.settings.MaxShared)
}

func (r *reconciler) tellFound(err error) error {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return r.notes.refuse(aboutIdentity, refused)
	case err != nil:
	case r.found.lost:
		r.notes.tell(aboutIdentity, desired.Notice{
			Reason: events.Lost, Warning: true,
			Message: fmt.Sprintf("load balancer %s no longer exists; creating a new one",
				r.settings.LoadBalancerID),
		})
	default:
		r.notes.tell(aboutIdentity)
	}
	return err
}
