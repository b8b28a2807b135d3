package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// usage is what a process needs to run.
type usage struct {
	// resident is the memory that the process has resident, private the part of it that it does
	// not share, peak the most it has had resident; all in bytes. They are VmRSS, RssAnon and
	// VmHWM of proc(5).
	resident, private, peak float64
	// heap is what is in the Go heap, garbage included; in bytes.
	heap float64
	// goroutines and connections, the latter to its API servers, are numbers.
	goroutines, connections float64
}

// minus is what u has more than v.
func (u usage) minus(v usage) usage {
	return usage{
		resident: u.resident - v.resident, private: u.private - v.private, peak: u.peak - v.peak,
		heap:       u.heap - v.heap,
		goroutines: u.goroutines - v.goroutines, connections: u.connections - v.connections,
	}
}

// over divides by n.
func (u usage) over(n float64) usage {
	return usage{
		resident: u.resident / n, private: u.private / n, peak: u.peak / n, heap: u.heap / n,
		goroutines: u.goroutines / n, connections: u.connections / n,
	}
}

// measure looks at the process from outside, and asks it at the address for what only it knows:
// with the administrator's certificate where that is needed.
func (p *process) measure(
	ctx context.Context, address string, admin *rest.Config, parts []*part,
) (u usage, err error) {
	memory, err := p.memory()
	if err != nil {
		return u, err
	}
	metrics, err := readMetrics(ctx, address, admin)
	if err != nil {
		return u, fmt.Errorf("ask %s for its metrics: %w", p.name, err)
	}
	u = usage{
		resident: memory["VmRSS"], private: memory["RssAnon"], peak: memory["VmHWM"],
		heap: metrics["go_memstats_heap_alloc_bytes"], goroutines: metrics["go_goroutines"],
	}
	for _, part := range parts {
		u.connections += float64(part.endpoint.Connections())
	}
	return u, nil
}

// openMetrics asks a process for what it serves, with the administrator's certificate where that is
// needed.
func openMetrics(ctx context.Context, address string, admin *rest.Config) (io.ReadCloser, error) {
	certificate, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return nil, err
	}
	// The server's certificate is one that the process has signed for itself.
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			Certificates:       []tls.Certificate{certificate},
		}, DisableKeepAlives: true,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("the answer is %s: %s", resp.Status, text)
	}
	return resp.Body, nil
}

// readMetrics reads the metrics without labels that a process serves.
func readMetrics(
	ctx context.Context, address string, admin *rest.Config,
) (map[string]float64, error) {
	body, err := openMetrics(ctx, address, admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	metrics := map[string]float64{}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); ok && err == nil {
			metrics[name] = value
		}
	}
	return metrics, lines.Err()
}
