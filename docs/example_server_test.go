package docs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/provider/fake"
)

// docs: begin server

// newServer serves the host's mux from before the start of the Manager until after its drain.
func newServer(listener net.Listener, mux *http.ServeMux) fx.Hook {
	server := &http.Server{Handler: mux}
	return fx.Hook{
		OnStart: func(context.Context) error {
			go func() { _ = server.Serve(listener) }() // until Shutdown
			return nil
		},
		OnStop: server.Shutdown,
	}
}

// docs: end

func Example_server() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	isLeading := make(chan struct{})
	controller := announces(
		func(*ccm.Term, error) { close(isLeading) },
		func(*ccm.Term, error) {
			response, err := http.Get("http://" + listener.Addr().String() + "/ccm/livez")
			if err != nil {
				fmt.Println("during the drain:", err)
				return
			}
			_ = response.Body.Close()
			fmt.Println("during the drain:", response.StatusCode)
		})
	app := fx.New(
		fx.NopLogger, ccm.Module, fake.Module(fake.New()),
		fx.Supply(onlyAnnounces(), silence(), http.NewServeMux(), &election.Alone{}),
		fx.Provide(
			hostRESTConfig,
			ccm.AsController(func() ccm.Controller { return controller }),
			func() net.Listener { return listener },
			ccm.AsSurroundingHook(newServer),
		),
		fx.Invoke(func(mux *http.ServeMux, m *ccm.Manager) {
			mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(m)))
		}),
	)
	fmt.Println(app.Start(context.Background()))
	<-isLeading
	fmt.Println(app.Stop(context.Background()))
	// Output:
	// <nil>
	// during the drain: 200
	// <nil>
}

func Example_klog() {
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // the output of the example must not change
		}
		return a
	}}
	defer klog.ClearLogger()
	// docs: begin klog
	handler := slog.NewJSONHandler(os.Stdout, options)
	klog.SetSlogLogger(slog.New(handler)) // for the whole process, so only main does it
	log := logr.FromSlogHandler(handler)  // for the Manager
	// docs: end

	cfg := ccm.DefaultConfig()
	cfg.Controllers = nil
	_, err := ccm.New(ccm.Params{
		Config: cfg, Providers: []ccm.Provider{fake.New().CCMProvider()},
		RESTConfig: hostRESTConfig(), Logger: &log, Registerer: prometheus.NewRegistry(),
	})
	klog.InfoS("Reconciled routes", "node", "node-1") // as the route controller does
	fmt.Println(err)
	// Output:
	// {"level":"INFO","msg":"Reconciled routes","node":"node-1"}
	// <nil>
}
