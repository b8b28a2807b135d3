package ccm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"
)

// Module runs a [Manager] in an fx app. It takes from the app
//
//   - a [Config] (fx.Supply),
//   - one or more [Provider]s: a provider's own Module, or [AsProvider],
//   - [Controller]s beside the four: [AsController],
//   - if there are any: a *rest.Config, an [Elector], a logr.Logger,
//
// and gives it a *[Manager]. A wrong configuration is an error of fx.New. OnStart only starts the
// Manager: it waits neither for the API server, nor for the cloud, nor for leadership. OnStop
// drains within the hook's deadline, and its error names what has not ended.
//
// When a term cannot be drained while the app runs, the app is shut down with [ExitUndrained]:
// something may still act in the cloud without a lease, and the process's end is the only sure way to stop it.
var Module = fx.Module("ccm",
	fx.Provide(fromApp),
	fx.Invoke(func(*Manager) {}),
)

// ExitUndrained is the exit code that [Module] hands to fx.Shutdowner when a term cannot be drained.
const ExitUndrained = 3

// stopReserve is the part of a stop hook's deadline that is left for the hooks after it.
const stopReserve = 500 * time.Millisecond

const (
	providerGroup   = `group:"ccm.providers"`
	controllerGroup = `group:"ccm.controllers"`
	outerHookGroup  = `group:"ccm.outerHooks"`
)

// AsProvider annotates a constructor of a [Provider] for fx.Provide:
//
//	fx.Provide(ccm.AsProvider(func(cfg MyConfig) ccm.Provider { … }))
//
// It must not be provided with fx.Private: fx would hide it from the module.
func AsProvider(constructor any) any { return fx.Annotate(constructor, fx.ResultTags(providerGroup)) }

// AsController annotates a constructor of a [Controller] for fx.Provide, like [AsProvider].
func AsController(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(controllerGroup))
}

// AsOuterHook annotates a constructor of an fx.Hook that surrounds the Manager: it starts before the Manager, and stops after the
// Manager has drained, within what the stop's deadline leaves. Hooks stop in the reverse order of their start, and a hook that a
// constructor appends because it needs the *[Manager] can only come after the Manager's own. The constructor must not need the
// *Manager, therefore; the hook may use one that an fx.Invoke gives it. Package ccm/serving answers readiness probes during the drain
// this way. Like [AsProvider], it must not be provided with fx.Private.
func AsOuterHook(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(outerHookGroup))
}

// ReplaceProviders swaps all providers of an app for others, for tests. The real ones are not
// built. It must stand at the root of the app, not within another module.
func ReplaceProviders(providers ...Provider) fx.Option {
	return fx.Decorate(fx.Annotate(func() []Provider { return providers }, fx.ResultTags(providerGroup)))
}

type fromAppParams struct {
	fx.In

	Lifecycle   fx.Lifecycle
	Shutdowner  fx.Shutdowner
	Config      Config
	Providers   []Provider   `group:"ccm.providers"`
	Controllers []Controller `group:"ccm.controllers"`
	OuterHooks  []fx.Hook    `group:"ccm.outerHooks"`
	RESTConfig  *rest.Config `optional:"true"`
	Elector     Elector      `optional:"true"`
	Logger      *logr.Logger `optional:"true"`
	LoggerValue logr.Logger  `optional:"true"`
}

func fromApp(p fromAppParams) (*Manager, error) {
	if p.Logger == nil && p.LoggerValue.GetSink() != nil {
		p.Logger = &p.LoggerValue
	}
	m, err := New(Params{
		Config:      p.Config,
		Providers:   p.Providers,
		Controllers: p.Controllers,
		RESTConfig:  p.RESTConfig,
		Elector:     p.Elector,
		Logger:      p.Logger,
	})
	if err != nil {
		return nil, err
	}
	for _, outer := range p.OuterHooks {
		p.Lifecycle.Append(outer)
	}
	hook := &lifecycleHook{manager: m, shutdowner: p.Shutdowner}
	p.Lifecycle.Append(fx.Hook{OnStart: hook.start, OnStop: hook.stop})
	return m, nil
}

// lifecycleHook ties a Manager to an app's lifecycle. An app may be started again after it has
// stopped, so what belongs to one run is made in start.
type lifecycleHook struct {
	manager    *Manager
	shutdowner fx.Shutdowner
	cancel     context.CancelCauseFunc
	done       chan error
}

func (h *lifecycleHook) start(startCtx context.Context) error {
	// The hook's context ends with the start; the run must not.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(startCtx))
	h.cancel, h.done = cancel, make(chan error, 1)
	go func(done chan<- error) {
		err := h.manager.Run(ctx)
		done <- err
		if err != nil && ctx.Err() == nil {
			// The host may have no one who waits for it; then Done and Err tell.
			_ = h.shutdowner.Shutdown(fx.ExitCode(ExitUndrained))
		}
	}(h.done)
	return nil
}

func (h *lifecycleHook) stop(stopCtx context.Context) error {
	if h.done == nil {
		return nil
	}
	cause := ErrStopped
	if deadline, ok := stopCtx.Deadline(); ok {
		cause = StopBy(deadline.Add(-stopReserve))
		// An API server that hangs can hold up the release of the lease, which comes after the drain.
		var cancel context.CancelFunc
		stopCtx, cancel = context.WithDeadline(stopCtx, deadline.Add(-stopReserve/2))
		defer cancel()
	}
	h.cancel(cause)
	select {
	case err := <-h.done:
		h.done = nil
		return err
	case <-stopCtx.Done():
		running := h.manager.Status().Running
		if len(running) == 0 {
			return fmt.Errorf("ccm: did not stop in time: %w", context.Cause(stopCtx))
		}
		return errors.Join(fmt.Errorf("ccm: did not stop in time; still running: %s", strings.Join(running, ", ")), context.Cause(stopCtx))
	}
}
