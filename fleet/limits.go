package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// Limits protect a replica and its other clusters from one cluster's API server, which may be dead,
// broken or hostile. Go cannot limit the memory or the CPU time of a part of a process, so the
// Limits bound the responses of the API server.
//
// If a cluster exceeds ObjectBytes or Outage, the fleet stops its Manager and releases the Lease.
// [ClusterStatus] has the reason. The replica retries after a pause, which grows from 1 second to 5
// minutes. The Limits apply to the client configuration of the [Cluster], not to one that
// Params.Manager sets.
type Limits struct {
	// ObjectBytes limits the cluster's objects that the replica keeps: the sum of its lists, in
	// bytes of the responses, decompressed, or in bytes of the decoded objects if an estimate of
	// these is greater. It also limits each single response. The objects of a
	// watch count in the next list, which is forced when the watch has received as many bytes. The
	// replica's memory grows by a few times that. Default 64 MiB, which is about 5,000 nodes.
	ObjectBytes int64

	// BytesPerSecond limits how fast responses are read, and so the CPU time of their decoding. A
	// burst may have the bytes of 32 seconds. Connections are read at most four times as fast, so
	// that what becomes no part of a response is limited, too. Default 1 MiB.
	BytesPerSecond int64

	// ReplicaListBytes limits the responses of more than 8 MiB that the replica reads and decodes
	// at the same time, over all clusters, also those of clouds by [Cluster.GuardTransport]. Each
	// counts as ObjectBytes, and the others wait. A response fails if it takes longer than a
	// minute, and longer than BytesPerSecond needs for ObjectBytes. Default 128 MiB.
	ReplicaListBytes int64

	// Outage is how long all requests may fail, without a response or with the status 502 or 503 of
	// a proxy, before the Manager is stopped. After that the replica only probes /version, in
	// growing intervals. Default 2 minutes.
	Outage time.Duration
}

// burstSeconds is for how many seconds a cluster may read ahead of BytesPerSecond, for example when
// its Manager starts.
const burstSeconds = 32

func (l *Limits) setDefaults(to Limits) {
	if l.ObjectBytes == 0 {
		l.ObjectBytes = to.ObjectBytes
	}
	if l.BytesPerSecond == 0 {
		l.BytesPerSecond = to.BytesPerSecond
	}
	if l.ReplicaListBytes == 0 {
		l.ReplicaListBytes = to.ReplicaListBytes
	}
	if l.Outage == 0 {
		l.Outage = to.Outage
	}
}

func (l *Limits) validate(path *field.Path) (all field.ErrorList) {
	const positive = "must be positive"
	if l.ObjectBytes < 0 {
		all = append(all, field.Invalid(path.Child("objectBytes"), l.ObjectBytes, positive))
	}
	if l.BytesPerSecond < 0 {
		all = append(all, field.Invalid(path.Child("bytesPerSecond"), l.BytesPerSecond, positive))
	}
	if l.ReplicaListBytes < 0 {
		all = append(all,
			field.Invalid(path.Child("replicaListBytes"), l.ReplicaListBytes, positive))
	}
	if l.Outage < 0 {
		all = append(all, field.Invalid(path.Child("outage"), l.Outage.String(), positive))
	}
	return all
}

// largeResponse is how many bytes of a response may be read without a place. The lists of a cluster
// of a few hundred nodes are smaller, so they never wait for those of a hostile cluster.
const largeResponse = 8 << 20

// places are the places for large responses that the replica reads and decodes.
type places struct {
	free chan struct{}
	// keep is how long a response may keep its place.
	keep time.Duration
}

func newPlaces(limits Limits) *places {
	return &places{
		free: make(chan struct{}, max(1, limits.ReplicaListBytes/limits.ObjectBytes)),
		keep: max(time.Minute,
			time.Duration(limits.ObjectBytes/limits.BytesPerSecond)*time.Second),
	}
}

var errSlowResponse = errors.New("a large response has taken too long, and others wait")

// A place is the place of one response. It is safe for concurrent use.
type place struct {
	of *places

	mu sync.Mutex
	// isKept is true if the place is kept after the last byte, until the response is decoded.
	isKept bool
	// timer is nil while the response has no place. expired is set when its time is over.
	timer   *time.Timer
	expired bool
}

// take waits for a place. It does nothing if the response has one.
func (p *place) take(ctx context.Context) error {
	p.mu.Lock()
	has, expired := p.timer != nil, p.expired
	p.mu.Unlock()
	switch {
	case expired:
		return errSlowResponse
	case has:
		return nil
	}
	select {
	case p.of.free <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.of.keep, func() {
		p.mu.Lock()
		p.expired = true
		p.mu.Unlock()
		p.end()
	})
	return nil
}

// read is called after the last byte that is read. isWhole reports whether the response is
// complete.
func (p *place) read(isWhole bool) {
	p.mu.Lock()
	isKept := isWhole && p.isKept
	p.mu.Unlock()
	if !isKept {
		p.end()
	}
}

// end releases the place, if the response has one.
func (p *place) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isKept = false
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
		<-p.of.free
	}
}

// leasePath is a part of the path of a Lease, which is in the cluster with [LockWorkload].
const leasePath = "/apis/coordination.k8s.io/"

// readChunk limits one read, so that the rate is kept in small steps.
const readChunk = 64 << 10

// outageRequests is how many requests must fail before an outage is assumed.
const outageRequests = 3

// An outageError is why the Manager of a cluster was stopped whose API server is dead.
type outageError struct {
	since time.Time
	last  error
}

func (e *outageError) Error() string {
	return fmt.Sprintf("the API server has not answered since %s: %v",
		e.since.UTC().Format(time.RFC3339), e.last)
}

func (e *outageError) Unwrap() error { return e.last }

var errRelist = errors.New("the watch exceeds fleet.Limits.ObjectBytes: the next list counts " +
	"the objects")

const slowedReason = "the API server sends more than fleet.Limits.BytesPerSecond; " +
	"its responses are read slowly"

// A meter passes the requests of a cluster's clients on and keeps its limits. It is safe for
// concurrent use.
type meter struct {
	next   http.RoundTripper
	limits Limits
	rate   *rate.Limiter
	places *places
	access *access
	// prefix is the path of the API server's address.
	prefix string
	// exceeded is called with a limit that is exceeded.
	exceeded func(error)

	mu sync.Mutex
	// collections are those that are listed or watched, by path and selectors.
	collections map[string]*collection
	// failures counts the requests without an answer. failingSince is the time of the first one.
	failures     int
	failingSince time.Time
	slowedAt     time.Time
}

// A collection is a kind of objects that clients keep, such as all nodes.
type collection struct {
	// list has the bytes of the last list, which may still be read.
	list *int64
	// watched has the bytes of watches since the list began.
	watched int64
	// mustList refuses watches until the next list.
	mustList bool
	// place is the place of the last list. The client's next request shows that the list is
	// decoded.
	place *place
}

// newMeter wraps the transport of a client configuration.
func newMeter(
	config *rest.Config, limits Limits, places *places, access *access, exceeded func(error),
) *meter {
	m := &meter{
		next: config.Transport, limits: limits, places: places, access: access,
		exceeded: exceeded,
		rate: rate.NewLimiter(rate.Limit(limits.BytesPerSecond),
			int(max(readChunk, burstSeconds*limits.BytesPerSecond))),
		collections: map[string]*collection{},
	}
	access.wire.set(limits.BytesPerSecond)
	if address, err := url.Parse(config.Host); err == nil {
		m.prefix = strings.TrimSuffix(address.Path, "/")
	}
	config.Transport = m
	return m
}

// RoundTrip implements http.RoundTripper.
func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	place := &place{of: m.places}
	count, isWatch, mustList := m.begin(r, place)
	if mustList {
		return gone(r)
	}
	response, err := m.next.RoundTrip(r)
	if err != nil {
		err = boundedError{err}
	}
	switch {
	case err == nil && !isOutage(response.StatusCode):
		m.answered()
	case err == nil:
		m.unanswered(outageStatus(response))
	case !errors.Is(r.Context().Err(), context.Canceled): // else the client has given up
		m.unanswered(err)
		if r.Context().Err() != nil && strings.Contains(r.URL.Path, leasePath) {
			// The connection may be dead, and the Lease must be renewed.
			m.access.reset()
		}
	}
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response, nil
	}
	switch response.StatusCode {
	case http.StatusNoContent, http.StatusResetContent:
		// HTTP/2 of net/http passes a body on nevertheless.
		_ = response.Body.Close()
		response.Body, response.ContentLength = http.NoBody, 0
	}
	boundWarnings(response.Header)
	var size sizer
	if response.StatusCode >= http.StatusBadRequest {
		err = boundError(response)
	} else {
		size, err = sizerOf(r, response, isWatch)
	}
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	response.Body = &meteredBody{
		ReadCloser: response.Body, meter: m, request: r, count: count,
		isWatch: isWatch, place: place, sizer: size,
	}
	return response, nil
}

// isOutage reports whether a proxy sends this status when its API server does not answer.
func isOutage(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable
}

// begin returns the counter of the response's bytes.
func (m *meter) begin(
	r *http.Request, place *place,
) (count func(int64) error, isWatch, mustList bool) {
	single := new(int64)
	count = func(n int64) error {
		*single += n
		return m.check(*single)
	}
	parts := resourceOf(strings.TrimPrefix(r.URL.Path, m.prefix))
	if r.Method != http.MethodGet || !isCollection(parts) {
		if len(parts) == 0 {
			return count, false, false
		}
		return func(n int64) error {
			*single += n
			return m.checkObject(*single)
		}, false, false
	}
	query := r.URL.Query()
	isWatch = query.Get("watch") == "true" || query.Get("watch") == "1"
	key := r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.collections[key]
	if c == nil {
		// Only informers and pagers set one of these. Clients do not keep other lists.
		if !isWatch && query.Get("resourceVersion")+query.Get("limit")+query.Get("continue") == "" {
			return count, false, false
		}
		c = &collection{list: single}
		m.collections[key] = c
	}
	if c.place != nil {
		c.place.end()
	}
	place.isKept, c.place = !isWatch, place
	switch {
	case isWatch && c.mustList:
		return nil, true, true
	case isWatch:
		return func(n int64) error { return m.countWatch(c, n) }, true, false
	case query.Get("continue") == "":
		*c = collection{list: single, place: place}
	}
	list := c.list // a later list does not count in this one
	return func(n int64) error { return m.countList(list, n) }, false, false
}

func (m *meter) countList(list *int64, n int64) error {
	m.mu.Lock()
	*list += n
	total, isCurrent := int64(0), false
	for _, c := range m.collections {
		total += *c.list
		isCurrent = isCurrent || c.list == list
	}
	if !isCurrent {
		total = *list
	}
	m.mu.Unlock()
	return m.check(total)
}

func (m *meter) countWatch(c *collection, n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.watched += n
	if c.watched <= m.limits.ObjectBytes {
		return nil
	}
	c.mustList = true
	return errRelist
}

func (m *meter) check(bytes int64) error {
	if bytes <= m.limits.ObjectBytes {
		return nil
	}
	err := fmt.Errorf("the cluster's objects have more than %d bytes (fleet.Limits.ObjectBytes)",
		m.limits.ObjectBytes)
	m.exceeded(err)
	return err
}

// largestObject limits one object, or the answer to its write, to several times what etcd stores.
// Clients keep some of them, such as Leases.
const largestObject = 8 << 20

func (m *meter) checkObject(bytes int64) error {
	if bytes <= largestObject {
		return m.check(bytes)
	}
	err := fmt.Errorf("an object of the cluster has more than %d bytes", largestObject)
	m.exceeded(err)
	return err
}

func (m *meter) answered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures = 0
}

func (m *meter) unanswered(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures == 0 {
		m.failingSince = time.Now()
	}
	m.failures++
	if m.failures >= outageRequests && time.Since(m.failingSince) >= m.limits.Outage {
		m.exceeded(&outageError{m.failingSince, err})
	}
}

// slowed reports whether reads have waited for BytesPerSecond within the last minute.
func (m *meter) slowed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.slowedAt) < time.Minute
}

// resourceOf returns the parts of a path below the version of its API, such as "nodes" and a name.
// It is empty for other paths, such as those of discovery.
func resourceOf(path string) []string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		return parts[min(2, len(parts)):]
	case "apis":
		return parts[min(3, len(parts)):]
	}
	return nil
}

// isCollection reports whether the parts of a path are those of a list of objects. Only lists count
// together: clients keep few other objects.
func isCollection(parts []string) bool {
	return len(parts) == 1 || len(parts) == 3 && parts[0] == "namespaces"
}

// gone is the answer that makes a client list again.
func gone(r *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired(errRelist.Error()).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
}

// A meteredBody is the body of a response that counts for the limits.
type meteredBody struct {
	io.ReadCloser
	meter   *meter
	request *http.Request
	count   func(int64) error
	isWatch bool
	place   *place
	// sizer is nil if the response is no object. event is the size of the current event of a watch.
	sizer sizer
	event size
	read  size
	// isWhole is set by Read. A watch may be closed during a Read.
	isWhole atomic.Bool
}

// size is the size of a response: received, and as it is estimated to become when it is decoded.
type size struct{ received, decoded int64 }

func (s *size) add(received int, decoded int64) {
	s.received += int64(received)
	s.decoded += decoded
}

func (s *size) total() int64 { return max(s.received, s.decoded) }

// Read implements io.Reader. The transport has decompressed what it reads.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), readChunk)])
	if n == 0 {
		b.isWhole.Store(err == io.EOF)
		return n, err
	}
	last := b.read.total()
	decoded, isNext := int64(0), false
	if b.sizer != nil {
		decoded, isNext = b.sizer.scan(p[:n])
	}
	b.read.add(n, decoded)
	if b.isWatch {
		// A part in which an event ends counts for both.
		if b.event.add(n, decoded); b.event.total() > largeResponse {
			return 0, errLargeEvent
		}
		if isNext {
			b.event = size{}
		}
	}
	if b.read.total() > largeResponse && !b.isWatch {
		if err := b.place.take(b.request.Context()); err != nil {
			return 0, err
		}
	}
	if b.isWatch {
		b.meter.answered()
	}
	if limit := b.count(b.read.total() - last); limit != nil {
		return 0, limit
	}
	if limit := b.meter.wait(b.request.Context(), n); limit != nil {
		return 0, limit
	}
	b.isWhole.Store(err == io.EOF) // not before: the end may come with bytes beyond a limit
	return n, err
}

// Close implements io.Closer.
func (b *meteredBody) Close() error {
	b.place.read(b.isWhole.Load())
	return b.ReadCloser.Close()
}

// wait waits as long as BytesPerSecond requires.
func (m *meter) wait(ctx context.Context, n int) error {
	if m.rate.AllowN(time.Now(), n) {
		return nil
	}
	m.mu.Lock()
	m.slowedAt = time.Now()
	m.mu.Unlock()
	return m.rate.WaitN(ctx, n)
}
