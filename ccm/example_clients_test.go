package ccm_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// A host can supply its own client configuration. Config.ClientConnection supplies missing limits
// and the encoding. Each client adds its name to the user agent.
func ExampleParams_restConfig() {
	m, err := ccm.New(ccm.Params{
		Config:    ccm.DefaultConfig(),
		Providers: []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: &rest.Config{
			Host:      "https://127.0.0.1:6443",
			UserAgent: "my-control-plane/1.0",
			QPS:       50, Burst: 100, // of each client
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.RESTConfig().UserAgent)
	// Output: my-control-plane/1.0/cloud-controller-manager
}

// A host can give each client its own identity.
func ExampleClientBuilder() {
	identities := map[string]string{
		"cloud-controller-manager": "token-1",
		"leader-election":          "token-2",
		"shared-informers":         "token-3",
		"node-controller":          "token-4",
		"service-controller":       "token-5",
		"route-controller":         "token-6",
	}
	clients := ccm.ClientBuilder(func(name string) (*rest.Config, error) {
		token, ok := identities[name]
		if !ok {
			return nil, errors.New("it is not in the vault")
		}
		return &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: token}, nil
	})
	params := ccm.Params{
		Config:    ccm.DefaultConfig(),
		Providers: []ccm.Provider{fake.New().CCMProvider()},
		Clients:   clients, // with fx: fx.Supply(clients)
	}
	_, err := ccm.New(params)
	fmt.Println("complete:", err == nil)

	delete(identities, "leader-election")
	_, err = ccm.New(params)
	fmt.Println(strings.ReplaceAll(err.Error(), ": client", ":\nclient"))
	// Output:
	// complete: true
	// ccm: configuration:
	// clientConnection: Invalid value: "leader-election":
	// client "leader-election": it is not in the vault
}

// A client configuration may have the host's own transport, such as a tunnel to a hosted control
// plane.
func ExampleParams_transport() {
	log := logr.Discard()
	config := &rest.Config{Host: "http://cluster-17.internal"}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			// A real transport would send the request through its tunnel: next.RoundTrip(r).
			return nil, errors.New("the tunnel is closed")
		})
	})
	_, err := ccm.New(ccm.Params{
		Config: ccm.DefaultConfig(), Providers: []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: config, Logger: &log,
	})
	fmt.Println("complete:", err == nil) // New makes no request
	// Output: complete: true
}
