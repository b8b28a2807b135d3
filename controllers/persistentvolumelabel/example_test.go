package persistentvolumelabel_test

import (
	"fmt"

	"github.com/spf13/pflag"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/controllers/persistentvolumelabel"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/fake"
)

// A host adds a controller with one line in its app. This controller is off by default, so
// --controllers has to name it.
func Example() {
	flags := pflag.NewFlagSet("my-control-plane", pflag.ContinueOnError)
	opts := options.New()
	if err := opts.AddFlags(flags); err != nil {
		fmt.Println(err)
		return
	}
	for _, args := range [][]string{
		{"--cluster-cidr=10.244.0.0/16"},
		{"--cluster-cidr=10.244.0.0/16", "--controllers=*,persistentvolume-label-controller"},
	} {
		if err := flags.Parse(args); err != nil {
			fmt.Println(err)
			return
		}
		completed, err := opts.Complete()
		if err != nil {
			fmt.Println(err)
			return
		}
		var manager *ccm.Manager
		app := fx.New(
			ccm.Module,
			fx.Provide(ccm.AsController(persistentvolumelabel.Controller)), // the line
			fake.Module(fake.New()), // a cloud provider that is a PVLabeler
			fx.Supply(completed.Config, &rest.Config{Host: "https://127.0.0.1:6443"}),
			fx.Populate(&manager),
			fx.NopLogger,
		)
		if err := app.Err(); err != nil {
			fmt.Println(err)
			return
		}
		// A host would now call app.Run().
		for _, c := range manager.Status().Controllers {
			if c.Name == persistentvolumelabel.Name {
				fmt.Println(completed.Config.Controllers, c.State)
			}
		}
	}
	// Output:
	// [*] disabled
	// [* persistentvolume-label-controller] waiting
}
