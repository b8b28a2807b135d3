package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/members"
)

const (
	// youth is the age below which a node is not deleted for the absence of an instance that the
	// cloud has not shown. A kubelet does not register a second time, and the lists of large clouds
	// lag behind their creations, by minutes if they are busy.
	youth = 5 * time.Minute
	// lastCheck limits the pause before the next check of a node that fails.
	lastCheck = time.Minute
)

// Lifecycle is the cloud-node-lifecycle-controller. It runs once.
type Lifecycle struct {
	Params
	instances instances
	writer    writer
	nodes     corelisters.NodeLister
	passes    passes

	mu sync.Mutex
	// failing are the nodes with which something failed, until they are ready.
	failing map[types.UID]failing
}

// failing is a node that is checked after a pause.
type failing struct {
	streak
	next time.Time
	// deleting: an event says that the node is being deleted.
	deleting bool
}

// NewLifecycle returns a controller for a provider that serves instances.
func NewLifecycle(p Params) *Lifecycle {
	passes := newPasses(p.Registry)
	p.Nodes.Informer() // a factory starts only the informers that were requested
	return &Lifecycle{
		Params: p, instances: instances{p.Cloud, passes.calls},
		writer: writer{p.Client, p.Record.missing}, nodes: p.Nodes.Lister(), passes: passes,
		failing: map[types.UID]failing{},
	}
}

// Run works until ctx ends, and returns when no call is in flight.
func (l *Lifecycle) Run(ctx context.Context) {
	if cache.WaitForCacheSync(ctx.Done(), l.Nodes.Informer().HasSynced) {
		wait.UntilWithContext(ctx, l.pass, l.Period)
	}
}

// pass checks all nodes.
func (l *Lifecycle) pass(ctx context.Context) {
	begun := time.Now()
	nodes, err := l.nodes.List(l.Selector)
	if err != nil {
		return
	}
	l.keep(nodes)
	workqueue.ParallelizeUntil(ctx, l.Syncs, len(nodes), func(i int) {
		node := nodes[i]
		if l.isDue(node) {
			l.settle(ctx, node, l.checkInSpan(ctx, node))
		}
	})
	l.passes.seconds.Observe(time.Since(begun).Seconds())
}

func (l *Lifecycle) keep(nodes []*v1.Node) {
	l.Record.keep(nodes)
	isKnown := map[types.UID]bool{}
	for _, node := range nodes {
		isKnown[node.UID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.failing, func(uid types.UID, _ failing) bool { return !isKnown[uid] })
}

// isDue reports whether a node is checked in this pass. A ready node costs no call.
func (l *Lifecycle) isDue(node *v1.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return node.DeletionTimestamp == nil &&
		(members.IsReady(node) || !time.Now().Before(l.failing[node.UID].next))
}

var shutdown = v1.Taint{Key: api.TaintNodeShutdown, Effect: v1.TaintEffectNoSchedule}

func isShutdownTaint(t v1.Taint) bool {
	return t.Key == shutdown.Key && t.Effect == shutdown.Effect
}

// checkInSpan makes no span for a ready node, which costs no call to the cloud.
func (l *Lifecycle) checkInSpan(ctx context.Context, node *v1.Node) error {
	if members.IsReady(node) {
		return l.check(ctx, node)
	}
	return inSpan(ctx, "check Node", node, l.check)
}

// check looks up the instance of a node, and acts.
func (l *Lifecycle) check(ctx context.Context, node *v1.Node) error {
	if members.IsReady(node) {
		if removed := withoutTaints(node, isShutdownTaint); removed != nil {
			return l.patch(ctx, node, removed)
		}
		return nil
	}
	isOff := false
	exists, err := l.instances.exists(ctx, node)
	if err == nil && exists {
		l.Record.show(node.UID)
		isOff, err = l.instances.isShutdown(ctx, node)
		if errors.Is(err, cloudprovider.NotImplemented) {
			return nil // a taint is of another program, which can tell
		}
	}
	if err != nil {
		return err
	}
	node = l.latest(node)
	if node == nil || members.IsReady(node) {
		return nil // the next pass finds what has changed
	}
	switch removed := withoutTaints(node, isShutdownTaint); {
	case !exists:
		return l.delete(ctx, node)
	case isOff && len(removed) == 0:
		return l.patch(ctx, node, withTaint(node, shutdown))
	case !isOff && len(removed) > 0:
		// The kubelet may need pods that do not tolerate the taint, before it can be ready.
		return l.patch(ctx, node, removed)
	}
	return nil
}

func (l *Lifecycle) patch(ctx context.Context, node *v1.Node, all []operation) error {
	err := l.writer.patch(ctx, node, "", all...)
	if err != nil && !errors.Is(err, errStale) {
		return writeError{err}
	}
	return nil
}

// errYoung: the cloud may only not show a new instance yet.
var errYoung = errors.New("the cloud does not know the instance of a new node yet")

// delete deletes a node without an instance, and not another one that has its name by now.
func (l *Lifecycle) delete(ctx context.Context, node *v1.Node) error {
	if time.Since(node.CreationTimestamp.Time) < youth && !l.Record.hasShown(node.UID) {
		return errYoung
	}
	l.announceDeletion(node)
	err := l.Client.Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(node.UID)),
	})
	l.Record.missing.Wrote(toDelete, node.Name, err)
	if err == nil || isStale(err) {
		return nil
	}
	return deletionError{err}
}

// A deletionError is the failure of a deletion.
type deletionError struct{ error }

// Unwrap returns the cause.
func (e deletionError) Unwrap() error { return e.error }

// announceDeletion records one event, however often the deletion is tried.
func (l *Lifecycle) announceDeletion(node *v1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.failing[node.UID]
	if state.deleting {
		return
	}
	state.deleting = true
	l.failing[node.UID] = state
	l.Recorder.Eventf(node, v1.EventTypeNormal, deletingNode,
		"Deleting node %s because it does not exist in the cloud provider", node.Name)
}

// settle decides when a node is checked again: without an error in the next pass.
func (l *Lifecycle) settle(ctx context.Context, node *v1.Node, err error) {
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, node.UID)
		l.Record.recovered(node.UID, checking)
		return
	}
	now, state := time.Now(), l.failing[node.UID]
	isNew := state.add(err, now)
	pause := min(max(now.Sub(state.since), l.Period/2), lastCheck)
	if errors.Is(err, errYoung) {
		pause = min(pause, time.Until(node.CreationTimestamp.Add(youth)))
	}
	state.next = now.Add(pause)
	if !errors.Is(err, errYoung) && !errors.Is(err, cloudprovider.ImplementedElsewhere) {
		if isNew {
			logger := klog.FromContext(ctx)
			logger.Error(err, "Node not checked; it is tried again", "node", node.Name)
		}
		l.report(node, err, &state.streak, now)
	}
	l.failing[node.UID] = state
}

// report shows a failure in the status, and writes an event each half hour.
func (l *Lifecycle) report(node *v1.Node, err error, state *streak, now time.Time) {
	reason, text := updateFailed, failureOfCheck+err.Error()
	_, isOfDeletion := errors.AsType[deletionError](err)
	_, isOfWrite := errors.AsType[writeError](err)
	switch {
	case isOfDeletion:
		reason, text = deletingFailed, fmt.Sprintf("Failed deleting node %s: %v", node.Name, err)
	case isOfWrite:
		text = failureOfUpdate + err.Error()
	case members.IsNew(node), errors.Is(err, cloudprovider.NotImplemented),
		!state.lasts(err, patience, now):
		// The cloud-node-controller reports a node that waits for its initialization.
		return
	}
	l.Record.failed(node, checking, reason, err, state.since)
	if state.tell(reason, now) {
		l.Recorder.Event(node, v1.EventTypeWarning, reason, text)
	}
}
