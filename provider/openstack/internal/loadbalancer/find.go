package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// find finds the load balancer and locks it. A list from before it was created would not show it,
// and it would be created twice.
func (r *reconciler) find(ctx context.Context) error {
	var err error
	if r.found.apiMinor, err = r.config.Octavia.Version(ctx); err != nil {
		return fmt.Errorf("learn the version of Octavia's API: %w", err)
	}
	if lb := r.state.creation.pending(r); lb != nil {
		r.found.claim = claim{balancer: lb, role: plan.Owner}
		return nil
	}
	// An older list tells whether Octavia is done, but not what fxccm has written since.
	age := listMaxAge
	if r.repair {
		age = r.age
	}
	begun, err := r.findInList(ctx, age)
	isMissing := r.found.balancer == nil &&
		(r.found.deleting != nil || r.settings.LoadBalancerID != "" || wasServed(r.service))
	// What an old list shows of Octavia's work is over.
	isWork := r.age > 0 && r.found.balancer != nil && r.found.balancer.Status != octavia.Active
	isOld := isWork || r.cache().WrittenSince(r.identity.UID, begun)
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

// lockFound locks the load balancer, and looks again if another Service may have written to it
// since the list was begun.
func (r *reconciler) lockFound(ctx context.Context, begun time.Time) error {
	id := r.found.balancer.ID
	unlock, waited, err := r.locks.Lock(ctx, "load balancer "+id)
	if err != nil {
		return err
	}
	r.unlock = append(r.unlock, unlock)
	if waited || r.cache().WrittenSince(id, begun) {
		_, err = r.findInList(ctx, 0)
	}
	return err
}

// findInList finds the load balancer in a list of at most this age, and returns when it was begun.
func (r *reconciler) findInList(
	ctx context.Context, age time.Duration,
) (begun time.Time, err error) {
	all, err := r.config.Octavia.LoadBalancers(ctx, age)
	if err != nil {
		return time.Time{}, err
	}
	candidates := all.All()
	if r.deletedCluster != "" {
		candidates = taggedFor(r.identity, candidates)
	}
	r.found.claim, err = claimOf(r.identity, r.service, r.settings.LoadBalancerID, candidates,
		r.found.apiMinor >= 5)
	if err != nil {
		return all.Begun, err
	}
	return all.Begun, r.admitGuest()
}

func (r *reconciler) tellFound(err error) error {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return r.refuse(aboutIdentity, refused)
	case err != nil:
	case r.found.lost:
		r.tell(aboutIdentity, desired.Notice{
			Reason: events.Lost, Warning: true,
			Message: fmt.Sprintf("load balancer %s no longer exists; creating a new one",
				r.settings.LoadBalancerID),
		})
	default:
		r.tell(aboutIdentity)
	}
	return err
}

// admitGuest enforces the limit of Services that share a load balancer.
func (r *reconciler) admitGuest() error {
	lb := r.found.balancer
	if lb == nil || r.found.role != plan.Guest {
		return nil
	}
	if r.found.apiMinor < 5 {
		return newRefusal(events.NotShared,
			"load balancer %s cannot be shared: Octavia API 2.%d has no tags, which mark the owner of each part", lb.ID, r.found.apiMinor)
	}
	// Services of OCCM have only names, and Services of two clusters may have the same name.
	others := max(len(sharers(r.identity, lb)), len(desired.ServicesOf(lb.Tags)))
	if !r.identity.HasJoined(lb.Tags) && others+1 > r.settings.MaxShared {
		return newRefusal(events.NotShared,
			"load balancer %s is already shared by %d other Services; [LoadBalancer] max-shared-lb allows %d", lb.ID, others, r.settings.MaxShared)
	}
	return nil
}
