package ccm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/metrics"
	"github.com/fxccm/fxccm/internal/nodes"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/tracing"
)

// workGap is how long a held fence must be idle before the work counts as finished: the time
// between two calls of one piece of work.
const workGap = 100 * time.Millisecond

const (
	// followUpTimeout limits the writes that follow the last call to the cloud.
	followUpTimeout = time.Second

	// drainTimeoutReserve is the host's time to react to a DrainTimeoutError before another process
	// may lead.
	drainTimeoutReserve = 500 * time.Millisecond

	// lateGrace is the time for canceled calls to return if another process may lead already. After
	// a freeze past the lease, calls that are about to end are then not reported as stuck.
	lateGrace = 2 * time.Second
)

// termRun opens, runs and closes a term. Each controller sees it through a [Term] of its own.
type termRun struct {
	number   uint64
	config   Config
	log      logr.Logger
	fence    *fence.Fence
	clients  *termClients
	metrics  *controllersmetrics.ControllerManagerMetrics
	enabled  []Controller
	identity string
	clock    clock.Clock

	// manager and the next fields are passed to the provider.
	manager    string
	owner      string
	registerer prometheus.Registerer
	// requireOwnerMark is Params.RequireOwnerMark.
	requireOwnerMark bool

	// tracer may be nil. spanAttributes are those of all its spans.
	tracer         Tracer
	spanAttributes []slog.Attr

	// provider is nil in a term without leader election.
	provider *Provider

	leaseExpiry func() time.Time
	// validUntil and lost are those of [Leadership]. lost is set before the term opens.
	validUntil func() time.Time
	lost       <-chan struct{}

	// shared are the host's informers. Nil: the term makes its own.
	shared *informerview.Shared

	// series are the metrics of the run.
	series *metrics.Series

	// history records the terms of the Manager.
	history *termHistory

	// cloud is nil until the provider has been built, and informers until they have been made.
	cloud     *guard.Cloud
	guarded   cloudprovider.Interface
	informers *informerview.View
	// providerInformers is the provider's scope of informers.
	providerInformers *informerview.View
	// reporter is nil if the provider does not report the state of its objects.
	reporter ObjectReporter

	// tasks are the goroutines of the term that run code of controllers and providers.
	tasks  *inflight.Set
	status *termStatus
	built  *builtControllers

	// fail ends the term with an error. It is set before the term opens.
	fail context.CancelCauseFunc

	// panics are those of the provider.
	panics *panicLog
	// troubles are the problems of the provider and of the four cloud controllers.
	troubles *troubles

	// nodes is what the controllers of nodes know.
	nodes *nodes.Record

	// ended is closed when the whole term has ended, right after cleanedUp was called.
	ended     chan struct{}
	cleanedUp func()

	// events bypass the fence, so that events of the drain are sent, too.
	events    *events.Broadcaster
	recorders EventRecorderSource
}

// run opens, runs and closes the term. stop is the Manager's context, led the elector's. The error
// is why the term ended: it wraps ErrStopped, election.ErrLost or a failure, or is a
// *DrainTimeoutError.
func (t *termRun) run(stop, led context.Context) error {
	ctx, cancel := context.WithCancelCause(klog.NewContext(context.WithoutCancel(stop), t.log))
	defer cancel(nil)
	ctx = tracing.With(ctx, t.tracer, t.spanAttributes...)
	// life ends for the first of several reasons.
	life, end := context.WithCancelCause(context.Background())
	defer end(nil)
	// lost ends when leadership is lost, which may be after life has ended: while the term drains.
	lost, lose := context.WithCancelCause(context.Background())
	defer lose(nil)
	defer context.AfterFunc(led, func() {
		cause := context.Cause(led)
		t.fence.Close(cause)
		lose(cause)
		end(cause)
	})()
	defer context.AfterFunc(stop, func() {
		end(fmt.Errorf("%w: %w", ErrStopped, context.Cause(stop)))
	})()
	expired := func() {
		cause := fmt.Errorf("%w: %w", election.ErrLost, t.fence.Cause())
		lose(cause)
		end(cause)
	}
	stopWatching := t.watchExpiry(expired)
	t.fail, t.lost = end, lost.Done()
	measure := t.measure()

	if err := t.open(ctx, life); err != nil {
		end(err)
	} else {
		measure.opened()
	}
	// While the term runs, this goroutine watches the expiry, so that each cluster of a fleet has
	// one goroutine less.
	stopWatching()
	if t.fence.CloseOnExpiry(life) {
		expired()
	}
	defer t.watchExpiry(expired)()
	cause := context.Cause(life)
	if closed := t.fence.Cause(); closed != nil && !errors.Is(cause, election.ErrLost) {
		// A controller failed on a refused call before the expiry was noticed.
		cause = fmt.Errorf("%w: %w", election.ErrLost, closed)
	}
	if closed := t.fence.ClosedAt(); closed.IsZero() {
		t.log.Info("Term ends", "reason", cause.Error())
	} else {
		t.log.Info("Term ends", "reason", cause.Error(),
			"fenceClosed", closed.Format(time.RFC3339Nano))
	}
	measure.drains(cause)
	err := t.close(ctx, cause, lost, drainDeadline(stop, t.config.DrainTimeout.Duration), cancel)
	if lost.Err() != nil && !errors.Is(cause, election.ErrLost) {
		t.log.Info("Leadership was lost during the drain", "reason", context.Cause(lost).Error())
	}
	if err != nil {
		measure.ended(err)
		return err
	}
	measure.ended(cause)
	t.log.Info("Term has drained")
	return cause
}

// watchExpiry calls expired when leadership expires by the clock, independent of the elector: while
// the term opens and while it drains. The returned function ends the watch.
func (t *termRun) watchExpiry(expired func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if t.fence.CloseOnExpiry(ctx) {
			expired()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// open builds and starts the provider, the informers and the controllers. It returns early if life
// ends, or if the provider does not answer in time.
func (t *termRun) open(ctx, life context.Context) error {
	timeout := cmp.Or(t.config.CloudProvider.StartTimeout.Duration, defaultStartTimeout)
	starting, stop := context.WithTimeout(life, timeout)
	defer stop()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"make informers", t.makeInformers},
		{"build provider", func() error { return t.buildProvider(ctx) }},
		{"start provider", func() error { return t.startProvider(ctx) }},
		{"build controllers", func() error { return t.buildControllers(ctx) }},
	} {
		t.status.opening(step.name)
		err := t.await(starting, step.name, step.do)
		if starting.Err() != nil && life.Err() == nil {
			return t.startTimedOut(step.name, timeout)
		}
		if err != nil {
			return err
		}
	}
	t.status.syncing(t.informers)
	t.informers.StartWithContext(ctx)
	if t.providerInformers != nil {
		if err := t.waitForSync(life, t.providerInformers); err != nil {
			return err
		}
	}
	return t.startControllers(ctx, life)
}

// startTimedOut returns the error of a provider that did not answer in time.
func (t *termRun) startTimedOut(step string, timeout time.Duration) error {
	err := fmt.Errorf("step %q has not ended within %s (--cloud-provider-start-timeout)", step,
		timeout)
	if t.provider != nil {
		err = fmt.Errorf("cloud provider %q: %w", t.provider.Name, err)
	}
	t.warn("ProviderStartTimeout", err.Error()+"; the term ends, and another replica may lead")
	return err
}

// await runs code of controllers and providers, and stops waiting for it when ctx ends. The drain
// waits for it.
func (t *termRun) await(ctx context.Context, name string, f func() error) error {
	result := make(chan error, 1)
	t.spawn(name, func() { result <- protect(name, f) })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *termRun) spawn(name string, f func()) {
	done := t.tasks.Begin(inflight.Activity{Name: name})
	go func() {
		defer done()
		f()
	}()
}

// protect turns a panic of f into an error.
func protect(name string, f func() error) error {
	return rescue.Call(f, func(value any) error {
		return fmt.Errorf("panic in %s: %v", name, value)
	})
}

func (t *termRun) buildProvider(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	t.providerInformers = t.informers.Scope()
	cloud, err := t.provider.New(ctx, ProviderEnv{
		Config:       t.config,
		ClusterName:  t.config.ClusterName,
		ConfigFile:   t.config.CloudProvider.ConfigFile,
		ConfigStrict: t.config.CloudProvider.ConfigStrict,
		UserAgents:   t.config.CloudProvider.UserAgents,
		Identity:     t.identity,
		Term:         t.number,
		Owner:        t.owner,
		Manager:      t.manager,
		Logger:       t.log.WithName(t.provider.Name),
		Registerer:   t.registerer,
		Clock:        t.clock,
		Recorder:     t.recorder,

		Clients:       t.clients,
		Informers:     t.providerInformers,
		Fail:          t.failProvider,
		Leadership:    t.leadership(),
		ReportTrouble: func(subject string, cause error) { t.troubles.report(subject, cause) },
		Transport:     t.fence.Door(func() { t.series.Refused(metrics.DoorProvider) }),

		RequireOwnerMark: t.requireOwnerMark,
	})
	if err != nil {
		return fmt.Errorf("cloud provider %q: %w", t.provider.Name, err)
	}
	if cloud == nil {
		return fmt.Errorf("cloud provider %q: New returned neither a cloud nor an error",
			t.provider.Name)
	}
	t.reporter, _ = cloud.(ObjectReporter)
	t.guarded, t.cloud = guard.New(cloud, t.fence, t.log, guard.WithObserver(t.series),
		guard.WithPanics(t.panicked), guard.WithTracer(t.tracer, t.spanAttributes...))
	if !t.cloud.HasClusterID() && !t.config.CloudProvider.AllowUntagged {
		return fmt.Errorf("cloud provider %q has no cluster ID; "+
			"set it in the provider's configuration, or allow this with "+
			"cloudProvider.allowUntagged (--allow-untagged-cloud)", t.provider.Name)
	}
	return nil
}

// failProvider is [ProviderEnv].Fail.
func (t *termRun) failProvider(err error) {
	if err != nil {
		t.fail(fmt.Errorf("cloud provider %q: %w", t.provider.Name, err))
	}
}

func (t *termRun) startProvider(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	if err := t.cloud.Start(t.clients, ctx.Done(), t.providerInformers); err != nil {
		return fmt.Errorf("cloud provider %q: %w", t.provider.Name, err)
	}
	if t.reporter != nil {
		reporting := &objects{t.reporter, t.cloud, t.nodes}
		t.status.reporting(reporting, t.series.Objects(t.clock.Now, reporting.metrics))
	}
	return nil
}

// close ends the term. It returns nil when the whole term has ended. Otherwise the error names the
// activities that exceeded the deadline, and the rest of the term is closed when they have ended.
// ctx is the context of the controllers, which cancel ends.
func (t *termRun) close(
	ctx context.Context, cause error, lost context.Context, deadline time.Time,
	cancel context.CancelCauseFunc,
) error {
	t.status.draining()
	drain, stop := context.WithDeadline(context.Background(), deadline)
	defer stop()
	if lost.Err() == nil {
		t.fence.Hold()
		grace, stopGrace := context.WithTimeout(lost, time.Until(deadline)/2)
		t.finishWork(grace)
		stopGrace()
	}
	// The order matters: a controller may write, with a context of its own, that a call was
	// canceled, and the fence must refuse these writes. Calls that end by their context need no
	// refusal.
	t.fence.Close(cause)
	cancel(cause)
	t.fence.EndReads(cause)
	// A canceled request may be unsent yet. It must not arrive when another process leads.
	t.clients.connections.reset()
	reporting, reported := context.WithCancel(context.Background())
	defer reported()
	go t.cleanUp(ctx, reporting)
	if t.actingEnded(drain, lost) != nil {
		return t.timedOut()
	}
	select {
	case <-t.ended:
		return nil
	case <-drain.Done():
		return t.timedOut()
	}
}

func (t *termRun) timedOut() error {
	return &DrainTimeoutError{Term: t.number, Running: t.activities(), term: t, made: time.Now()}
}

// cleanUp waits until the whole term has ended, and closes its parts. After a reported drain
// timeout, informers and their handlers end even if a goroutine hangs.
func (t *termRun) cleanUp(ctx, reporting context.Context) {
	defer close(t.ended)
	background := context.Background()
	_ = t.fence.WaitActing(background)
	_ = t.idle(reporting)
	t.spawn("stop informers", t.stopInformers)
	t.spawn("send events", t.events.Close)
	_ = t.idle(background)
	t.endUnstarted(ctx, t.built.unstarted()...)
	t.spawn("close provider", t.closeProvider)
	_ = t.idle(background)
	t.clients.connections.close()
	t.troubles.close()
	t.cleanedUp()
}

// hasEnded reports whether the whole term has ended.
func (t *termRun) hasEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// mayAct reports whether a mutating call of the term is in flight.
func (t *termRun) mayAct() bool {
	return slices.ContainsFunc(t.fence.InFlight(),
		func(a inflight.Activity) bool { return a.MayAct })
}

// finishWork waits until the work in flight at Hold is done, or ctx ends; the rest is then
// canceled. Writes to the API server follow a call to the cloud. A controller that writes all the
// time does not prolong the wait.
func (t *termRun) finishWork(ctx context.Context) {
	_ = t.fence.WaitWork(ctx)
	following, stop := context.WithTimeout(ctx, followUpTimeout)
	defer stop()
	_ = t.fence.WaitQuiet(following, workGap)
}

// actingEnded waits until no mutating call is in flight. If leadership is lost, before or during
// the drain, the limit is shorter: a canceled call that continues could act while another process
// leads, so the host gets the error before that.
func (t *termRun) actingEnded(drain, lost context.Context) error {
	leading, stop := context.WithCancel(drain)
	defer stop()
	defer context.AfterFunc(lost, stop)()
	err := t.fence.WaitActing(leading)
	if err == nil || drain.Err() != nil {
		return err
	}
	if t.leaseExpiry != nil {
		left := t.leaseExpiry().Sub(t.clock.Now())
		if left <= 0 {
			left = lateGrace
		} else {
			left = max(left-drainTimeoutReserve, drainTimeoutReserve/2)
		}
		var stopLate context.CancelFunc
		drain, stopLate = context.WithTimeout(drain, left)
		defer stopLate()
	}
	return t.fence.WaitActing(drain)
}

// idle waits until the term has no running goroutine and no call in flight.
func (t *termRun) idle(ctx context.Context) error {
	return errors.Join(t.tasks.Wait(ctx, 0, nil), t.fence.WaitQuiet(ctx, 0))
}

// hasClosed reports whether the fence has closed.
func (t *termRun) hasClosed() bool { return t.fence.Cause() != nil }

// reportTrouble reports a problem of the four cloud controllers, or of what they need, and its end
// with nil. Its begin is an event. As with [termRecorder], an error after the close of the fence is
// no problem. The status has no problems of controllers without leader election.
func (t *termRun) reportTrouble(subject string, cause error) {
	if t.provider != nil && !t.hasClosed() && t.troubles.report(subject, cause) {
		t.warn("ControllerProblem", subject+": "+cause.Error())
	}
}

// warn records a Warning event on the lease, because a term has no object of its own.
func (t *termRun) warn(reason, message string) {
	lease := &corev1.ObjectReference{
		APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease",
		Namespace: t.config.LeaderElection.ResourceNamespace,
		Name:      t.config.LeaderElection.ResourceName,
	}
	t.recorder(ownClient).Event(lease, corev1.EventTypeWarning, reason, message)
}

func (t *termRun) recorder(source string) record.EventRecorder {
	if t.recorders != nil {
		return t.recorders(source)
	}
	return t.events.Recorder(source)
}

func (t *termRun) closeProvider() {
	if t.provider == nil || t.cloud == nil || t.provider.outlives {
		return
	}
	if err := t.cloud.Close(); err != nil {
		t.log.Error(err, "Cloud provider did not close cleanly", "provider", t.provider.Name)
	}
}
