package serving_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	"github.com/go-logr/logr"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// probe reads a path of the server as a kubelet does.
func probe(s *serving.Server, path string) string {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
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
		serving.Configure(serving.WithListener(anyPort)), // a real host omits this
		fx.Supply(managerConfig(), servingconfig.Default(), unreachable()),
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
	manager, err := ccm.New(ccm.Params{
		Config: managerConfig(), Providers: []ccm.Provider{ccm.StaticProvider(emptyCloud())},
		RESTConfig: unreachable(), Logger: &log,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := serving.New(manager, servingconfig.Default(), serving.WithListener(anyPort),
		serving.WithLogger(log))
	if err != nil {
		fmt.Println(err) // it names the invalid field
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
