package fleet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

const testLimit = 100_000

// metered is a meter in front of a server that sends as many bytes as the request names.
type metered struct {
	t *testing.T
	*meter
	url      string
	exceeded []error
}

func newMetered(t *testing.T, limits Limits, handler http.HandlerFunc) *metered {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	access, config, err := newAccess(&rest.Config{Host: server.URL + "/prefix"})
	if err != nil {
		t.Fatal(err)
	}
	m := &metered{t: t, url: config.Host}
	limits.setDefaults(DefaultParams().Limits)
	m.meter = newMeter(config, limits, newPlaces(limits), access, func(err error) {
		m.exceeded = append(m.exceeded, err)
	})
	return m
}

// get reads a response, and returns its status and the error of its body.
func (m *metered) get(path string) (status int, err error) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.url+path, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	response, err := m.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// sends answers with as many bytes as the query parameter "timeoutSeconds" says, which no limit
// depends on.
func sends(w http.ResponseWriter, r *http.Request) {
	size := 0
	_, _ = fmt.Sscan(r.URL.Query().Get("timeoutSeconds"), &size)
	_, _ = w.Write(bytes.Repeat([]byte("x"), size))
}

func TestMeter_ObjectsOfACluster_AreLimitedByTheirBytes(t *testing.T) {
	const (
		nodes    = "/api/v1/nodes?resourceVersion=0&timeoutSeconds="
		services = "/api/v1/services?resourceVersion=0&timeoutSeconds="
		others   = "/apis/discovery.k8s.io/v1/namespaces/x/endpointslices?limit=500&timeoutSeconds="
		page     = "/api/v1/nodes?continue=more&timeoutSeconds="
		node     = "/api/v1/nodes/a?resourceVersion=0&timeoutSeconds="
		direct   = "/api/v1/pods?timeoutSeconds="
	)
	for name, test := range map[string]struct {
		paths []string
		// within is how many requests are within the limit. The next one is not.
		within int
	}{
		"one response":      {[]string{direct + "100001"}, 0},
		"one object":        {[]string{node + "90000", node + "90000", node + "100001"}, 2},
		"several kinds":     {[]string{nodes + "50000", services + "40000", others + "20000"}, 2},
		"pages of a list":   {[]string{nodes + "50000", page + "40000", page + "20000"}, 2},
		"lists replace":     {[]string{nodes + "90000", nodes + "90000", page + "20000"}, 2},
		"lists of a caller": {[]string{direct + "90000", direct + "90000", nodes + "100001"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t, Limits{ObjectBytes: testLimit}, sends)
			for i, path := range test.paths {
				_, err := m.get(path)
				if tooMuch := i == test.within; tooMuch != (err != nil) ||
					tooMuch != (len(m.exceeded) == 1) {
					t.Errorf("request %d, %s: error %v, exceeded %v", i, path, err, m.exceeded)
				}
			}
		})
	}
}

// Clients keep some objects, such as a Lease and a ConfigMap, that count in no list.
func TestMeter_OneObjectIsLargerThanAnyOfEtcd_ExceedsItsOwnLimit(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	limits := Limits{ObjectBytes: 64 << 20, BytesPerSecond: 1 << 30}
	for name, test := range map[string]struct {
		method, path string
		exceeds      bool
	}{
		"an object":      {http.MethodGet, lease + "/a", true},
		"its creation":   {http.MethodPost, lease, true},
		"its update":     {http.MethodPut, lease + "/a", true},
		"of the cluster": {http.MethodGet, "/api/v1/namespaces/kube-system", true},
		"a list":         {http.MethodGet, lease, false},
		"discovery":      {http.MethodGet, "/apis", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t, limits, sends)
			for size, exceeds := range map[int]bool{1 << 20: false, 9 << 20: test.exceeds} {
				address := fmt.Sprint(m.url, test.path, "?timeoutSeconds=", size)
				request, err := http.NewRequestWithContext(t.Context(), test.method, address, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := m.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if exceeds != (err != nil) {
					t.Errorf("%d bytes: error %v", size, err)
				}
			}
			if test.exceeds != (len(m.exceeded) == 1) {
				t.Errorf("exceeded: %v", m.exceeded)
			}
		})
	}
}

func TestMeter_CompressedResponse_CountsDecompressed(t *testing.T) {
	m := newMetered(t, Limits{ObjectBytes: testLimit},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			defer zip.Close()
			for range 1000 { // it compresses to less than the limit
				if _, err := zip.Write(make([]byte, 10_000)); err != nil {
					return
				}
			}
		})
	if _, err := m.get("/api/v1/nodes?limit=1"); err == nil || len(m.exceeded) != 1 {
		t.Errorf("error %v, exceeded %v", err, m.exceeded)
	}
}

func TestMeter_WatchReceivesMoreThanTheLimit_ClientMustList(t *testing.T) {
	m := newMetered(t, Limits{ObjectBytes: testLimit}, sends)
	const watch = "/api/v1/nodes?watch=true&timeoutSeconds="
	steps := []struct {
		path   string
		status int
		ends   bool
	}{
		{watch + "60000", http.StatusOK, false},
		{watch + "60000", http.StatusOK, true},
		{watch + "1", http.StatusGone, false},
		{"/api/v1/services?watch=true&timeoutSeconds=1", http.StatusOK, false},
		{"/api/v1/nodes?resourceVersion=7&timeoutSeconds=50000", http.StatusOK, false},
		{watch + "60000", http.StatusOK, false},
	}
	for i, step := range steps {
		status, err := m.get(step.path)
		if status != step.status || step.ends != errors.Is(err, errRelist) {
			t.Errorf("step %d, %s: status %d, error %v", i, step.path, status, err)
		}
	}
	if len(m.exceeded) > 0 {
		t.Errorf("a watch stopped the Manager: %v", m.exceeded)
	}
}

func TestMeter_FastServer_IsReadSlowly(t *testing.T) {
	limits := Limits{BytesPerSecond: 4 << 10} // a burst of 128 KiB
	m := newMetered(t, limits, sends)
	if _, err := m.get("/api/v1/nodes?timeoutSeconds=65536"); err != nil || m.slowed() {
		t.Fatalf("within the burst: error %v, slowed %t", err, m.slowed())
	}
	begun := time.Now()
	if _, err := m.get("/api/v1/nodes?timeoutSeconds=67584"); err != nil || !m.slowed() {
		t.Errorf("beyond the burst: error %v, slowed %t", err, m.slowed())
	}
	if took := time.Since(begun); took < 100*time.Millisecond { // 2 KiB at 4 KiB a second
		t.Errorf("it took %s", took)
	}
}

func TestMeter_RequestsFail_OutageIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		statuses []int
		outage   bool
	}{
		"a proxy without its server": {[]int{502, 503, 502}, true},
		"an answer between":          {[]int{502, 503, 404, 502}, false},
		"errors of the server":       {[]int{500, 429, 504, 500}, false},
	} {
		t.Run(name, func(t *testing.T) {
			statuses := test.statuses
			m := newMetered(t, Limits{Outage: time.Nanosecond},
				func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(statuses[0])
					statuses = statuses[1:]
				})
			for range test.statuses {
				if _, err := m.get("/api/v1/nodes"); err != nil {
					t.Fatal(err)
				}
			}
			if outage := len(m.exceeded) > 0; outage != test.outage {
				t.Errorf("exceeded: %v, want outage %t", m.exceeded, test.outage)
			}
			if test.outage && !strings.Contains(m.exceeded[0].Error(), "502 Bad Gateway") {
				t.Errorf("the reason is %v", m.exceeded[0])
			}
		})
	}
}

// An attacker writes the reason of a status, the names in a certificate and an error's text.
func TestMeter_OutageWithTextOfTheServer_ReasonIsShortAndPrintable(t *testing.T) {
	const secret = "text-of-the-server"
	status := "502 " + secret + strings.Repeat("\x1b[31m", 10_000)
	m := newMetered(t, Limits{Outage: time.Nanosecond},
		func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
		})
	for range 3 {
		if _, err := m.get("/api/v1/nodes"); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.exceeded) == 0 || strings.Contains(m.exceeded[0].Error(), secret) {
		t.Errorf("the outage is %.300v", m.exceeded)
	}
	status = "bad" + strings.Repeat("\x1b[31m", 10_000)
	_, err := m.get("/api/v1/nodes")
	if err == nil || len(err.Error()) > maxErrorText+10 ||
		strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("the error is %.3000v", err)
	}
}

// HTTP/2 of net/http passes on the body of a response whose status allows none.
func TestMeter_StatusWithoutBody_HasNone(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusResetContent} {
		m := newMetered(t, Limits{}, nil)
		body := &closedBody{Reader: strings.NewReader(`{"items":[{},{}]}`)}
		m.next = transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, ContentLength: -1, Body: body,
				Header: http.Header{"Content-Type": {jsonType}},
			}, nil
		})
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet,
			m.url+"/api/v1/nodes", nil)
		response, err := m.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if len(got) > 0 || err != nil || response.ContentLength != 0 || !body.closed {
			t.Errorf("status %d: body %q, %v, length %d, closed %t", status, got, err,
				response.ContentLength, body.closed)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

type closedBody struct {
	io.Reader
	closed bool
}

func (b *closedBody) Close() error {
	b.closed = true
	return nil
}

// The API server sends an event of a watch while it answers no requests.
func TestMeter_WatchReceivesAnEvent_IsNoOutage(t *testing.T) {
	event := make(chan struct{})
	m := newMetered(t, Limits{Outage: time.Nanosecond},
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-event
			_, _ = w.Write([]byte("x"))
		})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		m.url+"/api/v1/nodes?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := m.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	fail := func(times int) {
		for range times {
			if _, err := m.get("/api/v1/nodes"); err != nil {
				t.Fatal(err)
			}
		}
	}
	fail(outageRequests - 1)
	close(event)
	if _, err := watch.Body.Read(make([]byte, 1)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	fail(outageRequests - 1)
	if len(m.exceeded) > 0 {
		t.Errorf("exceeded: %v, want no outage", m.exceeded)
	}
	fail(1)
	if len(m.exceeded) == 0 {
		t.Error("an outage without events is not reported")
	}
}

func TestPlaces_AllAreTaken_TheNextResponseWaitsForOneOrForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := newPlaces(Limits{ObjectBytes: 2, BytesPerSecond: 1, ReplicaListBytes: 2})
		first, second, third := &place{of: of}, &place{of: of}, &place{of: of}
		if err := first.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := make(chan error, 1)
		go func() { took <- second.take(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-took:
			t.Fatalf("a second response has a place: %v", err)
		default:
		}
		first.end()
		if err := <-took; err != nil {
			t.Errorf("the place that was given back: %v", err)
		}
		if err := third.take(t.Context()); err != nil { // when the time of the second is over
			t.Errorf("the place of a slow response: %v", err)
		}
		if err := second.take(t.Context()); !errors.Is(err, errSlowResponse) {
			t.Errorf("a slow response continues: %v", err)
		}
		first.end()
		third.end()
		third.end()
		if n := len(of.free); n != 0 {
			t.Errorf("%d places are taken by no response", n)
		}
	})
}

func TestMeter_LargeList_HasAPlaceUntilItIsDecoded(t *testing.T) {
	const (
		nodes = "/api/v1/nodes?resourceVersion=0&timeoutSeconds="
		watch = "/api/v1/nodes?watch=true&timeoutSeconds=1"
		large = "9000000"
	)
	m := newMetered(t, Limits{ObjectBytes: 10_000_000, BytesPerSecond: 1 << 30}, sends)
	for i, step := range []struct {
		path  string
		taken int
	}{
		{nodes + "8000000", 0},
		{nodes + large, 1},
		{"/api/v1/nodes/a?timeoutSeconds=" + large, 1}, // it gives its own back at once
		{watch, 0},
		{nodes + large, 1},
		{"/api/v1/nodes?continue=x&timeoutSeconds=1", 0}, // the first page is decoded
		{nodes + "10000001", 0},                          // it exceeds the limit
	} {
		_, _ = m.get(step.path)
		if taken := len(m.places.free); taken != step.taken {
			t.Errorf("after request %d, %s, %d places are taken, want %d", i, step.path, taken,
				step.taken)
		}
	}
}
