package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector, and returns the one to use: collectors with the same name share
// it. If another component has registered the name, or registry is nil, it is not registered.
func Register[C prometheus.Collector](registry prometheus.Registerer, collector C) C {
	if registry == nil {
		return collector
	}
	if known := (prometheus.AlreadyRegisteredError{}); errors.As(registry.Register(collector),
		&known) {
		if existing, ok := known.ExistingCollector.(C); ok {
			return existing
		}
	}
	return collector
}
