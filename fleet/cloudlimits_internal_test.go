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
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxccm/fxccm/internal/pagedlist"
)

// tenant is a cluster that is not trusted.
func tenant(limits Limits) *Cluster {
	limits.setDefaults(DefaultParams().Limits)
	return &Cluster{Name: "c", rules: &AccessRules{}, cloud: newCloudLimits(limits)}
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := via.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
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
			body := cloudBody{
				ReadCloser: io.NopCloser(strings.NewReader(text)), ctx: t.Context(),
				limits: tenant(Limits{ObjectBytes: 1 << 40, BytesPerSecond: 1 << 40}).cloud,
				sizer:  jsonSizer{hasNoQuantities: true},
				list:   new(atomic.Int64), listLimit: 1 << 40,
			}
			if _, err := io.Copy(io.Discard, &body); err != nil {
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
			used, estimated := int64(after.HeapAlloc)-int64(before.HeapAlloc), body.read.total()
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
