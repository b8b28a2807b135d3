package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// withShortTexts returns a logger whose texts are short and printable. The meter bounds error
// answers, but a Status in an answer with the status 200, or in an event of a watch, may be as long
// as the objects of the cluster, and becomes an error of client-go. Names may be as long, and klog
// writes them and each text of several lines as they are.
func withShortTexts(log logr.Logger) logr.Logger {
	sink := log.GetSink()
	if sink == nil {
		return log
	}
	return log.WithSink(shortTexts{sink}.WithCallDepth(1))
}

type shortTexts struct{ logr.LogSink }

// Info implements logr.LogSink.
func (s shortTexts) Info(level int, message string, keysAndValues ...any) {
	s.LogSink.Info(level, shortText(message), shortValues(keysAndValues)...)
}

// Error implements logr.LogSink.
func (s shortTexts) Error(err error, message string, keysAndValues ...any) {
	if err != nil {
		err = boundedError{err}
	}
	s.LogSink.Error(err, shortText(message), shortValues(keysAndValues)...)
}

// WithValues implements logr.LogSink.
func (s shortTexts) WithValues(keysAndValues ...any) logr.LogSink {
	return shortTexts{s.LogSink.WithValues(shortValues(keysAndValues)...)}
}

// WithName implements logr.LogSink.
func (s shortTexts) WithName(name string) logr.LogSink {
	return shortTexts{s.LogSink.WithName(name)}
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s shortTexts) WithCallDepth(depth int) logr.LogSink {
	if of, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return shortTexts{of.WithCallDepth(depth)}
	}
	return s
}

func shortValues(keysAndValues []any) []any {
	short := slices.Clone(keysAndValues)
	for i := 1; i < len(short); i += 2 {
		if short[i-1] != "stack" { // it has many lines, and nothing of the cluster
			short[i] = shortValue(short[i])
		}
	}
	return short
}

// shortValue keeps the types that loggers write in a form of their own.
func shortValue(value any) any {
	switch v := value.(type) {
	case error:
		return boundedError{v}
	case klog.ObjectRef:
		return klog.KRef(shortText(v.Namespace), shortText(v.Name))
	case types.NamespacedName:
		return types.NamespacedName{Namespace: shortText(v.Namespace), Name: shortText(v.Name)}
	case time.Time, time.Duration:
		return v
	case fmt.Stringer:
		return boundedStringer{v}
	}
	if text := reflect.ValueOf(value); text.Kind() == reflect.String {
		return shortText(text.String())
	}
	return value
}

// boundedStringer has a short and printable text.
type boundedStringer struct{ fmt.Stringer }

func (s boundedStringer) String() string { return shortText(s.Stringer.String()) }
