package controllerruntime

import (
	"context"
	"errors"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
)

// Add adds a cloud controller manager to a manager that the program has made and starts itself. The
// program ends with its manager, so use a [Host] where the process must survive a lost lease. Add
// is called before or after mgr has started, and returns the Manager for its endpoints and status.
//
// The client configuration, the logger and the registry of metrics are those of mgr, unless p has
// others. The recorders and the informers are the Manager's own, unless p has others: mgr's
// recorders are for another API of events, and its cache may leave out objects and fields that the
// controllers need.
//
// If p.Config.LeaderElection.LeaderElect is true, as by default, the Manager has a lease of its
// own, and survives its loss. At a stop its calls in flight may finish within Config.DrainTimeout,
// so mgr needs a longer Options.GracefulShutdownTimeout. The Manager runs in each replica of mgr.
//
// If LeaderElect is false, the Manager leads while mgr leads, and mgr must have leader election. A
// stop of mgr is then a loss: calls in flight are canceled immediately. A process that was frozen
// past its lease notices the loss late, because mgr does not show its lease. mgr must not have
// Options.LeaderElectionReleaseOnCancel: it would release its lease after GracefulShutdownTimeout
// also if a call still acts.
//
// An error of New is returned. An error of Run while mgr runs ends mgr: its Start returns the
// error.
func Add(mgr ctrl.Manager, p ccm.Params) (*ccm.Manager, error) {
	if mgr == nil {
		return nil, errors.New("controllerruntime: Add needs a manager")
	}
	if _, ok := mgr.(*trackedManager); ok {
		return nil, errors.New("controllerruntime: Add is for a manager without a Host; a Host runs " +
			"the Manager that Host.Run gets")
	}
	if p.RESTConfig == nil && p.Clients == nil {
		p.RESTConfig = mgr.GetConfig()
	}
	if p.Logger == nil {
		log := mgr.GetLogger()
		p.Logger = &log
	}
	if p.Registerer == nil {
		p.Registerer = metrics.Registry
	}
	own := added{leading: make(chan struct{}, 1)}
	own.stopping, own.stop = context.WithCancel(context.Background())
	if p.Elector == nil && !p.Config.LeaderElection.LeaderElect {
		own.elector = election.NewHost()
		p.Elector = own.elector
	}
	m, err := ccm.New(p)
	if err != nil {
		return nil, err
	}
	own.manager = m
	if err := mgr.Add(runner{own}); err != nil {
		return nil, fmt.Errorf("controllerruntime: add the cloud controller manager: %w", err)
	}
	if own.elector != nil {
		if err := mgr.Add(lending{own}); err != nil {
			return nil, fmt.Errorf("controllerruntime: lend the leadership of the manager: %w", err)
		}
	}
	return m, nil
}

// added is a Manager that a manager of controller-runtime runs.
type added struct {
	manager *ccm.Manager
	// elector is nil if the Manager has an election of its own.
	elector *election.Host
	// stopping ends when the manager stops, also because it has lost its lease. It then ends the
	// runnables that do not need its leadership, and lending only after them.
	stopping context.Context
	stop     context.CancelFunc
	// leading is full while lending runs, and after the stop.
	leading chan struct{}
}

// runner runs a Manager in each replica, also in those that do not lead.
type runner struct{ added }

// Start implements manager.Runnable.
func (r runner) Start(ctx context.Context) error {
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		r.stop()
		r.leading <- struct{}{}
		end()
	})()
	if err := r.manager.Run(run); err != nil {
		return fmt.Errorf("cloud controller manager: %w", err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (runner) NeedLeaderElection() bool { return false }

// lending lends the leadership of a manager.
type lending struct{ added }

// Start implements manager.Runnable.
func (l lending) Start(ctx context.Context) error {
	select {
	case l.leading <- struct{}{}:
		defer func() { <-l.leading }()
	case <-l.stopping.Done():
		return nil
	}
	ctx, lose := context.WithCancel(ctx)
	defer lose()
	defer context.AfterFunc(l.stopping, lose)()
	err := l.elector.Lead(ctx, election.Grant{})
	if err == nil {
		return nil
	}
	// The manager keeps its lease until its runnables have ended, at most for
	// Options.GracefulShutdownTimeout.
	if timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](err); ok {
		<-timedOut.Ended()
	}
	return fmt.Errorf("cloud controller manager: %w", err)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (lending) NeedLeaderElection() bool { return true }
