package plan

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// runSite is a cloud with a network of nodes and an external network, which has a second subnet
// with one address. Its runner takes the steps of plans.
type runSite struct {
	*openstacktest.Cloud
	t      *testing.T
	runner *Runner

	network, subnet, external string
	// floating is a subnet of the external network.
	floating string
	time     clock.PassiveClock
	// small is the subnet with one address.
	small string

	// after is called after the first step. It may be nil.
	after func()
}

// newRunSite returns a runSite with the real clock, in which Octavia takes no time.
func newRunSite(t *testing.T, options ...openstacktest.Option) *runSite {
	t.Helper()
	return makeRunSite(t, clock.RealClock{}, options...)
}

// newSlowSite returns a site in which Octavia takes time for each change. The clock advances while
// a caller waits.
func newSlowSite(
	t *testing.T, provisioning time.Duration, options ...openstacktest.Option,
) *runSite {
	t.Helper()
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return makeRunSite(t, waittest.Tick(t, now, 500*time.Millisecond),
		append(options, openstacktest.WithClock(now), openstacktest.WithProvisioning(provisioning),
			openstacktest.WithTokenLife(24*time.Hour))...)
}

func makeRunSite(
	t *testing.T, clocks clock.Clock, options ...openstacktest.Option,
) *runSite {
	t.Helper()
	s := &runSite{
		Cloud: openstacktest.NewCloud(append(options, openstacktest.WithFailoverByOwners())...),
		t:     t, time: clocks,
	}
	t.Cleanup(s.Close)
	s.network = s.AddNetwork(openstacktest.Network{Name: "nodes"})
	s.subnet = s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "10.0.0.0/16"})
	s.external = s.AddNetwork(openstacktest.Network{Name: "public", External: true})
	s.floating = s.AddSubnet(openstacktest.Subnet{NetworkID: s.external, CIDR: "203.0.113.0/24"})
	s.AddRouter(openstacktest.Router{
		Name: "router", Subnets: []string{s.subnet}, ExternalNetworkID: s.external,
	})
	s.small = s.AddSubnet(openstacktest.Subnet{
		NetworkID: s.external, CIDR: "198.51.100.0/29",
		Pools: []openstacktest.AddressRange{{First: "198.51.100.2", Last: "198.51.100.2"}},
	})
	// Without the provider's own retries, a test observes those of a run.
	clients := simclient.Login(t, s.Credentials(), nil)
	o := octavia.New(octavia.Config{
		Client: clients.LoadBalancer, Project: clients.Project,
		Clock: clocks, Logger: testr.New(t),
	})
	t.Cleanup(o.Close)
	n := neutron.New(neutron.Config{
		Client: clients.Network, Project: clients.Project,
		Clock: clocks, Logger: testr.New(t),
	})
	t.Cleanup(n.Close)
	s.runner = NewRunner(Runner{
		Octavia: o, Neutron: n, Clock: clocks, Logger: funcr.New(s.note, funcr.Options{}),
	})
	return s
}

// note is called with the line of each step.
func (s *runSite) note(string, string) {
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
}

func (s *runSite) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func isChange(c openstacktest.Call) bool {
	return c.Method != http.MethodGet && c.Service != openstacktest.ServiceIdentity
}

// changes returns the requests that change something, whatever their result.
func (s *runSite) changes() []openstacktest.Call {
	return slices.DeleteFunc(s.Calls(), func(c openstacktest.Call) bool { return !isChange(c) })
}

// operations returns the operations of all requests, in order.
func (s *runSite) operations() []string {
	var names []string
	for _, c := range s.Calls() {
		names = append(names, c.Operation)
	}
	return names
}

// refusals counts the answers with 409.
func (s *runSite) refusals() int {
	n := 0
	for _, c := range s.Calls() {
		if c.Status == http.StatusConflict {
			n++
		}
	}
	return n
}

// unlimited is a timeout that no run reaches.
const unlimited = 24 * time.Hour

// run takes steps on the current load balancer, which may be nil.
func (s *runSite) run(
	lb *octavia.LoadBalancer, timeout time.Duration, steps ...Step,
) (Result, error) {
	s.t.Helper()
	return s.runner.Run(s.t.Context(), Plan{Steps: steps}, lb, timeout)
}

// add creates a load balancer with a port as another client would.
func (s *runSite) add(name string) (*octavia.LoadBalancer, openstacktest.LoadBalancer) {
	s.t.Helper()
	id := s.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: name}, VIPSubnetID: s.subnet,
		Listeners: []openstacktest.Listener{{
			OctaviaResource: openstacktest.OctaviaResource{Name: "listener_0"},
			Protocol:        "TCP", ProtocolPort: 80, DefaultPoolID: "p",
		}},
		Pools: []openstacktest.Pool{{
			OctaviaResource: openstacktest.OctaviaResource{ID: "p", Name: "pool_0"},
			Protocol:        "TCP", LBAlgorithm: "ROUND_ROBIN",
			Members: []openstacktest.Member{{
				OctaviaResource: openstacktest.OctaviaResource{Name: "node-1"},
				Address:         "10.0.0.101", ProtocolPort: 30080, Weight: 1,
			}},
		}},
	})
	s.ForgetCalls()
	return s.seen(id), s.is(id)
}

// seen returns a load balancer as last read.
func (s *runSite) seen(id string) *octavia.LoadBalancer {
	s.t.Helper()
	lb := s.is(id)
	return &octavia.LoadBalancer{
		ID: lb.ID, Name: lb.Name, Status: octavia.Status(lb.ProvisioningStatus), Tags: lb.Tags,
		VIP: octavia.VIP{Address: lb.VIPAddress, PortID: lb.VIPPortID, SubnetID: lb.VIPSubnetID},
	}
}

func (s *runSite) is(id string) openstacktest.LoadBalancer {
	s.t.Helper()
	lb, err := s.LoadBalancer(id)
	s.must(err)
	return lb
}

func names(steps []Step) string {
	var all []string
	for _, step := range steps {
		all = append(all, step.String())
	}
	return strings.Join(all, "\n")
}
