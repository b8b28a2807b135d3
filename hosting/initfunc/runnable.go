package initfunc

import (
	"context"
	"net/http"
	"time"

	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"

	"github.com/fxccm/fxccm/ccm"
)

// runnable is a controller that its InitFunc has started.
type runnable struct {
	env    *environment
	health healthz.UnnamedHealthChecker
}

var _ ccm.HealthChecker = (*runnable)(nil)

// debuggable is a runnable whose controller has a debugging handler.
type debuggable struct {
	*runnable
	handler http.Handler
}

// newRunnable returns the Runnable of the controller that the InitFunc returned, which may be nil.
func newRunnable(env *environment, c controller.Interface) ccm.Runnable {
	r := &runnable{env: env}
	if checkable, ok := c.(controller.HealthCheckable); ok {
		r.health = checkable.HealthChecker()
	}
	if shows, ok := c.(controller.Debuggable); ok {
		if handler := shows.DebuggingHandler(); handler != nil {
			return debuggable{runnable: r, handler: handler}
		}
	}
	return r
}

// Run closes InformersStarted, and ends the environment when ctx has ended. It waits for the
// metadata informers, but not for the goroutines of the InitFunc, which the adapter cannot observe.
func (r *runnable) Run(ctx context.Context) error {
	defer r.env.end()
	// A reset waits for requests in flight, which end with this context.
	defer context.AfterFunc(ctx, r.env.cancel)()
	if ctx.Err() != nil {
		return nil
	}
	r.env.metadata.Start(nil)
	r.env.closeStarted()
	reset := time.NewTicker(mapperReset)
	defer reset.Stop()
	for {
		select {
		case <-reset.C:
			r.env.mapper.ResetWithContext(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// HealthCheck implements ccm.HealthChecker. It calls the controller's health check, if it has one.
func (r *runnable) HealthCheck(req *http.Request) error {
	if r.health == nil {
		return nil
	}
	return r.health.Check(req)
}

// DebuggingHandler implements controller.Debuggable.
func (d debuggable) DebuggingHandler() http.Handler { return d.handler }
