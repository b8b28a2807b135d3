package ccm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

// SharedInformers are informers of the host. Controllers use them through a view that removes, at
// the end of a term, the handlers that the term has registered. The informers read under the host's
// identity, and with the host's selectors and transforms. For controllers, objects that the host's
// selectors exclude do not exist.
type SharedInformers struct {
	// Factory makes and holds the informers. Nil: each term makes its own.
	Factory informers.SharedInformerFactory

	// Stop, when closed, ends the informers that controllers needed and the host had not started.
	// They continue between terms, because an informer cannot be started twice. Required with
	// Factory.
	Stop <-chan struct{}
}

// makeInformers makes the term's informers without starting them.
func (t *termRun) makeInformers() error {
	// As in client-go, a panic in an event handler would otherwise end the process.
	panics := informerview.WithPanicHandler(func(err error) {
		t.fail(fmt.Errorf("event handler: %w", err))
	})
	failures := informerview.WithFailureHandler(t.reportInformer)
	if t.shared != nil {
		t.informers = t.shared.View(panics, failures)
		return nil
	}
	client, err := t.clients.Client(informersClient)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(
		informerview.ListingClient(client), t.resync(),
		informers.WithTransform(t.transform()))
	t.informers = informerview.New(factory, panics, failures)
	return nil
}

// reportInformer reports an informer that cannot list or watch its resource, and the end of that
// with nil. Before the first sync the state of the term reports it.
func (t *termRun) reportInformer(resource string, cause error) {
	if cause != nil {
		cause = errors.New(explain(cause))
	}
	t.reportTrouble("informer of "+resource, cause)
}

// resync draws the resync period between MinResyncPeriod and twice it, as upstream.
func (t *termRun) resync() time.Duration {
	return time.Duration(float64(t.config.MinResyncPeriod.Duration) * (1 + rand.Float64()))
}

// transform returns the function that reduces cached objects, and ends the term if an object has a
// name that no API server accepts. The function removes more if only the four cloud controllers
// read the objects. It decides at the first object, because the provider and the controllers
// request their informers until the informers start.
func (t *termRun) transform() cache.TransformFunc {
	othersRead := sync.OnceValue(func() bool {
		return slices.ContainsFunc(t.enabled, func(c Controller) bool { return !c.isBuiltin }) ||
			t.cloud != nil && t.cloud.UsesInformers() ||
			t.providerInformers != nil && t.providerInformers.Requested()
	})
	return informerview.RefuseNames(t.fail, func(obj any) (any, error) {
		if othersRead() {
			return informerview.StripManagedFields(obj)
		}
		return stripForBuiltin(obj)
	})
}

// stripForBuiltin drops the managed fields, and the parts of a Node that the four cloud
// controllers do not read, which are most of it. These controllers patch only what they have
// changed, or read nodes from the API server first.
func stripForBuiltin(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.Status.Images, node.Status.Capacity, node.Status.Allocatable = nil, nil, nil
	}
	return informerview.StripManagedFields(obj)
}

// waitForSync waits until the informers of a part of the term have synced, or ctx ends.
func (t *termRun) waitForSync(ctx context.Context, part *informerview.View) error {
	syncing, stopSyncing := context.WithTimeoutCause(ctx, t.config.CacheSyncTimeout.Duration,
		fmt.Errorf("informers have not synced within %s", t.config.CacheSyncTimeout.Duration))
	defer stopSyncing()
	return part.WaitForSync(syncing)
}

// scope returns the term for one controller: release removes only the handlers of that controller.
// fail receives panics of its event handlers.
func (t *termRun) scope(fail func(error)) *Term {
	return &Term{run: t, informers: t.informers.Scope(informerview.WithPanicHandler(fail))}
}

// release removes the handlers that the controller has registered with the term's informers.
func (t *Term) release() { t.informers.Close() }

func (t *termRun) stopInformers() {
	if t.informers != nil {
		t.informers.Shutdown()
	}
}

func (t *termRun) warnings() []string {
	all := append(t.status.retries(), t.panics.warnings()...)
	all = append(all, overdue(t.fence.InFlight(), t.clock.Now())...)
	if view := t.status.informers(); view != nil {
		all = append(all, view.Warnings()...)
	}
	return all
}
