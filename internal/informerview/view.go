// Package informerview gives a term its shared informers and remembers why those that have not
// synced have not.
package informerview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
)

// View is a SharedInformerFactory that stands in front of another one and sees each informer that
// is asked for. It is safe for concurrent use.
type View struct {
	informers.SharedInformerFactory

	mu      sync.Mutex
	tracked map[cache.SharedIndexInformer]*tracked
}

type tracked struct {
	name string
	// lastError is why the last list or watch failed.
	lastError error
}

// New returns a view of the factory.
func New(factory informers.SharedInformerFactory) *View {
	return &View{SharedInformerFactory: factory, tracked: map[cache.SharedIndexInformer]*tracked{}}
}

// InformerFor implements informers.SharedInformerFactory.
func (v *View) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	informer := v.SharedInformerFactory.InformerFor(obj, newFunc)
	v.track(informer, strings.ToLower(reflect.TypeOf(obj).Elem().Name())+"s")
	return informer
}

// ForResource implements informers.SharedInformerFactory.
func (v *View) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	generic, err := v.SharedInformerFactory.ForResource(resource)
	if err != nil {
		return nil, err
	}
	v.track(generic.Informer(), resource.Resource)
	return generic, nil
}

func (v *View) track(informer cache.SharedIndexInformer, name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.tracked[informer]; known {
		return
	}
	v.tracked[informer] = &tracked{name: name}
	// It fails only for an informer that has been started already, which is a host's; its errors are the host's too.
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		v.failed(informer, err)
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
}

func (v *View) failed(informer cache.SharedIndexInformer, err error) {
	// A watch that the server closes is not a failure.
	if errors.Is(err, io.EOF) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tracked[informer].lastError = err
}

// WaitForSync waits until every informer that was asked for has synced, or ctx ends. The error
// names those that have not, and why.
func (v *View) WaitForSync(ctx context.Context) error {
	v.mu.Lock()
	checkers := make([]cache.DoneChecker, 0, len(v.tracked))
	for informer := range v.tracked {
		checkers = append(checkers, informer.HasSyncedChecker())
	}
	v.mu.Unlock()
	if cache.WaitFor(ctx, "", checkers...) {
		return nil
	}
	if err := v.Problem(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Problem names the informers that have not synced, and why as far as is known; nil if all have.
func (v *View) Problem() error {
	return v.unsynced(func(t *tracked) error {
		if t.lastError == nil {
			return fmt.Errorf("informer of %s has not synced yet", t.name)
		}
		return fmt.Errorf("informer of %s has not synced: %w", t.name, t.lastError)
	})
}

// Failure is Problem without the informers that are merely not done yet.
func (v *View) Failure() error {
	return v.unsynced(func(t *tracked) error {
		if t.lastError == nil {
			return nil
		}
		return fmt.Errorf("informer of %s has not synced: %w", t.name, t.lastError)
	})
}

func (v *View) unsynced(describe func(*tracked) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var waiting []*tracked
	for informer, t := range v.tracked {
		if !informer.HasSynced() {
			waiting = append(waiting, t)
		}
	}
	slices.SortFunc(waiting, func(a, b *tracked) int { return strings.Compare(a.name, b.name) })
	var errs []error
	for _, t := range waiting {
		errs = append(errs, describe(t))
	}
	return errors.Join(errs...)
}
