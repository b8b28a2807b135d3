package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// site is a cloud with a network of nodes behind a router.
type site struct {
	*openstacktest.Cloud
	t       *testing.T
	wire    *wire
	secrets *secrets

	// public is the network of floating IPs.
	network, public, router string
	// subnets are the subnets by IP version, 4 and 6.
	subnets map[int]string
}

// newSite creates a cloud until the test ends. Then all connections to it must be closed, and no
// log may contain a secret.
func newSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	logged := shared.klog.size()
	s := &site{t: t, wire: newWire(t), subnets: map[int]string{}}
	s.Cloud = openstacktest.NewCloud(
		append([]openstacktest.Option{openstacktest.WithListener(s.wire)}, options...)...)
	s.secrets = newSecrets(s.Credentials())
	t.Cleanup(func() {
		s.noConnections()
		s.Close()
		told := shared.klog.since(logged)
		s.secrets.scan("klog", told)
		for _, found := range s.secrets.told() {
			t.Errorf("a secret appears in %s", found)
		}
		if t.Failed() {
			t.Logf("the end of klog:\n%s", end(told))
		}
	})
	s.network = s.AddNetwork(openstacktest.Network{Name: "nodes"})
	s.subnets[4] = s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "10.0.0.0/16"})
	s.public = s.AddNetwork(openstacktest.Network{Name: "public", External: true})
	s.AddSubnet(openstacktest.Subnet{NetworkID: s.public, CIDR: "192.0.2.0/24"})
	// All tests share one record of routes in the API server, so the IDs of their routers differ.
	s.router = s.AddRouter(openstacktest.Router{
		ID:   uuid.NewSHA1(uuid.Nil, []byte(t.Name())).String(),
		Name: "router", ExternalNetworkID: s.public,
		Subnets: []string{s.subnets[4]},
	})
	return s
}

// dualStack adds IPv6 to the network.
func (s *site) dualStack() {
	s.t.Helper()
	s.subnets[6] = s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "fd00::/64"})
	s.must(s.ConnectSubnet(s.router, s.subnets[6]))
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// noConnections waits until all connections to the cloud are closed.
func (s *site) noConnections() {
	s.t.Helper()
	waittest.Until(s.t, "no connection to OpenStack is open", func() error {
		if open := s.wire.open.Load(); open != 0 {
			return fmt.Errorf("%d are", open)
		}
		return nil
	})
}

// machine is a server with a port.
type machine struct{ id, name, port string }

func (m machine) providerID() string { return "openstack:///" + m.id }

// addServer makes a server with a port on the network.
func (s *site) addServer(name string, change ...func(*openstacktest.Server)) machine {
	s.t.Helper()
	i := openstacktest.Server{Name: name}
	for _, f := range change {
		f(&i)
	}
	m := machine{id: s.AddServer(i), name: name}
	m.port = s.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceID: m.id,
		DeviceOwner: openstacktest.OwnerCompute,
	})
	return m
}

func (s *site) addServers(names ...string) []machine {
	s.t.Helper()
	var all []machine
	for _, name := range names {
		all = append(all, s.addServer(name))
	}
	return all
}

// in is the site for a subtest.
func (s *site) in(t *testing.T) *site {
	other := *s
	other.t = t
	return &other
}

// address is the address of the machine's port, of the IP version.
func (s *site) address(m machine, version int) string {
	s.t.Helper()
	for _, p := range s.Ports() {
		if p.ID != m.port {
			continue
		}
		for _, ip := range p.FixedIPs {
			if ip.SubnetID == s.subnets[version] {
				return ip.Address
			}
		}
	}
	s.t.Fatalf("%s has no address of IPv%d", m.name, version)
	return ""
}

// config logs in to the cloud with a password, and has periods for tests with a hasty clock.
func (s *site) config() cloudconf.Config {
	c, cfg := s.Credentials(), cloudconf.Default()
	cfg.Global.AuthURL, cfg.Global.Region = c.AuthURL, c.Region
	cfg.Global.Username, cfg.Global.Password, cfg.Global.DomainName = c.Username,
		cloudconf.Secret(c.Password), c.DomainName
	cfg.Global.TenantName = c.ProjectName
	cfg.Client.RequestRate, cfg.Client.RequestBurst = 10_000, 10_000
	cfg.Instances.StatusMaxAge, cfg.Instances.MetadataMaxAge = time.Second, time.Second
	cfg.Instances.AbsenceConfirmation = confirmation
	return cfg
}

// confirmation is by the provider's clock.
const confirmation = 3 * time.Second

// operations selects calls by the names of their operations, as patterns.
func operations(patterns ...string) func(openstacktest.Call) bool {
	return func(c openstacktest.Call) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			matched, err := path.Match(pattern, c.Operation)
			return err == nil && matched
		})
	}
}

// changes selects the calls that may change the cloud. A login does not count.
func changes(c openstacktest.Call) bool {
	return c.Method != http.MethodGet && c.Operation != "token_create"
}

// mark is a position in the record of calls.
type mark int

func (s *site) mark() mark { return mark(len(s.Calls())) }

// since are the calls after the mark.
func (s *site) since(m mark, which func(openstacktest.Call) bool) []openstacktest.Call {
	return slices.DeleteFunc(slices.Clone(s.Calls()[m:]),
		func(c openstacktest.Call) bool { return !which(c) })
}

// waitCalls waits for n matching calls after the mark.
func (s *site) waitCalls(
	m mark, n int, which func(openstacktest.Call) bool, what string,
) []openstacktest.Call {
	s.t.Helper()
	return ccmtest.Eventually(s.t, fmt.Sprintf("%s, %d times", what, n),
		func(context.Context) ([]openstacktest.Call, error) {
			found := s.since(m, which)
			if len(found) < n {
				return nil, fmt.Errorf("%d calls; of all: %v", len(found), s.Counts())
			}
			return found, nil
		})
}

func describe(calls []openstacktest.Call) string {
	var lines []string
	for _, c := range calls {
		lines = append(lines,
			fmt.Sprintf("%s %s %s -> %d", c.Time.Format("15:04:05.000"), c.Method, c.Path,
				c.Status))
	}
	return strings.Join(lines, "\n")
}
