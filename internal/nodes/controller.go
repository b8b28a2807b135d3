package nodes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/tracing"
)

const (
	// The pause before the next attempt to initialize a node begins with firstRetry. A node waits
	// at most soonRetry after a short outage of the cloud, and at most lastRetry after a long one.
	firstRetry, soonRetry, lastRetry = time.Second, 5 * time.Second, 30 * time.Second
	// retriesPerSecond limits the retries of all nodes together, as in upstream. After a calm time,
	// retryBurst of them are not limited.
	retriesPerSecond, retryBurst = 10, 1000
	// patience is how long a failure may be an outage that ends by itself, and no event is written.
	patience = time.Minute
	// patienceWithOthers is how long another cloud controller manager may take to initialize a node
	// if the provider serves no instances.
	patienceWithOthers = 15 * time.Second
	// patienceWithRefreshes is how long the lookups of an initialized node that is ready may fail.
	// Otherwise each node would have an event after an outage of minutes.
	patienceWithRefreshes = 30 * time.Minute
	// repeatFailure is the pause between two events about a node that fails. The API server deletes
	// events after an hour.
	repeatFailure = 30 * time.Minute
	// clockSkew is how far the clock of an earlier leader may be ahead.
	clockSkew = 10 * time.Second
	// maxText is how many characters of an error are kept. Parts of it are the API server's.
	maxText = 4096
)

// The reasons of events. Synced and the two of deletions are upstream's.
const (
	synced         = "Synced"
	initFailed     = "InitializationFailed"
	labelChanged   = "InvalidLabelChanged"
	updateFailed   = "NodeUpdateFailed"
	deletingNode   = "DeletingNode"
	deletingFailed = "DeletingNodeFailed"
)

// The beginnings of the texts of events.
const (
	failureOfUpdate = "The node cannot be updated: "
	failureOfCheck  = "The node stays as it is, because its instance cannot be looked up: "
)

// Params are the parts that both controllers have.
type Params struct {
	Cloud cloudprovider.Interface
	// Selector selects the nodes that exist for the controllers.
	Selector labels.Selector
	Client   typedcorev1.NodesGetter
	Nodes    coreinformers.NodeInformer
	Recorder record.EventRecorder
	Record   *Record
	// Registry registers the metrics. Nil: they are not registered.
	Registry prometheus.Registerer
	// Syncs is how many nodes are initialized, or checked, at once.
	Syncs int
	// Period is the time between two refreshes, or two checks, of all nodes.
	Period time.Duration
}

// latest returns a node as it is after a call that took time, or nil if it is gone, or if the
// selector leaves it out by now.
func (p Params) latest(node *v1.Node) *v1.Node {
	now, err := p.Nodes.Lister().Get(node.Name)
	if err != nil || now.UID != node.UID || !p.Selector.Matches(labels.Set(now.Labels)) {
		return nil
	}
	return now
}

// Refresh are the further parts of a [Controller].
type Refresh struct {
	// Syncs is how many nodes are refreshed at once.
	Syncs int
	// UpdateLabels lets the labels of initialized nodes follow their instances.
	UpdateLabels bool
	// WithoutRoutes: no controller creates routes for the provider's nodes. The condition
	// NetworkUnavailable with the reason NoRouteCreated, which a former one has left, is removed.
	WithoutRoutes bool
	// IsReported reports whether the provider itself writes the events about failed lookups of a
	// node that is not initialized. Nil: of none.
	IsReported func(node string) bool
}

// Controller is the cloud-node-controller. It runs once.
type Controller struct {
	Params
	refresh   Refresh
	instances instances
	writer    writer
	nodes     corelisters.NodeLister
	synced    cache.InformerSynced
	queue     workqueue.TypedDelayingInterface[string]
	retries   workqueue.TypedBucketRateLimiter[string]
	delays    delays
	begun     time.Time

	mu sync.Mutex
	// failures are those of refreshes, by node. The log has each text once.
	failures map[string]streak
	// notes are the texts about the labels of nodes, as of the last look at the instances.
	notes map[types.UID]string
}

// New returns a controller. It registers its handler with the informer.
func New(p Params, refresh Refresh) (*Controller, error) {
	if refresh.IsReported == nil {
		refresh.IsReported = func(string) bool { return false }
	}
	c := &Controller{
		Params: p, refresh: refresh, instances: instances{cloud: p.Cloud},
		writer: writer{p.Client, p.Record.missing}, nodes: p.Nodes.Lister(),
		delays: newDelays(p.Registry),
		queue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[string]{Name: "Nodes"}),
		retries: workqueue.TypedBucketRateLimiter[string]{
			Limiter: rate.NewLimiter(retriesPerSecond, retryBurst),
		},
		failures: map[string]streak{}, notes: map[types.UID]string{}, begun: time.Now(),
	}
	registered, err := p.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.changed(nil, object) },
		UpdateFunc: c.changed,
		DeleteFunc: func(object any) { c.gone(object) },
	})
	if err != nil {
		c.queue.ShutDown()
		return nil, err
	}
	c.synced = registered.HasSynced
	return c, nil
}

// Run works until ctx ends, and returns when no call is in flight.
func (c *Controller) Run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	defer c.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return
	}
	for range c.Syncs {
		workers.Go(func() { c.work(ctx) })
	}
	isFirst := true
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		c.refreshAll(ctx, isFirst)
		isFirst = false
	}, c.Period)
}

// changed queues a node that has to be initialized, lacks a label that another one implies, or is
// initialized and has no address.
func (c *Controller) changed(before, after any) {
	was, _ := before.(*v1.Node)
	node, ok := after.(*v1.Node)
	switch {
	case !ok:
		return
	case !c.Selector.Matches(labels.Set(node.Labels)):
		c.gone(node)
		return
	case !members.IsNew(node):
		c.Record.initialized(node.Name)
		if (was == nil || members.IsNew(was)) && !hasIP(node) {
			c.queue.AddAfter(node.Name, firstRetry)
		}
		if stable(node).isEmpty() {
			return
		}
	case was != nil && members.IsNew(was) && sameInstance(was, node):
		return // it is queued already, after its pause
	default:
		c.Record.begin(node)
	}
	c.queue.Add(node.Name)
}

func (c *Controller) gone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if node, ok := object.(*v1.Node); ok {
		c.Record.initialized(node.Name)
		c.Record.recovered(node.UID, refreshing)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.failures, node.Name)
		delete(c.notes, node.UID)
	}
}

// sameInstance reports whether an attempt for either version of a node has the same result. The
// kubelet and other agents change the conditions, taints and annotations of a node all the time.
func sameInstance(a, b *v1.Node) bool {
	const nodeIP = api.AnnotationAlphaProvidedIPAddr
	return a.UID == b.UID && a.Spec.ProviderID == b.Spec.ProviderID &&
		maps.Equal(a.Labels, b.Labels) && a.Annotations[nodeIP] == b.Annotations[nodeIP] &&
		equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses)
}

func (c *Controller) work(ctx context.Context) {
	for {
		name, over := c.queue.Get()
		if over {
			return
		}
		node, err := c.nodes.Get(name)
		switch {
		case err != nil || !c.Selector.Matches(labels.Set(node.Labels)):
			c.Record.initialized(name)
		case members.IsNew(node):
			_ = inSpan(ctx, "sync Node", node, c.sync)
		default:
			_ = inSpan(ctx, "sync Node", node, c.complete)
		}
		c.queue.Done(name)
	}
}

// complete writes what an initialized node lacks: labels that others imply, and the address. It is
// tried again until nothing is missing. The error is reported already.
func (c *Controller) complete(ctx context.Context, node *v1.Node) error {
	err := c.write(ctx, node, stable(node))
	isAwaited := false
	if !hasIP(node) {
		isOurs, errOfAddress := c.refreshNode(ctx, node)
		isAwaited, err = isOurs, errors.Join(err, errOfAddress)
	}
	c.noteUpdate(ctx, node, err)
	if isAwaited || err != nil {
		c.queue.AddAfter(node.Name, c.completionPause(node))
	}
	return err
}

// sync initializes a node, or decides when that is tried again. The error is reported already.
func (c *Controller) sync(ctx context.Context, node *v1.Node) error {
	state := c.Record.begin(node)
	if !state.done.IsZero() && time.Since(state.done) < patience {
		return nil
	}
	isOurs, err := c.initialize(ctx, node)
	now := time.Now()
	state.Elsewhere = !isOurs && err == nil
	switch {
	case ctx.Err() != nil:
		return err
	case err == nil:
		state.since, state.done = time.Time{}, time.Time{}
		if isOurs {
			state.done = now
		}
		c.Record.put(state)
		return nil
	}
	state.begin(now)
	failing := now.Sub(state.since)
	if !errors.Is(err, errStale) || failing >= patience {
		if state.add(err, now) {
			klog.FromContext(ctx).Error(err, "Node not initialized; it is tried again",
				"node", node.Name)
		}
		_, isOfWrite := errors.AsType[writeError](err)
		state.Found = isOfWrite || errors.Is(err, errStale)
		state.Failed, state.Message = true, printable.Text(err.Error(), maxText)
	}
	c.warn(node, err, &state.streak, now)
	c.Record.put(state)
	c.queue.AddAfter(node.Name, max(retryPause(failing), c.retries.When(node.Name)))
	return err
}

// inSpan calls f in a span of the node.
func inSpan(
	ctx context.Context, name string, node *v1.Node, f func(context.Context, *v1.Node) error,
) error {
	return tracing.Do(ctx, name, func(ctx context.Context) error { return f(ctx, node) },
		slog.String(tracing.Node, node.Name))
}

// warn writes an event about a node that cannot be initialized: one each half hour about writes,
// and one about lookups, unless the provider writes it.
func (c *Controller) warn(node *v1.Node, err error, state *streak, now time.Time) {
	limit, about := patience, "lookup"
	if errors.Is(err, errNoInstances) {
		limit = patienceWithOthers
	}
	_, isWrite := errors.AsType[writeError](err)
	if isWrite {
		about = "write"
	}
	if state.lasts(err, limit, now) && state.tell(about, now) &&
		(isWrite || !c.refresh.IsReported(node.Name)) {
		c.Recorder.Event(node, v1.EventTypeWarning, initFailed,
			"The node cannot be initialized, and is tried again: "+err.Error())
	}
}

// retryPause is the pause after a failed attempt of a node that has failed for so long.
func retryPause(failing time.Duration) time.Duration {
	return min(max(failing, firstRetry), max(soonRetry, failing/10), lastRetry)
}

// completionPause is the pause before the next attempt to complete a node: a tenth of the node's
// age, from a second to the period of all refreshes. The API server's clock may be ahead.
func (c *Controller) completionPause(node *v1.Node) time.Duration {
	return min(max(time.Since(node.CreationTimestamp.Time).Abs()/10, firstRetry), c.Period)
}

// initialize looks up the instance of a node, and writes what the node lacks. It returns false
// without an error if the node is not the provider's.
func (c *Controller) initialize(ctx context.Context, node *v1.Node) (isOurs bool, err error) {
	found, err := c.instances.metadata(ctx, node, false)
	if err != nil || found == nil {
		return false, err
	}
	c.Record.show(node.UID)
	if node = c.latest(node); node == nil {
		return true, errStale
	}
	_, isV2 := c.Cloud.InstancesV2()
	wanted, err := initialization(node, found, isV2)
	if err != nil {
		return true, err
	}
	wanted.abandoned = c.hasAbandonedCondition(node)
	if err := c.write(ctx, node, wanted); err != nil {
		return true, err
	}
	c.reportLabels(node, wanted)
	c.Recorder.Event(node, v1.EventTypeNormal, synced, "Node synced successfully")
	c.delays.observe(node)
	return true, nil
}

// hasAbandonedCondition reports whether a node has a condition of a route controller that no longer
// runs.
func (c *Controller) hasAbandonedCondition(node *v1.Node) bool {
	return c.refresh.WithoutRoutes && hasAbandonedCondition(node, c.begun.Add(clockSkew))
}

// A writeError is the failure of a patch.
type writeError struct{ error }

// Unwrap returns the cause.
func (e writeError) Unwrap() error { return e.error }

// write writes a change.
func (c *Controller) write(ctx context.Context, node *v1.Node, wanted change) error {
	if wanted.isEmpty() {
		return nil
	}
	err := c.writer.write(ctx, node, wanted)
	switch {
	case errors.Is(err, errStale):
		return err
	case err != nil:
		return writeError{err}
	}
	if wanted.abandoned {
		klog.FromContext(ctx).Info("Condition NetworkUnavailable removed, because routes are off",
			"node", node.Name)
	}
	return nil
}

// reportLabels writes an event if the node lacks labels of the cloud, or has other values. Each
// refresh finds the same ones, so the event comes with a change of labels or of the text only.
func (c *Controller) reportLabels(node *v1.Node, wanted change) {
	text := strings.Join(wanted.notes, "; ")
	c.mu.Lock()
	last, isKnown := c.notes[node.UID]
	c.notes[node.UID] = text
	c.mu.Unlock()
	if text != "" && (wanted.taint || len(wanted.labels) > 0 || isKnown && text != last) {
		c.Recorder.Event(node, v1.EventTypeWarning, labelChanged, text)
	}
}

// refreshAll compares the initialized nodes with their instances, and asks again whether the nodes
// of others still are. At first they have just been looked up.
func (c *Controller) refreshAll(ctx context.Context, isFirst bool) {
	nodes, err := c.nodes.List(c.Selector)
	if err != nil {
		return
	}
	c.Record.keep(nodes)
	workqueue.ParallelizeUntil(ctx, c.refresh.Syncs, len(nodes), func(i int) {
		switch node := nodes[i]; {
		case !members.IsNew(node):
			_ = inSpan(ctx, "refresh Node", node, c.refreshOne)
		case !isFirst && c.Record.isIdle(node.Name):
			c.queue.Add(node.Name)
		}
	})
}

// refreshOne compares an initialized node with its instance, and reports a failure.
func (c *Controller) refreshOne(ctx context.Context, node *v1.Node) error {
	_, err := c.refreshNode(ctx, node)
	c.noteUpdate(ctx, node, err)
	return err
}

// refreshNode compares an initialized node with its instance. It returns false without an error if
// the node is not the provider's.
func (c *Controller) refreshNode(ctx context.Context, node *v1.Node) (isOurs bool, err error) {
	found, err := c.instances.metadata(ctx, node, !c.refresh.UpdateLabels)
	if err != nil || found == nil {
		return false, err
	}
	c.Record.show(node.UID)
	if node = c.latest(node); node == nil {
		return true, errStale
	}
	wanted, err := refresh(node, found, c.refresh.UpdateLabels)
	wanted.abandoned = c.hasAbandonedCondition(node)
	written := c.write(ctx, node, wanted)
	if written == nil && c.refresh.UpdateLabels {
		c.reportLabels(node, wanted)
	}
	return true, errors.Join(err, written)
}

// noteUpdate reports the failure of an update of an initialized node: a line once, and an event
// each half hour. The next refresh tries again.
func (c *Controller) noteUpdate(ctx context.Context, node *v1.Node, err error) {
	if ctx.Err() != nil || errors.Is(err, errStale) || errors.Is(err, errNoInstances) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.failures, node.Name)
		c.Record.recovered(node.UID, refreshing)
		return
	}
	state, now := c.failures[node.Name], time.Now()
	if state.add(err, now) {
		klog.FromContext(ctx).Error(err, "Node not refreshed; it is tried again", "node", node.Name)
	}
	_, isOfWrite := errors.AsType[writeError](err)
	if isOfWrite || state.lasts(err, patienceWithRefreshes, now) {
		c.Record.failed(node, refreshing, updateFailed, err, state.since)
		if state.tell(updateFailed, now) {
			c.Recorder.Event(node, v1.EventTypeWarning, updateFailed, failureOfUpdate+err.Error())
		}
	}
	c.failures[node.Name] = state
}
