package metrics

import "github.com/prometheus/client_golang/prometheus"

// collectors are the metrics of Managers.
type collectors struct {
	callDuration      *prometheus.HistogramVec
	callsInFlight     *prometheus.GaugeVec
	leading           *prometheus.GaugeVec
	terms             *prometheus.CounterVec
	termsEnded        *prometheus.CounterVec
	termOpenDuration  *prometheus.HistogramVec
	termDrainDuration *prometheus.HistogramVec
	fenceRefused      *prometheus.CounterVec
	cloudTrouble      *prometheus.GaugeVec
	objects           *objectVec
	states            *stateVec
}

func newCollectors() *collectors {
	return &collectors{
		callDuration:      callDuration().Histogram(),
		callsInFlight:     callsInFlight().Gauge(),
		leading:           leading().Gauge(),
		terms:             terms().Counter(),
		termsEnded:        termsEnded().Counter(),
		termOpenDuration:  termOpenDuration().Histogram(),
		termDrainDuration: termDrainDuration().Histogram(),
		fenceRefused:      fenceRefused().Counter(),
		cloudTrouble:      cloudTrouble().Gauge(),
		objects:           newObjectVec(),
		states:            newStateVec(),
	}
}

// Owned implements [Vecs].
func (c *collectors) Owned() []Vec {
	return []Vec{
		c.callDuration, c.callsInFlight,
		c.leading, c.terms, c.termsEnded, c.termOpenDuration, c.termDrainDuration,
		c.fenceRefused, c.cloudTrouble, c.objects,
		c.states,
	}
}

// Common implements [Vecs].
func (*collectors) Common() []Vec { return nil }
