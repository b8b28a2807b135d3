package controllerruntime_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
	"github.com/fxccm/fxccm/provider/fake"
)

// client-go adds the credentials to each request, also to one that follows a redirect.
func TestHost_APIServerRedirects_NoRequestLeavesIt(t *testing.T) {
	t.Parallel()
	var arrived, answered atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Add(1)
	}))
	defer other.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer api.Close()
	for _, elects := range []bool{true, false} {
		host, err := controllerruntime.New(&rest.Config{Host: api.URL, BearerToken: "token"},
			controllerruntime.Config{
				Options: ctrl.Options{
					LeaderElection: elects, LeaderElectionID: leaseName,
					LeaderElectionNamespace: leaseNamespace,
					RetryPeriod:             ptr.To(50 * time.Millisecond), Logger: testr.New(t),
				},
				Setup: addNodeReconciler,
			})
		if err != nil {
			t.Fatal(err)
		}
		manager, err := ccm.New(host.Params(ccm.Params{
			Config: ccmtest.Config(), Providers: []ccm.Provider{fake.New().CCMProvider()},
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- host.Run(ctx, manager) }()
		// A client that follows redirects has done so before it asks again.
		from := answered.Load()
		for begun := time.Now(); answered.Load() < from+3; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > ccmtest.WaitLimit {
				t.Fatalf("with leader election %t the host sends %d requests", elects,
					answered.Load()-from)
			}
		}
		stop()
		<-ran
	}
	if n := arrived.Load(); n > 0 {
		t.Errorf("%d requests arrived at the other server", n)
	}
}
