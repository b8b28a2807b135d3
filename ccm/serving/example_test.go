package serving_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/go-logr/logr"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
)

// anyPort lets the examples run beside each other; a host leaves it to Config.Serving.
func anyPort(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

func exampleConfig() ccm.Config {
	cfg := ccm.DefaultConfig()
	cfg.LeaderElection.LeaderElect = false
	cfg.Controllers = nil
	return cfg
}

// probe is what a kubelet does.
func probe(s *serving.Server, path string) string {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + s.Addr().String() + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body))
}

func ExampleModule() {
	var server *serving.Server
	app := fx.New(
		ccm.Module,
		serving.Module,
		serving.Configure(serving.WithListener(anyPort)),
		fx.Supply(exampleConfig(), unreachable()),
		fx.Provide(
			ccm.AsProvider(func() ccm.Provider { return ccm.StaticProvider(emptyCloud()) }),
			logr.Discard,
		),
		fx.Populate(&server),
		fx.NopLogger,
	)
	if err := app.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(probe(server, "/livez"))
	if err := app.Stop(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: 200 ok
}

func ExampleServer_Run() {
	log := logr.Discard()
	cfg := exampleConfig()
	manager, err := ccm.New(ccm.Params{
		Config: cfg, Providers: []ccm.Provider{ccm.StaticProvider(emptyCloud())}, RESTConfig: unreachable(), Logger: &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := serving.New(manager, cfg.Serving, serving.WithListener(anyPort), serving.WithLogger(log))
	if err != nil {
		fmt.Println(err) // it names the field at fault
		return
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	managed, stopManager := context.WithCancel(context.Background())
	go func() { _ = manager.Run(managed) }()
	// … until the host ends. First the Manager drains, which the probes see; then the port closes.
	stopManager()
	<-manager.Done()
	stop()
	fmt.Println(<-ended)
	// Output: <nil>
}
