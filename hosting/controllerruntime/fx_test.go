package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"go.uber.org/fx"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
	"github.com/fxccm/fxccm/provider/fake"
)

// Fx calls no stop hook after the context of the start has ended.
func TestModule_StartEndsInALaterHook_HostReleasesItsLease(t *testing.T) {
	t.Parallel()
	cp := controlplane.ForTest(t)
	leases := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoordinationV1().Leases(leaseNamespace)
	isHeld := func(want bool) func(*coordinationv1.Lease) error {
		return func(lease *coordinationv1.Lease) error {
			if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); (holder != "") != want {
				return fmt.Errorf("its holder is %q", holder)
			}
			return nil
		}
	}
	app := fx.New(fx.NopLogger, ccm.Module, controllerruntime.Module,
		fx.Supply(ccmtest.Config(), cp.RESTConfig(), controllerruntime.Config{
			Options: ctrl.Options{
				LeaderElection: true, LeaderElectionID: leaseName,
				LeaderElectionNamespace: leaseNamespace,
				RetryPeriod:             ptr.To(200 * time.Millisecond),
				Logger:                  testr.New(t),
			},
		}),
		fake.Module(fake.New()),
		fx.Invoke(func(lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.Hook{OnStart: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- app.Start(ctx) }()
	ccmtest.Eventually(t, "the host leads", ccmtest.Object(leases.Get, leaseName, isHeld(true)))
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Fatalf("Start returned %v, want the end of its context", err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	ccmtest.Eventually(t, "the lease is released",
		ccmtest.Object(leases.Get, leaseName, isHeld(false)))
}

func TestModule_LoggerOfTheApp_IsTheHosts(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	value := logr.FromSlogHandler(log.Handler())
	for name, given := range map[string]any{
		"*slog.Logger": log, "logr.Logger": value, "*logr.Logger": &value,
	} {
		text.Reset()
		var host *controllerruntime.Host
		if err := fx.New(fx.NopLogger, controllerruntime.Module, fx.Populate(&host),
			fx.Supply(given, &rest.Config{Host: "https://127.0.0.1:6443"},
				controllerruntime.Config{Setup: func(ctrl.Manager) error { return nil }}),
		).Err(); err != nil {
			t.Fatal(err)
		}
		host.Params(ccm.Params{}).Logger.Info("hello")
		if !strings.Contains(text.String(), "hello") {
			t.Errorf("%s: the host has another logger", name)
		}
	}
}
