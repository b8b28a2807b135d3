package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A login runs on a goroutine of its own, where no caller can catch a panic.
func TestLogin_Panics_WaitingCallersGetAnError(t *testing.T) {
	_, cfg := simulator(t)
	f := open(t, cfg, func(o *Options) {
		o.Transport = func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) { panic("boom") })
		}
	})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, err := f.Compute(within(t))
			wantError(t, cfg, err, "boom")
		})
	}
	all.Wait()
}

func TestReload_Panics_PreviousConfigurationStays(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	_, cfg := simulator(t)
	file := t.TempDir() + "/cloud.conf"
	write(t, file, "one")
	f := open(t, cfg, func(o *Options) {
		o.Clock, o.Files = clock, []string{file}
		o.Reload = func(context.Context) (cloudconf.Config, error) { panic("boom") }
	})
	if err := listServers(within(t), f.Clients); err != nil {
		t.Fatal(err)
	}
	write(t, file, "two")
	advance(t, clock, watchEvery, "it is in the log", func() bool {
		return strings.Contains(f.logs.String(), "boom")
	})
	if err := listServers(within(t), f.Clients); err != nil {
		t.Error(err)
	}
}
