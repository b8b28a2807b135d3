package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
	"github.com/fxccm/fxccm/internal/metrics"
)

type noObserver struct{}

func (noObserver) CallStarted(string, string)                            {}
func (noObserver) CallEnded(string, string, guard.Result, time.Duration) {}
func (noObserver) CallRefused(string, string)                            {}

// The benchmark compares a guarded call with the same call without the guard.
func BenchmarkCall(b *testing.B) {
	set, err := metrics.New(prometheus.NewRegistry(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	series := set.Begin()
	defer series.End()
	b.Run("unguarded", func(b *testing.B) { benchCall(b, &cloud{}) })
	for _, c := range []struct {
		name     string
		observer guard.Observer
	}{{"guarded", nil}, {"with an observer that does nothing", noObserver{}}, {
		"counted and timed",
		series,
	}} {
		b.Run(c.name, func(b *testing.B) {
			g, _ := guard.New(&cloud{}, fence.New(nil, clock.RealClock{}), logr.Discard(),
				guard.WithObserver(c.observer))
			benchCall(b, g)
		})
	}
}

func benchCall(b *testing.B, c cloudprovider.Interface) {
	instances, _ := c.InstancesV2()
	ctx, n := context.Background(), node()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := instances.InstanceExists(ctx, n); err != nil {
			b.Fatal(err)
		}
	}
}
