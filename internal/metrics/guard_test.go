package metrics_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/metrics/metricstest"
)

type routesCloud struct {
	cloudprovider.Interface
	deleteRoute func(context.Context) error
}

func (c routesCloud) Routes() (cloudprovider.Routes, bool) {
	return cloudRoutes{routesCloud: c}, true
}

type cloudRoutes struct {
	cloudprovider.Routes
	routesCloud
}

func (c cloudRoutes) DeleteRoute(ctx context.Context, _ string, _ *cloudprovider.Route) error {
	return c.deleteRoute(ctx)
}

func TestGuardedCloud_Calls_AreCountedByResult(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	series := newSet(t, registry, "m").Begin()
	gate := fence.New(nil, clock.RealClock{})
	call := []string{"manager", "m", "interface", "Routes", "method", "DeleteRoute"}
	cloud, _ := guard.New(routesCloud{deleteRoute: func(ctx context.Context) error {
		metricstest.Want(t, registry, 1, "fxccm_cloud_calls_in_flight", call...)
		gate.Close(errors.New("lost"))
		<-ctx.Done()
		return ctx.Err()
	}}, gate, logr.Discard(), guard.WithObserver(series))

	routes, _ := cloud.Routes()
	for range 3 {
		_ = routes.DeleteRoute(context.TODO(), "", nil)
	}
	metricstest.Want(t, registry, 0, "fxccm_cloud_calls_in_flight", call...)
	metricstest.Want(t, registry, 1, "fxccm_cloud_call_duration_seconds",
		append(call, "result", "canceled")...)
	metricstest.Want(t, registry, 2, "fxccm_cloud_call_duration_seconds",
		append(call, "result", "refused")...)
	metricstest.Want(t, registry, 2, "fxccm_fence_refused_total", "door", "cloud")
	metricstest.Want(t, registry, 1, "fxccm_cloud_call_duration_seconds",
		"interface", "Cloud", "method",
		"Routes", "result", "ok")
}
