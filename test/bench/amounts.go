package main

import (
	"fmt"
	"io"
	"maps"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// amounts are what was measured at one time, by name.
type amounts map[string]float64

// minus is what a has more than b.
func (a amounts) minus(b amounts) amounts {
	rest := maps.Clone(a)
	for name, value := range b {
		rest[name] -= value
	}
	return rest
}

// over divides by n.
func (a amounts) over(n float64) amounts {
	shares := amounts{}
	for name, value := range a {
		shares[name] = value / n
	}
	return shares
}

// The amounts of a process. Memory is in MiB: what is resident (VmRSS of proc(5)), the part of it
// that is not shared (RssAnon), and the most that was resident (VmHWM); and what is in the Go heap,
// garbage included.
const (
	resident    = "resident"
	private     = "private"
	peak        = "peak"
	heap        = "heap"
	goroutines  = "goroutines"
	connections = "connections" // to its API servers
)

// usage looks at a process from outside, and asks it for what only it knows.
func (t *trial) usage(p *process) amounts {
	memory := t.memory(p)
	metrics := t.metrics(p)
	u := amounts{
		resident: float64(memory.VmRSS) / (1 << 20), private: float64(memory.RssAnon) / (1 << 20),
		peak: float64(memory.VmHWM) / (1 << 20),
	}
	for name, metric := range map[string]string{
		heap: "go_memstats_heap_alloc_bytes", goroutines: "go_goroutines",
	} {
		if len(metrics[metric]) != 1 {
			t.Fatalf("%s serves no metric %s", p.name, metric)
		}
		u[name] = float64(metrics[metric][0].Value)
	}
	u[heap] /= 1 << 20
	for _, part := range p.parts {
		u[connections] += float64(part.endpoint.Connections())
	}
	return u
}

// metrics asks a process for its metrics.
func (t *trial) metrics(p *process) map[string]model.Vector {
	body, err := t.get(p, "/metrics")
	t.Check(err)
	defer func() { _ = body.Close() }()
	metrics, err := parseMetrics(body)
	t.Check(err)
	return metrics
}

// parseMetrics reads samples, by name.
func parseMetrics(text io.Reader) (map[string]model.Vector, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	metrics := map[string]model.Vector{}
	for _, family := range families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, family)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
		for _, s := range samples {
			name := string(s.Metric[model.MetricNameLabel])
			metrics[name] = append(metrics[name], s)
		}
	}
	return metrics, nil
}
