package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/internal/kit/absence"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// project is an OpenStack project whose clusters share or do not share. The test advances its
// clock.
type project struct {
	*openstacktest.Cloud
	t        *testing.T
	clock    *clocktesting.FakeClock
	registry *prometheus.Registry
	// network and subnet are those of the nodes.
	network, subnet string
	options         []openstack.Option
	clusters        []*idleCluster
}

// idleCluster is a cluster whose Services have their load balancers.
type idleCluster struct {
	cloud    cloudprovider.Interface
	nodes    []*corev1.Node
	services []*corev1.Service
}

const (
	nodesOfCluster    = 5
	servicesOfCluster = 2
)

// newProject makes a project whose clusters share as configured. nil: they share nothing.
func newProject(t *testing.T, shared *openstack.SharedConfig) *project {
	t.Helper()
	p := &project{
		t: t, clock: clocktesting.NewFakeClock(time.Now()),
		registry: prometheus.NewRegistry(),
	}
	p.Cloud = openstacktest.NewCloud(openstacktest.WithClock(p.clock))
	t.Cleanup(p.Close)
	p.network = p.AddNetwork(openstacktest.Network{Name: "nodes"})
	p.subnet = p.AddSubnet(openstacktest.Subnet{NetworkID: p.network, CIDR: "10.0.0.0/16"})
	public := p.AddNetwork(openstacktest.Network{Name: "public", External: true})
	p.AddSubnet(openstacktest.Subnet{NetworkID: public, CIDR: "203.0.113.0/24"})
	p.AddRouter(openstacktest.Router{
		Name: "router", Subnets: []string{p.subnet}, ExternalNetworkID: public,
	})
	if shared != nil {
		config := *shared
		config.RequestRate = -1
		p.options = append(p.options, openstack.WithShared(openstack.NewSharedAt(config, p.clock)))
	}
	return p
}

// addCluster returns when the load balancers of the cluster are ready.
func (p *project) addCluster() {
	p.t.Helper()
	name := fmt.Sprint("cluster-", len(p.clusters))
	c := &idleCluster{}
	objects := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: metav1.NamespaceSystem, UID: types.UID(name),
	}}}
	for i := range nodesOfCluster {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, "-node-", i)}}
		server := p.AddServer(openstacktest.Server{Name: node.Name})
		node.Spec.ProviderID = "openstack:///" + server
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		}}
		address := fmt.Sprintf("10.0.%d.%d", 200+len(p.clusters), 10+i)
		p.AddPort(openstacktest.Port{
			NetworkID: p.network, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
			FixedIPs: []openstacktest.FixedIP{{SubnetID: p.subnet, Address: address}},
		})
		node.Status.Addresses = []corev1.NodeAddress{{
			Type: corev1.NodeInternalIP, Address: address,
		}}
		c.nodes = append(c.nodes, node)
		objects = append(objects, node)
	}
	for i := range servicesOfCluster {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprint("web-", i),
				UID:         types.UID(fmt.Sprint(name, "-service-", i)),
				Finalizers:  []string{servicehelpers.LoadBalancerCleanupFinalizer},
				Annotations: map[string]string{"loadbalancer.openstack.org/subnet-id": p.subnet},
			},
			Spec: corev1.ServiceSpec{
				Type:       corev1.ServiceTypeLoadBalancer,
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports: []corev1.ServicePort{{
					Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080,
				}},
			},
		}
		c.services = append(c.services, service)
		objects = append(objects, service)
	}
	kube := fake.NewClientset(objects...)
	c.cloud = p.start(name, kube)
	balancers, _ := c.cloud.LoadBalancer()
	for _, service := range c.services {
		for {
			current, err := balancers.EnsureLoadBalancer(p.t.Context(), name, service, c.nodes)
			if err == nil {
				service.Status.LoadBalancer = *current
				if _, err := kube.CoreV1().Services(service.Namespace).UpdateStatus(p.t.Context(),
					service, metav1.UpdateOptions{}); err != nil {
					p.t.Fatal(err)
				}
				break
			}
			var retry *api.RetryError
			if !errors.As(err, &retry) {
				p.t.Fatal(err)
			}
			p.clock.Step(retry.RetryAfter())
		}
	}
	p.clusters = append(p.clusters, c)
}

func (p *project) start(name string, kube *fake.Clientset) cloudprovider.Interface {
	p.t.Helper()
	env := ccm.ProviderEnv{
		Manager: name, ClusterName: name, Registerer: p.registry, Clock: p.clock,
		ConfigFile: write(p.t, p.CloudConf("password")+
			"[Route]\nrouter-id = "+p.AddRouter(openstacktest.Router{Name: name})+"\n"),
		ConfigStrict: true,
	}
	cloud, err := openstack.Provider(p.options...).New(p.t.Context(), env)
	if err != nil {
		p.t.Fatal(err)
	}
	cloud.Initialize(builder{kube}, nil)
	factory := informers.NewSharedInformerFactory(kube, 0)
	cloud.(cloudprovider.InformerUser).SetInformers(factory)
	cloud.LoadBalancer()
	ctx, stop := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	p.t.Cleanup(func() {
		if err := cloud.(io.Closer).Close(); err != nil {
			p.t.Error(err)
		}
		stop()
		factory.Shutdown()
	})
	return cloud
}

// refresh reads the nodes' addresses one after the other, as the node controller does.
func (p *project) refresh(c *idleCluster) {
	instances, _ := c.cloud.InstancesV2()
	for _, node := range c.nodes {
		if _, err := instances.InstanceMetadata(p.t.Context(), node); err != nil {
			p.t.Error(err)
		}
	}
}

// unchecked returns a load balancer that was not checked since a time, or whose drift is not
// repaired yet; nil without one. The only drift in these tests is a detached floating IP.
func (p *project) unchecked(since time.Time) error {
	for _, c := range p.clusters {
		all := c.cloud.(ccm.ObjectReporter).LoadBalancerStatus()
		if len(all) != servicesOfCluster {
			return fmt.Errorf("%d load balancers are known", len(all))
		}
		for _, current := range all {
			if current.State != status.LoadBalancerReady || current.ComparedAt.Before(since) {
				return fmt.Errorf("load balancer %s is %s (%s), checked at %s", current.Name,
					current.State, current.Message, current.ComparedAt)
			}
			if !current.DriftedAt.Before(since) && p.isDetached() {
				return fmt.Errorf("the floating IP of %s is detached", current.Name)
			}
		}
	}
	return nil
}

func (p *project) isDetached() bool {
	return slices.ContainsFunc(p.FloatingIPs(),
		func(f openstacktest.FloatingIP) bool { return f.PortID == "" })
}

// rest lets time pass, with the periodic checks of all clusters: the addresses of nodes every 5
// minutes, each cluster at another time, the routes every minute, and the drift of load balancers,
// whose timers run by the clock. It returns the requests.
func (p *project) rest(minutes int) map[string]int {
	p.t.Helper()
	p.ForgetCalls()
	for minute := 1; minute <= minutes; minute++ {
		p.clock.Step(time.Minute)
		for i, c := range p.clusters {
			if (minute+i)%5 == 0 {
				p.refresh(c)
			}
			routes, _ := c.cloud.Routes()
			if _, err := routes.ListRoutes(p.t.Context(), ""); err != nil {
				p.t.Error(err)
			}
		}
		// A check that has just become due has begun. Time that passed during it would make its
		// lists too old.
		since := p.clock.Now().Add(1 - 5*time.Minute)
		waittest.Until(p.t, fmt.Sprintf("the work of minute %d is done", minute),
			func() error { return p.unchecked(since) })
	}
	return p.Counts()
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

func TestShared_ClustersAtRest_CostTheProjectWhatOneDoes(t *testing.T) {
	const clusters, minutes = 10, 60
	alone := newProject(t, nil)
	alone.addCluster()
	alone.rest(10) // the first pass compares everything once
	one := alone.rest(minutes)

	together := newProject(t, &openstack.SharedConfig{})
	for range clusters {
		together.addCluster()
	}
	if logins := together.Counts()["token_create"]; logins != 1 {
		t.Errorf("%d logins of %d clusters, want 1", logins, clusters)
	}
	together.rest(10)
	all := together.rest(minutes)

	patient := newProject(t, &openstack.SharedConfig{MaxAge: 19 * time.Minute})
	patient.addCluster()
	patient.rest(10)
	rarely := patient.rest(minutes)

	oneAMinute := float64(total(one)) / minutes
	rareAMinute := float64(total(rarely)) / minutes
	perMinute := float64(total(all)) / minutes / clusters
	t.Logf("one cluster alone: %.2f requests a minute %v", oneAMinute, one)
	t.Logf("%d clusters: %.2f requests a minute each %v", clusters, perMinute, all)
	t.Logf("one cluster with lists of 19 minutes: %.2f requests a minute %v", rareAMinute, rarely)
	if oneAMinute > 1.3 {
		t.Errorf("a cluster alone costs %.2f requests a minute, want 1.3 at most", oneAMinute)
	}
	if rareAMinute > 0.5 {
		t.Errorf("with lists of 19 minutes it costs %.2f a minute, want 0.5 at most", rareAMinute)
	}
	if perMinute > 0.5 {
		t.Errorf("a cluster at rest costs %.2f requests a minute, want 0.5 at most", perMinute)
	}
	for _, list := range []string{
		"server_list", "port_list", "loadbalancer_list",
		"floating_ip_list",
	} {
		if one[list] == 0 || all[list] > 2*one[list] {
			t.Errorf("%d clusters: %d %s, and one cluster %d", clusters, all[list], list, one[list])
		}
	}
}

func TestShared_ClustersStartTogether_ShareTheLists(t *testing.T) {
	const clusters = 10
	p := newProject(t, &openstack.SharedConfig{})
	for range clusters {
		p.addCluster()
	}
	// A cluster reads ports one by one only for its own servers.
	for i := range 5 {
		p.AddServer(openstacktest.Server{
			Name: fmt.Sprint("foreign-", i),
			Addresses: []openstacktest.Address{{
				Network: "elsewhere", Address: fmt.Sprint("192.0.2.", i),
			}},
		})
	}
	p.clock.Step(10 * time.Minute)
	p.ForgetCalls()
	var group sync.WaitGroup
	for _, c := range p.clusters {
		group.Go(func() { p.refresh(c) })
	}
	group.Wait()
	if counts := p.Counts(); counts["server_list"] != 1 || counts["port_list"] != 1 {
		t.Errorf("requests: %v, want one list of servers and one of ports", counts)
	}
}

// An old list shows neither a change of another client, nor that the client has undone it.
func TestShared_LoadBalancerDrifts_IsRepairedByNewLists(t *testing.T) {
	p := newProject(t, &openstack.SharedConfig{})
	for range 3 {
		p.addCluster()
	}
	p.rest(10)
	taken := p.FloatingIPs()[3]
	if err := p.UpdateFloatingIP(taken.ID, func(f *openstacktest.FloatingIP) {
		f.PortID = ""
	}); err != nil {
		t.Fatal(err)
	}
	p.rest(10)
	var listed time.Time
	repairs := 0
	for _, call := range p.Calls() {
		switch {
		case call.Operation == "floating_ip_list":
			listed = call.Time
		case call.Method == http.MethodGet || call.Service == openstacktest.ServiceIdentity:
		default:
			if repairs++; !call.Time.Equal(listed) {
				t.Errorf("%s %s at %s is based on a list of %s", call.Method, call.Path, call.Time,
					listed)
			}
		}
	}
	for _, now := range p.FloatingIPs() {
		if now.ID == taken.ID && now.PortID != taken.PortID || repairs == 0 {
			t.Errorf("the floating IP leads to port %q after %d repairs, want %q", now.PortID,
				repairs, taken.PortID)
		}
	}
}

// The list that both clusters share lacks more servers than the guard of either would believe.
func TestShared_AllInstancesOfAClusterVanish_OnlyItsOwnNodesAreGuarded(t *testing.T) {
	p := newProject(t, &openstack.SharedConfig{MaxAge: 19 * time.Minute})
	for range 2 {
		p.addCluster()
	}
	p.rest(10)
	vanished, other := p.clusters[0], p.clusters[1]
	absent := other.nodes[0]
	for _, node := range append([]*corev1.Node{absent}, vanished.nodes...) {
		id := strings.TrimPrefix(node.Spec.ProviderID, "openstack:///")
		if err := p.DeleteServer(id); err != nil {
			t.Fatal(err)
		}
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	exists := func(c *idleCluster, node *corev1.Node) (bool, error) {
		instances, _ := c.cloud.InstancesV2()
		return instances.InstanceExists(t.Context(), node)
	}
	for range 5 {
		p.clock.Step(time.Minute)
		for i, node := range vanished.nodes {
			// The first nodes are only waiting for a second denial.
			if _, err := exists(vanished, node); !errors.Is(err, absence.ErrMassDeletion) &&
				!errors.Is(err, absence.ErrUnconfirmed) {
				t.Errorf("all instances have vanished, and node %d is judged with %v", i, err)
			}
		}
		for _, node := range other.nodes[1:] {
			if exists, err := exists(other, node); !exists || err != nil {
				t.Errorf("%s of the other cluster exists: %t, %v", node.Name, exists, err)
			}
		}
		if _, err := exists(other, absent); err != nil && !errors.Is(err, absence.ErrUnconfirmed) {
			t.Errorf("the absent instance of the other cluster is judged with %v", err)
		}
	}
	for _, node := range vanished.nodes {
		if _, err := exists(vanished, node); !errors.Is(err, absence.ErrMassDeletion) {
			t.Errorf("%s is judged with %v, want %v", node.Name, err, absence.ErrMassDeletion)
		}
	}
	if exists, err := exists(other, absent); exists || err != nil {
		t.Errorf("the absent instance of the other cluster exists: %t, %v", exists, err)
	}
}
