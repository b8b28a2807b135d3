package conformance_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
)

// hostile is a provider with one bad habit of a real provider.
type hostile struct {
	name string
	// check must fail because of the habit, and detail is a part of its report.
	check, detail string
	// isolated reports whether the habit is harmless in a process of its own.
	isolated bool
	open     func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error)
}

func (h hostile) provider() ccm.Provider { return ccm.Provider{Name: h.name, New: h.open} }

func hostiles() []hostile {
	return []hostile{
		{"fatal-on-bad-configuration", "bad-configuration", "the process ended", true, openFatal},
		{
			"panics-in-second-term", "three-terms", "the process ended", true,
			initializing(registerMetrics),
		},
		{
			"background-writer", "leadership-lost", `after the term had drained the cloud received`,
			true, with(func(d *dialed) cloudprovider.Interface { return backgroundWriter{d} }),
		},
		{
			"elects-itself", "leadership-lost", "Node conformance-", true, openElecting,
		},
		{
			"waits-without-context", "leadership-lost", "the term did not drain", true,
			with(func(d *dialed) cloudprovider.Interface { return patientWaiter{d} }),
		},
		{
			"leaks-event-broadcasters", "growth", "goroutines", true,
			initializing(func(*dialed, cloudprovider.ControllerClientBuilder, <-chan struct{}) {
				record.NewBroadcaster().StartStructuredLogging(10)
			}),
		},
		{"keeps-a-port", "growth", "listening ports", true, initializing(servePort)},
		{"informers-outlive-the-term", "growth", "goroutines", true, initializing(startInformers)},
		{"global-client", "two-managers", "the node is initialized", true, openGlobal},
		{"fatal-in-background", "cloud-failure", "the process ended", true, initializing(pollOrDie)},
		{
			"failure-means-absent", "absence", "absent while the cloud fails", false,
			withInstances(func(_ *corev1.Node, exists bool, err error) (bool, error) {
				return exists && err == nil, nil
			}),
		},
		{
			"bare-id-means-absent", "provider-ids", "is reported as absent", false,
			withInstances(func(node *corev1.Node, exists bool, err error) (bool, error) {
				if !strings.Contains(node.Spec.ProviderID, "://") {
					return false, nil
				}
				return exists, err
			}),
		},
		{
			"deletes-adopted", "adopted-load-balancer", "was deleted with the Service", false,
			with(func(d *dialed) cloudprovider.Interface { return adoptedDeleter{d} }),
		},
	}
}

type opener = func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error)

// with returns a well-behaved provider that change has changed.
func with(change func(*dialed) cloudprovider.Interface) opener {
	return func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
		d, err := dial(ctx, env)
		if err != nil {
			return nil, err
		}
		return change(d), nil
	}
}

type initializer = func(*dialed, cloudprovider.ControllerClientBuilder, <-chan struct{})

type initialized struct {
	*dialed
	initialize initializer
}

// initializing adds work to Initialize.
func initializing(f initializer) opener {
	return with(func(d *dialed) cloudprovider.Interface { return initialized{d, f} })
}

func (i initialized) Initialize(
	clients cloudprovider.ControllerClientBuilder, stop <-chan struct{},
) {
	i.initialize(i.dialed, clients, stop)
}

func openFatal(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	d, err := dial(ctx, env)
	if err != nil {
		klog.Fatalf("cannot use the configuration: %v", err)
	}
	return d, nil
}

var metrics = http.NewServeMux()

func registerMetrics(*dialed, cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	go metrics.Handle("/metrics", http.NotFoundHandler()) // panics if it is called again
}

// backgroundWriter changes a firewall in the background for each load balancer.
type backgroundWriter struct{ *dialed }

func (w backgroundWriter) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := w.dialed.LoadBalancer()
	return backgroundBalancer{inner, w.dialed}, ok
}

type backgroundBalancer struct {
	cloudprovider.LoadBalancer
	cloud *dialed
}

func (b backgroundBalancer) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	go func() {
		clusters, _ := b.cloud.Clusters()
		instances, _ := b.cloud.Instances()
		if _, err := clusters.ListClusters(context.Background()); err == nil {
			_ = instances.AddSSHKeyToAllInstances(context.Background(), "user", []byte("key"))
		}
	}()
	return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

// Close keeps the client open for the background work.
func (w backgroundWriter) Close() error { return nil }

// openElecting starts an election in the constructor, and a controller that labels Nodes. It uses
// its own clients, and never stops either, as the provider of Huawei Cloud does.
func openElecting(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	go leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{
				// A process that was killed before, on the same API server, has left its Lease.
				Namespace: metav1.NamespaceDefault, Name: fmt.Sprint("elects-itself-", os.Getpid()),
			},
			Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{
				Identity: fmt.Sprintf("%d-%d", os.Getpid(), env.Term),
			},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: 100 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { labelNodes(client) },
			OnStoppedLeading: func() {},
		},
	})
	return dial(ctx, env)
}

func labelNodes(client kubernetes.Interface) {
	ctx, nodes := context.Background(), client.CoreV1().Nodes()
	for n := 0; ; n++ {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"hostile":"%d"}}}`, n)
		all, err := nodes.List(ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(all.Items); i++ {
			_, _ = nodes.Patch(ctx, all.Items[i].Name, types.MergePatchType, patch,
				metav1.PatchOptions{})
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// patientWaiter waits for the load balancer without the context of the call.
type patientWaiter struct{ *dialed }

func (w patientWaiter) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := w.dialed.LoadBalancer()
	return patientBalancer{inner}, ok
}

type patientBalancer struct{ cloudprovider.LoadBalancer }

func (b patientBalancer) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if _, err := b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes); err != nil {
		return nil, err
	}
	status, _, err := b.GetLoadBalancer(context.Background(), cluster, service)
	return status, err
}

func servePort(*dialed, cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = http.Serve(listener, http.NotFoundHandler()) }()
}

func startInformers(
	_ *dialed, clients cloudprovider.ControllerClientBuilder, _ <-chan struct{},
) {
	factory := informers.NewSharedInformerFactory(clients.ClientOrDie("hostile"), 0)
	factory.Core().V1().Nodes().Informer()
	factory.Start(wait.NeverStop)
}

// globalInstances are the instances of the cloud that was built last.
var globalInstances atomic.Value

type globalUser struct{ *dialed }

func openGlobal(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	d, err := dial(ctx, env)
	if err != nil {
		return nil, err
	}
	instances, _ := d.InstancesV2()
	globalInstances.Store(instances)
	return globalUser{d}, nil
}

func (globalUser) InstancesV2() (cloudprovider.InstancesV2, bool) { return lastInstances{}, true }

type lastInstances struct{}

func (lastInstances) last() cloudprovider.InstancesV2 {
	return globalInstances.Load().(cloudprovider.InstancesV2)
}

func (i lastInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return i.last().InstanceExists(ctx, node)
}

func (i lastInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return i.last().InstanceShutdown(ctx, node)
}

func (i lastInstances) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	return i.last().InstanceMetadata(ctx, node)
}

// pollOrDie ends the process when the cloud fails.
func pollOrDie(d *dialed, _ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	clusters, _ := d.Clusters()
	go wait.Until(func() {
		if _, err := clusters.ListClusters(wait.ContextForChannel(stop)); err != nil {
			select {
			case <-stop:
			default:
				klog.Fatalf("cannot list clusters: %v", err)
			}
		}
	}, 50*time.Millisecond, stop)
}

// liar changes the answers of InstanceExists.
type liar struct {
	*dialed
	answer func(node *corev1.Node, exists bool, err error) (bool, error)
}

func withInstances(answer func(*corev1.Node, bool, error) (bool, error)) opener {
	return with(func(d *dialed) cloudprovider.Interface { return liar{d, answer} })
}

func (l liar) InstancesV2() (cloudprovider.InstancesV2, bool) {
	inner, ok := l.dialed.InstancesV2()
	return lyingInstances{inner, l}, ok
}

type lyingInstances struct {
	cloudprovider.InstancesV2
	liar liar
}

func (i lyingInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	exists, err := i.InstancesV2.InstanceExists(ctx, node)
	return i.liar.answer(node, exists, err)
}

// adoptedDeleter deletes the load balancer of the user.
type adoptedDeleter struct{ *dialed }

func (a adoptedDeleter) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := a.dialed.LoadBalancer()
	return deletingBalancer{inner, a.address}, ok
}

type deletingBalancer struct {
	cloudprovider.LoadBalancer
	address string
}

func (b deletingBalancer) EnsureLoadBalancerDeleted(
	ctx context.Context, cluster string, service *corev1.Service,
) error {
	id := service.Annotations[adoptedAnnotation]
	if id == "" {
		return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.address+"/adopted/"+id, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
