package loadbalancer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// More sequences are run by `make soak`.
var sequences = flag.Uint64("sequences", 20, "how many random sequences to try")

// The Service, the nodes and other clients make changes in any order. In the end the result is the
// one that a new Service of this kind gets, another pass writes nothing, and a user's objects are
// unchanged.
func TestAnySequence_Converges(t *testing.T) {
	t.Parallel()
	for seed := range *sequences {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := newSequence(t, seed)
			for range 5 {
				s.happen()
				if s.IntN(3) > 0 {
					s.pass()
				}
			}
			s.pass()
			mark := s.mark()
			s.pass()
			if again := s.writes(mark); len(again) > 0 {
				t.Errorf("another pass writes %q", again)
			}
			got := s.picture()
			if want := s.fresh(); got != want {
				t.Errorf("the result is\n%s\n\nand a new Service gets\n%s", got, want)
			}
			s.cluster.persistRemoving(s.service)
			if left := s.picture(); left != "" {
				t.Errorf("after the deletion these remain:\n%s", left)
			}
			if s.theirs() != s.others {
				t.Errorf("the user's objects are now %s", s.theirs())
			}
			if t.Failed() {
				t.Logf("what happened:\n%s", strings.Join(s.log, "\n"))
			}
		})
	}
}

type sequence struct {
	*rand.Rand
	*site
	cluster *cluster
	time    *clocktesting.FakeClock
	service *v1.Service
	pool    []*v1.Node
	nodes   []*v1.Node
	others  string
	log     []string
}

func newSequence(t *testing.T, seed uint64) *sequence {
	t.Helper()
	// Octavia rounds the time of a change to the second.
	now := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	s := &sequence{
		Rand: rand.New(rand.NewPCG(seed, 2)), time: now,
		site: newSite(t, openstacktest.WithClock(now)),
	}
	// A cluster may have no nodes at times, and then no node determines the subnet of a load
	// balancer.
	s.site.defaults.LoadBalancer.SubnetID = s.subnet
	s.site.defaults.LoadBalancer.ManageSecurityGroups = seed%2 == 0
	s.site.defaults.LoadBalancer.CreateMonitor = seed%3 == 0
	s.site.defaults.LoadBalancer.ProviderRequiresSerialAPICalls = seed%5 == 0
	for _, name := range []string{"a", "b", "c", "d"} {
		s.pool = append(s.pool, s.addNode(name))
	}
	s.nodes = s.pool[:2]
	// These are a user's, with a neutral name and with a misleading one.
	for _, name := range []string{"mine", "kube_service_kubernetes_default_other"} {
		s.AddLoadBalancer(openstacktest.LoadBalancer{
			OctaviaResource: openstacktest.OctaviaResource{Name: name, Tags: []string{"theirs"}},
			VIPSubnetID:     s.subnet,
			Listeners: []openstacktest.Listener{{
				OctaviaResource: openstacktest.OctaviaResource{Name: "theirs"},
				Protocol:        "TCP", ProtocolPort: 80,
			}},
		})
	}
	s.others = s.theirs()
	s.service = s.addService("web", 80, 443)
	s.cluster = s.begin("cluster-1", s.kube)
	s.pass()
	return s
}

// pass reconciles, as the service controller or a repair does, until one reconcile succeeds.
func (s *sequence) pass() {
	s.t.Helper()
	var err error
	for range 60 {
		s.time.Step(3 * time.Second)
		s.service = s.now(s.service)
		var status *v1.LoadBalancerStatus
		status, err = s.cluster.ensure1(request{
			cluster: "kubernetes", service: s.service, nodes: s.nodes,
			mode: mode{create: true, repair: true, deep: true},
		})
		if err == nil {
			s.service.Status.LoadBalancer = *status
			s.update(s.service)
			return
		}
	}
	s.t.Fatalf("not served: %v\n%s", err, strings.Join(s.log, "\n"))
}

func (c *cluster) ensure1(r request) (*v1.LoadBalancerStatus, error) {
	return c.LoadBalancers.ensure(c.site.t.Context(), r)
}

// happen takes one random action.
func (s *sequence) happen() {
	all := []struct {
		name string
		do   func()
	}{
		{"other ports", func() {
			s.service.Spec.Ports = nil
			for i, n := range []int32{80, 443, 8080, 53} {
				if s.IntN(2) == 0 {
					continue
				}
				port := v1.ServicePort{
					Name: fmt.Sprintf("p%d", n), Protocol: v1.ProtocolTCP,
					Port: n, NodePort: 30000 + n + int32(s.IntN(2)),
				}
				if i == 3 {
					port.Protocol = v1.ProtocolUDP
				}
				s.service.Spec.Ports = append(s.service.Spec.Ports, port)
			}
			if len(s.service.Spec.Ports) == 0 {
				s.service.Spec.Ports = []v1.ServicePort{{
					Name: "p1", Protocol: v1.ProtocolTCP,
					Port: 1, NodePort: 30001,
				}}
			}
		}},
		{"headers", s.annotate("x-forwarded-for", "true", "false", "")},
		{"the PROXY protocol", s.annotate("proxy-protocol", "true", "v2", "false", "")},
		{"monitors", s.annotate("enable-health-monitor", "true", "false", "")},
		{"a limit", s.annotate("connection-limit", "100", "-1", "nonsense", "")},
		{"a timeout", s.annotate("timeout-client-data", "1000", "")},
		{"an algorithm", s.annotate("lb-method", "LEAST_CONNECTIONS", "ROUND_ROBIN", "")},
		{"affinity", func() {
			s.service.Spec.SessionAffinity = []v1.ServiceAffinity{
				v1.ServiceAffinityClientIP,
				v1.ServiceAffinityNone,
			}[s.IntN(2)]
		}},
		{"source ranges", func() {
			s.service.Spec.LoadBalancerSourceRanges = [][]string{
				nil,
				{"198.51.100.0/24"},
				{"198.51.100.0/24", "192.0.2.0/24"},
			}[s.IntN(3)]
		}},
		{"internal or not", func() {
			s.service.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = []string{"true", "false"}[s.IntN(2)]
		}},
		{"nodes come and go", func() { s.nodes = s.pool[s.IntN(2) : 2+s.IntN(3)] }},
		{"all nodes go", func() { s.nodes = nil }},
		{"a restart", func() { s.cluster = s.begin("cluster-1", s.kube) }},
		{"another client deletes the load balancer", func() { s.eachOwn(func(id string) { _ = s.DeleteLoadBalancer(id) }) }},
		{"another client deletes a listener", s.change(func(lb *openstacktest.LoadBalancer) { lb.Listeners = lb.Listeners[:s.IntN(len(lb.Listeners)+1)] })},
		{"another client deletes a pool", s.change(func(lb *openstacktest.LoadBalancer) {
			if len(lb.Pools) == 0 {
				return
			}
			gone := lb.Pools[0].ID
			lb.Pools = lb.Pools[1:]
			for i := range lb.Listeners {
				if lb.Listeners[i].DefaultPoolID == gone {
					lb.Listeners[i].DefaultPoolID = ""
				}
			}
		})},
		{"another client changes members", s.change(func(lb *openstacktest.LoadBalancer) {
			for i := range lb.Pools {
				for j := range lb.Pools[i].Members {
					lb.Pools[i].Members[j].Weight = s.IntN(3)
					lb.Pools[i].Members[j].Backup = s.IntN(2) == 0
				}
			}
		})},
		{"another client deletes members", s.change(func(lb *openstacktest.LoadBalancer) {
			for i := range lb.Pools {
				lb.Pools[i].Members = nil
			}
		})},
		{"another client changes listeners", s.change(func(lb *openstacktest.LoadBalancer) {
			for i := range lb.Listeners {
				lb.Listeners[i].AllowedCIDRs = []string{"10.0.0.0/8"}
				lb.Listeners[i].ConnectionLimit = 7
				lb.Listeners[i].TimeoutClientData = 1
			}
		})},
		{"another client changes pools", s.change(func(lb *openstacktest.LoadBalancer) {
			for i := range lb.Pools {
				lb.Pools[i].LBAlgorithm, lb.Pools[i].SessionPersistence = "LEAST_CONNECTIONS", nil
				lb.Pools[i].Monitor = nil
			}
		})},
		{"parts end in ERROR", s.change(func(lb *openstacktest.LoadBalancer) {
			for i := range lb.Pools {
				lb.Pools[i].ProvisioningStatus = openstacktest.StatusError
			}
			for i := range lb.Listeners {
				lb.Listeners[i].ProvisioningStatus = openstacktest.StatusError
			}
		})},
		{"another client takes the tags", s.change(func(lb *openstacktest.LoadBalancer) {
			for i := range lb.Listeners {
				lb.Listeners[i].Tags = lb.Listeners[i].Tags[:min(1, len(lb.Listeners[i].Tags))]
			}
		})},
		{"another client deletes the floating IP", func() {
			for _, ip := range s.FloatingIPs() {
				_ = s.DeleteFloatingIP(ip.ID)
			}
		}},
		{"another client detaches the floating IP", func() {
			for _, ip := range s.FloatingIPs() {
				_ = s.UpdateFloatingIP(ip.ID,
					func(f *openstacktest.FloatingIP) { f.PortID, f.FixedAddress = "", "" })
			}
		}},
	}
	chosen := all[s.IntN(len(all))]
	s.log = append(s.log, chosen.name)
	s.time.Step(3 * time.Second)
	s.service = s.now(s.service)
	chosen.do()
	s.update(s.service)
}

func (s *sequence) annotate(name string, values ...string) func() {
	return func() {
		if value := values[s.IntN(len(values))]; value != "" {
			s.service.Annotations[settings.Prefix+name] = value
		} else {
			delete(s.service.Annotations, settings.Prefix+name)
		}
	}
}

func (s *sequence) eachOwn(do func(id string)) {
	for _, lb := range s.LoadBalancers() {
		if !slices.Contains(lb.Tags, "theirs") {
			do(lb.ID)
		}
	}
}

func (s *sequence) change(change func(*openstacktest.LoadBalancer)) func() {
	return func() {
		s.eachOwn(func(id string) {
			err := s.ChangeLoadBalancer(id, func(lb *openstacktest.LoadBalancer) {
				change(lb)
				lb.UpdatedAt = s.time.Now()
			})
			if err != nil {
				s.t.Error(err)
			}
		})
	}
}

// picture describes the Service's objects.
func (s *sequence) picture() string {
	return picture(s.Cloud, func(lb openstacktest.LoadBalancer) bool {
		return !slices.Contains(lb.Tags, "theirs")
	})
}

func (s *sequence) theirs() string {
	return picture(s.Cloud, func(lb openstacktest.LoadBalancer) bool {
		return slices.Contains(lb.Tags, "theirs")
	})
}

// fresh describes what an equal Service of another cluster gets from the beginning.
func (s *sequence) fresh() string {
	s.t.Helper()
	other := newSequence(s.t, 0)
	subnet := other.site.defaults.LoadBalancer.SubnetID
	other.site.defaults = s.site.defaults
	other.site.defaults.LoadBalancer.SubnetID = subnet
	other.cluster.persistRemoving(other.service)
	other.cluster = other.begin("cluster-1", other.kube)
	other.nodes = nil
	for _, node := range s.nodes {
		other.nodes = append(other.nodes, other.pool[slices.Index(s.pool, node)])
	}
	service := other.now(other.service)
	service.Spec = *s.service.Spec.DeepCopy()
	service.Annotations = map[string]string{}
	for name, value := range s.service.Annotations {
		if name != settings.AnnotationLoadBalancerID &&
			name != settings.AnnotationLoadBalancerAddress {
			service.Annotations[name] = value
		}
	}
	service.Status = v1.ServiceStatus{}
	other.update(service)
	other.service = service
	other.pass()
	return other.picture()
}
