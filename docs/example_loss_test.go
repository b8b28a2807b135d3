package docs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// docs: begin notice

// newLeadershipLog is a controller that logs when this process begins to lead, and why it stops.
func newLeadershipLog(log logr.Logger) ccm.Controller {
	return ccm.Controller{
		Name: "teller",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				log.Info("We lead", "term", t.Number())
				<-ctx.Done()
				why := context.Cause(ctx)
				log.Info("We do not lead any more", "lost", errors.Is(why, election.ErrLost),
					"why", why.Error())
				return nil
			}), nil
		},
	}
}

// docs: end

// docs: begin exit-on-loss

// newExitOnLoss is a controller that ends the program when leadership is lost, like upstream's
// command.
func newExitOnLoss(app fx.Shutdowner) ccm.Controller {
	return ccm.Controller{
		Name: "exit-on-loss",
		New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(ctx context.Context) error {
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), election.ErrLost) {
					return app.Shutdown(fx.ExitCode(1))
				}
				return nil
			}), nil
		},
	}
}

// docs: end

// A lossyHost leads, and loses leadership once its controllers run.
type lossyHost struct {
	*fx.App
	elector *election.Host
	leads   chan struct{}
}

func newLossyHost(drainTimeout time.Duration, own string, opts ...fx.Option) lossyHost {
	h := lossyHost{elector: election.NewHost(), leads: make(chan struct{})}
	cfg := onlyAnnounces()
	cfg.Controllers = append(cfg.Controllers, own)
	cfg.DrainTimeout = metav1.Duration{Duration: drainTimeout}
	h.App = fx.New(fx.NopLogger, ccm.Module, fake.Module(fake.New()),
		fx.Supply(cfg, silence(), fx.Annotate(h.elector, fx.As(new(election.Elector)))),
		fx.Provide(hostRESTConfig),
		fx.Provide(ccm.AsController(func() ccm.Controller {
			return announces(func(*ccm.Term, error) { close(h.leads) }, nothing)
		})),
		fx.Options(opts...))
	return h
}

// lose ends leadership and returns the result of Lead.
func (h lossyHost) lose() error {
	leading, lose := context.WithCancel(context.Background())
	defer lose()
	go func() {
		<-h.leads
		lose()
	}()
	return h.elector.Lead(leading, election.Grant{})
}

func Example_exitOnLoss() {
	host := newLossyHost(time.Minute, "exit-on-loss",
		// docs: begin exit-on-loss-fx
		fx.Provide(ccm.AsController(newExitOnLoss)),
		// docs: end
	)
	if err := host.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	ended := host.Wait()
	fmt.Println(host.lose())
	fmt.Println("exit code", (<-ended).ExitCode, host.Stop(context.Background()))
	// Output:
	// <nil>
	// exit code 1 <nil>
}

func Example_notice() {
	var told []string
	host := newLossyHost(time.Minute, "teller", fx.Provide(ccm.AsController(func() ccm.Controller {
		return newLeadershipLog(funcr.New(func(_, text string) {
			told = append(told, text)
		}, funcr.Options{}))
	})))
	if err := host.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(host.lose(), host.Stop(context.Background()))
	fmt.Println(strings.Join(told, "\n"))
	// Output:
	// <nil> <nil>
	// "level"=0 "msg"="We lead" "term"=1
	// "level"=0 "msg"="We do not lead any more" "lost"=true "why"="leadership lost: the host's leadership has ended: context canceled"
}

// docs: begin policy

// withAlert alerts an operator.
func withAlert(p ccm.Params, alert func(string)) ccm.Params {
	p.OnDrainTimeout = func(err *ccm.DrainTimeoutError) { alert(err.Error()) }
	return p
}

// docs: end

func newDeaf(release <-chan struct{}) ccm.Controller {
	return ccm.Controller{
		Name: "deaf",
		New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
			return ccm.RunnableFunc(func(context.Context) error {
				<-release
				return nil
			}), nil
		},
	}
}

func Example_policy() {
	release, alerts := make(chan struct{}), make(chan string, 1)
	alert := func(text string) { alerts <- text }
	host := newLossyHost(time.Second, "deaf", fx.Provide(ccm.AsController(func() ccm.Controller {
		return newDeaf(release)
	})),
		// docs: begin policy-fx
		fx.Supply(ccm.KeepRunning),
		fx.Supply(alert), // what withAlert needs
		fx.Decorate(withAlert),
		// docs: end
	)
	if err := host.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(host.lose())
	fmt.Println(strings.Contains(<-alerts, "still running: controller deaf"))
	close(release)
	fmt.Println(host.Stop(context.Background()))
	// Output:
	// <nil>
	// true
	// <nil>
}

// docs: begin run-app

// runApp is fx's App.Run, but exits with 3 instead of 1 when a stop reaches the drain timeout.
func runApp(app *fx.App) (exitCode int) {
	starting, cancel := context.WithTimeout(context.Background(), app.StartTimeout())
	defer cancel()
	if err := app.Start(starting); err != nil {
		return 1
	}
	asked := <-app.Wait()
	stopping, cancel := context.WithTimeout(context.Background(), app.StopTimeout())
	defer cancel()
	err := app.Stop(stopping)
	var timedOut *ccm.DrainTimeoutError
	switch {
	case errors.As(err, &timedOut):
		return ccm.ExitDrainTimeout
	case err != nil:
		return max(asked.ExitCode, 1)
	}
	return asked.ExitCode
}

// docs: end

func Example_runApp() {
	release := make(chan struct{})
	var app fx.Shutdowner
	host := newLossyHost(time.Second, "deaf", fx.Provide(ccm.AsController(func() ccm.Controller {
		return newDeaf(release)
	})), fx.Populate(&app))
	go func() { _ = host.elector.Lead(context.Background(), election.Grant{}) }()
	go func() {
		<-host.leads
		_ = app.Shutdown()
	}()
	fmt.Println("exit code", runApp(host.App))
	close(release)
	// Output: exit code 3
}
