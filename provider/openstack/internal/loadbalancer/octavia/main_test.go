package octavia

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var within = waittest.Context

// world is a simulated cloud with a client of its Octavia. The clock of both stands still.
type world struct {
	*API
	t     *testing.T
	cloud *openstacktest.Cloud
	clock *clocktesting.FakeClock
	// network and subnet are the VIPs' network and subnet.
	network, subnet string
	gate            *gate
}

func newWorld(t *testing.T, options ...openstacktest.Option) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))}
	usual := []openstacktest.Option{
		openstacktest.WithClock(w.clock),
		openstacktest.WithTokenLife(1000 * time.Hour),
		openstacktest.WithFailoverByOwners(),
	}
	w.cloud = openstacktest.NewCloud(append(usual, options...)...)
	t.Cleanup(w.cloud.Close)
	w.network = w.cloud.AddNetwork(openstacktest.Network{Name: "vips"})
	w.subnet = w.cloud.AddSubnet(openstacktest.Subnet{NetworkID: w.network, CIDR: "10.0.0.0/16"})
	w.API = w.open(w.cloud.Credentials())
	return w
}

// open logs in. The record of calls begins after the login.
func (w *world) open(c openstacktest.Credentials) *API {
	w.t.Helper()
	clients := simclient.Login(w.t, c, func(next http.RoundTripper) http.RoundTripper {
		w.gate = &gate{next: next}
		return w.gate
	})
	a := New(Config{
		Client: clients.LoadBalancer, Project: clients.Project,
		Clock: w.clock, Logger: logr.Discard(),
	})
	w.t.Cleanup(a.Close)
	w.cloud.ForgetCalls()
	return a
}

// add creates a load balancer with this number of ports, each with a pool of this number of members
// and a monitor, and returns its ID.
func (w *world) add(name string, ports, members int) (id string) {
	w.t.Helper()
	lb := openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: name},
		VIPSubnetID:     w.subnet,
	}
	for n := range ports {
		pool := openstacktest.Pool{
			OctaviaResource: openstacktest.OctaviaResource{
				ID:   poolID(name, n),
				Name: fmt.Sprintf("pool_%d_%s", n, name),
			},
			Protocol: "TCP", LBAlgorithm: "ROUND_ROBIN",
			Monitor: &openstacktest.HealthMonitor{
				OctaviaResource: openstacktest.OctaviaResource{Name: fmt.Sprintf("monitor_%d_%s", n,
					name)},
				Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 1,
			},
		}
		for m := range members {
			pool.Members = append(pool.Members, openstacktest.Member{
				OctaviaResource: openstacktest.OctaviaResource{Name: fmt.Sprintf("node-%d", m)},
				Address:         fmt.Sprintf("10.0.%d.%d", 100+m/200, 1+m%200),
				ProtocolPort:    30000 + n,
			})
		}
		lb.Pools = append(lb.Pools, pool)
		lb.Listeners = append(lb.Listeners,
			openstacktest.Listener{Protocol: "TCP", ProtocolPort: 80 + n, DefaultPoolID: pool.ID})
	}
	id = w.cloud.AddLoadBalancer(lb)
	w.cloud.ForgetCalls()
	return id
}

// poolID derives a UUID from the name of a load balancer and the number of a pool.
func poolID(name string, n int) string {
	text := fmt.Sprintf("%x", name)
	text = text[max(0, len(text)-10):]
	return fmt.Sprintf("00000000-0000-4000-8000-%s%02d", strings.Repeat("0", 10-len(text))+text, n)
}

// calls compares the calls since the record of them began.
func (w *world) calls(want map[string]int) {
	w.t.Helper()
	if got := w.cloud.Counts(); !maps.Equal(got, want) {
		w.t.Errorf("calls %v, want %v", got, want)
	}
}

// rewrite changes the responses to an operation until the test ends.
func (w *world) rewrite(operation string, change func(body []byte) (status int, changed []byte)) {
	w.cloud.Inject(openstacktest.Fault{
		Operation: operation,
		Rewrite: func(_ openstacktest.Call, _ int, body []byte) (int, []byte) {
			return change(body)
		},
	})
}

// called waits until a request has been carried out. Its response may be pending.
func (w *world) called(operation string) {
	w.t.Helper()
	if _, err := w.cloud.WaitForCall(within(w.t),
		func(c openstacktest.Call) bool { return c.Operation == operation }); err != nil {
		w.t.Fatal(err)
	}
}

// gate delays responses while it is closed. The requests are carried out.
type gate struct {
	next http.RoundTripper

	mu   sync.Mutex
	shut chan struct{}
}

func (g *gate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := make(chan struct{})
	g.shut = shut
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shut = nil
		close(shut)
	})
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	resp, err := g.next.RoundTrip(r)
	if shut == nil || err != nil {
		return resp, err
	}
	select {
	case <-shut:
		return resp, nil
	case <-r.Context().Done():
		_ = resp.Body.Close()
		return nil, r.Context().Err()
	}
}
