package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// watchtower is a provider whose troubles the test observes. The test advances its clock.
type watchtower struct {
	*openstacktest.Cloud
	t     *testing.T
	cloud cloudprovider.Interface
	clock *clocktesting.FakeClock
	// file is the cloud.conf.
	file string

	mu   sync.Mutex
	open map[string]error
}

func newWatchtower(t *testing.T, more string) *watchtower {
	t.Helper()
	w := &watchtower{t: t, clock: clocktesting.NewFakeClock(time.Now()), open: map[string]error{}}
	w.Cloud = openstacktest.NewCloud(openstacktest.WithClock(w.clock))
	t.Cleanup(w.Close)
	w.file = write(t, w.CloudConf("password")+"[Client]\nmax-retries = 0\n"+more)
	w.cloud = open(t, w.file,
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

func (w *watchtower) text(subject string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[subject] == nil {
		return ""
	}
	return w.open[subject].Error()
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

// exist looks up the instances of nodes, as the node lifecycle controller does, and returns
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
			w.want("Keystone", w.Credentials().Username)
			w.clock.Step(time.Minute)
			_ = w.exist(node)
			w.want("Keystone", w.Credentials().Username)

			w.RemoveFaults()
			w.clock.Step(time.Minute)
			if err := w.exist(node); err != nil {
				t.Fatal(err)
			}
			w.wantNone()
		})
	}
}

func TestTrouble_ServiceDoesNotAnswer_IsReportedUntilItAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		fault openstacktest.Fault
		text  string
	}{
		"503": {
			openstacktest.Fault{Status: http.StatusServiceUnavailable},
			"503 Service Unavailable; retrying",
		},
		"500":     {openstacktest.Fault{Status: http.StatusInternalServerError}, "500 "},
		"no line": {openstacktest.Fault{Drop: true}, "EOF; retrying"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatchtower(t, "")
			node := w.addNodes(1)[0]
			c.fault.Service = openstacktest.ServiceCompute
			w.Inject(c.fault)
			for range 2 {
				if err := w.exist(node); err == nil {
					t.Fatal("the lookup succeeded without Nova")
				}
				w.want("Nova", c.text)
				if text := w.text("Nova"); strings.Contains(text, "Nova") ||
					strings.Contains(text, "http") {
					t.Errorf("it repeats the service or has the URL: %s", text)
				}
				w.clock.Step(time.Minute)
			}

			w.RemoveFaults()
			if err := w.exist(node); err != nil {
				t.Fatal(err)
			}
			w.wantNone()
		})
	}
}

func TestTrouble_EachService_IsReportedUntilItAnswers(t *testing.T) {
	for operation, c := range map[string]struct{ service, name string }{
		"look up a server":         {openstacktest.ServiceCompute, "Nova"},
		"list routes":              {openstacktest.ServiceNetwork, "Neutron"},
		"look for a load balancer": {openstacktest.ServiceLoadBalancer, "Octavia"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTexts(t)
			x.Inject(openstacktest.Fault{
				Service: c.service, Status: http.StatusServiceUnavailable,
			})
			for range 2 {
				if err := x.try(operation); err == nil {
					t.Fatalf("the operation succeeded without %s", c.name)
				}
				x.want(c.name, "503 Service Unavailable; retrying")
				x.clock.Step(time.Minute)
			}
			x.RemoveFaults()
			if err := x.try(operation); err != nil {
				t.Fatal(err)
			}
			x.wantNone()
		})
	}
}

// A refusal is an answer, and a call that ends with its caller says nothing about the service.
func TestTrouble_ServiceRefusesOrTheCallerEnds_NothingIsReported(t *testing.T) {
	w := newWatchtower(t, "")
	node := w.addNodes(1)[0]
	w.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceCompute, Status: http.StatusForbidden,
	})
	if err := w.exist(node); err == nil {
		t.Fatal("the lookup succeeded without Nova")
	}
	w.wantNone()
	w.RemoveFaults()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	instances, _ := w.cloud.InstancesV2()
	if _, err := instances.InstanceExists(ctx, node); err == nil {
		t.Fatal("the lookup succeeded without a caller")
	}
	w.wantNone()
}

func TestTrouble_RegionIsNotInTheCatalog_NamesTheSettingAndTheRegions(t *testing.T) {
	w := newWatchtower(t, "")
	right := w.CloudConf("password")
	region := w.Credentials().Region
	w.cloud = open(t, write(t, strings.Replace(right, region, "Nowhere", 1)),
		ccm.ProviderEnv{ReportTrouble: w.report, Clock: w.clock})
	const text = `region of cloud.conf is "Nowhere", but Keystone's catalog has it in region "`
	err := w.exist(w.addNodes(1)...)
	if err == nil {
		t.Fatal("the lookup succeeded in an unknown region")
	}
	if got := events.Explain(err).Error(); !strings.HasPrefix(got, "Nova: "+text+region+`"; `) ||
		strings.Count(got, ": ") > 1 {
		t.Errorf("the error is %q", got)
	}
	w.want("Nova", text, region)
}

func TestTrouble_CloudConfIsInvalidAtAReload_IsReportedUntilItIsRightAgain(t *testing.T) {
	w := newWatchtower(t, "")
	if err := w.exist(w.addNodes(1)...); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	right := string(text)
	password := w.Credentials().Password
	for name, c := range map[string]struct{ content, want string }{
		"a syntax error": {right + "[Client\n", "line"},
		"a word for a number": {
			strings.Replace(right, "max-retries = 0", "max-retries = many", 1), "max-retries",
		},
		"no address of Keystone": {
			strings.Replace(right, "auth-url", "no-such-url", 1), "auth-url",
		},
		"another password": {strings.Replace(right, password, "0ther-secret", 1), "Keystone: 401"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			step := func(content, what string, isOver func() bool) {
				t.Helper()
				// A reload must not find a part of the file.
				if err := os.Rename(write(t, content), w.file); err != nil {
					t.Fatal(err)
				}
				waittest.Until(t, what, func() bool {
					w.clock.Step(10 * time.Second)
					w.mu.Lock()
					defer w.mu.Unlock()
					return isOver()
				})
			}
			step(c.content, "the failed reload is reported",
				func() bool { return w.open["cloud.conf"] != nil })
			w.want("cloud.conf", c.want, "; the previous configuration stays in use")
			reported := w.text("cloud.conf")
			if strings.Contains(reported, "0ther-secret") || strings.Contains(reported, "://") {
				t.Errorf("the report has the password or a URL: %s", reported)
			}
			step(right, "the report is withdrawn", func() bool { return len(w.open) == 0 })
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

// quotaSite is a watchtower with a Service.
type quotaSite struct {
	*watchtower
	kube      *fake.Clientset
	balancers cloudprovider.LoadBalancer
	service   *corev1.Service
	// network is that of the nodes.
	network string
}

// lead starts another term.
func (q *quotaSite) lead() {
	q.t.Helper()
	q.cloud = open(q.t, q.file, ccm.ProviderEnv{ReportTrouble: q.report, Clock: q.clock})
	q.cloud.Initialize(builder{q.kube}, nil)
	q.balancers, _ = q.cloud.LoadBalancer()
}

func newQuotaSite(t *testing.T) *quotaSite {
	t.Helper()
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
	return &quotaSite{w, kube, balancers, service, network}
}

// ensure reconciles until the Service is served or refused. A refusal pauses for long.
func (q *quotaSite) ensure(nodes ...*corev1.Node) error {
	for {
		_, err := q.balancers.EnsureLoadBalancer(context.Background(), "kubernetes", q.service,
			nodes)
		var retry *api.RetryError
		if !errors.As(err, &retry) || retry.RetryAfter() >= 30*time.Second {
			return err
		}
		q.clock.Step(retry.RetryAfter())
	}
}

// A load balancer is created with its listeners.
func TestTrouble_QuotaOfAPartIsUsedUp_NamesThePart(t *testing.T) {
	w := newQuotaSite(t)
	w.SetLoadBalancerQuota(openstacktest.QuotaListener, 0)
	if err := w.ensure(); err == nil {
		t.Fatal("a listener was created beyond the quota")
	}
	w.want("quota", "(Listener); raise the quota")
}

func TestTrouble_RightToPatchServicesIsMissing_UntilItIsThere(t *testing.T) {
	w := newQuotaSite(t)
	var isGranted atomic.Bool
	w.kube.PrependReactor("patch", "services",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.GetSubresource() == "" && !isGranted.Load(), nil,
				apierrors.NewForbidden(corev1.Resource("services"), "web",
					errors.New(`User "ccm" cannot patch resource "services"`))
		})
	if err := w.ensure(); err == nil {
		t.Fatal("the Service is served without its annotations")
	}
	w.want("permission to patch services for OpenStack", "cannot patch")
	isGranted.Store(true)
	w.clock.Step(10 * time.Minute) // a refusal pauses
	if err := w.ensure(); err != nil {
		t.Fatal(err)
	}
	w.wantNone()
}

// No creation follows that could succeed when the Service is deleted, or wants no floating IP any
// more.
func TestTrouble_QuotaIsUsedUp_UntilNoServiceWaitsForIt(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		w := newQuotaSite(t)
		w.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, 0)
		if err := w.ensure(); err == nil {
			t.Fatal("a load balancer was created beyond the quota")
		}
		w.want("quota", "(Load Balancer)")
		deleted := w.service.DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
		if _, exists, err := w.balancers.GetLoadBalancer(t.Context(), "kubernetes",
			deleted); exists || err != nil {
			t.Fatalf("a load balancer exists: %t, %v", exists, err)
		}
		w.wantNone()
	})
	t.Run("internal", func(t *testing.T) {
		w := newQuotaSite(t)
		w.SetNetworkQuota("floatingip", 0)
		if err := w.ensure(); err == nil {
			t.Fatal("a floating IP was created beyond the quota")
		}
		w.want("quota", "floating IPs")
		w.service = w.service.DeepCopy()
		const internal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
		w.service.Annotations[internal] = "true"
		if err := w.ensure(); err != nil {
			t.Fatal(err)
		}
		w.wantNone()
	})
}

func TestTrouble_QuotaIsUsedUp_UntilACreationOfThatKindSucceeds(t *testing.T) {
	const unlimited = -1
	w := newQuotaSite(t)
	ensure := w.ensure
	w.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, 0)
	w.SetNetworkQuota("floatingip", 0)
	if err := ensure(); err == nil {
		t.Fatal("a load balancer was created beyond the quota")
	}
	w.want("quota", "(Load Balancer)", "Quota has been met")
	// Another failure does not change the report about the quota.
	w.Inject(openstacktest.Fault{Operation: "loadbalancer_create", Status: http.StatusBadRequest})
	if err := ensure(); err == nil {
		t.Fatal("the creation succeeded")
	}
	w.want("quota", "(Load Balancer)")

	w.RemoveFaults()
	w.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, unlimited)
	if err := ensure(); err == nil {
		t.Fatal("a floating IP was created beyond the quota")
	}
	w.want("quota", "floating IPs", "Quota exceeded")
	if strings.Contains(w.text("quota"), "(Load Balancer)") {
		t.Errorf("load balancers can be created again, and the report is %s", w.text("quota"))
	}

	w.SetNetworkQuota("floatingip", unlimited)
	if err := ensure(); err != nil {
		t.Fatal(err)
	}
	w.wantNone()
}
