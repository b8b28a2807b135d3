package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// watchtower is a provider whose troubles the test observes. The test advances its clock.
type watchtower struct {
	*openstacktest.Cloud
	t     *testing.T
	cloud cloudprovider.Interface
	clock *clocktesting.FakeClock

	mu   sync.Mutex
	open map[string]error
}

func newWatchtower(t *testing.T, more string) *watchtower {
	t.Helper()
	w := &watchtower{t: t, clock: clocktesting.NewFakeClock(time.Now()), open: map[string]error{}}
	w.Cloud = openstacktest.NewCloud(openstacktest.WithClock(w.clock))
	t.Cleanup(w.Close)
	w.cloud = open(t, write(t,
		w.CloudConf(openstacktest.PasswordAuth)+"[Client]\nmax-retries = 0\n"+more),
		ccm.ProviderEnv{ReportTrouble: w.report, Clock: w.clock})
	return w
}

func (w *watchtower) report(subject string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cause == nil {
		delete(w.open, subject)
		return
	}
	if text := cause.Error(); strings.Contains(text, w.Credentials().Password) {
		w.t.Errorf("the report about %s holds the password: %s", subject, text)
	}
	w.open[subject] = cause
}

// want checks that there is one trouble, with this text.
func (w *watchtower) want(subject string, texts ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) != 1 || w.open[subject] == nil {
		w.t.Fatalf("the troubles are %v, want one of %s", w.open, subject)
	}
	for _, text := range texts {
		if !strings.Contains(w.open[subject].Error(), text) {
			w.t.Errorf("%s: %v, want it to hold %q", subject, w.open[subject], text)
		}
	}
}

func (w *watchtower) wantNone() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) > 0 {
		w.t.Fatalf("the troubles are %v", w.open)
	}
}

func (w *watchtower) addNodes(n int) (nodes []*corev1.Node) {
	for i := range n {
		node := &corev1.Node{}
		node.Name = fmt.Sprint("node-", i)
		node.Spec.ProviderID = "openstack:///" + w.AddServer(openstacktest.Server{Name: node.Name})
		nodes = append(nodes, node)
	}
	return nodes
}

// exist looks up the instances of nodes, as upstream's node lifecycle controller does, and returns
// the last error.
func (w *watchtower) exist(nodes ...*corev1.Node) (err error) {
	w.t.Helper()
	instances, _ := w.cloud.InstancesV2()
	for _, node := range nodes {
		exists, failure := instances.InstanceExists(w.t.Context(), node)
		if failure == nil && !exists {
			w.t.Errorf("%s does not exist", node.Name)
		}
		err = errors.Join(err, failure)
	}
	return err
}

func TestTrouble_KeystoneIsDownOrRefusesTheLogin_UntilItIssuesAToken(t *testing.T) {
	for name, fault := range map[string]openstacktest.Fault{
		"503":     {Service: openstacktest.ServiceIdentity, Status: http.StatusServiceUnavailable},
		"401":     {Service: openstacktest.ServiceIdentity, Status: http.StatusUnauthorized},
		"no line": {Service: openstacktest.ServiceIdentity, Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatchtower(t, "")
			node := w.addNodes(1)[0]
			w.Inject(fault)
			if err := w.exist(node); err == nil {
				t.Fatal("the lookup succeeded without a login")
			}
			w.want("identity", "log in to Keystone", w.Credentials().AuthURL)
			w.clock.Step(time.Minute)
			_ = w.exist(node)
			w.want("identity", "log in to Keystone")

			w.RemoveFaults()
			w.clock.Step(time.Minute)
			if err := w.exist(node); err != nil {
				t.Fatal(err)
			}
			w.wantNone()
		})
	}
}

func TestTrouble_InstancesVanish_UntilMostAreBack(t *testing.T) {
	w := newWatchtower(t, "")
	nodes := w.addNodes(6)
	if err := w.exist(nodes...); err != nil {
		t.Fatal(err)
	}
	w.wantNone()
	w.Inject(openstacktest.Fault{Operation: "server_*", Status: http.StatusNotFound})
	w.Inject(openstacktest.Fault{
		Operation: "server_list",
		Rewrite: func(openstacktest.Call, int, []byte) (int, []byte) {
			return http.StatusOK, []byte(`{"servers": []}`)
		},
	})
	for range 3 {
		w.clock.Step(time.Minute)
		if err := w.exist(nodes...); err == nil {
			t.Fatal("all instances exist")
		}
	}
	w.want("instances", "of 6 instances", "no node is deleted")

	w.RemoveFaults()
	w.clock.Step(time.Minute)
	if err := w.exist(nodes...); err != nil {
		t.Fatal(err)
	}
	w.wantNone()
}

// builder returns a client of an API server to the provider.
type builder struct{ kubernetes.Interface }

func (b builder) Config(string) (*rest.Config, error) {
	return nil,
		errors.New("no answer")
}
func (b builder) ConfigOrDie(string) *rest.Config             { return nil }
func (b builder) Client(string) (kubernetes.Interface, error) { return b, nil }
func (b builder) ClientOrDie(string) kubernetes.Interface     { return b }

func TestTrouble_QuotaIsUsedUp_UntilACreationOfThatKindSucceeds(t *testing.T) {
	const unlimited = -1
	w := newWatchtower(t, "[LoadBalancer]\ndrift-period = 0s\n")
	network := w.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := w.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/16"})
	public := w.AddNetwork(openstacktest.Network{Name: "public", External: true})
	w.AddSubnet(openstacktest.Subnet{NetworkID: public, CIDR: "203.0.113.0/24"})
	w.AddRouter(openstacktest.Router{
		Name: "router", Subnets: []string{subnet},
		ExternalNetworkID: public,
	})

	kube := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: metav1.NamespaceSystem,
			UID:  "cluster-1",
		}})
	w.cloud.Initialize(builder{kube}, nil)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "c0ffee00-0000-4000-8000-000000000001",
			Annotations: map[string]string{"loadbalancer.openstack.org/subnet-id": subnet},
		},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeLoadBalancer,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{
				Name: "http", Protocol: corev1.ProtocolTCP,
				Port: 80, NodePort: 30080,
			}},
		},
	}
	if _, err := kube.CoreV1().Services("default").
		Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	balancers, _ := w.cloud.LoadBalancer()
	// ensure reconciles until the result is not a wait.
	ensure := func() error {
		for {
			_, err := balancers.EnsureLoadBalancer(context.Background(), "kubernetes", service, nil)
			var retry *api.RetryError
			if !errors.As(err, &retry) {
				return err
			}
			w.clock.Step(retry.RetryAfter())
		}
	}

	w.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, 0)
	w.SetNetworkQuota("floatingip", 0)
	if err := ensure(); err == nil {
		t.Fatal("a load balancer was created beyond the quota")
	}
	w.want("quota", "load balancers", "Quota has been met")
	// Another failure does not change the report about the quota.
	w.Inject(openstacktest.Fault{Operation: "loadbalancer_create", Status: http.StatusBadRequest})
	if err := ensure(); err == nil {
		t.Fatal("the creation succeeded")
	}
	w.want("quota", "load balancers")

	w.RemoveFaults()
	w.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, unlimited)
	if err := ensure(); err == nil {
		t.Fatal("a floating IP was created beyond the quota")
	}
	w.want("quota", "floating IPs", "Quota exceeded")
	if strings.Contains(w.open["quota"].Error(), "load balancers:") {
		t.Errorf("load balancers can be created again, and the report is %v", w.open["quota"])
	}

	w.SetNetworkQuota("floatingip", unlimited)
	if err := ensure(); err != nil {
		t.Fatal(err)
	}
	w.wantNone()
}
