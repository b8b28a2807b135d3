package loadbalancer

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/recent"
)

// serviceState outlives a reconcile of a Service. It is used under the lock of the Service.
type serviceState struct {
	// inheritedVIP is the VIP, with its address, of a load balancer that is being deleted to be
	// recreated; nil for none. It is tried once.
	inheritedVIP *octavia.VIP
	// creation is that of the load balancer.
	creation    freshCreation
	floatingIPs knownFloatingIPs
	// address is that of the floating IP that was last created or attached; "" for none. Until the
	// Service is served, nothing else leads to a detached one on a cloud that keeps no tags.
	address string
	// left is the ID of the load balancer that the Service has left. The informer may still show it
	// in the annotation.
	left string
	// missing is why the object of a step was last missing, with its ID. A plan that refers to the
	// object again does so each time: Octavia shows a port that another client has deleted, and a
	// port of a server may have a security group that the project does not see.
	missing string
	// refusal is the last one.
	refusal refusal
	// failed is the Service whose load balancer was last found in ERROR; nil for none.
	failed *v1.Service
	// events were written for the Service.
	events writtenNotices
	// condition was last written to the Service, or removed from it, at conditionAt; zero: never.
	condition   *metav1.Condition
	conditionAt time.Time
	// conditionFailure is why the last write of a condition failed; "" if it succeeded.
	conditionFailure string
	// isDrifted: the load balancer has drifted and is not repaired yet.
	isDrifted bool
	// isRetried: the last call of the service controller failed, so it will call again.
	isRetried atomic.Bool
	// isUnverified: the last reconcile left members out whose servers were unknown.
	isUnverified atomic.Bool
	// endpoints are those of the last call of the service controller, which calls again soon after
	// they have changed. Nil: it gave none.
	endpoints *endpoints
	// requests are the last ones for the Service. They lock themselves.
	requests recent.Requests
}

// refusal is how a reconcile ended.
type refusal struct {
	// service is what was refused.
	service *v1.Service
	// annotated is the digest of its annotations after the reconcile wrote some; nil if it wrote
	// none. The answer to a patch is not kept: it counts for no limit of a fleet.
	annotated *digest
	// until is when the cloud is asked again.
	until   time.Time
	message string
}

// freshCreation is a load balancer that fxccm has just created. It is not read while Octavia builds
// it.
type freshCreation struct {
	// loadBalancer is nil for none.
	loadBalancer *octavia.LoadBalancer
	nextLook     time.Time
}

// pending returns the load balancer while Octavia is expected to build it; else nil. named is the
// ID that the Service names, or "".
func (c *freshCreation) pending(now time.Time, named string, how mode) *octavia.LoadBalancer {
	lb := c.loadBalancer
	if lb == nil || !lb.Status.Pending() || !now.Before(c.nextLook) || !how.create || how.repair ||
		named != "" && named != lb.ID {
		return nil
	}
	return lb
}

// knownFloatingIPs are all floating IPs that match the query, as of the last read or creation.
type knownFloatingIPs struct {
	query neutron.FloatingIPQuery
	all   []neutron.FloatingIP
	// validUntil is zero if they were read and no reconcile has waited since.
	validUntil time.Time
}

// suffices reports whether the floating IPs need not be read again: new nodes do not affect them,
// and other clients rarely change them right after their creation, or while a change of the load
// balancer takes several reconciles. A repair of drift always reads them.
func (k *knownFloatingIPs) suffices(
	query neutron.FloatingIPQuery, now time.Time, how mode,
) bool {
	// The address of a Service changes when its floating IP is attached.
	query.DetachedAddress = k.query.DetachedAddress
	return query == k.query && !how.repair && (how.nodes || now.Before(k.validUntil))
}

// extend is for a reconcile that ends because Octavia is at work: the next one continues it. One
// after the other does not make them valid for longer, unless only nodes have changed.
func (k *knownFloatingIPs) extend(now time.Time, how mode) {
	if k.validUntil.IsZero() || how.nodes {
		k.validUntil = now.Add(floatingIPMaxAge)
	}
}

func newServiceState() *serviceState { return &serviceState{events: writtenNotices{}} }

// serviceName finds a Service by its UID.
type serviceName struct{ cluster, namespace, name string }

func (n serviceName) String() string { return n.namespace + "/" + n.name }

// byUID holds one thing of each Service. It is safe for concurrent use.
type byUID[T any] struct {
	mu sync.Mutex
	of map[types.UID]T
}

// get returns the zero value for an unknown Service.
func (b *byUID[T]) get(uid types.UID) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[uid]
}

func (b *byUID[T]) set(uid types.UID, to T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[types.UID]T{}
	}
	b.of[uid] = to
}

func (b *byUID[T]) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, uid)
}

func (b *byUID[T]) all() map[types.UID]T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.of)
}
