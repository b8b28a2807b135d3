package octavia

import (
	"net/http"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// task is Octavia's work for one change. Until it ends, the load balancer is PENDING.
type task struct {
	due time.Time
	// never means that the task does not end.
	never bool
	// fails means that the task ends in ERROR.
	fails bool
}

// startWork sets the status of the load balancer and starts the work. The caller has set the
// statuses of the changed resources below it.
func (s *Service) startWork(t *tree, status string) {
	now := s.Clock.Now()
	t.set(&t.OctaviaResource, status, now)
	duration := s.options.Provisioning
	w := &task{}
	if rule := s.takeProvisioningRule(t); rule != nil {
		if rule.Duration > 0 {
			duration = rule.Duration
		}
		w.never, w.fails = rule.Never, rule.Fail
	}
	w.fails = w.fails || t.doomed
	t.doomed = false
	w.due = now.Add(duration)
	t.work = w
	if duration == 0 {
		s.settleTree(t, now)
	}
}

// work sets the status of a resource below the load balancer, locks its pool, if any, with the
// pool's listeners, and starts the work.
func (s *Service) work(t *tree, p *Pool, row *OctaviaResource, status string) {
	now := s.Clock.Now()
	if p != nil {
		t.pendPool(p, now)
	}
	t.set(row, status, now)
	s.startWork(t, StatusPendingUpdate)
}

// Finish finishes the work that is due. The caller holds the lock.
func (s *Service) Finish(now time.Time) {
	for _, t := range slices.Clone(s.trees) {
		s.settleTree(t, now)
	}
}

func (s *Service) settleTree(t *tree, now time.Time) {
	if t.work == nil || t.work.never || now.Before(t.work.due) {
		return
	}
	done := t.work
	t.work = nil
	if done.fails {
		t.fail(now)
		return
	}
	if t.ProvisioningStatus == StatusPendingDelete {
		s.forgetTree(t)
		return
	}
	t.complete(now, t.asleep())
}

// fail ends failed work: the changed resource is in ERROR, and the resources above it have their
// previous status. The operating statuses stay.
func (t *tree) fail(now time.Time) {
	failed := t.failed()
	for _, resource := range t.resources() {
		switch {
		case !isPending(resource.ProvisioningStatus):
		case slices.Contains(failed, resource):
			t.set(resource, StatusError, now)
		default:
			t.set(resource, StatusActive, now)
		}
	}
	t.healing = false
}

// failed are the changed resources: the lowest PENDING ones, because those above them are PENDING
// only for their sake. If the work was for the load balancer, all are returned
// (octavia/controller/worker/v2/tasks/lifecycle_tasks.py).
func (t *tree) failed() []*OctaviaResource {
	pending := func(resources []*OctaviaResource) []*OctaviaResource {
		return slices.DeleteFunc(resources,
			func(r *OctaviaResource) bool { return !isPending(r.ProvisioningStatus) })
	}
	if t.ProvisioningStatus != StatusPendingUpdate || t.healing {
		return pending(t.resources())
	}
	var listeners, pools, below []*OctaviaResource
	for l := range each(t.Listeners) {
		listeners = append(listeners, &l.OctaviaResource)
	}
	for p := range each(t.Pools) {
		pools = append(pools, &p.OctaviaResource)
		below = append(below, p.resources()[1:]...)
	}
	for _, level := range [][]*OctaviaResource{below, pools, listeners} {
		if level = pending(level); len(level) > 0 {
			return level
		}
	}
	return []*OctaviaResource{&t.OctaviaResource}
}

// complete ends successful work. It does not change the resources in asleep.
func (t *tree) complete(now time.Time, asleep []*OctaviaResource) {
	t.Listeners = slices.DeleteFunc(t.Listeners,
		func(l Listener) bool { return l.ProvisioningStatus == StatusPendingDelete })
	t.Pools = slices.DeleteFunc(t.Pools, func(p Pool) bool {
		if p.ProvisioningStatus != StatusPendingDelete {
			return false
		}
		for _, l := range t.listenersOf(&p) {
			l.DefaultPoolID = ""
		}
		return true
	})
	for p := range each(t.Pools) {
		p.Members = slices.DeleteFunc(p.Members,
			func(m Member) bool { return m.ProvisioningStatus == StatusPendingDelete })
		if p.Monitor != nil && p.Monitor.ProvisioningStatus == StatusPendingDelete {
			p.Monitor = nil
		}
	}
	for _, resource := range t.resources() {
		if slices.Contains(asleep, resource) {
			continue
		}
		// A failover sets up all resources again, even those in ERROR (MarkLBActiveInDB with
		// mark_subobjects).
		if isPending(resource.ProvisioningStatus) || t.healing &&
			resource.ProvisioningStatus == StatusError {
			t.set(resource, StatusActive, now)
		}
	}
	t.healing = false
	t.operate()
}

// asleep are the pools without a listener that were created with the load balancer, with all
// resources below them. They stay PENDING_CREATE (MarkLBActiveInDB goes from listener to pool).
func (t *tree) asleep() (all []*OctaviaResource) {
	if t.ProvisioningStatus != StatusPendingCreate {
		return nil
	}
	for p := range each(t.Pools) {
		if len(t.listenersOf(p)) == 0 {
			all = append(all, p.resources()...)
		}
	}
	return all
}

// operate sets the operating statuses of a load balancer whose backends all work.
func (t *tree) operate() {
	of := func(resource *OctaviaResource, status string) {
		if resource.Down {
			status = statusOffline
		}
		resource.OperatingStatus = status
	}
	of(&t.OctaviaResource, statusOnline)
	for l := range each(t.Listeners) {
		of(&l.OctaviaResource, statusOnline)
	}
	for p := range each(t.Pools) {
		of(&p.OctaviaResource, statusOnline)
		for m := range each(p.Members) {
			status := statusOnline
			switch {
			case p.Monitor == nil:
				status = statusNoMonitor // haproxy's "no check", whatever the weight
			case m.Weight == 0:
				status = statusDraining
			}
			of(&m.OctaviaResource, status)
		}
		if p.Monitor != nil {
			of(&p.Monitor.OctaviaResource, statusOnline)
		}
	}
}

func (t *tree) set(resource *OctaviaResource, status string, now time.Time) {
	if resource.ProvisioningStatus != status {
		resource.ProvisioningStatus = status
		if resource.CreatedAt.IsZero() {
			resource.CreatedAt = now
		} else {
			resource.UpdatedAt = now
		}
	}
}

func isPending(status string) bool {
	return status == StatusPendingCreate || status == StatusPendingUpdate ||
		status == StatusPendingDelete
}

// mutable refuses a change below the load balancer unless it is ACTIVE (MUTABLE_STATUSES).
func (t *tree) mutable() error {
	if t.ProvisioningStatus != StatusActive {
		return immutable("Load Balancer", t.ID)
	}
	return nil
}

// mutablePool also requires the pool to be mutable, for changes of its members and monitor.
func (t *tree) mutablePool(p *Pool) error {
	if p.ProvisioningStatus != StatusActive {
		return immutable("Pool", p.ID)
	}
	return t.mutable()
}

// allows refuses a change of the load balancer itself unless it is in one of the states.
func (t *tree) allows(states ...string) error {
	if !slices.Contains(states, t.ProvisioningStatus) {
		return api.Refuse(http.StatusConflict, "Invalid state %s of loadbalancer resource %s",
			t.ProvisioningStatus, t.ID)
	}
	return nil
}

// pendListeners locks the listeners of a pool that changes
// (test_and_set_lb_and_listeners_prov_status).
func (t *tree) pendListeners(p *Pool, now time.Time) {
	for _, l := range t.listenersOf(p) {
		t.set(&l.OctaviaResource, StatusPendingUpdate, now)
	}
}

// pendPool locks a pool and its listeners, for a change of its members or its monitor.
func (t *tree) pendPool(p *Pool, now time.Time) {
	t.pendListeners(p, now)
	t.set(&p.OctaviaResource, StatusPendingUpdate, now)
}
