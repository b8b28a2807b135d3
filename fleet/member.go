package fleet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/rescue"
)

// A member is the Manager of one cluster in this replica, from the moment at which it campaigns to
// the moment at which it has drained.
type member struct {
	cluster Cluster
	manager *ccm.Manager
	// access is nil if Params.Manager has given the client configuration.
	access *access
	// stop ends the Manager. stopped is the reason, nil before.
	stop    context.CancelCauseFunc
	stopped error
	// leading reports whether the Manager has won the Lease.
	leading atomic.Bool
	// ended is set with the result when the Manager's Run has returned.
	ended bool
	err   error
	// generation is that of the placement that started the Manager.
	generation uint64
	// keepUntil is how long this replica keeps the cluster while the set of replicas does not
	// change and another one is preferred, which was not able to lead.
	keepUntil time.Time
}

const (
	// rankDelay is how long a replica waits, for each replica that a cluster prefers to it, before
	// it takes a free Lease.
	rankDelay = 3 * time.Second

	// keepAtLeast and keepAtMost limit how long a replica keeps a cluster whose preferred replica
	// was not able to lead. The time doubles each time.
	keepAtLeast = 15 * time.Second
	keepAtMost  = 10 * time.Minute
)

var (
	errNotPreferred = errors.New("another replica is preferred")
	errGone         = errors.New("the cluster has left the fleet")
	errChanged      = errors.New("the cluster's configuration has changed")
)

// work looks at clusters until the queue is shut down.
func (f *Fleet) work() {
	for {
		name, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		if name == replicasItem {
			f.lookAtReplicas()
		} else {
			f.reconcile(name)
		}
		f.queue.Done(name)
	}
}

// reconcile compares what this replica does for a cluster with what it should do. It does not wait:
// the end of a Manager is a reason to look again.
func (f *Fleet) reconcile(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cluster, wanted := f.clusters[name]
	m := f.members[name]
	switch {
	case m != nil && m.ended:
		f.forget(name, m)
	case m != nil && m.stopped != nil:
		// Its end comes.
	case m != nil:
		if why := f.mustStop(m, wanted, &cluster); why != nil {
			m.stopFor(why)
			return
		}
		f.refresh(m, &cluster)
	case wanted && f.stopping == nil && f.settled && cluster.Err == nil:
		if wait := f.campaignIn(name); wait > 0 {
			f.queue.AddAfter(name, wait)
		} else if wait == 0 {
			f.start(cluster)
		}
	}
}

func (m *member) stopFor(why error) {
	m.stopped = why
	m.stop(why)
}

// forget ends the book-keeping of a Manager that has returned. A Manager that could not be drained
// stays until all of it has ended: two Managers of one cluster must not act at once, and both would
// have this replica's identity. The lock is held.
func (f *Fleet) forget(name string, m *member) {
	if timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](m.err); ok && timedOut.Ended() != nil {
		select {
		case <-timedOut.Ended():
		default:
			return // its end looks again
		}
	}
	if m.access != nil {
		m.access.reset()
	}
	delete(f.members, name)
	f.queue.Add(name)
}

// mustStop returns why a cluster's Manager must stop. The lock is held.
func (f *Fleet) mustStop(m *member, wanted bool, cluster *Cluster) error {
	switch {
	case f.stopping != nil:
		return f.stopping
	case !wanted:
		return errGone
	case cluster.Err == nil && m.cluster.needsNewManager(cluster):
		return errChanged
	}
	position := f.position(cluster.Name)
	if position <= 0 {
		return nil
	}
	keep := time.Until(m.keepUntil)
	if m.generation != f.generation || keep <= 0 {
		return errNotPreferred
	}
	if holder, _, _ := f.view.cluster(f.leaseOf(cluster.Name)); !m.leading.Load() &&
		holder != "" && holder != f.self.identity {
		return errNotPreferred
	}
	f.queue.AddAfter(cluster.Name, keep)
	return nil
}

// refresh gives a running Manager the cluster's new credentials. The lock is held.
func (f *Fleet) refresh(m *member, cluster *Cluster) {
	if cluster.Err != nil {
		return
	}
	if m.access != nil && !sameAccess(m.cluster.RESTConfig, cluster.RESTConfig) {
		if err := m.access.replace(cluster.RESTConfig); err != nil {
			f.failed(cluster.Name, err)
			return
		}
		f.log.Info("The cluster's credentials were replaced", "cluster", cluster.Name)
	}
	m.cluster = *cluster
}

// position returns how many live replicas a cluster prefers to this one, and -1 if this replica is
// not seen as live itself. The lock is held.
func (f *Fleet) position(cluster string) int {
	return slices.Index(rank(cluster, f.replicas), f.self.identity)
}

// campaignIn returns how long this replica waits before it campaigns for a cluster, and a negative
// number if there is nothing to wait for but a change. The lock is held.
func (f *Fleet) campaignIn(name string) time.Duration {
	position := f.position(name)
	if position == 0 {
		return 0
	}
	holder, since, until := f.view.cluster(f.leaseOf(name))
	now := time.Now()
	switch {
	case position < 0:
		return -1 // the other replicas do not see this one; its announcement looks again
	case holder != "" && holder != f.self.identity:
		return until.Sub(now) + time.Duration(position)*rankDelay
	}
	if since.Before(f.rankedSince) {
		since = f.rankedSince
	}
	return max(0, since.Add(time.Duration(position)*rankDelay).Sub(now))
}

// start makes and runs the Manager of a cluster. The lock is held.
func (f *Fleet) start(cluster Cluster) {
	m := &member{cluster: cluster, generation: f.generation}
	if f.position(cluster.Name) > 0 {
		m.keepUntil = time.Now().Add(f.keep.When(cluster.Name))
	}
	if err := f.build(m); err != nil {
		f.failed(cluster.Name, err)
		return
	}
	f.queue.Forget(cluster.Name)
	delete(f.problems, clusterSubject(cluster.Name))
	ctx, stop := context.WithCancelCause(context.Background())
	m.stop = stop
	f.members[cluster.Name] = m
	go func() {
		err := m.manager.Run(ctx)
		stop(nil)
		f.mu.Lock()
		m.ended, m.err = true, err
		f.mu.Unlock()
		f.membersEnded.Broadcast()
		timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](err)
		if ok && timedOut.Ended() != nil {
			f.log.Error(err, "The cluster's Manager did not drain in time", "cluster", cluster.Name)
			f.queue.Add(cluster.Name)
			<-timedOut.Ended()
		}
		f.queue.Add(cluster.Name)
	}()
}

// failed records that a cluster's Manager cannot be made, and tries again later. The lock is held.
func (f *Fleet) failed(name string, err error) {
	f.problems[clusterSubject(name)] = err
	f.log.Error(err, "The cluster's Manager cannot be made", "cluster", name)
	f.queue.AddRateLimited(name)
}

func clusterSubject(name string) string { return "cluster " + name }

// build makes a member's Manager.
func (f *Fleet) build(m *member) error {
	var params ccm.Params
	err := rescue.Panic(func() (err error) {
		params, err = f.params.Manager(m.cluster)
		return err
	})
	if err != nil {
		return fmt.Errorf("parameters of the Manager: %w", err)
	}
	if params.Name == "" {
		params.Name = m.cluster.Name
	}
	if params.Logger == nil {
		log := f.log.WithValues("cluster", m.cluster.Name)
		params.Logger = &log
	}
	if params.RESTConfig == nil && params.Clients == nil && m.cluster.RESTConfig != nil {
		if m.access, params.RESTConfig, err = newAccess(m.cluster.RESTConfig); err != nil {
			return err
		}
	}
	if params.Elector == nil {
		cfg := f.params.Election
		cfg.ResourceName, cfg.ResourceNamespace = f.leaseOf(m.cluster.Name), f.params.Namespace
		cfg.Identity = f.self.identity
		elector, err := ccm.NewLeaseElector(f.management, cfg, *params.Logger)
		if err != nil {
			return err
		}
		name := m.cluster.Name
		params.Elector = &memberElector{
			Elector: elector, member: m, changed: func() { f.queue.Add(name) },
		}
	}
	m.manager, err = ccm.New(params)
	return err
}

// memberElector tells the member when it leads.
type memberElector struct {
	ccm.Elector
	member  *member
	changed func()
}

// Elect implements ccm.Elector.
func (e *memberElector) Elect(
	ctx context.Context, lead func(context.Context, ccm.Grant) error,
) error {
	return e.Elector.Elect(ctx, func(ctx context.Context, g ccm.Grant) error {
		e.member.leading.Store(true)
		defer e.member.leading.Store(false)
		e.changed()
		return lead(ctx, g)
	})
}

// ElectionStatus implements ccm.ElectionReporter.
func (e *memberElector) ElectionStatus() ccm.ElectionStatus {
	return e.Elector.(ccm.ElectionReporter).ElectionStatus()
}

// sameAccess reports whether two configurations of one server have the same credentials and trust
// the same authorities.
func sameAccess(a, b *rest.Config) bool {
	return a == b || reflect.DeepEqual(accessOf(a), accessOf(b))
}

// accessOf returns what [access] replaces, but for functions, which cannot be compared.
func accessOf(c *rest.Config) rest.Config {
	return rest.Config{
		Username: c.Username, Password: c.Password,
		BearerToken: c.BearerToken, BearerTokenFile: c.BearerTokenFile,
		Impersonate: c.Impersonate, TLSClientConfig: c.TLSClientConfig,
		AuthProvider: c.AuthProvider, ExecProvider: c.ExecProvider,
	}
}
