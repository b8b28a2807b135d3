//go:build linux

package invariants_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
)

// An apiProxy is between one replica and the API server, and can answer requests itself. It uses
// the replica's identity, so the replica needs none.
type apiProxy struct {
	kubeconfig       string
	treat            atomic.Pointer[treatment]
	arrived, waiting atomic.Int64
}

// heldRequests counts the requests that the proxy has held, and those whose client still waits.
type heldRequests struct{ arrived, waiting int64 }

func (p *apiProxy) held() heldRequests {
	return heldRequests{p.arrived.Load(), p.waiting.Load()}
}

// A treatment decides what happens to a request.
type treatment func(*http.Request) verdict

// verdict is the decision about a request. The zero value lets it pass.
type verdict struct {
	// status, if not 0, is the answer, with header.
	status int
	header http.Header
	// afterEffect sends the request to the API server, but replaces its answer.
	afterEffect bool
	// hold keeps a request from the API server, without an answer, until its client cancels it.
	hold bool
}

func (w *world) startAPIProxy(t *testing.T, name string) *apiProxy {
	t.Helper()
	forward, release, err := netfault.APIHandler(w.identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	p := &apiProxy{}
	p.set(nil)
	proxy, err := netfault.ListenHTTP(
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { p.serve(rw, r, forward) }))
	if err != nil {
		t.Fatal(err)
	}
	closing(t, proxy)
	p.kubeconfig = w.writeKubeconfig(t, name, proxy.RESTConfig())
	return p
}

func closing(t *testing.T, proxy *netfault.Proxy) {
	t.Helper()
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
}

// set changes the treatment of requests from now on; nil lets all pass.
func (p *apiProxy) set(treat treatment) {
	if treat == nil {
		treat = func(*http.Request) verdict { return verdict{} }
	}
	p.treat.Store(&treat)
}

func (p *apiProxy) serve(rw http.ResponseWriter, r *http.Request, forward http.Handler) {
	v := (*p.treat.Load())(r)
	if v.hold {
		p.arrived.Add(1)
		p.waiting.Add(1)
		defer p.waiting.Add(-1)
		// The server sees a cancelation only when it has read the body.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	if v.status == 0 {
		forward.ServeHTTP(rw, r)
		return
	}
	if v.afterEffect {
		forward.ServeHTTP(httptest.NewRecorder(), r)
	}
	for name, values := range v.header {
		rw.Header()[name] = values
	}
	http.Error(rw, "the test answers so", v.status)
}
