package ccm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/fxhook"
	"github.com/fxccm/fxccm/internal/fxinput"
)

// Module runs a [Manager] in an fx app, or several. It takes from the app
//
//   - a [Config] (fx.Supply),
//   - one or more [Provider]s: a provider's own Module, [AsProvider], or fx.Provide of a
//     constructor of a Provider, a *Provider or a []Provider,
//   - [Controller]s in addition to the four cloud controllers: [AsController], or fx.Provide of a
//     constructor of a Controller, a *Controller or a []Controller,
//   - optional fields of [Params], by their types: a *rest.Config or a [ClientBuilder], an
//     informers.SharedInformerFactory, an [election.Elector], a *slog.Logger or logr.Logger, an
//     [EventRecorderSource], a prometheus.Registerer, a [Tracer],
//   - an optional [DrainTimeoutPolicy],
//
// and provides the [Params] that result, and the *[Manager]. An invalid configuration is an error
// of fx.New. OnStart only starts the Manager: it waits neither for the API server, nor for the
// cloud, nor for leadership. OnStop drains within the hook's deadline, and its error names the
// activities that have not ended.
//
// fx.Decorate has the last word. It sets any field of the Params, and fx reports what it lacks:
//
//	fx.Decorate(func(p ccm.Params, e *myElector) ccm.Params {
//		p.Elector = e
//		return p
//	})
//
// fx.Supply gives an app a value under its concrete type. The module also takes a *[Config], an
// *[election.Host], an *[election.Alone], and a *prometheus.Registry. A value of another concrete
// type is set with fx.Decorate, or annotated with fx.As. A value of the interface's type
// has precedence, and logr before slog.
//
// If the app lacks a dependency of an optional value's constructor, fx drops the value without an
// error. The module finds this in fx's graph, and fx.New fails. The module does not see values that
// are private to another module, or have a name.
//
// Several Managers are several Params, each from a constructor with [AsParams]. The app then needs
// no Config, and has [Managers] in place of a *Manager:
//
//	fx.New(ccm.Module, fx.Provide(ccm.AsParams(newEast), ccm.AsParams(newWest)))
//
// The module starts the host's informers that the host has not started, and ends them with OnStop.
// An informer cannot be started twice, so a host that restarts its app starts all informers itself.
// A start after a stop that timed out first waits, within the start's deadline, until the earlier
// run has ended.
//
// Fx calls no OnStop after the context of a start or stop has ended, even if a later hook has used
// all of the time. The Managers then stop by themselves within a second, with a line in the log.
// [Manager.Done] tells when they have drained. A Lifecycle that the app decorates prevents that.
var Module = fx.Module("ccm",
	// The constructors are passed without fx.Annotate, because fx's errors name the functions.
	fx.Provide(appParams, newManagers, onlyManager),
	fx.Invoke(needManagers),
)

func needManagers(Managers) {}

// Managers are the Managers of an app by their names. The Manager of the app's [Config] has the
// name "", unless fx.Decorate has changed Params.Name.
type Managers map[string]*Manager

// onlyManager returns the Manager of an app that has one.
func onlyManager(managers Managers) (*Manager, error) {
	if len(managers) > 1 {
		return nil, fmt.Errorf("ccm: the app has several Managers (%s), and a part of it, such as "+
			"serving.Module, needs the only one: take ccm.Managers, or endpoints.Mount",
			strings.Join(slices.Sorted(maps.Keys(managers)), ", "))
	}
	for _, m := range managers {
		return m, nil
	}
	return nil, errNoConfig
}

// The value groups of the module.
const (
	providers        = "ccm.providers"
	controllersGroup = "ccm.controllers"
	surroundingHooks = "ccm.surroundingHooks"
	paramsGroup      = "ccm.params"
)

// inGroup annotates a constructor of a T, or of one of the other types that the module reads from
// the group. For any other, it returns a constructor that fails: fx would put the result into a
// group that the module does not read. fx.Annotated keeps the constructor's name in fx's errors,
// and takes no further annotations.
func inGroup[T any](
	constructor any, group string, annotations []fx.Annotation, others ...reflect.Type,
) any {
	of, want := reflect.TypeOf(constructor), reflect.TypeFor[T]()
	advice := ""
	switch {
	case of == nil || of.Kind() != reflect.Func:
		advice = fmt.Sprintf("; got a %v, which is no function. Annotations of fx follow the constructor", of)
	case of.NumOut() == 0 || of.Out(0) != want && of.Out(0) != reflect.SliceOf(want) &&
		!slices.Contains(others, of.Out(0)):
		advice = fmt.Sprintf("; got %v", of)
		if of.NumOut() > 0 && of.Out(0).Implements(reflect.TypeFor[cloudprovider.Interface]()) {
			advice += "; a constructor that returns the cloud as a cloudprovider.Interface is taken, too"
		}
	default:
		if of.Out(0) == reflect.SliceOf(want) {
			group += ",flatten"
		}
		if len(annotations) > 0 {
			tag := fx.ResultTags(fmt.Sprintf("group:%q", group))
			return fx.Annotate(constructor, append(slices.Clone(annotations), tag)...)
		}
		return fx.Annotated{Group: group, Target: constructor}
	}
	return fx.Annotated{Group: group, Target: func() (result T, err error) {
		return result, fmt.Errorf("ccm: want a constructor that returns a %s, and optionally an "+
			"error%s", want, advice)
	}}
}

// AsProvider annotates a constructor of a [Provider] for fx.Provide:
//
//	fx.Provide(ccm.AsProvider(newCloud))
//
// It must not be provided with fx.Private, because fx would hide it from the module. Annotations
// are those of fx.Annotate: ccm.AsProvider(newCloud, fx.ParamTags(…)). The constructor may also
// return a *Provider, a []Provider, or a cloudprovider.Interface, which [StaticProvider] makes a
// Provider.
func AsProvider(constructor any, annotations ...fx.Annotation) any {
	return inGroup[Provider](constructor, providers, annotations,
		reflect.TypeFor[*Provider](), reflect.TypeFor[cloudprovider.Interface]())
}

// AsController annotates a constructor of a [Controller], a *Controller or a []Controller for
// fx.Provide, like [AsProvider].
func AsController(constructor any, annotations ...fx.Annotation) any {
	return inGroup[Controller](constructor, controllersGroup, annotations,
		reflect.TypeFor[*Controller]())
}

// AsParams annotates a constructor of the [Params] of one of several Managers for fx.Provide, like
// [AsProvider]. The Params name everything that the Manager uses, except that the logger, the
// registerer and the tracer of the app replace nil. Params.Name must be unique in the app. The
// app's Providers and Controllers are those of its own [Config], and of no other Params.
func AsParams(constructor any, annotations ...fx.Annotation) any {
	return inGroup[Params](constructor, paramsGroup, annotations)
}

// AsSurroundingHook annotates a constructor of an fx.Hook that surrounds the Managers, like
// [AsProvider]. The hook starts before the Managers. It stops after they have drained, within the
// rest of the stop's deadline. Package ccm/serving answers readiness probes during the drain this
// way. If fx skips the stop, as described at [Module], the hook stops at the same time as the
// Managers.
//
// Fx stops hooks in the reverse order of their start, so a constructor that needs the *[Manager]
// can only append hooks that start after it. The constructor must therefore not need the *Manager;
// the hook may use one from an fx.Invoke.
func AsSurroundingHook(constructor any, annotations ...fx.Annotation) any {
	return inGroup[fx.Hook](constructor, surroundingHooks, annotations)
}

// ReplaceProviders replaces all providers of an app's [Config], for tests. At the root of the app,
// or in a module around that of the Manager, the constructors of the replaced providers are not
// called. In any other module they are called, and their results are not used. A second call is an
// error of fx.New.
func ReplaceProviders(given ...Provider) fx.Option {
	return fx.Options(
		fx.Supply(fx.Annotate(replacement{given}, fx.ResultTags(`group:"ccm.replacements"`))),
		// A decorator affects its own module only. There fx does not build the replaced providers.
		fx.Decorate(fx.Annotate(
			func() ([]Provider, []*Provider, []cloudprovider.Interface) { return given, nil, nil },
			fx.ResultTags(`group:"ccm.providers"`, `group:"ccm.providers"`,
				`group:"ccm.providers"`))),
		fx.Decorate(func() (p Provider, ptr *Provider, list []Provider) { return p, ptr, list }),
	)
}

// A DrainTimeoutPolicy decides how an app reacts to a term that exceeded its drain timeout while
// the app runs. fx.Supply hands it to [Module]:
//
//	fx.Supply(ccm.KeepRunning)
//
// In all cases the Manager reports the state as degraded, calls Params.OnDrainTimeout first, and
// campaigns again when the term can no longer act. A later stop of the app does not return the
// DrainTimeoutError again.
type DrainTimeoutPolicy int

const (
	// ShutDownIfActing is the default. It shuts the app down with [ExitDrainTimeout] if calls of
	// the term may still change the cloud while another process leads. Only the end of the process
	// stops these calls reliably. Otherwise the app continues.
	ShutDownIfActing DrainTimeoutPolicy = iota
	// ShutDownOnDrainTimeout always shuts the app down with [ExitDrainTimeout].
	ShutDownOnDrainTimeout
	// KeepRunning is for an app with more important parts: the app always continues. Status,
	// readiness and liveness report a call that may act. Until the call returns, it can change the
	// cloud while another process leads.
	KeepRunning
)

// ExitDrainTimeout is the exit code that a [DrainTimeoutPolicy] passes to fx.Shutdowner.
const ExitDrainTimeout = 3

func (p DrainTimeoutPolicy) react(err *DrainTimeoutError, app fx.Shutdowner) {
	if p == ShutDownOnDrainTimeout || p == ShutDownIfActing && err.MayAct() {
		// Shutdown fails if no code waits for the app. Status and the liveness check still report
		// the timeout.
		_ = app.Shutdown(fx.ExitCode(ExitDrainTimeout))
	}
}

// stopReserve is the part of a stop hook's deadline for the hooks after it. It is at most half of
// what is left.
const stopReserve = 500 * time.Millisecond

// endPoll is the pause between two checks whether the previous run has ended.
const endPoll = 20 * time.Millisecond

// managerInputs are what the Managers of an app need.
type managerInputs struct {
	fx.In

	Lifecycle        fx.Lifecycle
	Shutdowner       fx.Shutdowner
	Params           Params
	Several          []Params `group:"ccm.params"`
	Shared           shared
	SurroundingHooks []fx.Hook          `group:"ccm.surroundingHooks"`
	Overrides        []fxinput.Override `group:"ccm.overrides"`
	Policy           DrainTimeoutPolicy `optional:"true"`
	Graph            fx.DotGraph
}

// newManagers makes the Managers and adds them to the app's lifecycle.
func newManagers(in managerInputs) (Managers, error) {
	if err := fxinput.Dropped(in, in.Graph); err != nil {
		return nil, fmt.Errorf("ccm: %w", err)
	}
	if in.Policy < ShutDownIfActing || in.Policy > KeepRunning {
		return nil, fmt.Errorf("ccm: unknown DrainTimeoutPolicy %d", in.Policy)
	}
	all, err := in.all()
	if err != nil {
		return nil, err
	}
	managers, hooks := Managers{}, lifecycleHooks{}
	for _, params := range all {
		if _, twice := managers[params.Name]; twice {
			return nil, fmt.Errorf("ccm: the app has two Managers with Params.Name %q; the Manager "+
				"of the app's Config has the name \"\"", params.Name)
		}
		hook, err := in.newHook(params)
		if err != nil && params.Name != "" {
			err = fmt.Errorf("manager %q: %w", params.Name, err)
		}
		if err != nil {
			return nil, err
		}
		managers[params.Name], hooks = hook.manager, append(hooks, hook)
	}
	for _, hook := range append(in.SurroundingHooks,
		fx.Hook{OnStart: hooks.start, OnStop: hooks.stop}) {
		in.Lifecycle.Append(fxhook.Guard(in.Lifecycle, in.log(), hook))
	}
	return managers, nil
}

// log returns the logger that all Managers share.
func (in managerInputs) log() logr.Logger {
	var shared Params
	in.Shared.fill(&shared)
	if shared.Logger == nil {
		return klog.Background().WithName("ccm")
	}
	return shared.Logger.WithName("ccm")
}

// all returns the Params of all Managers.
func (in managerInputs) all() ([]Params, error) {
	for i := range in.Several {
		in.Shared.fill(&in.Several[i])
	}
	switch {
	case !isZero(in.Params.Config):
		return append(in.Several, in.Params), nil
	case len(in.Several) == 0:
		return nil, errNoConfig
	case len(in.Params.Providers)+len(in.Params.Controllers) > 0:
		return nil, errors.New("ccm: the app has a Provider or a Controller and no Config that it " +
			"would belong to: set Params.Providers and Params.Controllers of each Manager")
	case in.Params.Name != "" || in.Params.Owner != "" || in.Params.RequireOwnerMark ||
		in.Params.OnDrainTimeout != nil:
		return nil, errors.New("ccm: a decorator changes the Params of the app's Config, which does " +
			"not exist: change the Params that AsParams provides")
	}
	return in.Several, nil
}

func (in managerInputs) newHook(params Params) (*lifecycleHook, error) {
	for _, override := range in.Overrides {
		override(&params)
	}
	hook := &lifecycleHook{informers: make(chan struct{})}
	if params.Informers.Stop == nil {
		params.Informers.Stop = hook.informers
	}
	onDrainTimeout := params.OnDrainTimeout
	params.OnDrainTimeout = func(err *DrainTimeoutError) {
		hook.reported.Store(err)
		if onDrainTimeout != nil {
			onDrainTimeout(err)
		}
		in.Policy.react(err, in.Shutdowner)
	}
	var err error
	hook.manager, err = New(params)
	return hook, err
}

// lifecycleHooks connects the Managers to an app's lifecycle.
type lifecycleHooks []*lifecycleHook

func (hooks lifecycleHooks) start(ctx context.Context) error {
	// No Manager starts if another cannot.
	for _, hook := range hooks {
		if err := hook.awaitEnd(ctx); err != nil {
			return hook.named(err)
		}
	}
	for _, hook := range hooks {
		hook.start(ctx)
	}
	return nil
}

// stop drains all Managers together, because they share the stop's deadline.
func (hooks lifecycleHooks) stop(ctx context.Context) error {
	errs := make([]error, len(hooks))
	var draining sync.WaitGroup
	for i, hook := range hooks {
		draining.Go(func() { errs[i] = hook.named(hook.stop(ctx)) })
	}
	draining.Wait()
	return errors.Join(errs...)
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

// named adds the Manager's name to an error.
func (h *lifecycleHook) named(err error) error {
	if err == nil || h.manager.Name() == "" {
		return err
	}
	return fmt.Errorf("manager %q: %w", h.manager.Name(), err)
}

func (h *lifecycleHook) start(startCtx context.Context) {
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
}

// awaitEnd waits for an earlier run, which continues to drain after a stop that timed out. Run
// would refuse to start beside it.
func (h *lifecycleHook) awaitEnd(startCtx context.Context) error {
	// fx drops the error of a hook that uses its whole deadline
	ctx, cancel := earlier(startCtx)
	defer cancel()
	for {
		current := h.manager.Status()
		if current.State == status.Stopped && h.manager.countLeftBehind() == 0 {
			return nil
		}
		select {
		case <-time.After(endPoll):
		case <-ctx.Done():
			return stillRunning("cannot start because the previous run has not ended",
				current.Running, context.Cause(ctx))
		}
	}
}

// earlier returns a context that ends before the deadline of ctx, if it has one, by half of the
// reserve.
func earlier(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-reserveBefore(deadline)/2))
	}
	return ctx, func() {}
}

func reserveBefore(deadline time.Time) time.Duration {
	return min(stopReserve, max(0, time.Until(deadline)/2))
}

func stillRunning(problem string, running []status.Activity, cause error) error {
	if len(running) > 0 {
		problem += "; still running: " + describe(running, time.Now())
	}
	return fmt.Errorf("ccm: %s: %w", problem, cause)
}

func (h *lifecycleHook) stop(stopCtx context.Context) error {
	cause := ErrStopped
	if deadline, ok := stopCtx.Deadline(); ok {
		cause = StopBy(deadline.Add(-reserveBefore(deadline)))
	}
	// An API server that hangs can delay the release of the lease, which follows the drain.
	stopCtx, cancel := earlier(stopCtx)
	defer cancel()
	h.cancel(cause)
	defer h.stopInformers.Do(func() { close(h.informers) })
	select {
	case err := <-h.done:
		return err
	case <-stopCtx.Done():
		return stillRunning("did not stop in time", h.manager.Status().Running,
			context.Cause(stopCtx))
	}
}
