package loadbalancer

import (
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// serviceState outlives a reconcile of a Service.
type serviceState struct {
	// inheritedVIP is the VIP, with its address, of a load balancer that is being deleted to be
	// recreated; nil for none. It is tried once.
	inheritedVIP *octavia.VIP
	// creation is that of the load balancer.
	creation    freshCreation
	floatingIPs knownFloatingIPs
	// events were written for the Service.
	events writtenNotices
	// condition was last written to the Service, or removed from it, if conditionKnown is true.
	condition      *metav1.Condition
	conditionKnown bool
}

// freshCreation is a load balancer that fxccm has just created. It is not read while Octavia builds
// it.
type freshCreation struct {
	// loadBalancer is nil for none.
	loadBalancer *octavia.LoadBalancer
	nextLook     time.Time
}

// pending is the load balancer as long as Octavia is expected to build it; else nil.
func (c *freshCreation) pending(r *reconciler) *octavia.LoadBalancer {
	lb, named := c.loadBalancer, r.settings.LoadBalancerID
	isDue := !r.config.Clock.Now().Before(c.nextLook)
	if lb == nil || !lb.Status.Pending() || isDue || !r.create || r.repair ||
		named != "" && named != lb.ID {
		return nil
	}
	return lb
}

// knownFloatingIPs are all that match the query, as of the last read or creation.
type knownFloatingIPs struct {
	query neutron.FloatingIPQuery
	all   []neutron.FloatingIP
	// created is when they were created with their load balancer; zero if they were read.
	created time.Time
}

// suffices tells whether they are not to be read again: for new nodes they are of no importance,
// and another client hardly changes them right after their creation. Drift is repaired all the
// same.
func (k *knownFloatingIPs) suffices(r *reconciler, query neutron.FloatingIPQuery) bool {
	isFresh := r.config.Clock.Since(k.created) < creationMaxAge
	return query == k.query && !r.repair && (isFresh || !r.create)
}

func newServiceState() *serviceState { return &serviceState{events: writtenNotices{}} }

// services are the known Services and their states. A state is used under the lock of its Service.
// It is safe for concurrent use.
type services struct {
	mu     sync.Mutex
	states map[types.UID]*serviceState
	// names are the Services that follow changes of the cloud and of nodes.
	names map[types.UID]serviceName
}

// serviceName finds a Service by its UID.
type serviceName struct{ cluster, namespace, name string }

func (n serviceName) String() string { return n.namespace + "/" + n.name }

// state returns the state of the Service, and creates it if needed.
func (s *services) state(uid types.UID) *serviceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states == nil {
		s.states = map[types.UID]*serviceState{}
	}
	if s.states[uid] == nil {
		s.states[uid] = newServiceState()
	}
	return s.states[uid]
}

// peek returns the state of the Service, or one that is not kept.
func (s *services) peek(uid types.UID) *serviceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.states[uid]; known != nil {
		return known
	}
	return newServiceState()
}

func (s *services) track(uid types.UID, name serviceName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[types.UID]serviceName{}
	}
	s.names[uid] = name
}

// untrack is for a Service whose load balancer is being deleted.
func (s *services) untrack(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, uid)
}

// name is the zero value for a Service that is not tracked.
func (s *services) name(uid types.UID) serviceName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[uid]
}

// tracked are sorted.
func (s *services) tracked() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.names))
}

// forget frees the state of a Service that is gone. A reconcile in progress keeps its state to its
// end.
func (s *services) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, uid)
	delete(s.names, uid)
}
