package initfunc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
)

// The controller in this file is a third party's: it is written for upstream's command, without
// fxccm. It gives pod ranges to nodes, from the pool in their label, and writes to a node the
// number of objects of the kind in an annotation.

const (
	poolLabel       = "example.test/pool"
	kindAnnotation  = "example.test/count-kind"
	countAnnotation = "example.test/count"
)

var pools = schema.GroupVersionResource{Group: "example.test", Version: "v1", Resource: "pools"}

type podRangeController struct {
	controllerContext genericcontrollermanager.ControllerContext
	client            kubernetes.Interface
	recorder          record.EventRecorder
	nodes             corelisters.NodeLister
	nodesSynced       cache.InformerSynced
	pools             cache.GenericLister
	poolsSynced       cache.InformerSynced
	queue             workqueue.TypedRateLimitingInterface[string]
	given             atomic.Int64
	sick              atomic.Bool
}

// startPodRangeController is like app.StartServiceControllerWrapper. made is called with each built
// controller.
func startPodRangeController(made func(*podRangeController)) app.InitFuncConstructor {
	return func(
		initContext app.ControllerInitContext, completedConfig *config.CompletedConfig,
		_ cloudprovider.Interface,
	) app.InitFunc {
		return func(
			ctx context.Context, controllerContext genericcontrollermanager.ControllerContext) (
			controller.Interface, bool, error,
		) {
			if !completedConfig.ComponentConfig.KubeCloudShared.AllocateNodeCIDRs {
				klog.Warning("--allocate-node-cidrs is not set. Will not give pod ranges.")
				return nil, false, nil
			}
			c, err := newPodRangeController(initContext, completedConfig, controllerContext)
			if err != nil {
				return nil, false, err
			}
			made(c)
			go c.run(ctx)
			return c, true, nil
		}
	}
}

func newPodRangeController(
	initContext app.ControllerInitContext, completedConfig *config.CompletedConfig,
	controllerContext genericcontrollermanager.ControllerContext,
) (*podRangeController, error) {
	nodes := controllerContext.InformerFactory.Core().V1().Nodes()
	ofPools, err := controllerContext.ObjectOrMetadataInformerFactory.ForResource(pools)
	if err != nil {
		return nil, err
	}
	c := &podRangeController{
		controllerContext: controllerContext,
		client:            controllerContext.ClientBuilder.ClientOrDie(initContext.ClientName),
		recorder:          completedConfig.EventRecorder,
		nodes:             nodes.Lister(),
		nodesSynced:       nodes.Informer().HasSynced,
		pools:             ofPools.Lister(),
		poolsSynced:       ofPools.Informer().HasSynced,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	_, err = nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.queue.Add(obj.(*corev1.Node).Name) },
		UpdateFunc: func(_, obj any) { c.queue.Add(obj.(*corev1.Node).Name) },
	})
	return c, err
}

func (c *podRangeController) run(ctx context.Context) {
	defer utilruntime.HandleCrash()
	defer c.queue.ShutDown()
	<-c.controllerContext.InformersStarted
	if !cache.WaitForCacheSync(ctx.Done(), c.nodesSynced, c.poolsSynced) {
		return
	}
	var workers sync.WaitGroup
	workers.Go(func() { wait.UntilWithContext(ctx, c.work, time.Second) })
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
}

func (c *podRangeController) work(ctx context.Context) {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(ctx, name); err != nil {
			klog.Infof("node %s: %v", name, err)
			c.queue.AddAfter(name, 50*time.Millisecond)
		}
		c.queue.Done(name)
	}
}

func (c *podRangeController) sync(ctx context.Context, name string) error {
	node, err := c.nodes.Get(name)
	if err != nil {
		return nil // it was deleted
	}
	return errors.Join(c.giveRange(ctx, node), c.count(ctx, node))
}

func (c *podRangeController) giveRange(ctx context.Context, node *corev1.Node) error {
	pool, ok := node.Labels[poolLabel]
	if !ok || node.Spec.PodCIDR != "" {
		return nil
	}
	if _, err := c.pools.Get(pool); err != nil {
		return fmt.Errorf("pool of node %s: %w", node.Name, err)
	}
	podRange := fmt.Sprintf("10.244.%d.0/24", c.given.Add(1))
	err := c.patch(ctx, node,
		map[string]any{"spec": map[string]any{"podCIDR": podRange, "podCIDRs": []string{podRange}}})
	if err == nil {
		c.recorder.Eventf(node, corev1.EventTypeNormal, "PodRangeGiven", "Node has pod range %s",
			podRange)
	}
	return err
}

func (c *podRangeController) count(ctx context.Context, node *corev1.Node) error {
	kind, ok := node.Annotations[kindAnnotation]
	if !ok {
		return nil
	}
	mapping, err := c.controllerContext.RESTMapper.RESTMapping(
		schema.GroupKind{Group: "example.test", Kind: kind})
	if err != nil {
		return err
	}
	objects, err := c.controllerContext.ObjectOrMetadataInformerFactory.ForResource(
		mapping.Resource)
	if err != nil {
		return err
	}
	informer := objects.Informer()
	c.controllerContext.ObjectOrMetadataInformerFactory.Start(c.controllerContext.Stop)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	found, err := objects.Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	count := strconv.Itoa(len(found))
	if node.Annotations[countAnnotation] == count {
		return nil
	}
	return c.patch(ctx, node,
		map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{countAnnotation: count},
		}})
}

func (c *podRangeController) patch(
	ctx context.Context, node *corev1.Node, change map[string]any,
) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// Name implements controller.Interface.
func (c *podRangeController) Name() string { return "pod-range-controller" }

// HealthChecker implements controller.HealthCheckable.
func (c *podRangeController) HealthChecker() healthz.UnnamedHealthChecker { return c }

// Check implements healthz.UnnamedHealthChecker.
func (c *podRangeController) Check(*http.Request) error {
	if c.sick.Load() {
		return errors.New("no range is left")
	}
	return nil
}

// DebuggingHandler implements controller.Debuggable.
func (c *podRangeController) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w,
			"%d ranges given", c.given.Load())
	})
}
