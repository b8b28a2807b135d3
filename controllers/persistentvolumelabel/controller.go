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

// Name is what --controllers and Status call the controller. It is made by upstream's rule: the
// resource in one word, without shortcuts.
const Name = "persistentvolume-label-controller"

// Alias is the short form of [Name] that --controllers accepts too.
const Alias = "persistentvolume-label"

// ReasonFailed is the reason of the events, of type Warning, that tell why a PersistentVolume has
// not been labeled yet.
const ReasonFailed = "LabelingFailed"

const (
	// clientName is the identity of the controller: a ServiceAccount in kube-system with
	// --use-service-account-credentials, a part of the user agent otherwise. It was upstream's, so
	// RBAC rules that a cluster may still have for it apply.
	clientName = "pvl-controller"

	// workers is how many volumes are asked about at once; upstream's number.
	workers = 5

	// A volume that fails is tried again after firstRetry, then after twice as long each time, up
	// to lastRetry. The first is long enough for the cache to have seen what caused a conflict.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Minute
)

// Controller returns the controller, for [ccm.AsController] or ccm.Params. It is off unless
// --controllers names it.
//
// It looks at PersistentVolumes that lack the label of a zone or that of a region, asks the
// provider for the labels of each, and writes these, over other values if there are any, in one
// patch. The same patch restricts spec.nodeAffinity to nodes with such labels, if the
// PersistentVolume has no node affinity: the API server does not let it be changed. A label of
// several zones, "a__b", becomes a choice between them. A label that the volume has already is left
// alone, and so is a PersistentVolume that is being deleted. A provider that does not know a volume
// answers without labels; then nothing is done. A failed PersistentVolume is retried, with pauses
// from 200 ms to 5 minutes. From the second try on the reason is told in an event of the
// PersistentVolume: each reason once, and five at most until it succeeds or the term ends.
//
// The provider must be a cloudprovider.PVLabeler; otherwise the controller is skipped. Beside the
// rules that every Manager needs it needs to list, watch and patch persistentvolumes: see
// deploy/base/persistentvolumelabel.yaml.
func Controller() ccm.Controller {
	return ccm.Controller{
		Name: Name, Aliases: []string{Alias}, DisabledByDefault: true,
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

	// queue holds names, not objects: a name that is added twice is worked on once, with what is
	// known then.
	queue    workqueue.TypedRateLimitingInterface[string]
	failures *failures
}

// newController is called in each term, before the informers are started.
func newController(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
	// This check comes first, because a requested informer is started, and needs rights, even
	// without a use.
	labeler, ok := t.Cloud().(cloudprovider.PVLabeler)
	if !ok {
		return nil, fmt.Errorf(
			"%w: cloud provider %q is no PVLabeler, so it has no labels for volumes",
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
		// It has a goroutine of its own. Run is called in any case, and shuts it down.
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: Name}, // of the queue's metrics
		),
	}
	// A volume is added when it is first seen without labels: in the informer's first list, when it
	// is made, and when its labels are removed. Other changes do not matter, because what
	// is in the cloud can not be exchanged for something else.
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
		c.queue.ShutDown() // without a Runnable there is no Run
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
	// Wakes the workers that wait for work. The others are in a call that ends with ctx.
	c.queue.ShutDown()
	running.Wait()
	return nil
}

// next works on one volume. It returns false when the term is over.
func (c *controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	// A queue that is shut down first hands out all that it holds. The next term sees these volumes
	// again.
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
	// A conflict is no failure: another client has written the volume, which is read again now.
	if !apierrors.IsConflict(err) {
		c.failures.note(name, err)
	}
	c.queue.AddRateLimited(name)
	return true
}

// sync brings one volume to where it should be. It may be called at any time, and any number of
// times.
func (c *controller) sync(ctx context.Context, name string) error {
	pv, err := c.volumes.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !lacksLabels(pv) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read from the cache: %w", err)
	}
	// Told not when it happens, but when the term has gone on to the next try: the end of a term
	// makes calls fail a moment before ctx ends, and that is no failure of the volume.
	if reason, untold := c.failures.untold(name); untold {
		c.events.Event(pv, corev1.EventTypeWarning, ReasonFailed, reason)
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
	// Not an update: that would drop the fields that this version of the API does not know.
	_, err := c.client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: Name})
	switch {
	case apierrors.IsNotFound(err): // deleted meanwhile
		return nil
	case err != nil:
		return fmt.Errorf("write the labels: %w", err)
	}
	klog.FromContext(ctx).Info("PersistentVolume labeled", "persistentVolume", name, "patch",
		string(patch))
	return nil
}
