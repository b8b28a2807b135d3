package endpoints

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fxccm/fxccm/internal/webpage"
)

// metrics serves all gatherers as one. Registries of one process often overlap (go_*, process_*),
// and a collector may fail: such metrics are dropped, and all others are served.
func metrics(gatherers prometheus.Gatherers, log logr.Logger) http.Handler {
	return webpage.WithMetricsFormat(promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{
		ErrorLog:         metricsLog{log},
		ErrorHandling:    promhttp.ContinueOnError,
		ProcessStartTime: legacyregistry.GetProcessStart(),
	}))
}

// distinct drops gatherers that are listed twice, each of whose metrics would be an error.
func distinct(gatherers prometheus.Gatherers) prometheus.Gatherers {
	listed := map[prometheus.Gatherer]bool{}
	return slices.DeleteFunc(gatherers, func(g prometheus.Gatherer) bool {
		if g == nil || !reflect.TypeOf(g).Comparable() {
			return g == nil
		}
		again := listed[g]
		listed[g] = true
		return again
	})
}

// metricsLog is a promhttp.Logger.
type metricsLog struct{ log logr.Logger }

func (l metricsLog) Println(v ...any) {
	l.log.V(2).Info("Incomplete metrics", "reason", fmt.Sprint(v...))
}
