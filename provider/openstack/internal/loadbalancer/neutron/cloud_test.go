package neutron

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
	"github.com/fxccm/fxccm/provider/openstack/internal/simclient"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// site is a cloud with a network of nodes, behind a router to an external network, and a client of
// it.
type site struct {
	*openstacktest.Cloud
	*API
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	// external and internal are networks; pool is a subnet of external, and subnet one of internal.
	external, pool, internal, subnet string
}

func (s *site) Close() { s.API.Close() }

func (s *site) Subnets(ctx context.Context, networkID string) ([]Subnet, error) {
	return s.API.Subnets(ctx, networkID)
}

func (s *site) FloatingIPs(ctx context.Context) ([]FloatingIP, error) {
	all, _, err := sharing.Of(ctx, s.config.Share, s.clock, "floating IPs",
		sharing.AfterNow(s.clock), s.readFloatingIPs)
	return all, err
}

func (s *site) DeleteFloatingIP(ctx context.Context, id string) error {
	return s.API.DeleteFloatingIP(ctx, id, new(1), func(FloatingIP) bool { return true })
}

func (s *site) DeleteSecurityGroup(ctx context.Context, id string) error {
	return s.API.DeleteSecurityGroup(ctx, id)
}

func newSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	s := &site{
		Cloud: openstacktest.NewCloud(options...), t: t,
		clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	t.Cleanup(s.Cloud.Close)
	s.external = s.AddNetwork(openstacktest.Network{Name: "public", External: true})
	s.pool = s.AddSubnet(
		openstacktest.Subnet{Name: "pool", NetworkID: s.external, CIDR: "203.0.113.0/24"})
	s.internal = s.AddNetwork(openstacktest.Network{Name: "nodes"})
	s.subnet = s.AddSubnet(openstacktest.Subnet{NetworkID: s.internal, CIDR: "10.0.0.0/16"})
	s.AddRouter(openstacktest.Router{
		Name: "router", ExternalNetworkID: s.external,
		Subnets: []string{s.subnet},
	})
	clients := simclient.Login(t, s.Credentials(), nil)
	s.API = New(Config{
		Client: clients.Network, KeyManager: clients.KeyManager, Project: clients.Project,
		Clock: s.clock, Logger: testr.New(t),
	})
	t.Cleanup(s.API.Close)
	s.ForgetCalls()
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// wantCalls compares all calls since they were last forgotten.
func (s *site) wantCalls(want map[string]int) {
	s.t.Helper()
	if got := s.Counts(); !maps.Equal(got, want) {
		s.t.Errorf("calls %v, want %v", got, want)
	}
}

// addPort adds a port of the server, in the subnet of the nodes.
func (s *site) addPort(server string, groups ...string) string {
	s.t.Helper()
	return s.AddPort(openstacktest.Port{
		NetworkID: s.internal, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
		SecurityGroups: append([]string{}, groups...),
	})
}

// portNow returns the current state of a port in the cloud.
func (s *site) portNow(id string) openstacktest.Port {
	s.t.Helper()
	all := s.Ports()
	i := slices.IndexFunc(all, func(p openstacktest.Port) bool { return p.ID == id })
	if i < 0 {
		s.t.Fatalf("port %s does not exist", id)
	}
	return all[i]
}

// floatingIPNow returns the current state of a floating IP in the cloud.
func (s *site) floatingIPNow(id string) openstacktest.FloatingIP {
	s.t.Helper()
	all := s.Cloud.FloatingIPs()
	i := slices.IndexFunc(all, func(f openstacktest.FloatingIP) bool { return f.ID == id })
	if i < 0 {
		s.t.Fatalf("floating IP %s does not exist", id)
	}
	return all[i]
}

// atOnce calls do n times concurrently, and returns the errors.
func atOnce(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func numbered(text string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(text, i))
	}
	return all
}
