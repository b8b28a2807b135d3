package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"go.uber.org/fx/fxevent"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// These settings are global for the process, so a library must not change them.

// setFeatureGates applies --ccm-feature-gates.
func setFeatureGates(gates map[string]bool) error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("--%sfeature-gates: %w", prefix, err)
	}
	return nil
}

// registerMetrics adds running_managed_controllers to component-base's registry. The
// metrics of work queues, API clients and leader election need hooks that exist once in a process;
// controller-runtime has taken them when it was imported.
func registerMetrics() { controllersmetrics.Register() }

// startLogging returns the host's logger. The route controller and client-go log to klog, and
// controller-runtime to its own logger: both use this one.
func startLogging() logr.Logger {
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	ctrl.SetLogger(log)
	return log
}

// logEvents logs fx's events about failed starts and stops. run prints earlier errors.
func logEvents(log logr.Logger) fxevent.Logger {
	events := &fxevent.SlogLogger{Logger: slog.New(logr.ToSlogHandler(log.WithName("fx")))}
	events.UseLogLevel(slog.LevelDebug)
	return startsAndStops{events}
}

type startsAndStops struct{ fxevent.Logger }

// LogEvent implements fxevent.Logger.
func (l startsAndStops) LogEvent(event fxevent.Event) {
	switch event.(type) {
	case *fxevent.Provided, *fxevent.Run, *fxevent.Invoked:
	default:
		l.Logger.LogEvent(event)
	}
}
