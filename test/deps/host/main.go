// Command host is a host of the library with the OpenStack provider and the endpoints. It is only
// linked, to see what a host links.
package main

import (
	"net/http"

	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/provider/openstack"
)

func main() {
	fx.New(
		ccm.Module,
		openstack.Module,
		fx.Supply(ccm.DefaultConfig()),
		fx.Invoke(func(m *ccm.Manager) { http.Handle("/", endpoints.NewHandler(m)) }),
	).Run()
}
