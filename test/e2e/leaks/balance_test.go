package leaks

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
)

// balance compares a process at quiet moments, in which no part of the CCM runs.
type balance struct {
	t       *testing.T
	before  goleak.Option
	cloud   *cloud
	tunnels []*netfault.Proxy
	// transports keep the idle connections of client-go for 90 seconds, for later clients.
	// client-go shares a transport only while it is referenced.
	transports []http.RoundTripper
	heap       []uint64
}

// newBalance records the current goroutines. tunnels lead to API servers.
func newBalance(
	t *testing.T, c *cloud, configs []*rest.Config, tunnels ...*netfault.Proxy,
) *balance {
	t.Helper()
	b := &balance{t: t, before: goleak.IgnoreCurrent(), cloud: c, tunnels: tunnels}
	for _, cfg := range configs {
		transport, err := rest.TransportFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.transports = append(b.transports, transport)
	}
	return b
}

// check fails the test if something has leaked. One connection to an API server is allowed:
// client-go shares it among all clients of an identity, and closes it when it has been idle for 90
// seconds. The test closes it here, which shows that it is idle; after that, no goroutine may be
// left.
func (b *balance) check(when string, connections int) {
	b.t.Helper()
	settle(b.t, when+": connections to the cloud are closed",
		func() error { return atMost(0, b.cloud.wire.Connections()) })
	if opened, closed := b.cloud.opened.Load(), b.cloud.closed.Load(); opened != closed {
		b.t.Errorf("%s: %d providers were built, %d closed", when, opened, closed)
	}
	settle(b.t, when+": connections to the API server are shared",
		func() error { return atMost(connections, b.connections()) })
	settle(b.t, when+": connections to the API server are idle", func() error {
		b.closeIdle()
		return atMost(0, b.connections())
	})
	ccmtest.VerifyNoLeaks(b.t, b.before)
}

func (b *balance) connections() (n int) {
	for _, u := range b.tunnels {
		n += u.Connections()
	}
	return n
}

func (b *balance) closeIdle() {
	for _, transport := range b.transports {
		utilnet.CloseIdleConnectionsFor(transport)
	}
}

// weigh adds the size of the heap to the record.
func (b *balance) weigh() { b.heap = append(b.heap, heapInUse()) }

// checkHeap fails the test if the recorded heap grows too much. term is the memory of a leading
// term.
func (b *balance) checkHeap(term uint64) {
	b.t.Helper()
	b.t.Logf("heap at quiet moments, in KiB: %v; a term holds %d KiB", kibibytes(b.heap), term>>10)
	settle(b.t, "the heap has not grown", func() error {
		return grown(append(slices.Clip(b.heap), heapInUse()), term)
	})
}

// grown compares the end of a record with its beginning. The heap is never quite the same: caches
// fill slowly, and net/http2 keeps the buffers of a closed connection for half a minute, which may
// be longer than the whole test. So the lower of two measurements counts, and the whole may grow by
// a term. In a record of twenty rounds, that detects a leak of a sixteenth of a term in each, such
// as a client or an event handler with its references.
func grown(heap []uint64, term uint64) error {
	n := len(heap)
	if n < 4 {
		return fmt.Errorf("the heap was weighed %d times, which is too few", n)
	}
	first, last := min(heap[0], heap[1]), min(heap[n-2], heap[n-1])
	if last > first+term {
		return fmt.Errorf(
			"the heap has grown from %d to %d KiB, by more than a term of %d KiB: %v",
			first>>10, last>>10, term>>10, kibibytes(heap))
	}
	return nil
}

func TestGrown_DistinguishesALeakFromNoise(t *testing.T) {
	const term = 4 << 20
	noisy, leaking := []uint64{}, []uint64{}
	for i := range uint64(20) {
		noisy = append(noisy, 10<<20+(i%3)<<20)
		leaking = append(leaking, 10<<20+i*term/16)
	}
	if err := grown(noisy, term); err != nil {
		t.Errorf("noise was taken for a leak: %v", err)
	}
	if grown(leaking, term) == nil {
		t.Error("a leak of a sixteenth of a term in each round was not noticed")
	}
}

func kibibytes(sizes []uint64) []uint64 {
	sizes = slices.Clone(sizes)
	for i := range sizes {
		sizes[i] >>= 10
	}
	return sizes
}

// heapInUse collects garbage twice, because cleanups and pools release memory only at the first
// collection.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func atMost(want, got int) error {
	if got > want {
		return fmt.Errorf("%d are open, want %d at most", got, want)
	}
	return nil
}

// settle waits for effects that follow the end of a term within moments, and reports missing ones.
func settle(t *testing.T, what string, cond func() error) {
	t.Helper()
	ctx, cancel := waittest.Limited(t)
	defer cancel()
	if err := waittest.Poll(ctx, cond); err != nil {
		t.Errorf("%s: failed: %v", what, err)
	}
}
