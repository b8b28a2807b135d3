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
	hasKeys := len(r.settings.ShareKeys) > 0
	switch lb := r.found.balancer; {
	case hasKeys && !r.found.hasTags():
		r.notes.tell(aboutSharing, *events.Refuse(events.NotShared,
			"annotation %s has no effect: Octavia API 2.%d has no tags, by which Services find a "+
				"load balancer to share; remove the annotation, or upgrade Octavia",
			settings.AnnotationShareAs, r.found.apiMinor))
	case lb != nil:
		// Without create the Service could not get another one.
		r.found.leaves = r.create && r.isApart(lb)
	case hasKeys && r.create && r.found.deleting == nil:
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

// hasJoined reports whether the Service may have parts in a load balancer of this cluster.
func (r *reconciler) hasJoined(lb *octavia.LoadBalancer) bool {
	return r.isOfCluster(lb) && slices.Contains(lb.Tags, r.identity.ServiceTag())
}

// isJoining reports whether the Service has no parts in the load balancer yet, and may still choose
// another one.
func (r *reconciler) isJoining(lb *octavia.LoadBalancer) bool {
	return r.found.role == plan.Guest && !slices.Contains(lb.Tags, r.identity.ServiceTag())
}

// isAnothers reports whether tags name another Service.
func (r *reconciler) isAnothers(tags []string) bool {
	return slices.ContainsFunc(desired.ServicesOf(tags),
		func(uid string) bool { return uid != r.identity.UID })
}

// isApart reports whether others share the load balancer of the Service by keys that it does not
// have. An owner without others stays: the plan corrects the tags.
func (r *reconciler) isApart(lb *octavia.LoadBalancer) bool {
	return len(desired.ShareTags(lb.Tags)) > 0 && !r.mayJoin(lb) && r.hasJoined(lb) &&
		(r.found.role == plan.Guest || r.isAnothers(lb.Tags))
}

// collides reports whether another Service has a port of this one in the load balancer that both
// share by name. A listener that does not name its owner may be this Service's, without its tags.
func (r *reconciler) collides(want desired.State, is observed) bool {
	if lb := r.found.balancer; lb == nil || !r.create || !r.mayJoin(lb) {
		return false
	}
	wanted := map[octavia.ListenerKey]bool{}
	for i := range want.Ports {
		wanted[want.Ports[i].Listener.Key()] = true
	}
	return slices.ContainsFunc(is.Listeners, func(l octavia.Listener) bool {
		return l.Status != octavia.Deleted && wanted[l.Key()] && r.isAnothers(l.Tags)
	})
}

// join chooses the oldest load balancer that the Service can share; none if it must create one.
func (r *reconciler) join(ctx context.Context) error {
	keys := r.settings.ShareKeys
	// The next Service with the key waits until this one has created a load balancer or joined one.
	unlock, _, err := r.of.locks.Lock(ctx, "share "+desired.ShareTag(keys[len(keys)-1]))
	if err != nil {
		return err
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
) (why string, err error) {
	if why = r.whyUnfit(lb); why != "" {
		return why, nil
	}
	unlock, waited, err := r.of.locks.Lock(ctx, "load balancer "+lb.ID)
	if err != nil {
		return "", err
	}
	defer func() {
		if why != "" || err != nil {
			unlock()
		}
	}()
	if waited || r.of.cache().WrittenSince(lb.ID, begun) {
		why, err = r.whyUnfitNow(ctx, lb)
	}
	if err == nil && why == "" {
		why, err = r.whyFull(ctx, lb)
	}
	if errors.Is(err, octavia.ErrNotFound) {
		why, err = "it no longer exists", nil
	}
	if err == nil && why == "" {
		r.unlock = append(r.unlock, unlock)
	}
	return why, err
}

// whyUnfitNow reads the load balancer again.
func (r *reconciler) whyUnfitNow(ctx context.Context, lb *octavia.LoadBalancer) (string, error) {
	now, err := r.of.config.Octavia.Get(ctx, lb.ID)
	if err != nil {
		return "", err
	}
	*lb = now
	return r.whyUnfit(lb), nil
}

// whyUnfit is whyNotJoin by what the list of load balancers shows.
func (r *reconciler) whyUnfit(lb *octavia.LoadBalancer) string {
	services := len(desired.ServicesOf(lb.Tags))
	switch {
	case !r.mayJoin(lb):
		return "these have another class or other IP families, or request another load balancer"
	case lb.Status.Gone(), lb.Status == octavia.InError:
		return "it is " + string(lb.Status)
	case services+1 > r.settings.MaxShared:
		return fmt.Sprintf("%d Services share it, and max-shared-lb of cloud.conf allows %d",
			services, r.settings.MaxShared)
	}
	return ""
}

// whyFull is whyNotJoin by the listeners of the load balancer.
func (r *reconciler) whyFull(ctx context.Context, lb *octavia.LoadBalancer) (string, error) {
	contents, err := r.of.config.Octavia.Contents(ctx, lb.ID, octavia.InPart, time.Time{})
	if err != nil {
		return "", err
	}
	taken := map[octavia.ListenerKey]bool{}
	for i := range contents.Listeners {
		if l := &contents.Listeners[i]; l.Status != octavia.Deleted {
			taken[l.Key()] = true
		}
	}
	ports, most := r.service.Spec.Ports, r.settings.MaxSharedListeners
	if len(taken)+len(ports) > most {
		return fmt.Sprintf("it has %d listeners, and max-shared-listeners of cloud.conf allows %d",
			len(taken), most), nil
	}
	for _, port := range ports {
		key := octavia.ListenerKey{
			Transport: string(cmp.Or(port.Protocol, v1.ProtocolTCP)), Port: int(port.Port),
		}
		if taken[key] {
			return fmt.Sprintf("port %d/%s is used there", key.Port, key.Transport), nil
		}
	}
	return "", nil
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
	lb, why := r.found.balancer, "another Service has one of its ports there"
	if r.isApart(lb) {
		why = "the others have another share-as, class or IP families, or request another load " +
			"balancer"
	}
	r.found.leaves = true
	r.notes.tell(aboutSharing, events.Notice{Reason: events.NotShared, Message: fmt.Sprintf(
		"the Service leaves load balancer %s: %s; it gets another one with another address", lb.ID,
		why)})
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
