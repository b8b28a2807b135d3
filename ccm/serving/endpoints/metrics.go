package endpoints

import (
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
)

// metrics serves all gatherers as one. Registries of one process often overlap (go_*, process_*),
// and a collector may fail: such metrics are dropped, and all others are served.
func metrics(gatherers prometheus.Gatherers, log logr.Logger) http.Handler {
	return promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{
		ErrorLog:         metricsLog{log},
		ErrorHandling:    promhttp.ContinueOnError,
		ProcessStartTime: legacyregistry.GetProcessStart(),
	})
}

// metricsLog is a promhttp.Logger.
type metricsLog struct{ log logr.Logger }

func (l metricsLog) Println(v ...any) {
	l.log.V(2).Info("Incomplete metrics", "reason", fmt.Sprint(v...))
}
