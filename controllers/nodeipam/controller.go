package nodeipam

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/metrics"
)

// Name is the name of the controller in --controllers and Status, as in kube-controller-manager.
const Name = "node-ipam-controller"

// alias is the short form of [Name] that --controllers also accepts.
const alias = "nodeipam"

const (
	// clientName is the identity of the controller, as in kube-controller-manager: a ServiceAccount
	// in kube-system with --use-service-account-credentials.
	clientName = "node-controller"

	// workers is how many nodes are patched at once, as in kube-controller-manager.
	workers = 30

	// A node that fails is retried after firstRetry, then after twice as long, up to lastRetry.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// Controller returns the controller, for [ccm.AsController] or ccm.Params. It is off unless
// --controllers names it. It is skipped if --allocate-node-cidrs is false.
//
// With --cidr-allocator-type=RangeAllocator it divides [ccm.Config].ClusterCIDR. With
// CloudAllocator it reads the ranges from the provider, whose InstancesV2 must be a
// [PodCIDRReporter].
//
// A failure restarts only this controller. It needs no RBAC rules in addition to those of every
// Manager.
func Controller() ccm.Controller {
	return ccm.Controller{
		Name: Name, Aliases: []string{alias}, DisabledByDefault: true,
		RestartOnFailure: true,
		Validate:         validate,
		New:              newController,
	}
}

// controller allocates ranges during one term.
type controller struct {
	client  kubernetes.Interface
	nodes   corelisters.NodeLister
	events  record.EventRecorder
	running *controllersmetrics.ControllerManagerMetrics
	series  *metrics.Owner[*metrics.NodeIPAM]
	manager string
	queue   workqueue.TypedRateLimitingInterface[string]
	waiting *waiting

	// pool is nil if the cloud chooses the ranges, and cloud is nil if the pool does.
	pool  *pool
	cloud PodCIDRReporter
}

func newController(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
	cfg := t.Config()
	if !cfg.AllocateNodeCIDRs {
		const disabled = "allocateNodeCIDRs (--allocate-node-cidrs) is false"
		return nil, fmt.Errorf("%w: %s", ccm.ErrSkip, disabled)
	}
	c := &controller{events: t.Recorder(Name), running: t.Metrics(), manager: t.Manager()}
	if err := c.chooseAllocator(t); err != nil {
		return nil, err
	}
	var err error
	if c.client, err = t.Client(clientName); err != nil {
		return nil, err
	}
	group, err := metrics.Share(t.Registerer(), c.manager, metrics.NewNodeIPAM)
	if err != nil {
		return nil, err
	}
	informer := t.Informers().Core().V1().Nodes()
	c.nodes = informer.Lister()
	// The queue has a goroutine, which ends when Run shuts the queue down. The Manager always calls
	// Run.
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: Name})
	if _, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, node any) { c.enqueue(node) },
		DeleteFunc: c.enqueue,
	}); err != nil {
		c.queue.ShutDown()
		return nil, fmt.Errorf("register for Nodes: %w", err)
	}
	c.waiting = &waiting{events: map[string]refusal{}}
	c.series = group.Begin(c.manager, func(*metrics.NodeIPAM) {})
	return c, nil
}

func (c *controller) chooseAllocator(t *ccm.Term) (err error) {
	cfg := t.Config()
	if cfg.NodeIPAM.AllocatorType == CloudAllocator {
		c.cloud, err = reporterOf(t.Cloud())
		return err
	}
	cluster, err := cloudcontrollers.NodeRanges(cfg.ClusterCIDR, maskSizes(cfg.NodeIPAM))
	if err != nil {
		return err
	}
	var services []netip.Prefix
	if cfg.NodeIPAM.ServiceCIDR != "" {
		if services, err = cloudcontrollers.ParsePrefixes(cfg.NodeIPAM.ServiceCIDR); err != nil {
			return fmt.Errorf("service CIDR (--service-cluster-ip-range): %w", err)
		}
	}
	c.pool = newPool(cluster, services)
	return nil
}

func (c *controller) enqueue(object any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		c.queue.Add(name)
	}
}

// Run implements [ccm.Runnable].
func (c *controller) Run(ctx context.Context) error {
	c.running.ControllerStarted(Name)
	defer c.running.ControllerStopped(Name)
	defer c.series.End(func(*metrics.NodeIPAM) {})
	defer c.queue.ShutDown()
	if err := c.takeOver(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
	return nil
}

// takeOver records the ranges that are in use before any is allocated. It lists the nodes from the
// API server, because the informers of a host may be behind the writes of the last leader.
func (c *controller) takeOver(ctx context.Context) error {
	if c.pool == nil {
		return nil
	}
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.client.CoreV1().Nodes().List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if node, ok := object.(*corev1.Node); ok && len(node.Spec.PodCIDRs) > 0 {
			c.occupy(node)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the nodes to learn which pod ranges are in use: %w", err)
	}
	c.measure()
	return nil
}

// next works on one node. It returns false when the term is over.
func (c *controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	// After ShutDown, Get still returns the queued names. The next term queues them again.
	if ctx.Err() != nil {
		return false
	}
	err := c.sync(ctx, name)
	if err == nil {
		c.queue.Forget(name)
		c.waiting.remove(name)
	} else {
		klog.FromContext(ctx).V(2).Info("Node has no pod range yet; retrying", "node", name,
			"reason", err.Error())
		c.queue.AddRateLimited(name)
	}
	c.measure()
	return true
}

// sync gives a node its ranges, or records those that it has.
func (c *controller) sync(ctx context.Context, name string) error {
	node, err := c.node(ctx, name)
	switch {
	case err != nil:
		return err
	case node == nil:
		c.release(name)
		return nil
	case len(node.Spec.PodCIDRs) > 0:
		if c.pool != nil {
			c.occupy(node)
		}
		return nil
	case node.DeletionTimestamp != nil:
		return nil
	}
	prefixes, err := c.choose(ctx, node)
	if err != nil {
		return err
	}
	return c.write(ctx, node, prefixes)
}

// node returns the named node, or nil if it does not exist. If the cache contradicts the pool, the
// API server decides, because a range that is released too early goes to two nodes.
func (c *controller) node(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.nodes.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the node from the cache: %w", err)
	}
	if err != nil {
		node = nil
	}
	if c.pool == nil {
		return node, nil
	}
	uid, holds := c.pool.holder(name)
	if !holds || node != nil && node.UID == uid {
		return node, nil
	}
	node, err = c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the node: %w", err)
	}
	return node, nil
}

// release frees the ranges of a deleted node, and retries the nodes that wait for one.
func (c *controller) release(name string) {
	c.waiting.remove(name)
	if c.pool == nil || !c.pool.release(name) {
		return
	}
	for _, waits := range c.waiting.names() {
		c.queue.Add(waits)
	}
}

// choose returns the ranges for the node.
func (c *controller) choose(ctx context.Context, node *corev1.Node) ([]netip.Prefix, error) {
	if c.cloud != nil {
		return c.assigned(ctx, node)
	}
	prefixes, full := c.pool.assign(node)
	if full == nil {
		return prefixes, nil
	}
	return nil, c.refuse(node, reasonNotAvailable, fmt.Sprintf("all /%d ranges of the cluster "+
		"CIDR %s are in use; the node gets a range when another node is deleted", full.bits,
		full.cluster))
}

func (c *controller) measure() {
	c.series.Alone(func(m *metrics.NodeIPAM) {
		m.Waiting.WithLabelValues(c.manager).Set(float64(c.waiting.count()))
		if c.pool == nil {
			return
		}
		c.pool.usage(func(cluster netip.Prefix, capacity, free int) {
			m.Ranges.WithLabelValues(c.manager, cluster.String()).Set(float64(capacity))
			m.Free.WithLabelValues(c.manager, cluster.String()).Set(float64(free))
		})
	})
}
