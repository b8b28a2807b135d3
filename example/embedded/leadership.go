package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fxccm/fxccm/ccm"
)

// leadership is controller-runtime's manager with its election: the reconciler acts while it leads,
// and so does the cloud controller manager, which takes the Elector from here.
var leadership = fx.Module("leadership",
	fx.Provide(newHost),
	fx.Provide(func(h *host, config ccm.Config) ccm.Elector {
		if config.LeaderElection.LeaderElect {
			return nil // --ccm-leader-elect: a lease of its own
		}
		return h.elector
	}),
	fx.Invoke(func(lifecycle fx.Lifecycle, h *host) {
		lifecycle.Append(fx.Hook{OnStart: h.start, OnStop: h.stop})
	}),
)

const (
	leaseNamespace = "kube-system"
	leaseName      = "control-plane"

	// managerGrace is what controller-runtime's runnables get to end in.
	managerGrace = 5 * time.Second

	// retryPause is the least time between two campaigns, so that one that fails at once does not
	// keep the process busy.
	retryPause = time.Second
)

// host campaigns with controller-runtime's manager, again and again.
//
// A manager of controller-runtime is made for programs that end when they lose their lease: Start
// returns "leader election lost", without waiting for reconcilers that are still at work, and
// cannot be called again. A host that wants to live on, therefore, makes a new manager for each
// campaign, and before it campaigns again it makes sure of what the end of the process would have
// made sure of: that nothing of the last manager runs. See [tracked].
//
// The lock, and the HostElector that watches it, are made once: they are what the campaigns have in
// common.
type host struct {
	flags    hostFlags
	config   *rest.Config
	log      logr.Logger
	shutdown fx.Shutdowner

	elector *ccm.HostElector
	lock    resourcelock.Interface

	cancel context.CancelFunc
	done   chan struct{}
}

func newHost(
	flags hostFlags, config *rest.Config, log logr.Logger, shutdown fx.Shutdowner,
) (*host, error) {
	h := &host{
		flags: flags, config: config, log: log.WithName("host"), shutdown: shutdown,
		elector: ccm.NewHostElector(), done: make(chan struct{}),
	}
	e := flags.election
	if !e.enabled {
		return h, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaseNamespace,
		leaseName,
		resourcelock.ResourceLockConfig{Identity: e.identity}, config, e.renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("lock for the election: %w", err)
	}
	// With Watch the fence of the cloud controller manager closes by the clock, also when this
	// process was frozen, and controller-runtime cannot release the lease while something of a term
	// runs.
	h.lock = h.elector.Watch(lock, e.leaseDuration, e.renewDeadline)
	return h, nil
}

func (h *host) start(context.Context) error {
	// the context of a hook ends with the start
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		h.campaignUntil(ctx)
	}()
	return nil
}

func (h *host) stop(ctx context.Context) error {
	h.cancel()
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("controller-runtime's manager did not stop in time: %w",
			context.Cause(ctx))
	}
}

// campaignUntil campaigns and leads, manager after manager, until ctx ends. The process, its
// server, its informers and the cloud controller manager live on in between.
func (h *host) campaignUntil(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.campaign(ctx)
		if errors.Is(err, errStillRunning) {
			// Another process leads by now, or will soon. There is no way to stop a goroutine but
			// to end the process.
			h.log.Error(err, "Shutting down")
			// it fails only when the app stops already
			_ = h.shutdown.Shutdown(fx.ExitCode(ccm.ExitDrainTimeout))
			return
		}
		if timedOut := (*ccm.DrainTimeoutError)(nil); ctx.Err() != nil ||
			errors.As(err, &timedOut) {
			// of the second, ccm.Module's policy makes the end of the process; the lease is left to
			// expire
			return
		}
		h.log.Info("Campaigning again, in the same process", "reason", fmt.Sprint(err))
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// campaign is the life of one manager: it stands by, leads, and has ended with all that was added
// to it when campaign returns, or the error is errStillRunning.
func (h *host) campaign(ctx context.Context) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	manager, err := h.newManager(ctx, end)
	if err != nil {
		return err
	}
	err = manager.Start(ctx)
	end(nil) // after a loss, some runnables have not been told yet
	if stuck := manager.waitEnded(
		h.flags.election.leaseDuration - h.flags.election.renewDeadline); stuck != nil {
		return errors.Join(stuck, err)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// newManager makes a manager that has not started. end ends it.
func (h *host) newManager(ctx context.Context, end context.CancelCauseFunc) (*tracked, error) {
	e := h.flags.election
	made, err := ctrl.NewManager(h.config, ctrl.Options{
		Logger: h.log,
		// Without this, reconcilers are cancelled only when all that needs no lease has ended.
		BaseContext: func() context.Context { return ctx },

		LeaderElection:                      e.enabled,
		LeaderElectionID:                    leaseName,
		LeaderElectionResourceLockInterface: &strictLock{Interface: h.lock, taken: end},
		// Start returns when all has ended, and campaign makes sure of that
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &e.leaseDuration,
		RenewDeadline:                 &e.renewDeadline,
		RetryPeriod:                   &e.retryPeriod,
		GracefulShutdownTimeout:       ptr.To(managerGrace),

		// The host has a server, which outlives this manager.
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		// Names of controllers are unique in a process, for the sake of metrics; the next manager
		// has a controller of the same name, and continues its series.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("make controller-runtime's manager: %w", err)
	}
	manager := &tracked{Manager: made}
	if err := addNamespaceReconciler(manager); err != nil {
		return nil, err
	}
	return manager, manager.Add(lead{h.elector})
}

// lead lends the leadership of controller-runtime's manager to the cloud controller manager.
type lead struct{ elector *ccm.HostElector }

// Start implements manager.Runnable. It returns when nothing of the term acts any more.
func (l lead) Start(ctx context.Context) error { return l.elector.Lead(ctx, ccm.Grant{}) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (lead) NeedLeaderElection() bool { return true }

// strictLock ends the leadership of the host as soon as the lease is seen to be another's.
// Client-go's elector tries for the rest of its renew deadline to get it back, and says nothing
// meanwhile: reconcilers would go on beside the other leader. The cloud controller manager sees it
// by itself.
type strictLock struct {
	resourcelock.Interface
	taken context.CancelCauseFunc
	held  bool
}

// Get implements resourcelock.Interface.
func (l *strictLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && l.held && record.HolderIdentity != l.Identity() {
		l.held = false
		l.taken(fmt.Errorf("the lease %s was taken by %q", l.Describe(), record.HolderIdentity))
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *strictLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.written(record, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *strictLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.written(record, l.Interface.Update(ctx, record))
}

func (l *strictLock) written(record resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.held = record.HolderIdentity == l.Identity()
	}
	return err
}
