package multimanager_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/endpoint"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// size is the number of clusters, each with a Manager.
const size = 24

// balancers reports whether the service controller runs.
const balancers = !suite.RaceDetector

// A fleet is a set of clusters.
type fleet struct {
	t        *testing.T
	clusters []*cluster
}

// newFleet creates the clusters, each with two registered nodes and, if the service controller
// runs, a waiting Service. No Manager runs. name distinguishes the fleets of tests.
func newFleet(t *testing.T, name string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for i := range size {
		f.clusters = append(f.clusters,
			&cluster{t: t, name: fmt.Sprintf("%s-%02d", name, i)})
	}
	each(t, f.clusters, (*cluster).create)
	return f
}

// run starts a Manager for each cluster, and waits until all lead and are ready.
func (f *fleet) run() {
	f.t.Helper()
	for _, c := range f.clusters {
		c.first = c.start("first", nil)
	}
	for _, c := range f.clusters {
		ccmtest.Eventually(f.t, "the Manager is ready", ccmtest.Ready(c.first.Manager))
	}
}

// end stops all Managers in parallel, and checks for remaining requests.
func (f *fleet) end() {
	f.t.Helper()
	var all []*replica
	for _, c := range f.clusters {
		all = append(all, c.replicas...)
	}
	stop(f.t, all...)
	for _, r := range all {
		ccmtest.Eventually(f.t, r.name+" has no request in flight",
			func(context.Context) (struct{}, error) {
				if n := r.endpoint.InFlight(); n > 0 {
					return struct{}{}, fmt.Errorf("%d are in flight", n)
				}
				return struct{}{}, nil
			})
		for _, refused := range r.endpoint.Refused() {
			f.t.Errorf("%s left its part of the cluster: %s", r.name, refused)
		}
	}
	each(f.t, all, func(r *replica) error { return r.endpoint.Close() })
}

// A cluster is a part of an API server with its own cloud.
type cluster struct {
	t     *testing.T
	name  string
	cloud *fake.Cloud
	// user is the identity of the cluster's Managers.
	user string
	// nodes are the nodes that should be initialized.
	nodes []string

	// first is the Manager that was started first, replicas are all Managers.
	first    *replica
	replicas []*replica
}

func (c *cluster) create() error {
	ctx, cancel := context.WithTimeout(context.Background(), ccmtest.WaitLimit)
	defer cancel()
	c.cloud, c.user = fake.New(), "ccm:"+c.name
	// A call that hangs at the end of a failed test would block the drain.
	c.t.Cleanup(c.cloud.ClearFaults)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
	if _, err := shared.Admin.CoreV1().Namespaces().Create(ctx, namespace,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the namespace %s: %w", c.name, err)
	}
	for _, name := range []string{"a", "b"} {
		if err := c.register(ctx, name); err != nil {
			return err
		}
	}
	if !balancers {
		return nil
	}
	service := ccmtest.LoadBalancerService("web", ccmtest.ServiceNamespace(c.name))
	if _, err := shared.Admin.CoreV1().Services(c.name).Create(ctx, service,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a Service in %s: %w", c.name, err)
	}
	return nil
}

// register adds an instance to the cloud and registers its node.
func (c *cluster) register(ctx context.Context, name string) error {
	name = endpoint.NodeName(c.name, name)
	if err := c.cloud.AddInstances(fake.Instance{Name: name}); err != nil {
		return err
	}
	node := ccmtest.TaintedNode(name, ccmtest.NodeLabel(endpoint.PartLabel, c.name))
	if _, err := shared.Admin.CoreV1().Nodes().Create(ctx, node,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	c.nodes = append(c.nodes, name)
	return nil
}

// join registers a node in a cluster, and fails the test if it cannot.
func (c *cluster) join(name string) {
	c.t.Helper()
	if err := c.register(c.t.Context(), name); err != nil {
		c.t.Fatal(err)
	}
}

// waitServed waits until all nodes of the cluster are initialized from its cloud, and the load
// balancer exists.
func (c *cluster) waitServed() {
	c.t.Helper()
	ccmtest.Eventually(c.t, c.name+" is served", func(ctx context.Context) (struct{}, error) {
		list, err := shared.Admin.CoreV1().Nodes().List(ctx,
			metav1.ListOptions{LabelSelector: endpoint.PartLabel + "=" + c.name})
		if err != nil {
			return struct{}{}, err
		}
		if len(list.Items) != len(c.nodes) {
			return struct{}{}, fmt.Errorf("it has %d nodes, want %d", len(list.Items), len(c.nodes))
		}
		for _, node := range list.Items {
			if err := initialized(node); err != nil {
				return struct{}{}, err
			}
		}
		if !balancers {
			return struct{}{}, nil
		}
		service, err := shared.Admin.CoreV1().Services(c.name).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return struct{}{}, err
		}
		b, _ := c.cloud.LoadBalancer(c.name + "/web")
		if want := slices.Sorted(slices.Values(c.nodes)); len(
			service.Status.LoadBalancer.Ingress) == 0 || !slices.Equal(b.Members, want) {
			return struct{}{},
				fmt.Errorf(
					"the ingress of its Service is %v, and the members of the load balancer are %v, want %v",
					service.Status.LoadBalancer.Ingress, b.Members, want)
		}
		return struct{}{}, nil
	})
}

func initialized(node corev1.Node) error {
	if want := "fake://region-1/" + node.Name; node.Spec.ProviderID != want {
		return fmt.Errorf("the provider ID of %s is %q, want %q", node.Name, node.Spec.ProviderID,
			want)
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == cloudproviderapi.TaintExternalCloudProvider
	}) {
		return fmt.Errorf("%s bears the taint", node.Name)
	}
	return nil
}

// leaseHolder is the holder of the cluster's lease.
func (c *cluster) leaseHolder() string {
	c.t.Helper()
	lease, err := shared.Admin.CoordinationV1().Leases(c.name).Get(c.t.Context(), leaseName,
		metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// renewals are the updates of the cluster's lease since the mark.
func (c *cluster) renewals(since controlplane.Mark) []controlplane.AuditRecord {
	c.t.Helper()
	records, err := shared.Audit().Since(since, controlplane.ByUser(c.user),
		controlplane.ByVerb("update"),
		controlplane.ByResource("coordination.k8s.io", "leases"))
	if err != nil {
		c.t.Fatal(err)
	}
	return records
}

// leaseName is the name of the lease in each cluster.
const leaseName = "cloud-controller-manager"

// A replica is a Manager for a cluster, with its own endpoint.
type replica struct {
	*ccm.Manager
	name     string
	endpoint *endpoint.Endpoint

	cancel context.CancelFunc
	result chan error
}

// start starts a Manager for the cluster; see quick for what change may be.
func (c *cluster) start(name string, change func(*ccm.Config)) *replica {
	c.t.Helper()
	r := c.prepare(name, change)
	r.run()
	return r
}

// prepare creates a Manager for the cluster, and its endpoint.
func (c *cluster) prepare(name string, change func(*ccm.Config)) *replica {
	c.t.Helper()
	as, err := shared.UserConfig(c.user, hosted)
	if err != nil {
		c.t.Fatal(err)
	}
	r := &replica{name: c.name + "/" + name, result: make(chan error, 1)}
	if r.endpoint, err = endpoint.Start(as, c.name); err != nil {
		c.t.Fatal(err)
	}
	cfg := ccm.DefaultConfig()
	cfg.ConfigureCloudRoutes = false
	cfg.ClusterName = c.name
	cfg.LeaderElection.ResourceNamespace, cfg.LeaderElection.Identity = c.name, r.name
	if !balancers {
		cfg.Controllers = []string{"*", "-service-lb-controller"}
	}
	if change != nil {
		change(&cfg)
	}
	r.Manager, err = ccm.New(ccm.Params{
		Config:    cfg,
		Providers: []ccm.Provider{c.cloud.CCMProvider()}, RESTConfig: r.endpoint.RESTConfig(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.replicas = append(c.replicas, r)
	return r
}

// quick sets a lease that is lost and taken within seconds, but not because the machine is busy.
// Other Managers have the defaults.
func quick(cfg *ccm.Config) {
	cfg.LeaderElection.LeaseDuration = metav1.Duration{Duration: 12 * time.Second}
	cfg.LeaderElection.RenewDeadline = metav1.Duration{Duration: 10 * time.Second}
	cfg.LeaderElection.RetryPeriod = metav1.Duration{Duration: 500 * time.Millisecond}
}

// run starts a stopped Manager.
func (r *replica) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.result <- r.Run(ctx) }()
}

// stop stops Managers in parallel, and waits for them. It ignores Managers that do not run.
func stop(t *testing.T, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		if r.cancel != nil {
			r.cancel()
		}
	}
	limit := time.After(ccmtest.WaitLimit)
	for _, r := range replicas {
		if r.cancel == nil {
			continue
		}
		r.cancel = nil
		select {
		case err := <-r.result:
			if err != nil {
				t.Errorf("%s did not stop cleanly: %v", r.name, err)
			}
		case <-limit:
			t.Fatalf("%s has not stopped; its status: %+v", r.name, r.Status())
		}
	}
}

// each calls do for all items, a few in parallel, and fails the test with all errors.
func each[T any](t *testing.T, all []T, do func(T) error) {
	t.Helper()
	var doing sync.WaitGroup
	errs := make([]error, len(all))
	slots := make(chan struct{}, 4*runtime.NumCPU())
	for i, one := range all {
		doing.Go(func() {
			slots <- struct{}{}
			errs[i] = do(one)
			<-slots
		})
	}
	doing.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
