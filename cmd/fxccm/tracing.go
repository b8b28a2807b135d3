package main

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/tracing"
	"github.com/fxccm/fxccm/cmd/fxccm/otlp"
)

const (
	// flushTimeout limits the export of the last spans. It is a part of the time of a stop that the
	// drain and the secure port leave.
	flushTimeout = 2 * time.Second
	// repeatTracingError is the time between two lines in the log with the same error: a receiver
	// that does not answer fails for every batch.
	repeatTracingError = 10 * time.Minute
)

// startTracing exports spans if OpenTelemetry's environment variables ask for that. A wrong
// variable is a warning, because a cluster can do without spans. The tracer is nil without export.
// end exports the last spans.
func startTracing() (_ ccm.Tracer, end func()) {
	log := klog.Background()
	otel.SetErrorHandler(newTracingErrors(log))
	provider, err := otlp.Start(context.Background(), currentBuild().Version)
	if err != nil {
		log.Info("Warning: no spans are exported: " + err.Error())
	}
	if provider == nil {
		return nil, func() {}
	}
	log.Info("Exporting spans with OpenTelemetry")
	return tracing.New(provider), func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Info("The last spans are not exported", "reason", err.Error())
		}
	}
}

// tracingErrors logs the errors of OpenTelemetry's SDK.
type tracingErrors struct {
	log klog.Logger

	mu     sync.Mutex
	logged map[string]time.Time
}

func newTracingErrors(log klog.Logger) *tracingErrors {
	return &tracingErrors{log: log, logged: map[string]time.Time{}}
}

// Handle implements otel.ErrorHandler.
func (t *tracingErrors) Handle(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, now := err.Error(), time.Now()
	if last, isLogged := t.logged[text]; isLogged && now.Sub(last) < repeatTracingError {
		return
	}
	if len(t.logged) > 100 {
		clear(t.logged)
	}
	t.logged[text] = now
	t.log.Info("Warning: spans: " + text)
}
