package ccm_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// emptyCloud serves nothing.
func emptyCloud(opts ...fake.Option) cloudprovider.Interface {
	none := fake.Without(fake.InstancesV2, fake.Instances, fake.Zones, fake.LoadBalancer, fake.Routes, fake.Clusters)
	return fake.New(append(opts, none, fake.WithProviderName("empty"))...).Provider()
}

// provider wraps a constructor that needs nothing.
func provider(build func() (cloudprovider.Interface, error)) ccm.Provider {
	return ccm.Provider{Name: "stub", New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) { return build() }}
}

// unreachable is an API server that refuses connections: port 1 is reserved and never served here.
func unreachable() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

// standaloneParams describes a Manager that always leads, runs only the named controllers, and talks to no API
// server unless they do.
func standaloneParams(controllers ...string) ccm.Params {
	cfg := ccm.DefaultConfig()
	cfg.LeaderElection.LeaderElect = false
	cfg.Controllers = controllers
	log := logr.Discard()
	return ccm.Params{
		Config:     cfg,
		Providers:  []ccm.Provider{ccm.StaticProvider(emptyCloud())},
		RESTConfig: unreachable(),
		Logger:     &log,
	}
}

// limit is generous: it is reached only when the product hangs.
const limit = 30 * time.Second

// eventually waits until the condition holds, and otherwise tells what was last seen.
func eventually[T any](t *testing.T, see func() T, want func(T) bool, what string) T {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		seen := see()
		if want(seen) {
			return seen
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come about within %s; last seen: %+v", what, limit, seen)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// run runs the Manager until the test ends, or until the returned function is called, which
// returns what Run returned.
func run(t *testing.T, m *ccm.Manager) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	stopped := false
	stop = func() error {
		t.Helper()
		stopped = true
		cancel()
		select {
		case err := <-result:
			return err
		case <-time.After(limit):
			t.Fatalf("Run has not returned %s after its context ended; status: %+v", limit, m.Status())
			return nil
		}
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return stop
}
