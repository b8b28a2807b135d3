package ccm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

func init() {
	// One handler pauses after each error, by a clock that all bubbles of synctest share.
	utilruntime.ErrorHandlers = nil
}

// emptyCloud is a cloud without interfaces.
func emptyCloud(opts ...fake.Option) cloudprovider.Interface {
	none := fake.Without("InstancesV2", "Instances", "Zones", "LoadBalancer",
		"Routes", "Clusters")
	return fake.New(append(opts, none, fake.WithProviderName("empty"))...).Provider()
}

// provider returns a provider whose New calls build.
func provider(build func() (cloudprovider.Interface, error)) ccm.Provider {
	return ccm.Provider{
		Name: "stub",
		New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface,
			error,
		) {
			return build()
		},
	}
}

// unreachable is an API server that refuses connections, because port 1 is reserved.
func unreachable() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

// standaloneParams describes a Manager that always leads and runs only the named controllers. It
// sends no requests of its own to an API server.
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

// runWarnings are the warnings of a Manager without those that [standaloneParams] always causes.
func runWarnings(s status.Manager) []string {
	return slices.DeleteFunc(slices.Clone(s.Warnings), func(warning string) bool {
		return strings.HasPrefix(warning, "metrics are not registered") ||
			strings.HasPrefix(warning, "leader election is off")
	})
}

// limit is generous: only a Manager that hangs exceeds it.
const limit = waittest.Limit

// eventually waits until the condition holds. A failure shows the last value.
func eventually[T any](
	t *testing.T, see func() T, want func(T) bool, what string,
) (seen T) {
	t.Helper()
	waittest.Until(t, "the test sees: "+what, func() error {
		if seen = see(); !want(seen) {
			return fmt.Errorf("%+v", seen)
		}
		return nil
	})
	return seen
}

// newManager returns a stopped Manager.
func newManager(t *testing.T, p ccm.Params) *ccm.Manager {
	t.Helper()
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// start runs a Manager until the test ends or calls stop, which returns the result of Run.
func start(t *testing.T, p ccm.Params) (m *ccm.Manager, stop func() error) {
	t.Helper()
	m = newManager(t, p)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = m.Run(ctx) }()
	stop = func() error {
		t.Helper()
		cancel()
		select {
		case <-m.Done():
			return m.Err()
		case <-time.After(limit):
			t.Fatalf("Run did not return within %s after its context ended; status: %+v", limit,
				m.Status())
			return nil
		}
	}
	t.Cleanup(func() { _ = stop() })
	return m, stop
}

func waitReady(t *testing.T, m *ccm.Manager) {
	t.Helper()
	eventually(t, m.Status, func(s status.Manager) bool { return s.Ready }, "a ready term")
}

// controller returns a controller that runs a function.
func controller(name string, run ccm.RunnableFunc) ccm.Controller {
	build := func(context.Context, *ccm.Term) (ccm.Runnable, error) { return run, nil }
	return ccm.Controller{Name: name, New: build}
}

// idle is a controller that waits for the end of its term.
func idle(name string) ccm.Controller {
	return controller(name, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}

// stubborn is a controller that ends after its term, when the test closes release.
func stubborn(name string, release <-chan struct{}) ccm.Controller {
	return controller(name, func(ctx context.Context) error {
		<-ctx.Done()
		<-release
		return nil
	})
}

// observed is an idle controller that sends its terms to the test.
func observed(name string, terms chan<- *ccm.Term) ccm.Controller {
	return ccm.Controller{
		Name: name,
		New: func(ctx context.Context, t *ccm.Term) (ccm.Runnable, error) {
			terms <- t
			return idle(name).New(ctx, t)
		},
	}
}
