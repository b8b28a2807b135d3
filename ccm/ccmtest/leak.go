package ccmtest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// leakLimit is how long goroutines that are about to end may take: upstream's workers are not
// awaited by their controllers, and end a moment after them.
const leakLimit = 15 * time.Second

// A LeakOption changes what [VerifyNoLeaks] looks at.
type LeakOption func(*leakCheck)

type leakCheck struct {
	goroutines []goleak.Option
	configs    []*rest.Config
}

// processWide are the functions of goroutines that live for the whole process by design, and are
// shared by all who come after.
func processWide() []goleak.Option {
	return []goleak.Option{
		// Waits for the end of an etcd or a kube-apiserver, which the tests of a package may share.
		goleak.IgnoreAnyFunction(
			"github.com/fxccm/fxccm/internal/childprocess.Begin.func1"),
		// client-go shares one transport among all clients of an identity, for the process, and
		// keeps its idle HTTP/2 connections for a minute and a half. A request on such a connection
		// has a goroutine of its own, doRequest, which is not ignored.
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		// klog flushes its log files with one goroutine for the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	}
}

// Ignoring leaves out goroutines that the host's own code starts for the whole process.
func Ignoring(opts ...goleak.Option) LeakOption {
	return func(c *leakCheck) { c.goroutines = append(c.goroutines, opts...) }
}

// IgnoringCurrent leaves out the goroutines that run now.
func IgnoringCurrent() LeakOption {
	// Taken now, not when the check is made.
	return Ignoring(goleak.IgnoreCurrent())
}

// closing closes the idle connections of clients of the configuration, for servers that speak
// HTTP/1 only. A connection in use stays open, and is found.
func closing(cfg *rest.Config) LeakOption {
	return func(c *leakCheck) { c.configs = append(c.configs, cfg) }
}

// VerifyNoLeaks fails the test if goroutines are left. It is to be called at the end of a test,
// when what was tested has been stopped; [CCM.VerifyNoLeaks] does both. It waits a while for
// goroutines that are about to end. Ignored are only those that live for the process by design:
//
//   - the readers of HTTP/2 connections, which client-go keeps and shares; not the requests on them
//   - the one of klog that flushes logs
//   - those that wait for the processes of package controlplane.
//
// Goroutines belong to no test, so it does not go with t.Parallel.
func VerifyNoLeaks(t testing.TB, opts ...LeakOption) {
	t.Helper()
	check := leakCheck{goroutines: processWide()}
	for _, opt := range opts {
		opt(&check)
	}
	ctx, cancel := limited(t)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, leakLimit)
	defer cancel()
	for {
		for _, cfg := range check.configs {
			closeIdleConnections(cfg)
		}
		// It tries for about half a second.
		err := goleak.Find(check.goroutines...)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("goroutines are left: %v", err)
			return
		}
	}
}

// closeIdleConnections finds the transport that all clients of cfg share.
func closeIdleConnections(cfg *rest.Config) {
	// An error means that there were no clients.
	if transport, err := rest.TransportFor(cfg); err == nil {
		utilnet.CloseIdleConnectionsFor(transport)
	}
}
