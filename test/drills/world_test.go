//go:build linux

package drills_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/endpoint"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	clusterCIDR = "10.200.0.0/16"
	leaseName   = "cloud-controller-manager"
)

// A world is the environment of one cell's processes: their own cluster and cloud.
type world struct {
	t     *testing.T
	name  string
	plane *plane
	dir   string
	// frozen means that the drill freezes the API server.
	frozen bool
	// mark is the beginning of the cell in the audit log.
	mark controlplane.Mark

	cloud *fake.Cloud
	// cloudConfig is the file with the address of the cloud.
	cloudConfig string
	// cloudTreat is the treatment of requests to the cloud; nil: none.
	cloudTreat atomic.Pointer[treatment]

	// names is the DNS server of the processes; nil if they use none.
	names *netfault.Names

	members         []*member
	nodes, services []string
	// absent are the nodes that are not ready.
	absent []string
}

// A member is a process of a cell, with its own proxy to the API server.
type member struct {
	*replica.Replica
	endpoint *endpoint.Endpoint
	treat    atomic.Pointer[treatment]
}

// A treatment gets a request first, and reports whether it has answered it.
type treatment func(http.ResponseWriter, *http.Request) (answered bool)

// treated wraps a handler with the treatment that the pointer has at each request.
func treated(by *atomic.Pointer[treatment], next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if treat := by.Load(); treat != nil && (*treat)(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

func newWorld(t *testing.T, p *plane, name string) *world {
	t.Helper()
	w := &world{
		t: t, name: name, plane: p, dir: replica.LogDir(t),
		cloud: fake.New(fake.WithCallLimit(1_000_000)),
	}
	w.mark = p.Audit().Mark()
	server := httptest.NewServer(treated(&w.cloudTreat, w.cloud.Handler()))
	t.Cleanup(func() {
		w.cloud.ClearFaults()
		server.CloseClientConnections()
		server.Close()
	})
	w.cloudConfig = filepath.Join(w.dir, "cloud.yaml")
	if err := os.WriteFile(w.cloudConfig, []byte("endpoint: "+server.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := p.admin.CoreV1().Namespaces().Create(t.Context(), namespace,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// connect opens a proxy to the API server for a process of that name, and returns the path of its
// kubeconfig.
func (w *world) connect(name string) (*member, string) {
	w.t.Helper()
	as, err := w.plane.UserConfig("ccm:"+w.name, drilled)
	if err != nil {
		w.t.Fatal(err)
	}
	m := &member{}
	m.endpoint, err = endpoint.Start(as, w.name, endpoint.WithServiceAccounts(),
		endpoint.WithHandler(func(own http.Handler) http.Handler { return treated(&m.treat, own) }))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := m.endpoint.Close(); err != nil {
			w.t.Error(err)
		}
	})
	config := m.endpoint.RESTConfig()
	if w.names != nil {
		_, port, err := net.SplitHostPort(m.endpoint.Addr())
		if err != nil {
			w.t.Fatal(err)
		}
		config.Host = "https://" + net.JoinHostPort(netfault.Host, port)
	}
	kubeconfig := filepath.Join(w.dir, name+".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		w.t.Fatal(err)
	}
	return m, kubeconfig
}

// start runs a program as a cloud controller manager of the cell.
func (w *world) start(name, program string, args ...string) *member {
	w.t.Helper()
	m, kubeconfig := w.connect(name)
	m.Replica = &replica.Replica{Port: freeport.ForTest(w.t)}
	flags := append([]string{
		"--kubeconfig=" + kubeconfig,
		"--cloud-provider=fake",
		"--cloud-config=" + w.cloudConfig,
		"--cluster-name=" + w.name,
		"--cluster-cidr=" + clusterCIDR,
		"--leader-elect-identity=" + name,
		"--leader-elect-resource-namespace=" + w.name,
		"--drain-timeout=" + drainTimeout.String(),
		"--route-reconciliation-period=1s",
		"--node-monitor-period=1s",
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(m.Port),
	}, replica.QuickLease().Flags()...)
	if program == programs.ccm {
		flags = append(flags, "--logging-format=json")
	} else if w.names != nil {
		flags = append(flags, "--resolver="+w.names.Addr())
	}
	m.Process = replica.StartProcess(w.t, w.dir, name, nil, program, append(flags, args...)...)
	w.members = append(w.members, m)
	return m
}

// leader is the member that holds the lease and whose term is ready.
func (w *world) leader(ctx context.Context) (*member, error) {
	lease, err := w.plane.admin.CoordinationV1().Leases(w.name).Get(ctx, leaseName,
		metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	i := slices.IndexFunc(w.members, func(m *member) bool { return m.Name == holder })
	switch {
	case i < 0:
		return nil, fmt.Errorf("the lease names %q", holder)
	case w.members[i].HasExited():
		return nil,
			fmt.Errorf("the lease names %s, which has ended with code %d", holder,
				w.members[i].ExitCode())
	}
	return w.members[i], w.members[i].Leads()
}

func (w *world) awaitLeader() (leader *member) {
	w.t.Helper()
	await(w.t, "a replica leads", func() (err error) {
		leader, err = w.leader(w.t.Context())
		return err
	})
	return leader
}

// nextNode adds a machine to the cloud, and returns the Node to register for it.
func (w *world) nextNode() *corev1.Node {
	w.t.Helper()
	i := len(w.nodes)
	name := endpoint.NodeName(w.name, fmt.Sprintf("node-%02d", i))
	w.nodes = append(w.nodes, name)
	if err := w.cloud.AddInstances(fake.Instance{Name: name}); err != nil {
		w.t.Fatal(err)
	}
	return ccmtest.TaintedNode(name, ccmtest.NodeLabel(endpoint.PartLabel, w.name),
		ccmtest.NodePodCIDRs(fmt.Sprintf("10.200.%d.%d/28", i/16, i%16*16)))
}

func (w *world) register(node *corev1.Node) {
	w.t.Helper()
	if _, err := w.plane.admin.CoreV1().Nodes().Create(w.t.Context(), node,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) addNode() { w.register(w.nextNode()) }

// nextService returns a Service of type LoadBalancer to create.
func (w *world) nextService() *corev1.Service {
	service := ccmtest.LoadBalancerService(fmt.Sprintf("web-%02d", len(w.services)),
		ccmtest.ServiceNamespace(w.name))
	w.services = append(w.services, service.Name)
	return service
}

func (w *world) create(service *corev1.Service) {
	w.t.Helper()
	if _, err := w.plane.admin.CoreV1().Services(w.name).Create(w.t.Context(), service,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) addService() { w.create(w.nextService()) }

// load creates Services whose load balancers never finish: the leader changes the cloud for each of
// them all the time, without the API server.
func (w *world) load(services int, takes, pauses time.Duration) {
	w.t.Helper()
	for i := range services {
		service := ccmtest.LoadBalancerService(fmt.Sprintf("busy-%02d", i),
			ccmtest.ServiceNamespace(w.name))
		script := w.cloud.On("EnsureLoadBalancer").For(w.name + "/" + service.Name)
		if takes > 0 {
			script.Delay(takes)
		}
		script.Fail(cloudproviderapi.NewRetryError("busy", pauses))
		w.create(service)
	}
}

// shutOff stops the machine of a node and its kubelet.
func (w *world) shutOff(name string) {
	w.t.Helper()
	w.absent = append(w.absent, name)
	if err := w.cloud.StopInstance(name); err != nil {
		w.t.Fatal(err)
	}
	nodes := w.plane.admin.CoreV1().Nodes()
	await(w.t, name+" is marked as not ready", func() error {
		node, err := nodes.Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
		_, err = nodes.UpdateStatus(w.t.Context(), node, metav1.UpdateOptions{})
		return err
	})
	await(w.t, name+" has the taint of a shutdown", func() error {
		node, err := nodes.Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil && !hasTaint(node, cloudproviderapi.TaintNodeShutdown) {
			err = errors.New("it does not have it")
		}
		return err
	})
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints,
		func(taint corev1.Taint) bool { return taint.Key == key })
}

// served returns nil when all nodes are initialized and have their routes, and all Services have
// their load balancers.
func (w *world) served(ctx context.Context) error {
	routed := map[string]bool{}
	for _, route := range w.cloud.Routes() {
		routed[string(route.TargetNode)] = true
	}
	for _, name := range w.nodes {
		node, err := w.plane.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case hasTaint(node, cloudproviderapi.TaintExternalCloudProvider) ||
			node.Spec.ProviderID == "":
			return fmt.Errorf("node %s is not initialized", name)
		case !routed[name]:
			return fmt.Errorf("node %s has no route", name)
		case hasTaint(node, cloudproviderapi.TaintNodeShutdown) != slices.Contains(w.absent, name):
			return fmt.Errorf("the taints of node %s are %v", name, node.Spec.Taints)
		}
	}
	for _, name := range w.services {
		service, err := w.plane.admin.CoreV1().Services(w.name).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("Service %s has no address", name)
		}
	}
	return nil
}

func (w *world) awaitServed() {
	w.t.Helper()
	await(w.t, "everything is served",
		func() error { return w.served(w.t.Context()) })
}

// treat sets the treatment of requests of all members; nil: none.
func (w *world) treat(by treatment) {
	for _, m := range w.members {
		if by == nil {
			m.treat.Store(nil)
		} else {
			m.treat.Store(&by)
		}
	}
}

// isOf reports whether a replica has sent the request or made the call: both begin with its name.
func (m *member) isOf(agent string) bool { return strings.HasPrefix(agent, m.Name+"/") }
