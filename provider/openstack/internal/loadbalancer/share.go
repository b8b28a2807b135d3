package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Services share a load balancer by the annotation share-as. The first one creates it with tags of
// its keys, and Services with an equal key join it as guests. A Service leaves a load balancer that
// it may no longer share in the same way as when it is deleted. Then it has none, and joins or
// creates another one.

// share lets a Service without a load balancer join one, or finds that the Service must leave the
// one that it shares.
func (r *reconciler) share(ctx context.Context) error {
	lb := r.found.balancer
	switch {
	case !r.create || !r.found.hasTags():
		// Without create the Service could not get another load balancer.
	case lb != nil && r.isApart(lb):
		r.found.whyLeaves = "the others have another share-as, class or IP families, or request " +
			"another load balancer"
	case lb == nil && r.found.deleting == nil && len(r.settings.ShareKeys) > 0:
		return r.join(ctx)
	}
	return nil
}

// isOfCluster reports whether the tags show that a load balancer was created for this cluster.
func (r *reconciler) isOfCluster(lb *octavia.LoadBalancer) bool {
	return slices.Contains(lb.Tags, r.identity.ClusterTag()) &&
		!r.identity.IsGuestCluster(lb.Tags) && !r.identity.HasOtherMark(lb.Tags)
}

// mayJoin reports whether the Service and those of the load balancer have an equal key.
func (r *reconciler) mayJoin(lb *octavia.LoadBalancer) bool {
	return r.isOfCluster(lb) && slices.ContainsFunc(r.settings.ShareKeys,
		func(key settings.ShareKey) bool { return slices.Contains(lb.Tags, desired.ShareTag(key)) })
}

// isTagged reports whether the Service may have parts in a load balancer.
func (r *reconciler) isTagged(lb *octavia.LoadBalancer) bool {
	return slices.Contains(lb.Tags, r.identity.ServiceTag())
}

// isAnothers reports whether tags name another Service.
func (r *reconciler) isAnothers(tags []string) bool {
	return slices.ContainsFunc(desired.ServicesOf(tags),
		func(uid string) bool { return uid != r.identity.UID })
}

// isApart reports whether others share the load balancer of the Service by keys that it does not
// have. An owner without others stays: the plan corrects the tags.
func (r *reconciler) isApart(lb *octavia.LoadBalancer) bool {
	return desired.IsShared(lb.Tags) && !r.mayJoin(lb) && r.isTagged(lb) &&
		(r.found.role == plan.Guest || r.isAnothers(lb.Tags))
}

// collision returns why the Service leaves the load balancer that it shares by name: another
// Service has one of its ports there. A listener that names no Service may be this one's, without
// its tags.
func (r *reconciler) collision(listeners []octavia.Listener) (why string) {
	if lb := r.found.balancer; lb == nil || !r.create || !r.mayJoin(lb) {
		return ""
	}
	return r.usedPort(slices.DeleteFunc(slices.Clone(listeners),
		func(l octavia.Listener) bool { return !r.isAnothers(l.Tags) }))
}

// usedPort returns which port of the Service one of the listeners has, as a clause; "" for none.
func (r *reconciler) usedPort(listeners []octavia.Listener) string {
	for _, port := range r.service.Spec.Ports {
		key := octavia.ListenerKey{
			Transport: string(cmp.Or(port.Protocol, v1.ProtocolTCP)), Port: int(port.Port),
		}
		if slices.ContainsFunc(listeners, func(l octavia.Listener) bool {
			return l.Status != octavia.Deleted && l.Key() == key
		}) {
			return fmt.Sprintf("another listener has port %d/%s there", key.Port, key.Transport)
		}
	}
	return ""
}

// join chooses the oldest load balancer that the Service can share; none if it must create one.
func (r *reconciler) join(ctx context.Context) error {
	keys := r.settings.ShareKeys
	// The next Service with the key waits until this one has created a load balancer or joined one.
	unlock, ok := r.of.locks.TryLock("share " + desired.ShareTag(keys[len(keys)-1]))
	if !ok {
		return errBusy
	}
	r.unlock = append(r.unlock, unlock)
	all, err := r.of.config.Octavia.LoadBalancers(ctx, 0)
	if err != nil {
		return err
	}
	var notes []events.Notice
	for _, lb := range oldestFirst(all.All()) {
		hasName := func(key settings.ShareKey) bool { return desired.HasShareName(lb.Tags, key) }
		if lb.Status.Gone() || !r.isOfCluster(&lb) || !slices.ContainsFunc(keys, hasName) {
			continue
		}
		why, err := r.whyNotJoin(ctx, &lb, all.Begun)
		if err != nil {
			return err
		}
		if why == "" {
			r.found.claim, notes = claim{balancer: &lb, role: plan.Guest}, nil
			break
		}
		notes = []events.Notice{{Reason: events.NotShared, Message: fmt.Sprintf(
			"load balancer %s, which others share as %s, is not joined: %s; creating another one",
			lb.ID, r.settings.ShareAs, why)}}
	}
	r.notes.tell(aboutSharing, notes...)
	return nil
}

// whyNotJoin returns why the Service cannot join a load balancer with its name, as a clause. If it
// can, whyNotJoin returns "" and holds the lock of the load balancer. begun is when the list of it
// was begun.
func (r *reconciler) whyNotJoin(
	ctx context.Context, lb *octavia.LoadBalancer, begun time.Time,
) (string, error) {
	if why := r.whyUnfit(lb); why != "" {
		return why, nil
	}
	unlock, ok := r.of.locks.TryLock("load balancer " + lb.ID)
	if !ok {
		return "", errBusy
	}
	why, err := r.whyNotNow(ctx, lb, r.of.cache().WrittenSince(lb.ID, begun))
	if why != "" || err != nil {
		unlock()
		return why, err
	}
	r.unlock = append(r.unlock, unlock)
	return "", nil
}

// whyNotNow is whyNotJoin under the lock of the load balancer, which is read again if it is old.
func (r *reconciler) whyNotNow(
	ctx context.Context, lb *octavia.LoadBalancer, isOld bool,
) (why string, err error) {
	if isOld {
		var now octavia.LoadBalancer
		if now, err = r.of.config.Octavia.Get(ctx, lb.ID); err == nil {
			*lb = now
			why = r.whyUnfit(lb)
		}
	}
	if err == nil && why == "" {
		why, err = r.whyFull(ctx, lb)
	}
	if errors.Is(err, octavia.ErrNotFound) {
		return "it no longer exists", nil
	}
	return why, err
}

// whyUnfit is whyNotJoin by what the list of load balancers shows.
func (r *reconciler) whyUnfit(lb *octavia.LoadBalancer) string {
	switch {
	case !r.mayJoin(lb):
		return "these have another class or other IP families, or request another load balancer"
	case lb.Status.Gone(), lb.Status == octavia.InError:
		return "it is " + string(lb.Status)
	}
	return ""
}

// whyFull is whyNotJoin by the listeners of the load balancer.
func (r *reconciler) whyFull(ctx context.Context, lb *octavia.LoadBalancer) (string, error) {
	contents, err := r.of.config.Octavia.Contents(ctx, lb.ID, octavia.InPart, time.Time{})
	if err != nil {
		return "", err
	}
	is, most := len(contents.Listeners), r.settings.MaxSharedListeners
	if is+len(r.service.Spec.Ports) > most {
		return fmt.Sprintf("it has %d listeners, and max-shared-listeners of cloud.conf allows %d",
			is, most), nil
	}
	return r.usedPort(contents.Listeners), nil
}

// leave removes the parts of the Service from the load balancer that it shares. It never returns
// nil: the next reconcile finds another load balancer.
func (r *reconciler) leave(ctx context.Context) error {
	if r.age > 0 {
		return errOld
	}
	r.tellLeaving()
	// Until the end the tags of the load balancer show that the Service has parts in it.
	if err := r.of.Annotate(ctx, r.service,
		map[string]*string{settings.AnnotationLoadBalancerID: nil}); err != nil {
		return err
	}
	if err := r.readAllFloatingIPs(ctx); err != nil {
		return err
	}
	lb := r.found.balancer
	end := r.of.config.Clock.Now().Add(deleteTimeout)
	if err := r.deleteObserved(ctx, r.observeFound(), end); err != nil {
		return err
	}
	r.of.cache().Invalidate(lb.ID, r.identity.UID)
	r.state.creation, r.state.floatingIPs = freshCreation{}, knownFloatingIPs{}
	r.state.left = lb.ID
	return retryAfter(minRetryDelay, "the Service has left load balancer %s and gets another one",
		lb.ID)
}

func (r *reconciler) tellLeaving() {
	r.notes.tell(aboutSharing, events.Notice{Reason: events.NotShared, Message: fmt.Sprintf(
		"the Service leaves load balancer %s: %s; it gets another one with another address",
		r.found.balancer.ID, r.found.whyLeaves)})
}

// previewLeaving is leave without changes.
func (r *reconciler) previewLeaving(ctx context.Context, preview *Preview) error {
	r.tellLeaving()
	if err := r.readAllFloatingIPs(ctx); err != nil {
		return err
	}
	is := r.observeFound()
	if err := r.allContents(ctx, &is); err != nil {
		return err
	}
	preview.Desired, preview.Observed, preview.Plan = nil, is.Outline(), r.removal(is)
	return r.notes.tellPlan(preview.Plan.Notices)
}
