package ccm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Module runs a [Manager] in an fx app. It takes from the app
//
//   - a [Config] (fx.Supply),
//   - one or more [Provider]s: a provider's own Module, or [AsProvider],
//   - [Controller]s beside the four: [AsController],
//   - if there are any, what [Params] tells of: a *rest.Config or a [ClientSource], an informers.SharedInformerFactory, an
//     [Elector], a logr.Logger, an [EventRecorderSource], a prometheus.Registerer, a clock.Clock,
//   - if there is one, an [DrainTimeoutPolicy],
//
// and gives it a *[Manager]. A wrong configuration is an error of fx.New. OnStart only starts the
// Manager: it waits neither for the API server, nor for the cloud, nor for leadership. OnStop
// drains within the hook's deadline, and its error names what has not ended.
//
// Of the informers of a factory that the app has, those that the host has not started are started by the module and end with OnStop. An app
// that is started again after that needs a host that starts all kinds itself, because no informer can be started twice.
//
// Several Managers in one app are told apart by [Named].
var Module = Named("").Module()

// An Instance is one of several Managers of an app, each with its own configuration, provider, API server and election:
//
//	east, west := ccm.Named("east"), ccm.Named("west")
//	fx.New(
//		east.Module(), east.Supply(eastConfig), east.Provide(newEastRESTConfig), fx.Provide(east.AsProvider(newEastCloud)),
//		west.Module(), west.Supply(westConfig), west.Provide(newWestRESTConfig), fx.Provide(west.AsProvider(newWestCloud)),
//	)
//
// Its Manager has its name, in logs and metrics, and is given to the app under it: `name:"east"`. Who needs many, or some that come
// and go, makes them with [New].
type Instance struct{ name string }

// Named returns the instance of that name. The name must not hold quotes or backslashes, since fx's tags cannot. The empty name is
// that of [Module], and of the package's functions that are called as the methods of an Instance.
func Named(name string) Instance { return Instance{name} }

// Tag is the tag under which the app has the instance's Manager, for fx.ParamTags; empty for the unnamed one.
func (i Instance) Tag() string { return i.tag("") }

// Module is like the package's [Module]. Under the instance's name it takes the Config, the *rest.Config, the ClientSource, the
// informers, the Elector and the EventRecorderSource; providers and controllers come by the methods of the instance. The logger, the
// registerer, the clock and the policy are those of the whole app, without a name.
func (i Instance) Module() fx.Option {
	module := "ccm"
	if i.name != "" {
		module += "-" + i.name
	}
	required, optional := i.Tag(), i.tag(`optional:"true"`)
	const shared = `optional:"true"`
	return fx.Module(module,
		fx.Provide(fx.Annotate(i.fromApp,
			fx.ParamTags("", "", required, i.group(providers), i.group(controllersGroup), i.group(outerHooks),
				optional, optional, optional, optional, optional,
				shared, shared, shared, shared, shared),
			fx.ResultTags(i.Tag()))),
		fx.Invoke(fx.Annotate(func(*Manager) {}, fx.ParamTags(i.Tag()))),
	)
}

// The value groups of an instance.
const (
	providers        = "ccm.providers"
	controllersGroup = "ccm.controllers"
	outerHooks       = "ccm.outerHooks"
)

// tag is a tag of fx with the instance's name.
func (i Instance) tag(more string) string {
	if i.name == "" {
		return more
	}
	return strings.TrimSpace(fmt.Sprintf(`name:"%s" %s`, i.name, more))
}

// group is a tag of fx with a value group of the instance.
func (i Instance) group(name string) string {
	if i.name != "" {
		name += "." + i.name
	}
	return fmt.Sprintf(`group:"%s"`, name)
}

// Supply is fx.Supply under the instance's name.
func (i Instance) Supply(values ...any) fx.Option {
	if i.name == "" {
		return fx.Supply(values...)
	}
	named := make([]any, 0, len(values))
	for _, value := range values {
		named = append(named, fx.Annotate(value, fx.ResultTags(i.Tag())))
	}
	return fx.Supply(named...)
}

// Provide is fx.Provide of constructors of one value each, and perhaps an error, under the instance's name. What they need themselves
// they take without a name.
func (i Instance) Provide(constructors ...any) fx.Option {
	if i.name == "" {
		return fx.Provide(constructors...)
	}
	named := make([]any, 0, len(constructors))
	for _, constructor := range constructors {
		named = append(named, fx.Annotate(constructor, fx.ResultTags(i.Tag())))
	}
	return fx.Provide(named...)
}

// AsProvider is like the package's [AsProvider].
func (i Instance) AsProvider(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(i.group(providers)))
}

// AsController is like the package's [AsController].
func (i Instance) AsController(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(i.group(controllersGroup)))
}

// AsOuterHook is like the package's [AsOuterHook].
func (i Instance) AsOuterHook(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(i.group(outerHooks)))
}

// ReplaceProviders is like the package's [ReplaceProviders].
func (i Instance) ReplaceProviders(replacements ...Provider) fx.Option {
	return fx.Decorate(fx.Annotate(func() []Provider { return replacements }, fx.ResultTags(i.group(providers))))
}

// AsProvider annotates a constructor of a [Provider] for fx.Provide:
//
//	fx.Provide(ccm.AsProvider(func(cfg MyConfig) ccm.Provider { … }))
//
// It must not be provided with fx.Private: fx would hide it from the module.
func AsProvider(constructor any) any { return Named("").AsProvider(constructor) }

// AsController annotates a constructor of a [Controller] for fx.Provide, like [AsProvider].
func AsController(constructor any) any { return Named("").AsController(constructor) }

// AsOuterHook annotates a constructor of an fx.Hook that surrounds the Manager: it starts before the Manager, and stops after the
// Manager has drained, within what the stop's deadline leaves. Hooks stop in the reverse order of their start, and a hook that a
// constructor appends because it needs the *[Manager] can only come after the Manager's own. The constructor must not need the
// *Manager, therefore; the hook may use one that an fx.Invoke gives it. Package ccm/serving answers readiness probes during the drain
// this way. Like [AsProvider], it must not be provided with fx.Private.
func AsOuterHook(constructor any) any { return Named("").AsOuterHook(constructor) }

// ReplaceProviders swaps all providers of an app for others, for tests. The real ones are not
// built. It must stand at the root of the app, not within another module.
func ReplaceProviders(providers ...Provider) fx.Option {
	return Named("").ReplaceProviders(providers...)
}

// A DrainTimeoutPolicy says what follows in an app when a term did not end within its drain timeout while the app runs. It is
// called once for each such term, before another process may lead, and must not block. app ends the app.
//
// Whatever the policy does, the Manager reports the state as degraded and campaigns again when the term can no longer act.
type DrainTimeoutPolicy func(err *DrainTimeoutError, app fx.Shutdowner)

// ExitDrainTimeout is the exit code that the policies of this package hand to fx.Shutdowner.
const ExitDrainTimeout = 3

// ShutDownIfActing is the default [DrainTimeoutPolicy]. It shuts the app down with [ExitDrainTimeout] if something of the term may
// still change the cloud while another process leads, because only the end of the process surely ends that. Otherwise the app goes
// on.
func ShutDownIfActing(err *DrainTimeoutError, app fx.Shutdowner) {
	if err.MayAct() {
		ShutDownOnDrainTimeout(err, app)
	}
}

// ShutDownOnDrainTimeout is a [DrainTimeoutPolicy] that shuts the app down with [ExitDrainTimeout] in each case.
func ShutDownOnDrainTimeout(_ *DrainTimeoutError, app fx.Shutdowner) {
	// It fails if the app is not waited for; Status and the liveness check report the timeout then.
	_ = app.Shutdown(fx.ExitCode(ExitDrainTimeout))
}

// KeepRunning is a [DrainTimeoutPolicy] for an app whose other parts matter more: the app goes on in each case. A call that may
// act is in Status, readiness and liveness; it can change the cloud while another process leads, until it returns.
func KeepRunning(*DrainTimeoutError, fx.Shutdowner) {}

// stopReserve is the part of a stop hook's deadline that is left for the hooks after it.
const stopReserve = 500 * time.Millisecond

func (i Instance) fromApp(
	lifecycle fx.Lifecycle, app fx.Shutdowner,
	config Config, providers []Provider, controllers []Controller, outerHooks []fx.Hook,
	restConfig *rest.Config, clients ClientSource, factory informers.SharedInformerFactory, elector Elector, recorders EventRecorderSource,
	logger *logr.Logger, loggerValue logr.Logger, registerer prometheus.Registerer, clock clock.Clock, policy DrainTimeoutPolicy,
) (*Manager, error) {
	if logger == nil && loggerValue.GetSink() != nil {
		logger = &loggerValue
	}
	if policy == nil {
		policy = ShutDownIfActing
	}
	hook := &lifecycleHook{informers: make(chan struct{})}
	m, err := New(Params{
		Name:           i.name,
		Config:         config,
		Providers:      providers,
		Controllers:    controllers,
		RESTConfig:     restConfig,
		Clients:        clients,
		Informers:      SharedInformers{Factory: factory, Stop: hook.informers},
		Elector:        elector,
		Logger:         logger,
		EventRecorders: recorders,
		Registerer:     registerer,
		Clock:          clock,
		OnDrainTimeout: func(err *DrainTimeoutError) {
			hook.reported.Store(err)
			policy(err, app)
		},
	})
	if err != nil {
		return nil, err
	}
	for _, outer := range outerHooks {
		lifecycle.Append(outer)
	}
	hook.manager = m
	lifecycle.Append(fx.Hook{OnStart: hook.start, OnStop: hook.stop})
	return m, nil
}

// lifecycleHook ties a Manager to an app's lifecycle. An app may be started again after it has
// stopped, so what belongs to one run is made in start.
type lifecycleHook struct {
	manager *Manager
	// reported is the last drain timeout that the policy was told.
	reported atomic.Pointer[DrainTimeoutError]

	cancel context.CancelCauseFunc
	done   chan error
	// informers ends those of the host's informers that the Manager had to start.
	informers     chan struct{}
	stopInformers sync.Once
}

func (h *lifecycleHook) start(startCtx context.Context) error {
	// The hook's context ends with the start; the run must not.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(startCtx))
	h.cancel, h.done = cancel, make(chan error, 1)
	go func(done chan<- error) {
		err := h.manager.Run(ctx)
		if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok && timedOut == h.reported.Load() {
			// The policy knows of it. A stop that the policy asked for has nothing to add: fx's App.Run exits with 1 when a
			// stop fails, whatever code was asked for.
			err = nil
		}
		done <- err
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
	defer h.stopInformers.Do(func() { close(h.informers) })
	select {
	case err := <-h.done:
		h.done = nil
		return err
	case <-stopCtx.Done():
		running := h.manager.Status().Running
		if len(running) == 0 {
			return fmt.Errorf("ccm: did not stop in time: %w", context.Cause(stopCtx))
		}
		return errors.Join(fmt.Errorf("ccm: did not stop in time; still running: %s", describe(running, time.Now())), context.Cause(stopCtx))
	}
}
