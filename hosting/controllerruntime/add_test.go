package controllerruntime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// startAdded starts a manager of another team, with a reconciler and a cloud controller manager.
// The channel gets the result of Start.
func startAdded(
	t *testing.T, ownLease bool,
) (w *world, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	cp := controlplane.ForTest(t)
	w = &world{
		t: t, cp: cp, cloud: fake.New(), client: kubernetes.NewForConfigOrDie(cp.RESTConfig()),
	}
	mgr, err := ctrl.NewManager(cp.RESTConfig(), ctrl.Options{
		LeaderElection: true, LeaderElectionID: leaseName,
		LeaderElectionNamespace:       leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(6 * time.Second),
		RenewDeadline:                 ptr.To(4 * time.Second),
		RetryPeriod:                   ptr.To(200 * time.Millisecond),
		Logger:                        testr.New(t),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Controller:                    config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := addNodeReconciler(mgr); err != nil {
		t.Fatal(err)
	}
	cfg := ccmtest.Config()
	cfg.LeaderElection.LeaderElect = ownLease
	w.manager, err = controllerruntime.Add(mgr, ccm.Params{
		Name: t.Name(), Config: cfg, Providers: []ccm.Provider{w.cloud.CCMProvider()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	result, started := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(started)
		result <- mgr.Start(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-started
		ccmtest.Eventually(t, "the Manager has stopped",
			ccmtest.Status(w.manager, func(s status.Manager) bool {
				return s.State == status.Stopped && len(s.Running) == 0
			}))
	})
	return w, stop, result
}

// wait returns the result of a manager's Start.
func wait(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(waittest.Limit):
		t.Fatal("the manager has not stopped")
		return nil
	}
}

func TestAdd_ToAManager_ServesNodesUntilItStops(t *testing.T) {
	for name, ownLease := range map[string]bool{"own lease": true, "lease of the manager": false} {
		t.Run(name, func(t *testing.T) {
			w, stop, ended := startAdded(t, ownLease)
			w.wantNode("node-1")
			current := w.manager.Status()
			if len(current.Warnings) > 0 || (current.Election.Identity != "") != ownLease {
				t.Errorf("the warnings are %q, the election is %+v", current.Warnings,
					current.Election)
			}
			if got := termsOf(t, t.Name()); got != 1 {
				t.Errorf("the registry of controller-runtime counts %v terms, want 1", got)
			}
			stop()
			if err := wait(t, ended); err != nil {
				t.Errorf("Start of the manager returned %v", err)
			}
			if s := w.manager.Status(); s.State != status.Stopped || len(s.Running) > 0 {
				t.Errorf("after the stop of its manager the Manager is %s: %+v", s.State, s.Running)
			}
		})
	}
}

func TestAdd_ManagerLosesItsLease_TheTermIsLost(t *testing.T) {
	w, _, ended := startAdded(t, false)
	w.wantNode("node-1")
	w.hold("another-process")
	if err := wait(t, ended); err == nil || !strings.Contains(err.Error(), "leader election lost") {
		t.Errorf("Start of the manager returned %v", err)
	}
	ccmtest.Eventually(t, "the term is lost", ccmtest.Status(w.manager,
		func(s status.Manager) bool { return s.Terms[0].End == "lost" }))
}

func TestAdd_WrongInput_IsAnErrorThatNamesIt(t *testing.T) {
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := ccm.DefaultConfig()
	cfg.Service.ConcurrentSyncs = 0
	for want, add := range map[string]func() (*ccm.Manager, error){
		"needs a manager": func() (*ccm.Manager, error) {
			return controllerruntime.Add(nil, ccm.Params{Config: ccm.DefaultConfig()})
		},
		"service.concurrentSyncs": func() (*ccm.Manager, error) {
			return controllerruntime.Add(mgr, ccm.Params{
				Config: cfg, Providers: []ccm.Provider{fake.New().CCMProvider()},
			})
		},
	} {
		if _, err := add(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

// termsOf is the number of terms that a Manager has begun, in the registry of controller-runtime.
func termsOf(t *testing.T, manager string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "fxccm_terms_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "manager" && label.GetValue() == manager {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}
