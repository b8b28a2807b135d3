package informerview

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// stopPollInterval is how often a wait checks for stopped informers, because client-go sends no
// signal for them.
const stopPollInterval = time.Second

// WaitForSync waits until every informer that the view has requested has synced, or ctx ends. The
// error names the informers that have not synced, and why. A stopped informer is an error at once,
// because it never syncs.
func (v *View) WaitForSync(ctx context.Context) error {
	asked := v.requested()
	checkers := make([]cache.DoneChecker, 0, len(asked))
	for _, s := range asked {
		checkers = append(checkers, s.informer.HasSyncedChecker())
	}
	for ctx.Err() == nil {
		if err := v.Stopped(); err != nil {
			return err
		}
		if waitFor(ctx, stopPollInterval, checkers) {
			return nil
		}
	}
	if err := v.Problem(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func waitFor(ctx context.Context, limit time.Duration, checkers []cache.DoneChecker) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return cache.WaitFor(ctx, "", checkers...)
}

// Problem names the informers that have not synced or have been stopped, with the reason if it is
// known. It is nil when all have synced.
func (v *View) Problem() error {
	return v.explain(func(s *source) error {
		switch err := v.failure(s); {
		case err != nil || s.informer.HasSynced():
			return err
		case s.unobserved:
			return fmt.Errorf(
				"informer of %s has not synced yet; only the host, which has started it, knows why",
				s.name)
		default:
			return fmt.Errorf("informer of %s has not synced yet", s.name)
		}
	})
}

// Failure is Problem without the informers that are still syncing.
func (v *View) Failure() error { return v.explain(v.failure) }

func (v *View) failure(s *source) error {
	if err := v.root.stopped(s); err != nil {
		return err
	}
	if err := s.reason(); err != nil && !s.informer.HasSynced() {
		return fmt.Errorf("informer of %s has not synced: %w", s.name, err)
	}
	return nil
}

// Stopped names the informers that have been stopped.
func (v *View) Stopped() error { return v.explain(v.root.stopped) }

// stopped returns an error for an informer that has been stopped, or that will not be started.
func (r *root) stopped(s *source) error {
	stopped := s.informer.IsStopped()
	switch {
	case r.host && !stopped && closed(r.informersDone) && !s.informer.HasSynced():
		return fmt.Errorf("informer of %s has not synced, and the host ends its informers", s.name)
	case !stopped:
		return nil
	case r.host:
		return fmt.Errorf(
			"informer of %s has been stopped; a stopped informer cannot be started again: "+
				"stop the host's informers after the Manager, or hand in a factory whose informers run", s.name)
	default:
		return fmt.Errorf("informer of %s has been stopped", s.name)
	}
}

// explain joins the errors that describe returns for the requested informers, in the order of
// names.
func (v *View) explain(describe func(*source) error) error {
	asked := v.requested()
	slices.SortFunc(asked, func(a, b *source) int { return strings.Compare(a.name, b.name) })
	var errs []error
	for _, s := range asked {
		errs = append(errs, describe(s))
	}
	return errors.Join(errs...)
}

// requested returns the informers that a scope has requested, or all of the term.
func (v *View) requested() []*source {
	if v.parent == nil {
		return v.root.requestedSources()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.informers))
}

// WaitForCacheSync implements informers.SharedInformerFactory, as
// [View.WaitForCacheSyncWithContext].
func (v *View) WaitForCacheSync(stopCh <-chan struct{}) map[reflect.Type]bool {
	return v.WaitForCacheSyncWithContext(wait.ContextForChannel(stopCh)).Synced
}

// WaitForCacheSyncWithContext implements informers.SharedInformerFactory. It waits only for the
// informers that the term has requested and that have been started.
func (v *View) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	asked := v.root.requestedSources()
	unstarted := v.root.unstarted(asked)
	started := slices.DeleteFunc(asked,
		func(s *source) bool { return slices.Contains(unstarted, s) })
	var checkers []cache.DoneChecker
	for _, s := range started {
		checkers = append(checkers, s.informer.HasSyncedChecker())
	}
	result := cache.SyncResult{Synced: map[reflect.Type]bool{}}
	if !cache.WaitFor(ctx, "", checkers...) {
		result.Err = context.Cause(ctx)
	}
	for _, s := range started {
		if s.object != nil {
			result.Synced[s.object] = s.informer.HasSynced()
		}
	}
	return result
}
