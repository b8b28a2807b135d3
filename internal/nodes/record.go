package nodes

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/rights"
)

// The rights that the controllers need to write nodes. RBAC has another one for each subresource,
// such as "permission to patch nodes/status".
const (
	toPatch  = "permission to patch nodes"
	toDelete = "permission to delete nodes"
)

// A Record has what both controllers of a term know. It is safe for concurrent use.
type Record struct {
	// missing are the rights that the controllers lack. Upstream's log them only.
	missing *rights.Missing

	mu sync.Mutex
	// shown are the nodes whose instance the cloud has shown.
	shown map[types.UID]bool
	// waiting are the nodes that are not initialized, by name.
	waiting map[string]*waiting
	// failing are the initialized nodes with which a controller fails.
	failing map[failingKey]Failing
}

// A job is what one of the controllers does for an initialized node.
type job string

const (
	refreshing job = "refresh"
	checking   job = "check"
)

type failingKey struct {
	uid types.UID
	job job
}

// NewRecord returns an empty Record. trouble is called for a missing right of the controllers, and
// with nil at its end.
func NewRecord(trouble func(subject string, cause error)) *Record {
	return &Record{
		missing: rights.NewMissing(trouble),
		shown:   map[types.UID]bool{}, waiting: map[string]*waiting{},
		failing: map[failingKey]Failing{},
	}
}

// waiting is a node that is not initialized.
type waiting struct {
	Waiting
	streak
	uid types.UID
	// done is when the node was initialized. The informer does not have it yet.
	done time.Time
}

// Waiting says why a node waits for its initialization.
type Waiting struct {
	Name string
	// Elsewhere: the node is not the provider's.
	Elsewhere bool
	// Failed: Message is the error of the last attempt.
	Failed  bool
	Message string
	// Found: the attempt has found the instance, and the node could not be written.
	Found bool
	// Since has the time at which the node was registered.
	Since time.Time
}

// Waiting returns the nodes that wait for their initialization, and that are the provider's.
func (r *Record) Waiting() (all []Waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiting {
		if !w.Elsewhere && w.done.IsZero() {
			all = append(all, w.Waiting)
		}
	}
	return all
}

// Failing says why an initialized node is not updated, checked or deleted.
type Failing struct {
	// Reason is that of the event.
	Name, Reason, Message string
	// Since has the time of the first of consecutive failures.
	Since time.Time
}

// Failing returns the initialized nodes with which a controller fails. A node with which both fail
// is there twice.
func (r *Record) Failing() []Failing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.failing))
}

// failed notes a failure that lasts.
func (r *Record) failed(node *v1.Node, at job, reason string, err error, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := printable.Text(err.Error(), maxText)
	r.failing[failingKey{node.UID, at}] = Failing{node.Name, reason, text, since}
}

// recovered notes that a job does not fail any more, or that the node is gone.
func (r *Record) recovered(uid types.UID, at job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failing, failingKey{uid, at})
}

// begin returns a copy of what is known of a node that is not initialized.
func (r *Record) begin(node *v1.Node) waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.waiting[node.Name]
	if known == nil || known.uid != node.UID {
		known = &waiting{uid: node.UID, Waiting: Waiting{
			Name: node.Name, Since: node.CreationTimestamp.Time,
			Message: "the cloud provider has not returned the instance yet",
		}}
		r.waiting[node.Name] = known
	}
	return *known
}

// put replaces what is known of a node, unless it is gone.
func (r *Record) put(now waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.waiting[now.Name]; known != nil && known.uid == now.uid {
		*known = now
	}
}

// initialized forgets why a node waited.
func (r *Record) initialized(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, name)
}

// isIdle reports whether no attempt of a node that is not initialized is queued.
func (r *Record) isIdle(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.waiting[name]
	return known == nil || known.Elsewhere || !known.done.IsZero()
}

func (r *Record) show(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown[uid] = true
}

func (r *Record) hasShown(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown[uid]
}

// keep forgets all nodes but these.
func (r *Record) keep(nodes []*v1.Node) {
	uids, names := map[types.UID]bool{}, map[string]bool{}
	for _, node := range nodes {
		uids[node.UID], names[node.Name] = true, true
	}
	r.missing.Forget(func(name string) bool { return !names[name] })
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.shown, func(uid types.UID, _ bool) bool { return !uids[uid] })
	maps.DeleteFunc(r.waiting, func(name string, _ *waiting) bool { return !names[name] })
	maps.DeleteFunc(r.failing, func(key failingKey, _ Failing) bool { return !uids[key.uid] })
}
