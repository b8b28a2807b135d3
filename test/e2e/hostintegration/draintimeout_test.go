package hostintegration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

// A call to the cloud that does not end when leadership is lost is what the host decides about.
func TestDrainTimeout_TheHostDecidesWhatFollows(t *testing.T) {
	t.Parallel()
	type decision struct {
		policy fx.Option
		// exitCode is that of the app's end, 0 if it goes on.
		exitCode int
	}
	for name, want := range map[string]decision{
		"by default the app ends": {fx.Options(), ccm.ExitDrainTimeout},
		"it stays down":           {fx.Supply(ccm.KeepRunning), 0},
		"it does as it likes": {fx.Supply(
			ccm.DrainTimeoutPolicy(func(_ *ccm.DrainTimeoutError, app fx.Shutdowner) {
				_ = app.Shutdown(fx.ExitCode(42))
			})), 42},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, elector := newCloud(t), leading()
			release := cloud.On(fake.EnsureLoadBalancer).IgnoringContext().Hang()
			cfg := ccmtest.Config()
			cfg.Controllers = []string{"balancing"}
			cfg.DrainTimeout = metav1.Duration{Duration: 200 * time.Millisecond}
			var m *ccm.Manager
			app := fx.New(fx.NopLogger, ccm.Module, fake.Module(cloud), want.policy,
				fx.Supply(cfg, identity(t), logr.Discard(),
					fx.Annotate(elector, fx.As(new(ccm.Elector)))),
				fx.Provide(ccm.AsController(func() ccm.Controller {
					return balancing("balancing")
				})), fx.Populate(&m))
			if err := app.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ends := app.Wait()
			ccmtest.WaitCall(t, cloud, "a call hangs",
				fake.CallFilter{Method: fake.EnsureLoadBalancer}.Matches)
			elector.Lose(errors.New("the test wants it"))
			if elector.WaitReleased(t).Drained {
				t.Error("leadership was given back although a call is in flight")
			}
			stuck := func(s ccm.Status) bool {
				return s.State == ccm.StateDegraded &&
					strings.Contains(s.Reason, "call LoadBalancer.EnsureLoadBalancer default/")
			}
			ccmtest.WaitStatus(t, m, "the call is named", stuck)
			if want.exitCode != 0 {
				if signal := <-ends; signal.ExitCode != want.exitCode {
					t.Errorf("the app ends with exit code %d, want %d", signal.ExitCode,
						want.exitCode)
				}
			}
			if m.ReadinessChecks()[0].Check(nil) == nil {
				t.Error("the Manager is ready although a call may act")
			}
			release()
			ccmtest.WaitState(t, m, ccm.StateStandby)
			elector.Lead()
			ccmtest.WaitReady(t, m)
			if err := app.Stop(context.Background()); err != nil {
				t.Errorf("the stop of the app returned %v", err)
			}
			select {
			case signal := <-ends:
				t.Errorf("the app was asked to end with exit code %d", signal.ExitCode)
			default:
			}
			startAgain(t, app, m, elector)
		})
	}
}

// startAgain sees that an app whose term has ended after all serves again.
func startAgain(t *testing.T, app *fx.App, m *ccm.Manager, elector *ccmtest.ManualElector) {
	t.Helper()
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	elector.Lead()
	ccmtest.WaitReady(t, m)
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
