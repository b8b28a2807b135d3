package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
)

// prefix begins the names of all Nodes and Services.
const prefix = "conformance-"

const (
	drainTimeout = 5 * time.Second
	pollInterval = 10 * time.Millisecond
	// quietTime without a request means that the provider is idle. It is longer than the period of
	// the route controller.
	quietTime   = 300 * time.Millisecond
	routePeriod = 100 * time.Millisecond
	// reportTime is subtracted by the waits of ccmtest from a deadline.
	reportTime = 5 * time.Second
)

// recorder is a test that records its failures, and limits each wait.
type recorder struct {
	testing.TB
	limit time.Duration

	mu       sync.Mutex
	failures []string
	skipped  string
}

// Deadline limits the waits of package ccmtest.
func (r *recorder) Deadline() (time.Time, bool) {
	return time.Now().Add(r.limit + reportTime), true
}

// fail keeps the first line, which fits into the table. The output of the check has the whole text.
func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, _, _ := strings.Cut(text, "\n")
	r.failures = append(r.failures, first)
}

func (r *recorder) seen() (skipped string, failures []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped, r.failures
}

func (r *recorder) Error(args ...any) {
	r.Helper()
	r.fail(fmt.Sprint(args...))
	r.TB.Error(args...)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.Helper()
	r.fail(fmt.Sprintf(format, args...))
	r.TB.Errorf(format, args...)
}

func (r *recorder) Fatal(args ...any) {
	r.Helper()
	r.fail(fmt.Sprint(args...))
	r.TB.Fatal(args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Helper()
	r.fail(fmt.Sprintf(format, args...))
	r.TB.Fatalf(format, args...)
}

func (r *recorder) Skip(args ...any) {
	r.Helper()
	r.mu.Lock()
	r.skipped = fmt.Sprint(args...)
	r.mu.Unlock()
	r.TB.Skip(args...)
}

// trial is one run of a check.
type trial struct {
	*recorder
	suite   Suite
	cluster ccmtest.Cluster
	client  kubernetes.Interface
	names   int
	// others are the Leases that existed before the first check.
	others []string
}

func newTrial(r *recorder, s Suite, cluster ccmtest.Cluster) *trial {
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		r.Fatal(err)
	}
	return &trial{recorder: r, suite: s, cluster: cluster, client: client}
}

// name returns a name for a Node or a Service of the check. Its number is a part of the Node's
// CIDR. Numbers do not repeat soon, because the route to an old Node remains for a while.
func (x *trial) name() string {
	x.names = x.names%250 + 1
	return fmt.Sprintf("%s%d", prefix, x.names)
}

// manager is a Manager with the provider on a cloud.
type manager struct {
	*ccmtest.CCM
	cloud Cloud

	mu    sync.Mutex
	built cloudprovider.Interface
}

// start starts a Manager, which leads at once.
func (x *trial) start(cloud Cloud) *manager {
	x.Helper()
	m := &manager{cloud: cloud}
	m.CCM = x.startWith(cloud.ConfigFile(), m)
	return m
}

func (x *trial) startWith(configFile string, m *manager) *ccmtest.CCM {
	x.Helper()
	provider := x.suite.Provider
	build := provider.New
	provider.New = func(
		ctx context.Context, env ccm.ProviderEnv,
	) (cloudprovider.Interface, error) {
		built, err := build(ctx, env)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.built = built
		return built, err
	}
	return ccmtest.StartManager(x, x.cluster, nil, ccmtest.WithProvider(provider),
		ccmtest.WithConfig(func(cfg *ccm.Config) { x.configure(cfg, configFile) }))
}

func (x *trial) configure(cfg *ccm.Config, configFile string) {
	cfg.CloudProvider.ConfigFile = configFile
	cfg.DrainTimeout = metav1.Duration{Duration: drainTimeout}
	cfg.Route.ReconciliationPeriod = metav1.Duration{Duration: routePeriod}
	if x.suite.Configure != nil {
		x.suite.Configure(cfg)
	}
}

// provider is the provider of the open term. Its calls bypass the term's guard.
func (m *manager) provider() cloudprovider.Interface {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.built
}

// lead opens the next term.
func (m *manager) lead() {
	m.Elector.Lead()
	m.WaitReady()
}

// lose ends the term, which must drain, and returns how long that took.
func (x *trial) lose(m *manager) time.Duration {
	x.Helper()
	began := time.Now()
	m.Elector.Lose(nil)
	released := m.Elector.WaitReleased(x)
	if !released.Drained {
		x.Fatalf("the term did not drain: %v", released.Err)
	}
	return time.Since(began)
}

// join adds an instance and its Node, and waits until the Node is initialized.
func (x *trial) join(m *manager) *corev1.Node {
	x.Helper()
	name := x.name()
	m.cloud.AddInstance(name)
	x.createNode(m.cloud, name)
	return ccmtest.Eventually(x, "the node is initialized", ccmtest.Initialized(x.client, name))
}

func (x *trial) createNode(cloud Cloud, name string) {
	x.Helper()
	cidr := "10.244." + strings.TrimPrefix(name, prefix) + ".0/24"
	node := ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(cidr))
	if identifier, ok := cloud.(Identifier); ok {
		node.Spec.ProviderID = identifier.ProviderID(name)
	}
	ccmtest.CreateNode(x, x.client, node)
}

func (x *trial) isInitialized(name string) error {
	node, err := x.client.CoreV1().Nodes().Get(x.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" {
			return fmt.Errorf("it has the taint %s", taint.Key)
		}
	}
	return nil
}

// isQuiet returns an error while the provider changes the cloud.
func isQuiet(cloud Cloud) error {
	for _, r := range cloud.Requests() {
		if r.Mutating && (r.Ended.IsZero() || time.Since(r.Ended) < quietTime) {
			return fmt.Errorf("%s is in flight or has just ended", r.Operation)
		}
	}
	return nil
}

// step is a change by the user. isDone returns nil when the provider has followed it.
type step struct {
	what string
	act  func()
	done func() error
}

// journey is the life of two Nodes and a Service.
func (x *trial) journey(m *manager) []step {
	first, second, service := x.name(), x.name(), x.name()
	nodes := x.client.CoreV1().Nodes()
	services := x.client.CoreV1().Services(metav1.NamespaceDefault)
	join := func(name string) func() {
		return func() {
			m.cloud.AddInstance(name)
			x.createNode(m.cloud, name)
		}
	}
	steps := []step{{"the first Node joins", join(first), func() error {
		return x.isInitialized(first)
	}}}
	_, balances := m.provider().LoadBalancer()
	if balances {
		steps = append(steps, step{"the Service is created", func() {
			ccmtest.CreateService(x, x.client, ccmtest.LoadBalancerService(service))
		}, func() error {
			s, err := services.Get(x.Context(), service, metav1.GetOptions{})
			if err == nil && len(s.Status.LoadBalancer.Ingress) == 0 {
				err = errors.New("the Service has no address")
			}
			return err
		}})
	}
	steps = append(steps, step{"the second Node joins", join(second), func() error {
		return errors.Join(x.isInitialized(second), isQuiet(m.cloud))
	}})
	if balances {
		steps = append(steps, step{"the Service is deleted", func() {
			if err := services.Delete(x.Context(), service, metav1.DeleteOptions{}); err != nil {
				x.Fatal(err)
			}
		}, func() error {
			_, err := services.Get(x.Context(), service, metav1.GetOptions{})
			if err == nil {
				return errors.New("the Service exists")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}})
	}
	return append(steps, step{"the Nodes leave", func() {
		for _, name := range []string{first, second} {
			if err := nodes.Delete(x.Context(), name, metav1.DeleteOptions{}); err != nil {
				x.Fatal(err)
			}
			m.cloud.RemoveInstance(name)
		}
	}, func() error { return isQuiet(m.cloud) }})
}

// travel goes through the steps. It calls interrupt, unless nil, while it waits.
func (x *trial) travel(steps []step, interrupt func()) {
	x.Helper()
	for _, s := range steps {
		s.act()
		waittest.Until(x, s.what+", and the provider has followed", func() error {
			if interrupt != nil {
				interrupt()
			}
			return s.done()
		})
	}
}

// removeObjects deletes the Nodes and Services that a check has left.
func removeObjects(ctx context.Context, cluster ccmtest.Cluster) error {
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		return err
	}
	var problems []error
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if strings.HasPrefix(node.Name, prefix) {
			problems = append(problems,
				client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}))
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"$deleteFromPrimitiveList/finalizers": []string{
			servicehelpers.LoadBalancerCleanupFinalizer,
		},
	}})
	if err != nil {
		return err
	}
	services := client.CoreV1().Services(metav1.NamespaceDefault)
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, service := range list.Items {
		if strings.HasPrefix(service.Name, prefix) {
			_, err := services.Patch(ctx, service.Name, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{})
			problems = append(problems, err,
				services.Delete(ctx, service.Name, metav1.DeleteOptions{}))
		}
	}
	for _, err := range problems {
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
