package controllerruntime

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/informerview"
)

// trackedManager is the manager of one campaign. It tracks the runnables that run, and collects the
// pages for [Host.Handler].
type trackedManager struct {
	manager.Manager
	running inflight.Set
	// calls is the fence of [Transport]. lock is nil without leader election.
	calls *fence.Fence
	lock  *strictLock
	pages *pages
	view  *informerview.View
}

// acting names the runnables that run, and their calls in flight.
func (m *trackedManager) acting() []string {
	names := m.running.Names()
	for _, call := range m.calls.InFlight() {
		names = append(names, call.Name)
	}
	return names
}

// Add implements manager.Manager.
func (m *trackedManager) Add(r manager.Runnable) error {
	switch r.(type) {
	case *manager.Server, webhook.Server, interface{ GetCache() cache.Cache }:
		// controller-runtime starts these before the election, by their type.
		return m.Manager.Add(r)
	}
	t := tracked{r, &m.running}
	if warm, ok := r.(warmer); ok {
		return m.Manager.Add(trackedWarmer{t, warm})
	}
	return m.Manager.Add(t)
}

// AddHealthzCheck implements manager.Manager.
func (m *trackedManager) AddHealthzCheck(name string, check healthz.Checker) error {
	return m.pages.addCheck(m.pages.healthz, name, check)
}

// AddReadyzCheck implements manager.Manager.
func (m *trackedManager) AddReadyzCheck(name string, check healthz.Checker) error {
	return m.pages.addCheck(m.pages.readyz, name, check)
}

// AddMetricsServerExtraHandler implements manager.Manager.
func (m *trackedManager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	return m.pages.addHandler(path, handler)
}

// tracked is a runnable that is listed in running while it runs.
type tracked struct {
	manager.Runnable
	running *inflight.Set
}

// Start implements manager.Runnable.
func (r tracked) Start(ctx context.Context) error {
	defer r.running.Begin(inflight.Activity{Name: nameOf(r.Runnable)})()
	// The group of runnables may start this one after the campaign was found to have ended.
	if ctx.Err() != nil {
		return nil
	}
	return r.Runnable.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. As in controller-runtime, a
// runnable without this method needs leader election.
func (r tracked) NeedLeaderElection() bool {
	runnable, ok := r.Runnable.(manager.LeaderElectionRunnable)
	return !ok || runnable.NeedLeaderElection()
}

// warmer is a runnable that prepares before the election, such as a controller.
type warmer interface {
	Warmup(ctx context.Context) error
}

type trackedWarmer struct {
	tracked
	warmer
}

// nameOf names a runnable in an error. Controllers of controller-runtime print as their name.
func nameOf(r manager.Runnable) string {
	if named, ok := r.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", r)
}
