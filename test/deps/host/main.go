// Command host is a host of the library with the OpenStack provider and, unless the tag plain is
// set, the endpoints. It is only linked, to see what a host links.
package main

import (
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
)

func main() {
	fx.New(
		ccm.Module,
		openstack.Module,
		fx.Supply(ccm.DefaultConfig()),
		fx.Invoke(serve),
	).Run()
}
