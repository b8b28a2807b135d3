package tracing_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/tracing"
	"github.com/fxccm/fxccm/provider/fake"
)

func ExampleNew() {
	provider := sdktrace.NewTracerProvider() // the host's, with its exporter
	cfg := ccm.DefaultConfig()
	cfg.ClusterCIDR = "10.244.0.0/16"
	// docs: begin fx
	app := fx.New(
		ccm.Module,
		fake.Module(fake.New()),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:6443"}),

		fx.Provide(func() trace.TracerProvider { return provider }),
		fx.Provide(tracing.New),
		fx.NopLogger,
	)
	// docs: end
	fmt.Println(app.Err())
	// docs: begin flush
	// After app.Run or app.Stop: the spans of the last calls.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := provider.Shutdown(ctx)
	// docs: end
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}
