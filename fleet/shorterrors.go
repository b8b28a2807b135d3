package fleet

import (
	"slices"

	"github.com/go-logr/logr"
)

// withShortErrors returns a logger that logs errors with short and printable texts. The meter
// bounds error answers, but a Status in an answer with the status 200, or in an event of a watch,
// may be as long as the objects of the cluster, and becomes an error of client-go.
func withShortErrors(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if sink == nil {
		return log
	}
	return log.WithSink(shortErrors{sink}.WithCallDepth(1))
}

type shortErrors struct{ logr.LogSink }

// Info implements logr.LogSink.
func (s shortErrors) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(level, message, shortValues(keysAndValues)...)
}

// Error implements logr.LogSink.
func (s shortErrors) Error(err error, message string, keysAndValues ...any) {
	if err != nil {
		err = boundedError{err}
	}
	s.LogSink.Error(err, message, shortValues(keysAndValues)...)
}

// WithValues implements logr.LogSink.
func (s shortErrors) WithValues(keysAndValues ...any) logr.LogSink {
	return shortErrors{s.LogSink.WithValues(shortValues(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s shortErrors) WithName(name string) logr.LogSink {
	return shortErrors{s.LogSink.WithName(name)}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s shortErrors) WithCallDepth(depth int) logr.LogSink {
	if of, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return shortErrors{of.WithCallDepth(depth)}
	}
	return s
}

func shortValues(keysAndValues []any) []any {
	short := slices.Clone(keysAndValues)
	for i, value := range short {
		if err, ok := value.(error); ok {
			short[i] = boundedError{err}
		}
	}
	return short
}
