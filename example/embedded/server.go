package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"

	"github.com/fxccm/fxccm/hosting/controllerruntime"
)

// server is the host's HTTP server. Other parts add their pages to the mux. It is for a trusted
// network: package ccm/serving shows a server for others.
var server = fx.Module("server",
	fx.Provide(newMux),
	fx.Invoke(serve),
)

// newMux has /healthz, /readyz and /metrics from controller-runtime. They do not depend on
// leadership; otherwise a probe would restart a process that does not lead.
func newMux(host *controllerruntime.Host) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/", host.Handler())
	return mux
}

func serve(
	lifecycle fx.Lifecycle, shutdown fx.Shutdowner, flags hostFlags, mux *http.ServeMux,
	log logr.Logger,
) {
	log = log.WithName("server")
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	lifecycle.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", flags.listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			log.Info("Serving", "address", listener.Addr().String())
			go func() {
				defer close(done)
				if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
					log.Error(err, "The server has failed")
					// An error means that the app is already stopping.
					_ = shutdown.Shutdown(fx.ExitCode(1))
				}
			}()
			return nil
		},
		OnStop: func(ctx context.Context) error {
			err := s.Shutdown(ctx)
			<-done
			return err
		},
	})
}
