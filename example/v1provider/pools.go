package v1provider

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// PoolLabel is the label of a Node with the pool of its host.
const PoolLabel = "hosts.example.com/pool"

// poolController is the provider's own controller. It labels each Node with the pool of its host.
type poolController struct {
	cloud *Cloud
	queue workqueue.TypedRateLimitingInterface[string]
}

func newPoolController(cloud *Cloud) *poolController {
	return &poolController{cloud: cloud, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[string]())}
}

// SetInformers implements cloudprovider.InformerUser. It is called after Initialize.
func (c *Cloud) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	enqueue := func(object any) {
		if node, ok := object.(*v1.Node); ok {
			c.pools.queue.Add(node.Name)
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) },
	}); err != nil {
		klog.Background().Error(err, "Nodes get no pool label")
		return
	}
	c.nodes, c.nodesSynced = nodes.Lister(), nodes.Informer().HasSynced
	close(c.informersSet)
}

// run works until stop is closed.
func (p *poolController) run(client kubernetes.Interface, stop <-chan struct{}) {
	defer p.queue.ShutDown()
	select {
	case <-stop:
		return
	case <-p.cloud.informersSet:
	}
	if !cache.WaitForCacheSync(stop, p.cloud.nodesSynced) {
		return
	}
	ctx := wait.ContextForChannel(stop)
	defer context.AfterFunc(ctx, p.queue.ShutDown)()
	for {
		name, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		if err := p.label(ctx, client, name); err != nil && ctx.Err() == nil {
			klog.Background().Error(err, "Node has no pool label yet; retrying", "node", name)
			p.queue.AddRateLimited(name)
		} else {
			p.queue.Forget(name)
		}
		p.queue.Done(name)
	}
}

func (p *poolController) label(
	ctx context.Context, client kubernetes.Interface, name string,
) error {
	node, err := p.cloud.nodes.Get(name)
	if err != nil {
		return nil // deleted
	}
	h, err := p.cloud.host(ctx, name)
	if err != nil || node.Labels[PoolLabel] == h.Pool {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]string{PoolLabel: h.Pool}},
	})
	if err != nil {
		return err
	}
	if _, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label node %s: %w", name, err)
	}
	return nil
}
