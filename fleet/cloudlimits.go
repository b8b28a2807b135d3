package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/fxccm/fxccm/internal/pagedlist"
)

const (
	// untypedFactor is how much larger a part of a JSON text becomes if it is decoded into maps, as
	// clients of clouds do, than the estimate for the types of Kubernetes.
	untypedFactor = 2
	// freeCloudResponse is how many bytes of a response, or of the pages of a list, may be read
	// without a wait. Few responses of a cloud but long lists are larger.
	freeCloudResponse = 1 << 20
	// pagesFactor is how many times Limits.ObjectBytes the pages of a list may have. A project may
	// have the servers of many clusters, and clients keep little of each.
	pagesFactor = 2
	// cloudRate is how many times Limits.BytesPerSecond the estimate of larger responses may grow.
	// Most of the estimate is memory, which takes less CPU time than the decoding of objects.
	cloudRate = 8
	// maxHeaderBytes limits the header of a response, as for an API server.
	maxHeaderBytes = 64 << 10
)

var errLargeCloudResponse = errors.New("a response of the cloud, or the pages of a list, " +
	"exceed fleet.Limits.ObjectBytes")

// cloudLimits limit the responses of the services whose addresses the owner of a cluster names. All
// transports of the cluster share them, because the owner also decides how many there are: a region
// has its own. They are safe for concurrent use.
type cloudLimits struct {
	objectBytes int64
	rate        *rate.Limiter
	wire        wireLimit
	// turn is the place for the one response of more than freeCloudResponse that the cluster may
	// have at a time. So the cluster has at most one of the replica's places, which a response of
	// more than largeResponse needs.
	turn, places *places
}

// newCloudLimits returns the limits of a cluster's cloud in a replica with these places.
func newCloudLimits(limits Limits, replica *places) *cloudLimits {
	l := &cloudLimits{
		objectBytes: limits.ObjectBytes,
		rate: rate.NewLimiter(rate.Limit(cloudRate*limits.BytesPerSecond),
			int(max(readChunk, burstSeconds*limits.BytesPerSecond))),
		turn:   &places{free: make(chan struct{}, 1), keep: replica.keep},
		places: replica,
	}
	l.wire.set(cloudRate * limits.BytesPerSecond)
	return l
}

// guard limits a transport's headers and connections, and returns one that limits the bodies, too.
func (l *cloudLimits) guard(t *http.Transport) http.RoundTripper {
	t.MaxResponseHeaderBytes = maxHeaderBytes
	t.DialContext = l.wire.dial(t.DialContext)
	return &cloudMeter{next: t, limits: l}
}

// A cloudMeter limits the responses of one transport. It is safe for concurrent use.
type cloudMeter struct {
	next   http.RoundTripper
	limits *cloudLimits
}

// RoundTrip implements http.RoundTripper.
func (m *cloudMeter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	list, listLimit := pagedlist.Of(r.Context()), pagesFactor*m.limits.objectBytes
	if list == nil {
		list, listLimit = new(atomic.Int64), m.limits.objectBytes
	}
	response.Body = &cloudBody{
		ReadCloser: response.Body, limits: m.limits, ctx: r.Context(), list: list,
		listLimit: listLimit, sizer: jsonSizer{hasNoQuantities: true},
		turn: place{of: m.limits.turn}, place: place{of: m.limits.places},
	}
	return response, nil
}

// WrappedRoundTripper lets clients close idle connections.
func (m *cloudMeter) WrappedRoundTripper() http.RoundTripper { return m.next }

// A cloudBody is the body of a response that counts for the limits. Its estimate is for JSON; a
// text of another form, which no client decodes, counts for at least its bytes.
type cloudBody struct {
	io.ReadCloser
	limits *cloudLimits
	ctx    context.Context
	sizer  jsonSizer
	read   size
	// list has the size of all pages of the list, or of the response alone.
	list      *atomic.Int64
	listLimit int64
	// turn and place end when the body is closed. Its client may decode it before.
	turn, place place
}

// Read implements io.Reader. The transport has decompressed what it reads.
func (b *cloudBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), readChunk)])
	last := b.read.total()
	decoded, _ := b.sizer.scan(p[:n])
	b.read.add(n, untypedFactor*decoded)
	grown := b.read.total() - last
	total := b.list.Add(grown)
	if b.read.total() > b.limits.objectBytes || total > b.listLimit {
		return 0, errLargeCloudResponse
	}
	if b.read.total() > freeCloudResponse {
		if limit := b.turn.take(b.ctx); limit != nil {
			return 0, limit
		}
	}
	if b.read.total() > largeResponse {
		if limit := b.place.take(b.ctx); limit != nil {
			return 0, limit
		}
	}
	// A wait for more than the burst would never end.
	for rest := min(grown, total-freeCloudResponse); rest > 0; {
		part := min(int(rest), b.limits.rate.Burst())
		rest -= int64(part)
		if limit := b.limits.rate.WaitN(b.ctx, part); limit != nil {
			return 0, limit
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *cloudBody) Close() error {
	b.place.end()
	b.turn.end()
	return b.ReadCloser.Close()
}
