package persistentvolumelabel

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
)

// Name is the name of the controller in --controllers and Status. It follows upstream's rule: the
// resource in one word, without abbreviations.
const Name = "persistentvolume-label-controller"

// alias is the short form of [Name] that --controllers also accepts.
const alias = "persistentvolume-label"

// reasonFailed is the reason of the Warning events of PersistentVolumes that could not be labeled
// yet.
const reasonFailed = "LabelingFailed"

const (
	// clientName is the identity of the controller: a ServiceAccount in kube-system with
	// --use-service-account-credentials, a part of the user agent otherwise. The name was
	// upstream's, so RBAC rules that a cluster may still have for it apply.
	clientName = "pvl-controller"

	// workers is how many volumes are looked up at once, as upstream.
	workers = 5

	// A volume that fails is retried after firstRetry, then after twice as long, up to lastRetry.
	// firstRetry is long enough for the cache to receive the change that caused a conflict.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Minute
)

// Controller returns the controller, for [ccm.AsController] or ccm.Params. It is off unless
// --controllers names it.
//
// For each PersistentVolume without a label for its zone or its region, it requests the labels from
// the provider, and writes them in one patch. They replace other values. The same patch restricts
// spec.nodeAffinity to nodes with these labels, unless the PersistentVolume has a node affinity,
// which the API server does not let clients change. A label of several zones, "a__b", allows each
// of them. The controller skips PersistentVolumes that have both labels or are being deleted, and
// those for which the provider returns no labels. It retries a failed PersistentVolume with pauses
// from 200 ms to 5 minutes. From the second attempt on, an event of the PersistentVolume reports
// the reason: each reason once, and at most five until it succeeds or the term ends.
//
// The provider must be a cloudprovider.PVLabeler; otherwise the controller is skipped. In addition
// to the RBAC rules of every Manager, it needs to list, watch and patch persistentvolumes: see
// deploy/base/persistentvolumelabel.yaml.
func Controller() ccm.Controller {
	return ccm.Controller{
		Name: Name, Aliases: []string{alias}, DisabledByDefault: true,
		New: newController,
	}
}

// controller labels PersistentVolumes during one term.
type controller struct {
	labeler cloudprovider.PVLabeler
	client  kubernetes.Interface
	volumes corelisters.PersistentVolumeLister
	events  record.EventRecorder
	metrics *controllersmetrics.ControllerManagerMetrics

	// queue holds names, not objects, so that a name that is added twice is handled once, with the
	// current object.
	queue    workqueue.TypedRateLimitingInterface[string]
	failures *failures
}

// newController is called in each term, before the informers are started.
func newController(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
	// This check comes first, because a requested informer is started, and needs RBAC rules, even
	// if it is not used.
	labeler, ok := t.Cloud().(cloudprovider.PVLabeler)
	if !ok {
		return nil, fmt.Errorf(
			"%w: cloud provider %q is not a PVLabeler, so it has no labels for volumes",
			ccm.ErrSkip, t.Cloud().ProviderName())
	}
	client, err := t.Client(clientName)
	if err != nil {
		return nil, err
	}
	informer := t.Informers().Core().V1().PersistentVolumes()
	c := &controller{
		labeler:  labeler,
		client:   client,
		volumes:  informer.Lister(),
		events:   t.Recorder(Name),
		metrics:  t.Metrics(),
		failures: newFailures(),
		// The queue has a goroutine, which ends when Run shuts the queue down. The Manager always
		// calls Run.
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: Name}, // of the queue's metrics
		),
	}
	// The filter adds a volume when it is first seen without labels: in the informer's first list,
	// when it is created, and when its labels are removed. Other changes do not matter, because a
	// PersistentVolume cannot change its volume in the cloud.
	_, err = informer.TypedInformer().AddTypedEventHandler(
		coreinformers.PersistentVolumeFilteringHandler{
			FilterFunc: lacksLabels,
			Handler: coreinformers.PersistentVolumeHandlerFuncs{AddFunc: func(
				pv *corev1.PersistentVolume,
			) {
				c.queue.Add(pv.Name)
			}},
		})
	if err != nil {
		c.queue.ShutDown() // Run is not called after an error
		return nil, fmt.Errorf("register for PersistentVolumes: %w", err)
	}
	return c, nil
}

// Run implements [ccm.Runnable]. The informers have synced.
func (c *controller) Run(ctx context.Context) error {
	c.metrics.ControllerStarted(Name)
	defer c.metrics.ControllerStopped(Name)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	// ShutDown wakes the waiting workers. The calls of the others end with ctx.
	c.queue.ShutDown()
	running.Wait()
	return nil
}

// next handles one volume. It returns false when the term is over.
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
		c.failures.forget(name)
		return true
	}
	klog.FromContext(ctx).V(2).Info("PersistentVolume could not be labeled, will be tried again",
		"persistentVolume", name, "reason", err.Error())
	// A conflict is not a failure: another client has written the volume, and the retry reads it
	// again.
	if !apierrors.IsConflict(err) {
		c.failures.record(name, err)
	}
	c.queue.AddRateLimited(name)
	return true
}

// sync sets the labels of one volume. It is idempotent.
func (c *controller) sync(ctx context.Context, name string) error {
	pv, err := c.volumes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !lacksLabels(pv) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read from the cache: %w", err)
	}
	// The event of a failure is written at the next attempt, because the end of a term makes calls
	// fail shortly before ctx ends.
	if reason, isNew := c.failures.unreported(name); isNew {
		c.events.Event(pv, corev1.EventTypeWarning, reasonFailed, reason)
	}
	// The object in the cache is shared, and a provider might change its argument.
	labels, err := c.labeler.GetLabelsForVolume(ctx, pv.DeepCopy())
	if err != nil {
		return fmt.Errorf("ask the cloud provider for the labels of the volume: %w", err)
	}
	patch, err := patchFor(pv, labels)
	if err != nil || patch == nil {
		return err
	}
	return c.write(ctx, name, patch)
}

func (c *controller) write(ctx context.Context, name string, patch []byte) error {
	// A patch keeps the fields that this version of the API does not know.
	_, err := c.client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: Name})
	switch {
	case apierrors.IsNotFound(err): // deleted in the meantime
		return nil
	case err != nil:
		return fmt.Errorf("write the labels: %w", err)
	}
	klog.FromContext(ctx).Info("PersistentVolume labeled", "persistentVolume", name, "patch",
		string(patch))
	return nil
}
