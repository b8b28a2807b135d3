package ccm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/events"
	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/informerview"
)

// settle is how long nothing must have been in flight before a held fence counts as idle: the time
// between two calls of one piece of work.
const settle = 100 * time.Millisecond

// A Term is one stretch of leadership. Everything that acts on the world lives in a term and dies with
// it. Its methods are safe for concurrent use; what they return ends with the term.
type Term struct {
	number   uint64
	config   Config
	log      logr.Logger
	fence    *fence.Fence
	clients  *termClients
	metrics  *controllersmetrics.ControllerManagerMetrics
	provider Provider
	enabled  []Controller
	identity string

	// cloud is set when the provider has been built, informers when its clients have.
	cloud     *guard.Cloud
	guarded   cloudprovider.Interface
	informers *informerview.View

	// tasks are the goroutines of the term that run other people's code.
	tasks  inflight.Set
	status *termStatus

	// events do not pass the fence: those of the drain are sent too.
	events *events.Broadcaster
}

// Number counts the terms of this process from 1.
func (t *Term) Number() uint64 { return t.number }

// Config is the Manager's configuration.
func (t *Term) Config() Config { return t.config }

// ClusterName is Config().ClusterName.
func (t *Term) ClusterName() string { return t.config.ClusterName }

// Logger is the term's logger.
func (t *Term) Logger() logr.Logger { return t.log }

// Cloud is the provider. Its calls pass the term's fence, end with the term, and return panics as errors.
func (t *Term) Cloud() cloudprovider.Interface { return t.guarded }

// RESTConfig returns a client configuration for the named identity: a part of the user agent, or with
// --use-service-account-credentials the ServiceAccount of that name in kube-system. Requests that
// change something are refused once the term is over.
func (t *Term) RESTConfig(name string) (*rest.Config, error) { return t.clients.Config(name) }

// Client returns a client for the named identity, as RESTConfig.
func (t *Term) Client(name string) (kubernetes.Interface, error) { return t.clients.Client(name) }

// Informers are the term's shared informers. Ask for all that are needed in [Controller.New]: they
// are started when every controller has been built.
func (t *Term) Informers() informers.SharedInformerFactory { return t.informers }

// Metrics counts the controllers that run, as upstream's running_managed_controllers.
func (t *Term) Metrics() *controllersmetrics.ControllerManagerMetrics { return t.metrics }

// Recorder returns an event recorder. source names the component in the events. Events recorded
// until the end of the term's drain are sent; they do not pass the fence.
func (t *Term) Recorder(source string) record.EventRecorder { return t.events.Recorder(source) }

// run is a term from beginning to end. stop is the Manager's context, led the elector's. The error
// is why the term ended: it wraps ErrStopped, ErrLeadershipLost, what went wrong, or is an *UndrainedError.
func (t *Term) run(stop, led context.Context) error {
	ctx, cancel := context.WithCancelCause(klog.NewContext(context.WithoutCancel(stop), t.log))
	defer cancel(nil)
	// life ends with the first reason for the term to end.
	life, end := context.WithCancelCause(context.Background())
	defer end(nil)
	defer context.AfterFunc(led, func() {
		cause := context.Cause(led)
		t.fence.Close(cause)
		end(cause)
	})()
	defer context.AfterFunc(stop, func() { end(fmt.Errorf("%w: %w", ErrStopped, context.Cause(stop))) })()
	defer t.watchClock(life, end)()

	if err := t.open(ctx, life, end); err != nil {
		end(err)
	}
	<-life.Done()
	cause := context.Cause(life)
	t.log.Info("Term ends", "reason", cause.Error())
	if err := t.close(ctx, cause, drainDeadline(stop, t.config.DrainTimeout.Duration), cancel); err != nil {
		return err
	}
	t.log.Info("Term has drained")
	return cause
}

// watchClock ends the term when leadership expires by the clock, whatever the elector has noticed. The returned function waits
// for its end, after that of life.
func (t *Term) watchClock(life context.Context, end context.CancelCauseFunc) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.fence.CloseOnExpiry(life)
		if cause := t.fence.Cause(); cause != nil {
			end(fmt.Errorf("%w: %w", ErrLeadershipLost, cause))
		}
	}()
	return func() {
		end(nil)
		<-done
	}
}

// open takes the steps from a granted term to running controllers. It returns early when life ends.
func (t *Term) open(ctx, life context.Context, end context.CancelCauseFunc) error {
	steps := []struct {
		name string
		do   func() error
	}{
		{"build provider", func() error { return t.buildProvider(ctx) }},
		{"start provider", func() error { return t.startProvider(ctx) }},
		{"build controllers", func() error { return t.buildControllers(ctx) }},
	}
	for _, step := range steps {
		t.status.opening(step.name)
		if err := t.await(life, step.name, step.do); err != nil {
			return err
		}
	}
	t.status.syncing(t.informers)
	t.informers.StartWithContext(ctx)
	syncing, stopSyncing := context.WithTimeoutCause(life, t.config.CacheSyncTimeout.Duration,
		fmt.Errorf("informers have not synced within %s", t.config.CacheSyncTimeout.Duration))
	defer stopSyncing()
	if err := t.informers.WaitForSync(syncing); err != nil {
		return err
	}
	return t.startControllers(ctx, life, end)
}

// await runs other people's code, and stops waiting for it when life ends; it is still waited for when the term drains.
func (t *Term) await(life context.Context, name string, f func() error) error {
	result := make(chan error, 1)
	t.spawn(name, func() { result <- protect(name, f) })
	select {
	case err := <-result:
		return err
	case <-life.Done():
		return context.Cause(life)
	}
}

func (t *Term) spawn(name string, f func()) {
	done := t.tasks.Begin(name)
	go func() {
		defer done()
		f()
	}()
}

// protect turns a panic of f into an error.
func protect(name string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in %s: %v", name, r)
		}
	}()
	return f()
}

func (t *Term) buildProvider(ctx context.Context) error {
	cloud, err := t.provider.New(ctx, ProviderEnv{
		ClusterName: t.config.ClusterName,
		ConfigFile:  t.config.CloudProvider.ConfigFile,
		Identity:    t.identity,
		Term:        t.number,
		Logger:      t.log.WithName(t.provider.Name),
		Transport:   t.fence.Transport,
	})
	if err != nil {
		return fmt.Errorf("cloud provider %q: %w", t.provider.Name, err)
	}
	if cloud == nil {
		return fmt.Errorf("cloud provider %q: its New returned neither a cloud nor an error", t.provider.Name)
	}
	t.guarded, t.cloud = guard.New(cloud, t.fence, t.log)
	if !t.cloud.HasClusterID() && !t.config.CloudProvider.AllowUntagged {
		return fmt.Errorf("cloud provider %q has no cluster ID; set it in the provider's configuration, "+
			"or allow this with cloudProvider.allowUntagged (--allow-untagged-cloud)", t.provider.Name)
	}
	return nil
}

func (t *Term) startProvider(ctx context.Context) error {
	client, err := t.clients.Client("shared-informers")
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(informerview.ListingClient(client), t.resync(),
		informers.WithTransform(stripManagedFields))
	t.informers = informerview.New(factory)
	if err := t.cloud.Start(t.clients, ctx.Done(), t.informers); err != nil {
		return fmt.Errorf("cloud provider %q: %w", t.provider.Name, err)
	}
	return nil
}

// resync draws the resync period between MinResyncPeriod and twice it, as upstream.
func (t *Term) resync() time.Duration {
	return time.Duration(float64(t.config.MinResyncPeriod.Duration) * (1 + rand.Float64()))
}

// stripManagedFields drops what no controller reads and what is often half of an object.
func stripManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

func (t *Term) buildControllers(ctx context.Context) error {
	for _, c := range t.enabled {
		runnable, err := buildController(ctx, c, t)
		switch {
		case errors.Is(err, ErrSkip):
			t.log.Info("Controller skipped", "controller", c.Name, "reason", err.Error())
			t.status.controller(c.Name, ControllerSkipped, err)
		case err != nil:
			err = fmt.Errorf("controller %s: %w", c.Name, err)
			t.status.controller(c.Name, ControllerFailed, err)
			return err
		default:
			t.status.built(c.Name, runnable)
		}
	}
	return nil
}

func buildController(ctx context.Context, c Controller, t *Term) (runnable Runnable, err error) {
	err = protect("New", func() error {
		var err error
		runnable, err = c.New(ctx, t)
		return err
	})
	if err == nil && runnable == nil {
		return nil, errors.New("its New returned neither a Runnable nor an error")
	}
	return runnable, err
}

func (t *Term) startControllers(ctx, life context.Context, end context.CancelCauseFunc) error {
	for i, c := range t.status.startable() {
		if pause := t.config.ControllerStartInterval.Duration; i > 0 && pause > 0 {
			select {
			case <-time.After(time.Duration(float64(pause) * (1 + rand.Float64()))):
			case <-life.Done():
				return context.Cause(life)
			}
		}
		t.status.started(c.name)
		t.spawn("controller "+c.name, func() { t.supervise(ctx, end, c.name, c.runnable) })
	}
	t.status.ready()
	t.log.Info("Term is ready")
	return nil
}

// supervise runs a controller. One that ends before it is asked to ends the term.
func (t *Term) supervise(ctx context.Context, end context.CancelCauseFunc, name string, r Runnable) {
	err := protect("Run", func() error {
		return r.Run(klog.NewContext(ctx, t.log.WithValues("controller", name)))
	})
	if ctx.Err() != nil {
		t.status.controller(name, ControllerStopped, nil)
		return
	}
	if err == nil {
		err = errors.New("its Run returned without being asked to")
	}
	err = fmt.Errorf("controller %s: %w", name, err)
	t.status.controller(name, ControllerFailed, err)
	end(err)
}

// endUnstarted runs the controllers that were built and not started before the term ended, with a context that has ended: it is in Run
// that upstream's shut down the work queues that their constructors have started.
func (t *Term) endUnstarted(ended context.Context) {
	// What upstream says of a start that ends at once would only mislead.
	ended = klog.NewContext(ended, logr.Discard())
	for _, c := range t.status.unstarted() {
		t.spawn("controller "+c.name, func() {
			if err := protect("Run", func() error { return c.runnable.Run(ended) }); err != nil {
				t.log.Error(err, "Controller that had not been started did not end cleanly", "controller", c.name)
			}
		})
	}
}

// close ends the term: nothing of it acts any more when it returns nil. Otherwise the error names
// what had not ended by the deadline. ctx is that of the controllers, which cancel ends.
func (t *Term) close(ctx context.Context, cause error, deadline time.Time, cancel context.CancelCauseFunc) error {
	t.status.draining()
	drain, stop := context.WithDeadline(context.Background(), deadline)
	defer stop()
	if !errors.Is(cause, ErrLeadershipLost) {
		t.fence.Hold()
		grace, stopGrace := context.WithTimeout(drain, time.Until(deadline)/2)
		_ = t.fence.WaitQuiet(grace, settle) // what is still in flight then is cancelled
		stopGrace()
	}
	t.fence.Close(cause)
	cancel(cause)
	if t.idle(drain) == nil {
		t.endUnstarted(ctx)
		t.spawn("close provider", t.closeProvider)
		t.spawn("stop informers", t.stopInformers)
		t.spawn("send events", t.events.Close)
	}
	if t.idle(drain) != nil {
		return &UndrainedError{Term: t.number, Running: t.running()}
	}
	return nil
}

// idle waits until nothing of the term runs.
func (t *Term) idle(ctx context.Context) error {
	return errors.Join(t.tasks.Wait(ctx, 0), t.fence.WaitQuiet(ctx, 0))
}

// running names what of the term has not ended.
func (t *Term) running() []string {
	names := t.tasks.Names()
	for _, call := range t.fence.InFlight() {
		names = append(names, "call "+call)
	}
	return names
}

func (t *Term) closeProvider() {
	if t.cloud == nil || t.provider.outlives {
		return
	}
	if err := t.cloud.Close(); err != nil {
		t.log.Error(err, "Cloud provider did not close cleanly", "provider", t.provider.Name)
	}
}

func (t *Term) stopInformers() {
	if t.informers != nil {
		t.informers.Shutdown()
	}
}
