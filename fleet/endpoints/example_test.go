package endpoints_test

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	ccmendpoints "github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/fleet/endpoints"
)

// The management cluster authenticates and authorizes the clients of the port.
func Example() {
	management := &rest.Config{Host: "https://management.example.com:6443"}
	params := fleet.DefaultParams()
	params.Management, params.Source = management, fleet.Static()
	params.Manager = func(fleet.Cluster) (ccm.Params, error) { return ccm.Params{}, nil }
	f, err := fleet.New(params)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := serving.NewFor(management, func(opts ...ccmendpoints.Option) http.Handler {
		return endpoints.NewHandler(f, opts...)
	}, servingconfig.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("is open:", server.Addr() != nil) // server.Run opens the port
	// Output: is open: false
}
