package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlelection "sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/apiconn"
)

// Config configures a [Host].
type Config struct {
	// Options are the options of each manager. The Host sets some of them itself: the lease is
	// always released when all runnables have ended, and names of controllers may repeat, because
	// each campaign has controllers of the same names. The addresses of metrics, health probes and
	// pprof must be empty or "0", because these servers would end with each campaign: serve
	// [Host.Handler] instead.
	Options ctrl.Options

	// Setup adds reconcilers, webhooks, checks and other runnables to a manager. It is called once
	// in each campaign, before the manager starts. After an error it is called again, with a new
	// manager. Nil: nothing is added.
	Setup func(ctrl.Manager) error

	// InformerOptions change the shared informers, for example with a transform that drops managed
	// fields. Controllers of the cloud controller manager see only the objects that remain.
	InformerOptions []informers.SharedInformerOption
}

// Host runs managers of controller-runtime, one after the other, and lends their leadership to a
// [ccm.Manager]. It is safe for concurrent use.
type Host struct {
	restConfig *rest.Config
	options    ctrl.Options
	setup      func(ctrl.Manager) error

	elector *election.Host
	// lock is nil without leader election.
	lock      resourcelock.Interface
	informers *lastingInformers
	// pages are those of the current manager.
	pages atomic.Pointer[http.ServeMux]
	ran   atomic.Bool
}

// New returns a Host that has not started. It sends no request.
func New(restConfig *rest.Config, config Config) (*Host, error) {
	if restConfig == nil {
		return nil, errors.New("controllerruntime: no client configuration is given")
	}
	restConfig = apiconn.WithoutRedirects(restConfig)
	options := config.Options
	for field, address := range map[string]*string{
		"Metrics.BindAddress":    &options.Metrics.BindAddress,
		"HealthProbeBindAddress": &options.HealthProbeBindAddress,
		"PprofBindAddress":       &options.PprofBindAddress,
	} {
		if *address != "" && *address != "0" {
			return nil, fmt.Errorf("controllerruntime: Options.%s is %q: the server would end with "+
				"each campaign; leave the field empty, and serve Host.Handler", field, *address)
		}
		*address = "0"
	}
	if options.Logger.GetSink() == nil {
		options.Logger = ctrl.Log
	}
	if options.LeaseDuration == nil {
		options.LeaseDuration = ptr.To(15 * time.Second)
	}
	if options.RenewDeadline == nil {
		options.RenewDeadline = ptr.To(10 * time.Second)
	}
	if options.RetryPeriod == nil {
		options.RetryPeriod = ptr.To(2 * time.Second)
	}
	// Client-go's elector does not release the lease while the Host's lock refuses that.
	options.LeaderElectionReleaseOnCancel = true
	options.Controller.SkipNameValidation = ptr.To(true)
	h := &Host{
		restConfig: restConfig, options: options, setup: config.Setup,
		elector: election.NewHost(),
	}
	if options.LeaderElection {
		if err := h.makeLock(); err != nil {
			return nil, fmt.Errorf("controllerruntime: leader election: %w", err)
		}
	}
	var err error
	h.informers, err = newLastingInformers(restConfig, config.InformerOptions)
	return h, err
}

// makeLock makes the lock that all campaigns share. With Watch the fence of the cloud controller
// manager closes by the clock, also in a process that was frozen.
func (h *Host) makeLock() error {
	o := h.options
	lock := o.LeaderElectionResourceLockInterface
	if lock == nil {
		var err error
		lock, err = ctrlelection.NewResourceLock(
			apiconn.WithoutRedirects(cmp.Or(o.LeaderElectionConfig, h.restConfig)), noEvents{},
			ctrlelection.Options{
				LeaderElection:             true,
				LeaderElectionResourceLock: o.LeaderElectionResourceLock,
				LeaderElectionNamespace:    o.LeaderElectionNamespace,
				LeaderElectionID:           o.LeaderElectionID,
				RenewDeadline:              *o.RenewDeadline,
				LeaderLabels:               o.LeaderElectionLabels,
			})
		if err != nil {
			return err
		}
	}
	h.lock = h.elector.Watch(lock, *o.LeaseDuration, *o.RenewDeadline)
	// Each manager would report invalid times only when it starts.
	_, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: h.lock, LeaseDuration: *o.LeaseDuration, RenewDeadline: *o.RenewDeadline,
		RetryPeriod: *o.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {},
		},
	})
	return err
}

// validUntil returns the time until which runnables may act, as with the fence of the cloud
// controller manager. It is zero without leader election.
func (h *Host) validUntil() time.Time {
	if h.lock == nil {
		return time.Time{}
	}
	renewal, lease := *h.options.RenewDeadline, *h.options.LeaseDuration
	return h.elector.ElectionStatus().LastRenewal.Add(renewal + (lease-renewal)/2)
}

// Params returns p with the Elector, the RESTConfig, the Informers, the Logger and the Registerer
// of the Host. Fields that are set in p do not change.
func (h *Host) Params(p ccm.Params) ccm.Params {
	if p.Elector == nil {
		p.Elector = h.elector
	}
	if p.RESTConfig == nil && p.Clients == nil {
		p.RESTConfig = h.restConfig
	}
	if p.Informers.Factory == nil {
		p.Informers = ccm.SharedInformers{Factory: h.informers, Stop: h.informers.ctx.Done()}
	}
	if p.Logger == nil {
		p.Logger = &h.options.Logger
	}
	if p.Registerer == nil {
		p.Registerer = metrics.Registry
	}
	return p
}

// Elector returns the elector for one [ccm.Manager], which leads while a manager leads.
func (h *Host) Elector() *election.Host { return h.elector }

// Informers returns the informers that caches of the managers and a [ccm.Manager] share. They run
// until [Host.Run] returns, across campaigns. A manager's cache uses them for each kind that
// client-go knows, unless Options.Cache filters or transforms the kind.
func (h *Host) Informers() informers.SharedInformerFactory { return h.informers }

// Run runs m and campaigns until ctx ends. Then it stops m first, so that calls in flight can
// finish, and after that controller-runtime's manager, which releases the lease. A cause of ctx
// that was made with [ccm.StopBy] limits the drain.
//
// The process continues after a loss of leadership. Run returns the error of m, or
// [ErrStillRunning]. It can be called once.
func (h *Host) Run(ctx context.Context, m *ccm.Manager) error {
	campaigning, endCampaigns := context.WithCancel(context.WithoutCancel(ctx))
	defer endCampaigns()
	managing, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	var campaigns sync.WaitGroup
	var campaignErr error
	campaigns.Go(func() {
		campaignErr = h.campaignUntil(campaigning)
		stop(campaignErr)
	})
	err := m.Run(managing)
	endCampaigns()
	campaigns.Wait()
	return errors.Join(err, campaignErr)
}
