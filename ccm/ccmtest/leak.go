package ccmtest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/waittest"
)

// leakLimit is how long ending goroutines may take: upstream's controllers do not wait for their
// workers, which end a moment later.
const leakLimit = time.Minute

// processWide are the functions of goroutines that live for the whole process by design.
func processWide() []goleak.Option {
	return []goleak.Option{
		// It waits for the end of an etcd or a kube-apiserver, which the tests of a package may
		// share.
		goleak.IgnoreAnyFunction(
			"github.com/fxccm/fxccm/internal/childprocess.Begin.func1"),
		// client-go shares one transport among all clients of an identity, for the process, and
		// keeps idle HTTP/2 connections for 90 seconds. A request on such a connection has its own
		// goroutine, doRequest, which is not ignored.
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		// klog flushes its log files with one goroutine for the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	}
}

// VerifyNoLeaks fails the test if goroutines are left. Call it at the end of a test, after the
// program under test has been stopped; [CCM.VerifyNoLeaks] does both. It waits a while for
// goroutines that are ending. It ignores only goroutines that live for the process by design:
//
//   - the readers of HTTP/2 connections, which client-go keeps and shares; not the requests on them
//   - the one of klog that flushes logs
//   - those that wait for the processes of package controlplane.
//
// Options ignore others, such as goleak.IgnoreCurrent for those that run when it is called.
// It cannot be used with t.Parallel, because a goroutine belongs to no test.
func VerifyNoLeaks(t testing.TB, opts ...goleak.Option) {
	t.Helper()
	verifyNoLeaks(t, nil, opts)
}

// verifyNoLeaks closes the idle connections of clients of cfg, if it is not nil, for servers that
// only support HTTP/1. A connection in use stays open, and the check finds it.
func verifyNoLeaks(t testing.TB, cfg *rest.Config, opts []goleak.Option) {
	t.Helper()
	opts = append(processWide(), opts...)
	ctx, cancel := waittest.Limited(t)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, leakLimit)
	defer cancel()
	for {
		if cfg != nil {
			closeIdleConnections(cfg)
		}
		// Find retries for about half a second.
		err := goleak.Find(opts...)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("goroutines are left: %v", err)
			return
		}
	}
}

// closeIdleConnections closes the idle connections of the transport that all clients of cfg share.
func closeIdleConnections(cfg *rest.Config) {
	// An error means that there were no clients.
	if transport, err := rest.TransportFor(cfg); err == nil {
		utilnet.CloseIdleConnectionsFor(transport)
	}
}
