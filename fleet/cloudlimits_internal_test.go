package fleet

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/pagedlist"
	"github.com/fxccm/fxccm/internal/waittest"
)

// tenant is a cluster that is not trusted.
func tenant(limits Limits) *Cluster {
	limits.setDefaults(DefaultParams().Limits)
	return tenantIn(newPlaces(limits), limits)
}

// tenantIn is a tenant in a replica with these places.
func tenantIn(replica *places, limits Limits) *Cluster {
	return &Cluster{Name: "c", rules: &AccessRules{}, cloud: newCloudLimits(limits, replica)}
}

// guarded returns the transport of a tenant, which also connects to loopback addresses.
func guarded(t *testing.T, c *Cluster) http.RoundTripper {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	limited := c.GuardTransport(transport)
	transport.DialContext = nil
	return limited
}

// received sends a request and reads the response.
func received(ctx context.Context, via http.RoundTripper, address string) error {
	return receivedBy(ctx, via, address, io.Discard, func() {})
}

// receivedBy writes the response, and calls a function before the body is closed.
func receivedBy(
	ctx context.Context, via http.RoundTripper, address string, w io.Writer, read func(),
) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := via.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, response.Body)
	read()
	return errors.Join(err, response.Body.Close())
}

// Clients of clouds decode responses into maps.
func TestCloudMeter_ResponseBecomesLarge_IsEstimated(t *testing.T) {
	const n = 1 << 16
	list := func(element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	var keys strings.Builder
	for i := range n {
		fmt.Fprintf(&keys, `"%x":0,`, i)
	}
	for name, text := range map[string]string{
		"numbers": list("0"), "texts": list(`""`), "nulls": list("null"), "lists": list("[]"),
		"objects": list("{}"), "fields": list(`{"a":0}`), "lists in lists": list("[[0]]"),
		"objects in objects": list(`{"a":{"a":{}}}`),
		"keys":               "{" + strings.TrimSuffix(keys.String(), ",") + "}",
	} {
		t.Run(name, func(t *testing.T) {
			meter := &cloudMeter{
				limits: tenant(Limits{ObjectBytes: 1 << 40, BytesPerSecond: 1 << 40}).cloud,
				next: transport(func(*http.Request) (*http.Response, error) {
					return &http.Response{Body: io.NopCloser(strings.NewReader(text))}, nil
				}),
			}
			response, err := meter.RoundTrip(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var got any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(got)
			used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
			estimated := response.Body.(*cloudBody).read.total()
			t.Logf("received %d, estimated %d, used %d: %.1f times the estimate", len(text),
				estimated, used, float64(used)/float64(estimated))
			if used > 3*estimated {
				t.Errorf("the response becomes %d bytes, and %d are estimated", used, estimated)
			}
		})
	}
}

func TestGuardTransport_HostileCloud_ResponsesAreLimited(t *testing.T) {
	for name, test := range map[string]struct {
		limits  Limits
		handler http.HandlerFunc
		want    string // a part of the error; "" for none
	}{
		"ordinary": {Limits{ObjectBytes: 1 << 20}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"servers":[{"id":"12345678-1234-4234-8234-1e1234567890"}]}`)
		}, ""},
		"without an end": {Limits{ObjectBytes: 2 << 20}, func(
			w http.ResponseWriter, r *http.Request,
		) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
			}
		}, errLargeCloudResponse.Error()},
		"becomes large": {Limits{ObjectBytes: 2 << 20}, func(
			w http.ResponseWriter, _ *http.Request,
		) {
			_, _ = io.WriteString(w, "["+strings.Repeat("{},", 1<<16))
		}, errLargeCloudResponse.Error()},
		"an error that is large": {Limits{ObjectBytes: 2 << 20}, func(
			w http.ResponseWriter, _ *http.Request,
		) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat("x", 3<<20))
		}, errLargeCloudResponse.Error()},
		"compressed": {Limits{ObjectBytes: 2 << 20}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			compressed := gzip.NewWriter(w)
			_, _ = io.WriteString(compressed, strings.Repeat("x", 3<<20))
			_ = compressed.Close()
		}, errLargeCloudResponse.Error()},
		"too much at once": {Limits{BytesPerSecond: 1}, func(
			w http.ResponseWriter, _ *http.Request,
		) {
			_, _ = io.WriteString(w, strings.Repeat("x", 3<<20))
		}, "deadline"},
		"large headers": {Limits{}, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 10_000 {
				w.Header().Set("X-"+strconv.Itoa(i), "1")
			}
		}, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.handler)
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := received(ctx, guarded(t, tenant(test.limits)), server.URL)
			if (err == nil) != (test.want == "") ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// Each page is small, and has another object and a link to the next one.
func TestGuardTransport_PagesWithoutAnEnd_AreLimitedTogether(t *testing.T) {
	page := strings.Repeat("x", 100_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, page)
	}))
	defer server.Close()
	const limit = 1_000_000
	for name, test := range map[string]struct {
		ctx  context.Context
		want int
	}{
		"pages of a list": {pagedlist.Begin(t.Context()), pagesFactor * limit / len(page)},
		"other responses": {t.Context(), 3 * pagesFactor * limit / len(page)},
	} {
		t.Run(name, func(t *testing.T) {
			limited := guarded(t, tenant(Limits{ObjectBytes: limit}))
			n := 0
			for n < 3*pagesFactor*limit/len(page) {
				if err := received(test.ctx, limited, server.URL); err != nil {
					if !errors.Is(err, errLargeCloudResponse) {
						t.Fatal(err)
					}
					break
				}
				n++
			}
			if n != test.want {
				t.Errorf("%d responses were read, want %d", n, test.want)
			}
		})
	}
}

// The owner of a cluster decides how many regions its cloud has. Each has its own transport.
func TestGuardTransport_SeveralTransportsOfACluster_ShareItsRate(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", freeCloudResponse+readChunk-1000))
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := tenant(Limits{BytesPerSecond: 1}) // a burst of readChunk
	first, second := guarded(t, c), guarded(t, c)
	if err := received(ctx, first, server.URL); err != nil {
		t.Errorf("a response within the burst: %v", err)
	}
	if err := received(ctx, second, server.URL); err == nil ||
		!strings.Contains(err.Error(), "deadline") {
		t.Errorf("the same by another transport: %v, want a wait beyond the deadline", err)
	}
	if err := received(ctx, guarded(t, tenant(Limits{BytesPerSecond: 1})), server.URL); err != nil {
		t.Errorf("the same of another cluster: %v", err)
	}
}

// counter counts the bytes that are written to it.
type counter struct{ atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

func TestGuardTransport_LargeResponses_WaitUntilOthersAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		clusters   int
		size, free int64
		most       int
	}{
		"of several clusters":    {3, largeResponse + 1<<20, largeResponse, 2},
		"of one cluster's cloud": {1, freeCloudResponse + 1<<20, freeCloudResponse, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write(make([]byte, test.size))
				}))
			defer server.Close()
			replica := &places{free: make(chan struct{}, 2), keep: time.Hour}
			var clusters []*Cluster
			for range test.clusters {
				clusters = append(clusters, tenantIn(replica, DefaultParams().Limits))
			}
			decoded, decode := context.WithCancel(t.Context())
			var (
				arrived [3]counter
				reads   sync.WaitGroup
			)
			defer reads.Wait()
			defer decode()
			for i := range arrived {
				via := guarded(t, clusters[i%len(clusters)])
				reads.Go(func() {
					if err := receivedBy(t.Context(), via, server.URL, &arrived[i], func() {
						<-decoded.Done()
					}); err != nil {
						t.Error(err)
					}
				})
			}
			// state returns how many responses are complete, and how many of the others wait.
			state := func() (complete, waiting int) {
				for i := range arrived {
					switch n := arrived[i].Load(); {
					case n == test.size:
						complete++
					case n > test.free-readChunk && n <= test.free:
						waiting++
					}
				}
				return complete, waiting
			}
			waittest.Until(t, "those with a place have arrived, the others wait", func() error {
				complete, waiting := state()
				if complete != test.most || waiting != len(arrived)-test.most {
					return fmt.Errorf("%d have arrived, want %d, and %d wait", complete, test.most,
						waiting)
				}
				return nil
			})
			decode()
			reads.Wait()
			if complete, _ := state(); complete != len(arrived) {
				t.Errorf("%d responses are complete at the end", complete)
			}
			if n := len(replica.free); n != 0 {
				t.Errorf("%d places are taken by no response", n)
			}
		})
	}
}
