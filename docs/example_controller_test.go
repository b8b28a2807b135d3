package docs_test

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

func Example_controllerOptions() {
	attempts := 0
	done := make(chan struct{})
	newProbe := func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
		if attempts++; attempts == 1 {
			return nil, errors.New("not yet")
		}
		return ccm.RunnableFunc(func(ctx context.Context) error {
			fmt.Println("attempt", attempts, "in a term without number:", t.Number(), t.Cloud())
			close(done)
			<-ctx.Done()
			return nil
		}), nil
	}
	// docs: begin options
	probe := ccm.Controller{
		Name:              "probe",
		Aliases:           []string{"pr"}, // --controllers accepts these, too
		DisabledByDefault: true,           // unless --controllers names it
		// It runs in every replica, leading or not; its Term.Cloud is nil.
		NeedLeaderElection: new(false),
		RestartOnFailure:   true, // a failure does not end the term
		New:                newProbe,
	}
	// docs: end
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"pr"}
	app := fx.New(fx.NopLogger, ccm.Module, fake.Module(fake.New()), fx.Supply(cfg, silence()),
		fx.Supply(&election.Alone{}),
		fx.Provide(hostRESTConfig, ccm.AsController(func() ccm.Controller {
			return probe
		})))
	if err := app.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	fmt.Println(app.Stop(context.Background()))
	// Output:
	// attempt 2 in a term without number: 0 <nil>
	// <nil>
}
