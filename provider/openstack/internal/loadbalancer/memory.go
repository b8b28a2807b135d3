package loadbalancer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
)

// memory is what is known of a Service's load balancer from earlier passes. It spares requests, and decides nothing that could not
// be found out again.
type memory struct {
	// balancer is the id of the load balancer that was last used; "" for none.
	balancer string
	// settled is what has been carried out to the last step; "" if something was left.
	settled string
	// seen is the load balancer's UpdatedAt when it was first seen ACTIVE with all carried out, and since when that was.
	seen  time.Time
	since time.Time
	// compared: at seen all fields of all parts were as they should be, not only those that a status tree shows.
	compared bool

	// contents are what lies below the load balancer, as it was at seen. Nil: not known, or what was settled.
	contents *contents

	// hidden is what of the fields of members and monitors a status tree does not show, as it was last carried out; "" for nothing known.
	hidden string
	// floating are the floating IPs that were seen; nil: they are to be read.
	floating *[]balancer.FloatingIP

	// waiting is since when the passes have been handed back; zero if the last one was not.
	waiting time.Time
	// waitsFor is what was said then.
	waitsFor string

	// inheritedVIP is where the next load balancer is to be, with the address of the one that is being deleted for it; nil: nothing tells. If it cannot
	// have that address, the pass that has tried forgets it.
	inheritedVIP *balancer.VIP

	// input is what the last decision was made of. A repair compares what it would become with other nodes.
	input *desired.Input

	// said are the events that the Service has been told.
	said notices
}

func newMemory() *memory { return &memory{said: notices{}} }

// unchanged tells whether the load balancer is as it was when it was seen.
func (m *memory) unchanged(lb *balancer.LoadBalancer) bool {
	return m.balancer == lb.ID && !m.since.IsZero() && m.seen.Equal(lb.UpdatedAt)
}

// asSettled tells whether the load balancer has not changed since all of the wish was carried out: whatever changes below a load
// balancer changes its UpdatedAt.
func (m *memory) asSettled(lb *balancer.LoadBalancer, wish string) bool {
	return m.settled == wish && m.unchanged(lb)
}

// expected tells whether the load balancer has not been looked at since it was changed here, and what it has come to is known.
func (m *memory) expected(lb *balancer.LoadBalancer) bool {
	return m.balancer == lb.ID && m.since.IsZero() && (m.settled != "" || m.contents != nil)
}

// unsettle forgets what the load balancer is like.
func (m *memory) unsettle() {
	m.settled, m.seen, m.since, m.compared, m.contents = "", time.Time{}, time.Time{}, false, nil
}

// settle remembers that all of the wish is carried out. It is confirmed by the next look at the load balancer.
func (m *memory) settle(id, wish string) {
	m.balancer, m.settled = id, wish
	m.seen, m.since, m.compared = time.Time{}, time.Time{}, false
}

// lasts tells whether the load balancer was first seen so long ago that Octavia's clock has gone on since it changed. It tells of a change
// to the second: another change in the same second shows only to who looks later.
func (m *memory) lasts(now time.Time) bool { return !m.since.IsZero() && now.Sub(m.since) >= second }

// confirm remembers the load balancer as it is now as what was wished.
func (m *memory) confirm(lb *balancer.LoadBalancer, now time.Time) {
	if m.since.IsZero() || !m.seen.Equal(lb.UpdatedAt) {
		m.seen, m.since, m.compared = lb.UpdatedAt, now, false
	}
}

// second is more than the second to which Octavia tells the time.
const second = 2 * time.Second

// memories are all that is kept of Services from one call to the next. They are safe for
// concurrent use. A pass uses a memory while it holds the lock of the Service.
//
// forget is called wherever a Service turns out to be gone, or nothing is left of its load balancer.
type memories struct {
	mu    sync.Mutex
	byUID map[types.UID]*memory
	whom  map[types.UID]whom
}

// whom finds a Service again.
type whom struct{ cluster, namespace, name string }

func (w whom) String() string { return w.namespace + "/" + w.name }

func (m *memories) of(uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUID == nil {
		m.byUID = map[types.UID]*memory{}
	}
	if m.byUID[uid] == nil {
		m.byUID[uid] = newMemory()
	}
	return m.byUID[uid]
}

// peek is what is known of the Service, if only for now.
func (m *memories) peek(uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byUID[uid]; known != nil {
		return known
	}
	return newMemory()
}

// introduce remembers whose a UID is.
func (m *memories) introduce(uid types.UID, who whom) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.whom == nil {
		m.whom = map[types.UID]whom{}
	}
	m.whom[uid] = who
}

// whose is the zero value for a UID that is not known.
func (m *memories) whose(uid types.UID) whom {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.whom[uid]
}

// all are those that have been introduced, in order.
func (m *memories) all() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.whom))
}

// dismiss: the Service is not one to look after any more.
func (m *memories) dismiss(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.whom, uid)
}

// forget drops all that is known of the Service. A pass that is under way keeps its memory to its
// end, and no later pass finds it.
func (m *memories) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, uid)
	delete(m.whom, uid)
}

// changes are when load balancers were last changed here, for whichever Service. They are safe for concurrent use.
type changes struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note remembers a change that has just been made. What is too old to matter is forgotten.
func (c *changes) note(id string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[string]time.Time{}
	}
	maps.DeleteFunc(c.at, func(_ string, at time.Time) bool { return now.Sub(at) > 2*listMaxAge })
	c.at[id] = now
}

// since tells whether the load balancer has been changed after that time.
func (c *changes) since(id string, begun time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.at[id]
	return ok && !begun.After(at)
}

// latest is when it was last changed, or the other time if that is later.
func (c *changes) latest(id string, other time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.at[id]; at.After(other) {
		return at
	}
	return other
}
