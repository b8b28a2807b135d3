package controllerruntime

import (
	"errors"
	"fmt"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fxccm/fxccm/ccm"
)

// Transport adds a fence to the HTTP client of a reconciler or another runnable that writes to a
// cloud. m is the manager that Setup got.
//
// As with [ccm.ProviderEnv].Transport, mutating requests are refused after the campaign, also by
// the clock in a process that was frozen. Mutating requests in flight are canceled when leadership
// is lost. The lease is not released while one is in flight. Reads continue until all runnables
// have ended. Before this process leads, all requests are refused. The error of a refused request
// wraps [ccm.ErrTermOver].
//
// It is an error if m is another manager.
func Transport(m ctrl.Manager, next http.RoundTripper) (http.RoundTripper, error) {
	tracked, ok := m.(*trackedManager)
	if !ok {
		return nil, fmt.Errorf("controllerruntime: Transport needs the manager that Setup got, "+
			"and not a %T", m)
	}
	if next == nil {
		return nil, errors.New("controllerruntime: Transport needs a transport to send requests with")
	}
	return &leaderTransport{tracked.lock, tracked.calls.Transport(next)}, nil
}

// leaderTransport refuses requests while this process does not hold the lease. A fence alone would
// close for the rest of the campaign if a request came before leadership.
type leaderTransport struct {
	lock   *strictLock
	fenced http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *leaderTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.lock == nil || t.lock.held.Load() {
		return t.fenced.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, fmt.Errorf("%s %s refused: %w: this process does not hold the lease %s", req.Method,
		req.URL.Path, ccm.ErrTermOver, t.lock.Describe())
}
