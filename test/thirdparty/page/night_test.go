package page_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// site is a cluster on a simulated OpenStack, served by a Manager.
type site struct {
	*ccm.Manager
	t       *testing.T
	cloud   *openstacktest.Cloud
	client  kubernetes.Interface
	network string
}

// stores are the Services that are served.
const stores = 8

// newNight returns a Manager of the product with troubles that really exist: the pictures of the
// documentation show no text that fxccm does not write.
func newNight(t *testing.T) *ccm.Manager {
	t.Helper()
	s := newSite(t)
	for i := range 3 {
		name := fmt.Sprintf("worker-%d", i+1)
		s.addServer(name)
		ccmtest.CreateNode(t, s.client, ccmtest.TaintedNode(name))
		ccmtest.Eventually(t, name+" is initialized", ccmtest.Initialized(s.client, name))
	}
	for i := range stores {
		s.addService("shop", fmt.Sprintf("store-%d", i+1))
	}
	s.addService("shop", "checkout")
	served := map[string]string{"shop/checkout": "ready Served"}
	for i := range stores {
		served[fmt.Sprintf("shop/store-%d", i+1)] = "ready Served"
	}
	s.waitStates("the first Services are served", served)

	// An operator changes the weight of a member by hand. A change that comes before the first
	// comparison is no drift, so it is made after each comparison until one is.
	var compared time.Time
	ccmtest.Eventually(t, "a drift is reported", func(context.Context) (bool, error) {
		lb := s.balancer("shop/store-2")
		if !lb.DriftedAt.IsZero() {
			return true, nil
		}
		if lb.State == status.LoadBalancerReady && lb.ComparedAt.After(compared) {
			compared = lb.ComparedAt
			s.change("shop/store-2", func(lb *openstacktest.LoadBalancer) {
				lb.Pools[0].Members[0].Weight = 7
			})
		}
		return false, fmt.Errorf("%s %s, compared at %v", lb.State, lb.Reason, lb.ComparedAt)
	})
	// An amphora fails, and the cloud does not let its users request a failover.
	s.change("shop/checkout", func(lb *openstacktest.LoadBalancer) {
		lb.ProvisioningStatus, lb.OperatingStatus = "ERROR", "OFFLINE"
	})
	// The project has no floating IP left.
	s.cloud.SetNetworkQuota("floatingip", stores+1)
	s.addService("payments", "webhooks")
	// The annotation names a subnet that does not exist.
	s.addService("shop", "legacy-import", ccmtest.ServiceAnnotation(
		"loadbalancer.openstack.org/subnet-id", "6f2a4c1e-93b7-4d05-8e21-0c5b7a9d3f64"))
	// The node has no server.
	ccmtest.CreateNode(t, s.client, ccmtest.TaintedNode("worker-17"))
	s.waitStates("the troubles are in the status", map[string]string{
		"shop/checkout":      "degraded LoadBalancerInError",
		"payments/webhooks":  "degraded QuotaExceeded",
		"shop/legacy-import": "refused LoadBalancerSettingRefused",
		"worker-17":          "ServerNotFound",
	})
	return s.Manager
}

func newSite(t *testing.T) *site {
	t.Helper()
	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, cloud: openstacktest.NewCloud(openstacktest.WithRegion("eu-west-1"))}
	t.Cleanup(s.cloud.Close)
	s.network = s.cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := s.cloud.AddSubnet(
		openstacktest.Subnet{NetworkID: s.network, CIDR: "10.0.0.0/16"})
	public := s.cloud.AddNetwork(openstacktest.Network{Name: "public", External: true})
	s.cloud.AddSubnet(openstacktest.Subnet{NetworkID: public, CIDR: "203.0.113.0/24"})
	s.cloud.AddRouter(openstacktest.Router{
		Name: "router", ExternalNetworkID: public, Subnets: []string{subnet},
	})
	if s.client, err = kubernetes.NewForConfig(plane.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "payments"} {
		_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(t.TempDir(), "cloud.conf")
	// Short periods keep the test short.
	text := s.cloud.CloudConf("application-credential") +
		"\n[LoadBalancer]\ndrift-period = 1s\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	discard, cfg, elector := logr.Discard(), ccmtest.Config(), ccmtest.NewManualElector()
	cfg.ClusterName, cfg.CloudProvider.ConfigFile = "cluster-of-prod", conf
	cfg.Controllers = []string{"*", "-node-route-controller"}
	elector.Lead()
	s.Manager, err = ccm.New(ccm.Params{
		Name: "prod", Config: cfg, Logger: &discard, Elector: elector,
		Registerer: prometheus.NewRegistry(),
		RESTConfig: plane.RESTConfig(), Providers: []ccm.Provider{openstack.Provider()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-s.Done()
	})
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(s.Manager))
	return s
}

func (s *site) addServer(name string) {
	id := s.cloud.AddServer(openstacktest.Server{Name: name})
	s.cloud.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
	})
}

func (s *site) addService(namespace, name string, options ...ccmtest.ServiceOption) {
	s.t.Helper()
	service := ccmtest.LoadBalancerService(name,
		append(options, ccmtest.ServiceNamespace(namespace))...)
	if _, err := s.client.CoreV1().Services(namespace).Create(s.t.Context(), service,
		metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// balancer returns the status of a Service's load balancer.
func (s *site) balancer(service string) status.LoadBalancer {
	s.t.Helper()
	for _, lb := range s.Status().LoadBalancers {
		if lb.Namespace+"/"+lb.Service == service {
			return lb
		}
	}
	s.t.Fatalf("%s has no load balancer", service)
	return status.LoadBalancer{}
}

// change changes the load balancer of a Service like another client of Octavia.
func (s *site) change(service string, change func(*openstacktest.LoadBalancer)) {
	s.t.Helper()
	if err := s.cloud.ChangeLoadBalancer(s.balancer(service).ID, change); err != nil {
		s.t.Fatal(err)
	}
}

// waitStates waits until the status has Services and nodes in these states.
func (s *site) waitStates(what string, want map[string]string) {
	s.t.Helper()
	ccmtest.Eventually(s.t, what, func(context.Context) (bool, error) {
		got := map[string]string{}
		current := s.Status()
		for _, lb := range current.LoadBalancers {
			got[lb.Namespace+"/"+lb.Service] = fmt.Sprint(lb.State, " ", lb.Reason)
		}
		for _, node := range current.Nodes {
			got[node.Name] = node.Reason
		}
		var missing []string
		for name, state := range want {
			if got[name] != state {
				missing = append(missing, fmt.Sprintf("%s is %q, want %q", name, got[name], state))
			}
		}
		if len(missing) > 0 {
			return false, fmt.Errorf("%s", strings.Join(missing, "; "))
		}
		return true, nil
	})
}
