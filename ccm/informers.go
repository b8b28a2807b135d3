package ccm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

// SharedInformers are informers of the host. Controllers see them through a view that takes back, at the end of a term, what the term
// has registered with them. They read under the host's identity, and with the host's selectors and transforms: a kind of which
// controllers see only a part is a part of the cluster for them.
type SharedInformers struct {
	// Factory makes and holds the informers. Nil: there are none.
	Factory informers.SharedInformerFactory

	// Stop ends, when it is closed, the informers that controllers needed and the host had not started: they are the host's like the
	// others, and go on between terms, because an informer cannot be started twice. Required with Factory.
	Stop <-chan struct{}
}

// makeInformers makes the term's informers. Nothing is started.
func (t *Term) makeInformers() error {
	// Without this a panic in an event handler would end the process, as in client-go.
	panics := informerview.WithPanicHandler(func(err error) { t.fail(fmt.Errorf("event handler: %w", err)) })
	if t.shared != nil {
		t.informers = t.shared.View(t.resync(), panics, informerview.WithClock(t.clock))
		return nil
	}
	client, err := t.clients.Client(informersClient)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(informerview.ListingClient(client), t.resync(),
		informers.WithTransform(t.transform()))
	t.informers = informerview.New(factory, panics)
	return nil
}

// resync draws the resync period between MinResyncPeriod and twice it, as upstream.
func (t *Term) resync() time.Duration {
	return time.Duration(float64(t.config.MinResyncPeriod.Duration) * (1 + rand.Float64()))
}

// transform returns what keeps the informers small. If nobody but upstream's four controllers reads them, it leaves out more.
func (t *Term) transform() cache.TransformFunc {
	others := func(c Controller) bool { return !c.upstreams }
	if slices.ContainsFunc(t.enabled, others) || t.cloud != nil && t.cloud.UsesInformers() {
		return stripManagedFields
	}
	return stripForUpstream
}

// stripManagedFields drops what no controller reads and what is often half of an object.
func stripManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// stripForUpstream also drops of a Node what upstream's four controllers do not look at, which is most of it. They write nodes by patches of
// what they have changed, or read them from the API server before.
func stripForUpstream(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.Status.Images, node.Status.Capacity, node.Status.Allocatable = nil, nil, nil
	}
	return stripManagedFields(obj)
}

// syncInformers starts the informers that were asked for and do not run yet, for as long as ctx, and waits for all of them to sync, until
// life ends.
func (t *Term) syncInformers(ctx, life context.Context) error {
	t.informers.StartWithContext(ctx)
	syncing, stopSyncing := context.WithTimeoutCause(life, t.config.CacheSyncTimeout.Duration,
		fmt.Errorf("informers have not synced within %s", t.config.CacheSyncTimeout.Duration))
	defer stopSyncing()
	return t.informers.WaitForSync(syncing)
}

// scope is the term as one controller sees it: what it registers with informers can be taken back alone, by release. fail is told of
// panics in its event handlers.
func (t *Term) scope(fail func(error)) *Term {
	own := *t
	own.informers = t.informers.Scope(informerview.WithPanicHandler(fail))
	return &own
}

// release takes back what a controller has registered with the term's informers.
func (t *Term) release() { t.informers.Close() }

func (t *Term) stopInformers() {
	if t.informers != nil {
		t.informers.Shutdown()
	}
}

// warnings are what an operator should know about the term.
func (t *Term) warnings() []string {
	all := append(t.status.retries(), t.panics.warnings()...)
	if view := t.status.informers(); view != nil {
		all = append(all, view.Warnings()...)
	}
	return all
}
