package ccm

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/fx"
)

// Module runs a [Manager] in an fx app. It takes from the app
//
//   - a [Config] (fx.Supply),
//   - one or more [Provider]s: a provider's own Module, [AsProvider], or fx.Provide of a
//     constructor of a Provider,
//   - [Controller]s in addition to upstream's four: [AsController], or fx.Provide for a single one,
//   - the optional fields of [Params]: a *rest.Config or a [ClientBuilder], an
//     informers.SharedInformerFactory, an [Elector], a logr.Logger, an [EventRecorderSource], a
//     prometheus.Registerer, a clock.Clock,
//   - an optional [DrainTimeoutPolicy],
//
// and provides a *[Manager]. An invalid configuration is an error of fx.New. OnStart only starts
// the Manager: it waits neither for the API server, nor for the cloud, nor for leadership. OnStop
// drains within the hook's deadline, and its error names the activities that have not ended.
//
// fx.Supply gives an app a value under its concrete type. The module also takes the common concrete
// types: a *[HostElector], the elector of [AlwaysLead], a *prometheus.Registry, and functions with
// the signatures of ClientBuilder, EventRecorderSource and DrainTimeoutPolicy. Any other value of
// an interface needs fx.Annotate(value, fx.As(new(Elector))). A value of the interface type has
// precedence. Two functions for one input are an error.
//
// All inputs are optional to fx. If the app lacks a dependency of an optional value's constructor,
// fx drops the constructor without an error, and the module works without the value. Only a missing
// Config is an error.
//
// The module starts the host's informers that the host has not started, and ends them with OnStop.
// An informer cannot be started twice, so a host that restarts its app starts all informers itself.
// A start after a stop that timed out first waits, within the start's deadline, until the earlier
// run has ended.
//
// [Named] distinguishes several Managers in one app.
var Module = Named("").Module()

// A NamedModule runs one of several Managers of an app, each with its own configuration, provider,
// API server and election:
//
//	east, west := ccm.Named("east"), ccm.Named("west")
//	fx.New(
//		east.Module(), east.Supply(eastConfig), east.Provide(newEastRESTConfig),
//		fx.Provide(east.AsProvider(newEastCloud)),
//		west.Module(), west.Supply(westConfig), west.Provide(newWestRESTConfig),
//		fx.Provide(west.AsProvider(newWestCloud)),
//	)
//
// The Manager has the module's name in logs, in metrics, and in the app: `name:"east"`. A host that
// adds and removes Managers while it runs creates them with [New].
type NamedModule struct{ name string }

// Named returns the module of that name. The name must not contain quotes or backslashes, because
// fx's tags cannot contain them. The empty name is that of [Module] and of the package's functions.
func Named(name string) NamedModule { return NamedModule{name} }

// Tag is the tag under which the app has the module's Manager, for fx.ParamTags. It is empty for
// the empty name.
func (n NamedModule) Tag() string { return n.tag("") }

// Module is like the package's [Module]. It takes the Config, the *rest.Config, the ClientBuilder,
// the informers, the Elector and the EventRecorderSource under the module's name. Providers and
// controllers are added with the methods of the NamedModule. The logger, the registerer, the clock
// and the policy are those of the whole app, without a name.
func (n NamedModule) Module() fx.Option {
	module := "ccm"
	if n.name != "" {
		module += "-" + n.name
	}
	// The constructors are passed without fx.Annotate and without closures, because fx's errors
	// name the functions.
	if n.name == "" {
		return fx.Module(module, fx.Provide(fromApp), fx.Invoke(needManager))
	}
	return fx.Module(module,
		fx.Provide(n.gather(), fromGathered, fx.Private),
		fx.Provide(fx.Annotated{Name: n.name, Target: namedManager.get}),
		fx.Invoke(needNamedManager),
	)
}

func needManager(*Manager) {}

func needNamedManager(namedManager) {}

// namedManager is the Manager of a NamedModule. Only that module has this type.
type namedManager struct{ manager *Manager }

func (m namedManager) get() *Manager { return m.manager }

func fromGathered(g gathered) (namedManager, error) {
	m, err := g.inputs.newManager(g.name)
	if err != nil {
		return namedManager{}, fmt.Errorf("manager %q: %w", g.name, err)
	}
	return namedManager{m}, nil
}

func fromApp(in inputs) (*Manager, error) { return in.newManager("") }

// The value groups of a module.
const (
	providers        = "ccm.providers"
	controllersGroup = "ccm.controllers"
	surroundingHooks = "ccm.surroundingHooks"
	replacements     = "ccm.replacements"
)

// tag returns an fx tag with the module's name.
func (n NamedModule) tag(more string) string {
	if n.name == "" {
		return more
	}
	return strings.TrimSpace(fmt.Sprintf(`name:"%s" %s`, n.name, more))
}

// group returns an fx tag with a value group of the module.
func (n NamedModule) group(name string) string {
	return fmt.Sprintf(`group:"%s"`, n.groupName(name))
}

func (n NamedModule) groupName(name string) string {
	if n.name != "" {
		name += "." + n.name
	}
	return name
}

// annotate gives the result of a constructor a name or a group. fx.Annotated keeps the
// constructor's name in fx's errors, and takes functions only. A constructor that the host has
// annotated is annotated again.
func annotate(constructor any, as fx.Annotated, tag string) any {
	if reflect.ValueOf(constructor).Kind() != reflect.Func {
		return fx.Annotate(constructor, fx.ResultTags(tag))
	}
	as.Target = constructor
	return as
}

func (n NamedModule) inGroup(constructor any, group string) any {
	return annotate(constructor, fx.Annotated{Group: n.groupName(group)}, n.group(group))
}

// Supply is fx.Supply under the module's name.
func (n NamedModule) Supply(values ...any) fx.Option {
	if n.name == "" {
		return fx.Supply(values...)
	}
	named := make([]any, 0, len(values))
	for _, value := range values {
		named = append(named, fx.Annotate(value, fx.ResultTags(n.Tag())))
	}
	return fx.Supply(named...)
}

// Provide is fx.Provide, under the module's name, of constructors that return one value and
// optionally an error. The constructors' own dependencies have no name.
func (n NamedModule) Provide(constructors ...any) fx.Option {
	if n.name == "" {
		return fx.Provide(constructors...)
	}
	named := make([]any, 0, len(constructors))
	for _, constructor := range constructors {
		named = append(named, annotate(constructor, fx.Annotated{Name: n.name}, n.Tag()))
	}
	return fx.Provide(named...)
}

// AsProvider is like the package's [AsProvider].
func (n NamedModule) AsProvider(constructor any) any {
	return n.inGroup(constructor, providers)
}

// AsController is like the package's [AsController].
func (n NamedModule) AsController(constructor any) any {
	return n.inGroup(constructor, controllersGroup)
}

// AsSurroundingHook is like the package's [AsSurroundingHook].
func (n NamedModule) AsSurroundingHook(constructor any) any {
	return n.inGroup(constructor, surroundingHooks)
}

// ReplaceProviders is like the package's [ReplaceProviders].
func (n NamedModule) ReplaceProviders(given ...Provider) fx.Option {
	return fx.Options(
		fx.Supply(fx.Annotate(replacement{given}, fx.ResultTags(n.group(replacements)))),
		// A decorator affects its own module only. There fx does not build the replaced providers.
		fx.Decorate(fx.Annotate(func() []Provider { return given },
			fx.ResultTags(n.group(providers)))),
	)
}

// AsProvider annotates a constructor of a [Provider] for fx.Provide:
//
//	fx.Provide(ccm.AsProvider(newCloud))
//
// It must not be provided with fx.Private, because fx would hide it from the module. Annotations of
// fx go inside: ccm.AsProvider(fx.Annotate(newCloud, fx.ParamTags(…))).
func AsProvider(constructor any) any { return Named("").AsProvider(constructor) }

// AsController annotates a constructor of a [Controller] for fx.Provide, like [AsProvider].
func AsController(constructor any) any { return Named("").AsController(constructor) }

// AsSurroundingHook annotates a constructor of an fx.Hook that surrounds the Manager. The hook
// starts before the Manager. It stops after the Manager has drained, within the rest of the stop's
// deadline. Package ccm/serving answers readiness probes during the drain this way.
//
// Fx stops hooks in the reverse order of their start, so a constructor that needs the *[Manager]
// can only append hooks that start after it. The constructor must therefore not need the *Manager;
// the hook may use one from an fx.Invoke. Like [AsProvider], it must not be provided with
// fx.Private.
func AsSurroundingHook(constructor any) any { return Named("").AsSurroundingHook(constructor) }

// ReplaceProviders replaces all providers of an app, for tests. At the root of the app, or in a
// module around that of the Manager, the constructors of the replaced providers are not called. In
// any other module they are called, and their results are not used. A second call is an error of
// fx.New.
func ReplaceProviders(providers ...Provider) fx.Option {
	return Named("").ReplaceProviders(providers...)
}

// A DrainTimeoutPolicy decides how an app reacts to a term that exceeded its drain timeout while
// the app runs. It is called once for each such term, before another process may lead, and must not
// block. app shuts the app down.
//
// In all cases the Manager reports the state as degraded, and campaigns again when the term can no
// longer act.
type DrainTimeoutPolicy func(err *DrainTimeoutError, app fx.Shutdowner)

// ExitDrainTimeout is the exit code that the policies of this package pass to fx.Shutdowner.
const ExitDrainTimeout = 3

// ShutDownIfActing is the default [DrainTimeoutPolicy]. It shuts the app down with
// [ExitDrainTimeout] if calls of the term may still change the cloud while another process leads.
// Only the end of the process stops these calls reliably. Otherwise the app continues.
func ShutDownIfActing(err *DrainTimeoutError, app fx.Shutdowner) {
	if err.MayAct() {
		ShutDownOnDrainTimeout(err, app)
	}
}

// ShutDownOnDrainTimeout is a [DrainTimeoutPolicy] that always shuts the app down with
// [ExitDrainTimeout].
func ShutDownOnDrainTimeout(_ *DrainTimeoutError, app fx.Shutdowner) {
	// Shutdown fails if no code waits for the app. Status and the liveness check still report the
	// timeout.
	_ = app.Shutdown(fx.ExitCode(ExitDrainTimeout))
}

// KeepRunning is a [DrainTimeoutPolicy] for an app with more important parts: the app always
// continues. Status, readiness and liveness report a call that may act. Until the call returns, it
// can change the cloud while another process leads.
func KeepRunning(*DrainTimeoutError, fx.Shutdowner) {}

// stopReserve is the part of a stop hook's deadline for the hooks after it.
const stopReserve = 500 * time.Millisecond

// endPoll is the pause between two checks whether the previous run has ended.
const endPoll = 20 * time.Millisecond

// newManager makes the named Manager and adds it to the app's lifecycle.
func (in inputs) newManager(name string) (*Manager, error) {
	policy, err := in.policy()
	if err != nil {
		return nil, err
	}
	params, err := in.params(name)
	if err != nil {
		return nil, err
	}
	hook := &lifecycleHook{informers: make(chan struct{})}
	params.Informers.Stop = hook.informers
	params.OnDrainTimeout = func(err *DrainTimeoutError) {
		hook.reported.Store(err)
		policy(err, in.Shutdowner)
	}
	m, err := New(params)
	if err != nil {
		return nil, err
	}
	for _, hook := range in.SurroundingHooks {
		in.Lifecycle.Append(hook)
	}
	hook.manager = m
	in.Lifecycle.Append(fx.Hook{OnStart: hook.start, OnStop: hook.stop})
	return m, nil
}

// lifecycleHook connects a Manager to an app's lifecycle. An app may start again after a stop, so
// start creates the state of one run.
type lifecycleHook struct {
	manager *Manager
	// reported is the last drain timeout that the policy has received.
	reported atomic.Pointer[DrainTimeoutError]

	cancel context.CancelCauseFunc
	done   chan error
	// informers ends the host's informers that the Manager had to start.
	informers     chan struct{}
	stopInformers sync.Once
}

func (h *lifecycleHook) start(startCtx context.Context) error {
	if err := h.awaitEnd(startCtx); err != nil {
		return err
	}
	// The hook's context ends with the start; the run must not.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(startCtx))
	h.cancel, h.done = cancel, make(chan error, 1)
	go func(done chan<- error) {
		err := h.manager.Run(ctx)
		if timedOut, ok := errors.AsType[*DrainTimeoutError](err); ok &&
			timedOut == h.reported.Load() {
			// The policy has received this error already. A stop that the policy requested must not
			// fail because of it: fx's App.Run exits with 1 when a stop fails, instead of the
			// requested code.
			err = nil
		}
		done <- err
	}(h.done)
	return nil
}

// awaitEnd waits for an earlier run, which continues to drain after a stop that timed out. Run
// would refuse to start beside it.
func (h *lifecycleHook) awaitEnd(startCtx context.Context) error {
	// fx drops the error of a hook that uses its whole deadline
	ctx, cancel := earlier(startCtx, stopReserve/2)
	defer cancel()
	for {
		status := h.manager.Status()
		if status.State == StateStopped && h.manager.countLeftBehind() == 0 {
			return nil
		}
		select {
		case <-time.After(endPoll):
		case <-ctx.Done():
			return stillRunning("cannot start because the previous run has not ended",
				status.Running, context.Cause(ctx))
		}
	}
}

// earlier returns a context that ends before the deadline of ctx, if it has one.
func earlier(ctx context.Context, reserve time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-reserve))
	}
	return ctx, func() {}
}

func stillRunning(problem string, running []Activity, cause error) error {
	if len(running) > 0 {
		problem += "; still running: " + describe(running, time.Now())
	}
	return fmt.Errorf("ccm: %s: %w", problem, cause)
}

func (h *lifecycleHook) stop(stopCtx context.Context) error {
	if h.done == nil {
		return nil
	}
	cause := ErrStopped
	if deadline, ok := stopCtx.Deadline(); ok {
		cause = StopBy(deadline.Add(-stopReserve))
	}
	// An API server that hangs can delay the release of the lease, which follows the drain.
	stopCtx, cancel := earlier(stopCtx, stopReserve/2)
	defer cancel()
	h.cancel(cause)
	defer h.stopInformers.Do(func() { close(h.informers) })
	select {
	case err := <-h.done:
		h.done = nil
		return err
	case <-stopCtx.Done():
		return stillRunning("did not stop in time", h.manager.Status().Running,
			context.Cause(stopCtx))
	}
}
