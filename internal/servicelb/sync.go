package servicelb

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/internal/printable"
)

// The reasons of events are upstream's.
const (
	ensuring     = "EnsuringLoadBalancer"
	ensured      = "EnsuredLoadBalancer"
	syncFailed   = "SyncLoadBalancerFailed"
	updated      = "UpdatedLoadBalancer"
	updateFailed = "UpdateLoadBalancerFailed"
	noNodes      = "UnAvailableLoadBalancer"
	deleting     = "DeletingLoadBalancer"
	deleted      = "DeletedLoadBalancer"
	deleteFailed = "DeleteLoadBalancerFailed"
	kept         = "LoadBalancerFinalizerKept"
)

var (
	errNoStatus = errors.New("the provider has returned no status")
	errChanged  = api.NewRetryError("the Service has changed", updatePause)
)

// sync makes the call that a Service needs, if any and if it is time.
func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	service, last, err := c.look(ctx, key)
	if service == nil || err != nil {
		return err
	}
	// Another client's change may have queued the Service earlier.
	if last != nil && last.asked != nil && c.sameAsked(last.asked, service) {
		if wait := time.Until(last.repeat); wait > 0 {
			return api.NewRetryError("it is not time yet", wait)
		}
	}
	err = c.call(ctx, key, service, last)
	if last = c.lastOf(key); last != nil {
		last.asked = nil
		if unfinished, ok := errors.AsType[*api.RetryError](err); ok {
			last.asked, last.repeat = service, time.Now().Add(unfinished.RetryAfter())
		}
	}
	return err
}

// call makes the call that a Service needs, if any.
func (c *Controller) call(
	ctx context.Context, key types.NamespacedName, service *v1.Service, last *served,
) (err error) {
	switch {
	case !c.Classes.want(service):
		return c.cleanUp(ctx, key, service, last)
	case !c.Classes.mayClaim(service):
		return c.awaitRelease(ctx, key, service)
	case last == nil, !c.isFinished(last), !sameRequest(last.service, service):
		return c.ensure(ctx, key, service, last)
	case !isClaimed(service):
		if _, err = c.claim(ctx, service); err != nil {
			return c.unwritten(ctx, service, err)
		}
		return nil
	case c.isReplaced(last, service):
		// Right after the answer of the provider, the informer may still have the old status.
		if pause := time.Until(last.finished.Add(rewritePause)); pause > 0 {
			c.changed.AddAfter(key, pause)
			return nil
		}
		// The provider knows the address of now.
		return c.ensure(ctx, key, service, last)
	}
	return c.update(ctx, key, service, last)
}

// syncNodes gives a load balancer its nodes and endpoints, also while another change of it fails. A
// Service that has no load balancer, or that has changed, is left to sync.
func (c *Controller) syncNodes(ctx context.Context, key types.NamespacedName) error {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	last := c.lastOf(key)
	if err != nil || last == nil || !c.Classes.want(service) || !c.Classes.mayClaim(service) ||
		!sameRequest(last.service, service) ||
		!c.isFinished(last) && len(service.Status.LoadBalancer.Ingress) == 0 {
		return nil // it is queued for sync, which gives it the nodes of that moment
	}
	return c.update(ctx, key, service, last)
}

// look returns a Service as it is now, and what was last asked for. What belongs to a Service that
// no longer exists, although it had a load balancer, is deleted first: another client has removed
// the finalizer.
func (c *Controller) look(
	ctx context.Context, key types.NamespacedName,
) (*v1.Service, *served, error) {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, err
	}
	last := c.lastOf(key)
	if last == nil || err == nil && service.UID == last.service.UID {
		return service, last, nil
	}
	gone := last.service
	c.announceDeletion(gone, last)
	deletion := c.Cloud.EnsureLoadBalancerDeleted(ctx, c.ClusterName, gone.DeepCopy())
	if deletion != nil && !isElsewhere(deletion) {
		c.warn(ctx, gone, deleteFailed, deletion)
		if err == nil { // the next one of its name waits
			c.warn(ctx, service, deleteFailed, deletion)
		}
		return nil, nil, deletion
	}
	c.Recorder.Event(gone, v1.EventTypeNormal, deleted, "Deleted load balancer")
	c.forget(key)
	return service, nil, nil
}

// ensure asks for a load balancer.
func (c *Controller) ensure(
	ctx context.Context, key types.NamespacedName, service *v1.Service, last *served,
) error {
	now := &served{service: service}
	// A new run finds most load balancers as the last one has left them. It is silent about these.
	isNew := last == nil && len(service.Status.LoadBalancer.Ingress) == 0
	isChanged := last != nil && !sameRequest(last.service, service)
	if last != nil {
		now.announced, now.has, now.updated = last.announced, last.has, last.updated
	}
	if isNew || isChanged {
		now.announced = true
		c.forgetFailure(key) // the next Warning is about the Service as it is now
		c.Recorder.Event(service, v1.EventTypeNormal, ensuring, "Ensuring load balancer")
	}
	// From here on each change of the nodes is noted.
	c.remember(key, now)
	with, err := c.read(ctx, key, service, now)
	if err != nil {
		c.warn(ctx, service, syncFailed, err)
		return err
	}
	claimed, err := c.claim(ctx, service)
	if err != nil {
		return c.unwritten(ctx, service, err)
	}
	if !c.Classes.want(claimed) {
		return nil // the informer reports what has changed meanwhile
	}
	if with.lacksNodes() && (last == nil || isChanged) {
		c.Recorder.Event(service, v1.EventTypeWarning, noNodes,
			"There are no available nodes for LoadBalancer")
	}
	status, err := c.callEnsure(ctx, claimed, with)
	latest, absent := c.services.Services(key.Namespace).Get(key.Name)
	switch {
	case absent != nil, latest.UID != service.UID, !c.Classes.want(latest):
		return nil // it is queued for its clean-up, and the API server refuses an address
	case isElsewhere(err):
		now.has = with.version
		c.finish(key, now, latest, nil)
		return nil
	case err == nil && status == nil:
		err = errNoStatus
		fallthrough
	case err != nil:
		c.warn(ctx, service, syncFailed, err)
		return err
	}
	now.has = with.version
	if latest, err = c.publish(ctx, latest, status); err != nil {
		return c.unwritten(ctx, service, err)
	}
	c.finish(key, now, latest, status)
	if now.announced {
		now.announced = false
		c.Recorder.Event(service, v1.EventTypeNormal, ensured, "Ensured load balancer")
	}
	return nil
}

// update gives a load balancer the nodes and endpoints as they are now, unless it has them.
func (c *Controller) update(
	ctx context.Context, key types.NamespacedName, service *v1.Service, last *served,
) error {
	// A change after the read must find the time of this update: the next one has to wait.
	c.mu.Lock()
	before := last.updated
	last.updated = time.Now()
	c.mu.Unlock()
	with, err := c.read(ctx, key, service, last)
	if err != nil {
		c.warn(ctx, service, updateFailed, err)
		return err
	}
	isDue := with.version != last.has
	c.mu.Lock()
	since := last.nodesMoved
	last.nodesMoved = time.Time{}
	if !isDue {
		last.updated = before
	}
	c.mu.Unlock()
	if !isDue {
		return nil
	}
	c.counts.updates.Inc()
	err = c.callUpdate(ctx, service, with)
	c.counts.updateSeconds.Observe(time.Since(last.updated).Seconds())
	_, unfinished := errors.AsType[*api.RetryError](err)
	switch {
	case isElsewhere(err):
		err = nil
	case unfinished:
	case err != nil:
		// The next call is one of EnsureLoadBalancer, which also creates a load balancer that is
		// gone.
		c.unfinish(last)
		c.counts.failedUpdates.Inc()
		if !c.isFailing(key) {
			c.warn(ctx, service, updateFailed, err)
		}
	case with.lacksNodes():
		c.Recorder.Event(service, v1.EventTypeWarning, noNodes,
			"There are no available nodes for LoadBalancer")
	case with.version.nodes == last.has.nodes:
		// A rollout changes the endpoints many times: no event.
	default:
		c.Recorder.Event(service, v1.EventTypeNormal, updated,
			"Updated load balancer with new hosts")
	}
	switch {
	case err != nil:
		c.mu.Lock()
		if !since.IsZero() {
			last.nodesMoved = since
		}
		c.mu.Unlock()
	default:
		last.has = with.version
		if !since.IsZero() {
			c.counts.secondsUntilNodesSynced.Observe(time.Since(since).Seconds())
		}
	}
	return err
}

// awaitRelease is for a Service whose load balancer another controller has to delete first: both
// may find the same one in the cloud. Its clean-up is a change of the Service, which is queued.
func (c *Controller) awaitRelease(
	ctx context.Context, key types.NamespacedName, service *v1.Service,
) error {
	err := fmt.Errorf("the load balancer of class %q is not deleted yet, by the controller that serves "+
		"this class; remove the annotation %s if no controller serves it", service.Annotations[ServedClass],
		ServedClass)
	if c.isFailing(key) { // most deletions take less than the first pause
		c.warn(ctx, service, syncFailed, err)
	}
	return err
}

// announceDeletion records one event, however often the deletion is tried.
func (c *Controller) announceDeletion(service *v1.Service, last *served) {
	if !last.deleting {
		last.deleting = true
		c.Recorder.Event(service, v1.EventTypeNormal, deleting, "Deleting load balancer")
	}
}

// cleanUp deletes what the Service has no right to any more, if this controller has made it.
func (c *Controller) cleanUp(
	ctx context.Context, key types.NamespacedName, service *v1.Service, last *served,
) error {
	owner := c.ownerOf(service, last)
	switch {
	case !c.Classes.mayClaim(service):
		// Another controller has claimed the Service meanwhile. In the same cloud, it owns the load
		// balancer by now.
		c.forget(key)
		return nil
	case owner == another:
		return nil
	}
	status, exists, err := c.Cloud.GetLoadBalancer(ctx, c.ClusterName, service.DeepCopy())
	if err != nil && !isElsewhere(err) {
		c.warn(ctx, service, syncFailed, err)
		return err
	}
	if owner == unmarked && !exists {
		c.Recorder.Eventf(service, v1.EventTypeWarning, kept, "The finalizer %s is kept, because "+
			"another controller may have set it: the cloud has no load balancer of the Service",
			servicehelper.LoadBalancerCleanupFinalizer)
		return nil
	}
	latest, absent := c.services.Services(key.Namespace).Get(key.Name)
	if absent == nil && latest.UID == service.UID {
		if c.Classes.want(latest) || !c.Classes.mayClaim(latest) ||
			c.ownerOf(latest, last) != owner {
			return errChanged // the load balancer may be another one
		}
		service = latest
	}
	if exists && owner == unmarked {
		// Without the mark, a next run does not know that this one has deleted the load balancer.
		claimed, err := c.claim(ctx, service)
		if err != nil {
			return c.unwritten(ctx, service, err)
		}
		service = claimed
	}
	if last != nil && last.status != nil {
		status = last.status
	}
	if exists {
		if last == nil {
			last = &served{service: service}
			c.remember(key, last)
		}
		c.announceDeletion(service, last)
		c.unfinish(last)
		if withdrawn, err := c.withdraw(ctx, service, status); err == nil {
			service = withdrawn
		} else if err = c.unwritten(ctx, service, err); err != nil {
			return err
		}
		err := c.Cloud.EnsureLoadBalancerDeleted(ctx, c.ClusterName, service.DeepCopy())
		if err != nil && !isElsewhere(err) {
			c.warn(ctx, service, syncFailed, err)
			return err
		}
	}
	if err := c.release(ctx, service, status); err != nil {
		return c.unwritten(ctx, service, err)
	}
	c.Recorder.Event(service, v1.EventTypeNormal, deleted, "Deleted load balancer")
	c.forget(key)
	return nil
}

// ownerOf says who cleans up after a Service: this controller if it has made the last request.
func (c *Controller) ownerOf(service *v1.Service, last *served) owner {
	if last != nil {
		return ours
	}
	return c.Classes.owner(service)
}

// warn records an event about a failure, unless the provider has only not finished or the run is
// over. An unchanged failure has one event in a while, however often the call is tried.
func (c *Controller) warn(ctx context.Context, service *v1.Service, reason string, err error) {
	if _, unfinished := errors.AsType[*api.RetryError](err); unfinished || ctx.Err() != nil {
		return
	}
	format := "Error syncing load balancer: %v"
	if reason == updateFailed {
		format = "Error updating load balancer with new hosts: %v"
	}
	text := printable.Text(fmt.Sprintf(format, err), maxText)
	cause := printable.WithoutIDs(text)
	if c.mustRecord(keyOf(service), fmt.Sprint(service.UID, " ", reason, " ", cause)) {
		c.Recorder.Event(service, v1.EventTypeWarning, reason, text)
	}
}

// isElsewhere reports whether another component handles the call. Upstream compares so, too; some
// providers wrap the error.
func isElsewhere(err error) bool { return errors.Is(err, cloudprovider.ImplementedElsewhere) }

// unwritten returns the error of a patch, or nil if the Service is gone or another of the same name
// is there: the informer reports these.
func (c *Controller) unwritten(ctx context.Context, service *v1.Service, err error) error {
	switch {
	case apierrors.IsNotFound(err), isOfAnother(err):
		return nil
	case apierrors.IsConflict(err):
		return errChanged
	}
	err = fmt.Errorf("write the Service: %w", err)
	c.warn(ctx, service, syncFailed, err)
	return err
}

func (c *Controller) remember(key types.NamespacedName, now *served) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.served[key]; last != nil {
		now.endpointsVersion = last.endpointsVersion // now.has compares with it
	}
	c.served[key] = now
}

func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.served, key)
}

// finish notes the answer of the provider. What another client has written to the Service during
// the call is seen after a pause.
func (c *Controller) finish(
	key types.NamespacedName, s *served, service *v1.Service, status *v1.LoadBalancerStatus,
) {
	c.mu.Lock()
	s.finished, s.status = time.Now(), status.DeepCopy()
	c.mu.Unlock()
	if c.isReplaced(s, service) || !isClaimed(service) {
		c.changed.AddAfter(key, rewritePause)
	}
}

func (c *Controller) unfinish(s *served) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.finished = time.Time{}
}

func (c *Controller) isFinished(s *served) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !s.finished.IsZero()
}

// isReplaced reports whether a Service has another status than the answer of the provider. If the
// provider has returned no address, another component may write it.
func (c *Controller) isReplaced(s *served, now *v1.Service) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !s.finished.IsZero() && s.status != nil && len(s.status.Ingress) > 0 &&
		!sameStatus(&now.Status.LoadBalancer, s.status)
}
