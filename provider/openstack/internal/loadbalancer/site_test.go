package loadbalancer

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/client"
	"github.com/fxccm/fxccm/provider/openstack/internal/events/eventstest"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// site is a cloud with a network of nodes and an external network, and the objects of a cluster.
type site struct {
	*openstacktest.Cloud
	t        *testing.T
	kube     *fake.Clientset
	watching <-chan struct{}
	defaults settings.Defaults
	// routes are Config.Routes of the clusters that begin, and router is that of the nodes' subnet.
	routes Routes
	router string
	// owner is Config.Owner of the clusters that begin.
	owner string
	// requireOwnerMark is Config.RequireOwnerMark.
	requireOwnerMark bool

	clock clock.Clock
	// pause lets a moment pass if the clock is a fake one.
	pause func()

	network, subnet, external string
	// floating is the subnet of the external network.
	floating string

	mu     sync.Mutex
	events []string
	serial int
}

func newSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	s := newIsolatedSite(t, options...)
	s.external = s.AddNetwork(openstacktest.Network{Name: "public", External: true})
	s.floating = s.AddSubnet(
		openstacktest.Subnet{NetworkID: s.external, CIDR: "203.0.113.0/24"})
	s.router = s.AddRouter(openstacktest.Router{
		Name: "router", Subnets: []string{s.subnet}, ExternalNetworkID: s.external,
	})
	return s
}

// newIsolatedSite returns a site without an external network.
func newIsolatedSite(t *testing.T, options ...openstacktest.Option) *site {
	t.Helper()
	s := &site{
		Cloud: openstacktest.NewCloud(options...), t: t, clock: clock.RealClock{},
		pause:    func() {},
		defaults: settings.Defaults{LoadBalancer: cloudconf.Default().LoadBalancer},
	}
	s.kube, s.watching = newWatchableKube()
	t.Cleanup(s.Close)
	s.network = s.AddNetwork(openstacktest.Network{Name: "nodes"})
	s.subnet = s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "10.0.0.0/16"})
	return s
}

// newTickingSite returns a site whose clock advances while a caller waits for it.
func newTickingSite(
	t *testing.T, options ...openstacktest.Option,
) (*site, *clocktesting.FakeClock) {
	t.Helper()
	now := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	s := newSite(t, append(options, openstacktest.WithClock(now))...)
	s.clock = waittest.Tick(t, now, 100*time.Millisecond)
	s.pause = func() { now.Step(100 * time.Millisecond) }
	return s, now
}

// cluster is a provider that serves one cluster in a term.
type cluster struct {
	*LoadBalancers
	site *site
}

// begin starts a provider for the cluster with this UID; it ends with the test or by end.
func (s *site) begin(uid string, kube kubernetes.Interface) *cluster {
	s.t.Helper()
	login := s.Credentials()
	cfg := cloudconf.Default()
	cfg.Global.AuthURL, cfg.Global.Region = login.AuthURL, login.Region
	cfg.Global.ApplicationCredentialID = login.ApplicationCredentialID
	cfg.Global.ApplicationCredentialSecret = cloudconf.Secret(login.ApplicationCredentialSecret)
	cfg.Client.RequestRate, cfg.Client.RequestBurst = 10000, 10000
	clients, err := client.New(cfg, client.Options{Clock: s.clock})
	if err != nil {
		s.t.Fatal(err)
	}
	log := testr.New(s.t)
	o := octavia.New(octavia.Config{
		Client: clients.LoadBalancer, Project: clients.Project,
		Clock: s.clock, Logger: log,
	})
	n := neutron.New(neutron.Config{
		Client: clients.Network, KeyManager: clients.KeyManager,
		Project: clients.Project, Clock: s.clock, Logger: log,
	})
	c := &cluster{site: s, LoadBalancers: New(Config{
		Octavia: o, Neutron: n, Owner: s.owner, Defaults: s.defaults, Clock: s.clock, Logger: log,
		RequireOwnerMark: s.requireOwnerMark, Routes: s.routes,

		ClusterUID: func(context.Context) (string, error) { return uid, nil },
		Kube:       func() (kubernetes.Interface, error) { return kube, nil },
		Recorder:   s.recorder(),
	})}
	s.t.Cleanup(sync.OnceFunc(func() {
		c.Close()
		o.Close()
		n.Close()
		if err := clients.Close(); err != nil {
			s.t.Error(err)
		}
	}))
	return c
}

func (s *site) recorder() record.EventRecorder { return recorder{s} }

type recorder struct{ site *site }

func (r recorder) Eventf(o runtime.Object, kind, reason, format string, arguments ...any) {
	r.Event(o, kind, reason, fmt.Sprintf(format, arguments...))
}

func (r recorder) AnnotatedEventf(
	o runtime.Object, _ map[string]string, kind, reason, format string, arguments ...any,
) {
	r.Eventf(o, kind, reason, format, arguments...)
}

func (r recorder) Event(_ runtime.Object, kind, reason, message string) {
	r.site.mu.Lock()
	defer r.site.mu.Unlock()
	if kind == v1.EventTypeWarning {
		eventstest.CheckShape(r.site.t, message)
	}
	r.site.events = append(r.site.events, kind+" "+reason+": "+message)
}

// addNode creates a server with a port, and returns its node.
func (s *site) addNode(name string) *v1.Node {
	s.t.Helper()
	server := s.AddServer(openstacktest.Server{Name: name})
	s.serial++
	address := fmt.Sprintf("10.0.1.%d", s.serial)
	s.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: s.subnet, Address: address}},
	})
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.NodeSpec{ProviderID: "openstack:///" + server},
		Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{
			Type:    v1.NodeInternalIP,
			Address: address,
		}}},
	}
}

// addService creates a Service with these TCP ports; its node ports are 30000 higher.
func (s *site) addService(name string, ports ...int32) *v1.Service {
	s.t.Helper()
	return s.addServiceIn("default", name, ports...)
}

func (s *site) addServiceIn(namespace, name string, ports ...int32) *v1.Service {
	s.t.Helper()
	s.serial++
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			UID:               types.UID(fmt.Sprintf("c0ffee00-0000-4000-8000-%012d", s.serial)),
			CreationTimestamp: metav1.NewTime(s.clock.Now().Truncate(1e9)),
			Annotations:       map[string]string{},
			Finalizers:        []string{"service.kubernetes.io/load-balancer-cleanup"},
		},
		Spec: v1.ServiceSpec{
			Type:       v1.ServiceTypeLoadBalancer,
			IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
		},
	}
	for _, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, v1.ServicePort{
			Name: fmt.Sprintf("p%d", port), Protocol: v1.ProtocolTCP, Port: port,
			NodePort: 30000 + port,
		})
	}
	made, err := s.kube.CoreV1().Services(namespace).Create(s.t.Context(), service,
		metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// addGuest creates a Service that names a load balancer.
func (s *site) addGuest(loadBalancer, name string, ports ...int32) *v1.Service {
	s.t.Helper()
	service := s.addService(name, ports...)
	service.Annotations[settings.AnnotationLoadBalancerID] = loadBalancer
	s.update(service)
	return service
}

// now returns the Service from the API server.
func (s *site) now(service *v1.Service) *v1.Service {
	s.t.Helper()
	got, err := s.kube.CoreV1().Services(service.Namespace).Get(s.t.Context(), service.Name,
		metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// ensure reconciles as the service controller does, until the Service is served.
func (c *cluster) ensure(service *v1.Service, nodes ...*v1.Node) *v1.LoadBalancerStatus {
	c.site.t.Helper()
	return c.ensureBy(service, func(now *v1.Service) (*v1.LoadBalancerStatus, error) {
		return c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", now, nodes)
	})
}

// ensureBy repeats a call of the provider until the Service is served.
func (c *cluster) ensureBy(
	service *v1.Service, call func(*v1.Service) (*v1.LoadBalancerStatus, error),
) *v1.LoadBalancerStatus {
	c.site.t.Helper()
	for range 200 {
		service = c.site.now(service)
		status, err := call(service)
		if err == nil {
			if !slices.EqualFunc(status.Ingress, service.Status.LoadBalancer.Ingress,
				func(a, b v1.LoadBalancerIngress) bool {
					return a.IP == b.IP && a.Hostname == b.Hostname
				}) {
				// The pass may have written a condition.
				service = c.site.now(service)
				service.Status.LoadBalancer = *status
				if _, err := c.site.kube.CoreV1().Services(service.Namespace).UpdateStatus(
					c.site.t.Context(), service, metav1.UpdateOptions{}); err != nil {
					c.site.t.Fatal(err)
				}
			}
			return status
		}
		if !isWait(err) {
			c.site.t.Fatalf("ensure %s: %v", service.Name, err)
		}
		c.site.pause()
		if err := c.forgetList(service.UID); err != nil {
			c.site.t.Fatal(err)
		}
	}
	c.site.t.Fatalf("%s is not served after 200 passes", service.Name)
	return nil
}

// forgetList makes the next reconcile read the current load balancers, as it would after some time.
func (c *cluster) forgetList(services ...types.UID) error {
	c.site.pause()
	for _, uid := range services {
		unlock, err := c.locks.Lock(c.site.t.Context(), "service "+string(uid))
		if err != nil {
			return err
		}
		c.states.get(uid).creation = freshCreation{}
		unlock()
	}
	_, err := c.config.Octavia.LoadBalancers(c.site.t.Context(), 0)
	return err
}

// remove deletes the load balancer of a Service as the service controller does.
func (c *cluster) remove(service *v1.Service) {
	c.site.t.Helper()
	ctx := c.site.t.Context()
	service = c.site.now(service)
	now := metav1.Now()
	service.DeletionTimestamp = &now
	for range 200 {
		_, exists, err := c.GetLoadBalancer(ctx, "kubernetes", service)
		if err == nil && !exists {
			return
		}
		if err == nil {
			err = c.EnsureLoadBalancerDeleted(ctx, "kubernetes", service)
		}
		if err == nil {
			return
		}
		if !isWait(err) {
			c.site.t.Fatalf("delete %s: %v", service.Name, err)
		}
		c.site.pause()
	}
	c.site.t.Fatalf("%s is not deleted after 200 passes", service.Name)
}

// writes counts the requests that may change something, since mark.
func (s *site) writes(mark int) []string {
	var found []string
	for _, call := range s.Calls()[mark:] {
		if call.Method != http.MethodGet && call.Service != "identity" {
			found = append(found, call.Method+" "+call.Path)
		}
	}
	return found
}

// counts returns the requests since mark, by operation, without the login.
func (s *site) counts(mark int) map[string]int {
	counts := map[string]int{}
	for _, call := range s.Calls()[mark:] {
		if call.Service != "identity" {
			counts[call.Operation]++
		}
	}
	return counts
}

func (s *site) mark() int { return len(s.Calls()) }

func total(counts map[string]int) int {
	sum := 0
	for _, n := range maps.All(counts) {
		sum += n
	}
	return sum
}

// said returns the events that hold the text.
func (s *site) said(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, event := range s.events {
		if strings.Contains(event, text) {
			found = append(found, event)
		}
	}
	return found
}
