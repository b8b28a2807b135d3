// Package bad has all forbidden side effects on import, so that a test checks that each is
// detected.
package bad

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

func init() {
	flag.Bool("bad-flag", false, "")
	pflag.Bool("bad-pflag", false, "")
	http.Handle("GET /bad/{handler}", http.NotFoundHandler())
	prometheus.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bad_metric"}, []string{"label"}))
	legacyregistry.MustRegister(metrics.NewCounter(&metrics.CounterOpts{Name: "bad_legacy_metric"}))
	if err := utilfeature.DefaultMutableFeatureGate.Add(map[featuregate.Feature]featuregate.FeatureSpec{"BadGate": {}}); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Setenv("BAD_VARIABLE", "1")
	go wait()
	fmt.Println("bad output")
	fmt.Fprintln(os.Stderr, "bad error output")
}

func wait() { select {} }
