// Package loadbalancer serves Services of type LoadBalancer with Octavia.
//
// A reconcile (reconcile.go) finds the load balancer of the Service (find.go), decides what it
// should be (settings, desired), reads its state (observe.go, octavia, neutron), compares the two
// (plan), and takes the steps from one to the other (plan.Runner). EnsureLoadBalancer,
// UpdateLoadBalancer and the repairs of drift are the same reconcile. A deletion differs in its
// plan alone.
//
// The members are nodes at their node ports, or the endpoints of the Service (pods.go, and
// desired/pods.go). A load balancer has no part in the network of the pods, so its router must lead
// to them: by fxccm's own routes, if they are on the router to which the load balancer's packets
// go, or as the operator declares (pod-ranges). Otherwise the Service is refused instead of served
// by members that nothing reaches. The service controller passes the EndpointSlices, and calls
// again when they change. The endpoints of its last call are kept for the repair of drift: the
// members were made of them.
//
// The Octavia client caches the contents of load balancers by ID and UpdatedAt. A Service's state
// (state.go) holds a load balancer that was just created and its floating IPs, for minutes. A
// reconcile does not wait for long: while Octavia is at work it returns an api.RetryError, and the
// next one continues with what it finds. So a load balancer that is stuck delays no other.
//
// A reconcile reads the nodes itself (nodesOr), because the service controller leaves out nodes
// that are about to be removed or shut down, which here keep weight 0, and a repair gets none at
// all. Repairs have a retry queue of their own (repair.go), because the service controller does not
// watch the cloud: it makes no call after drift, so it retries none.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/internal/locks"
	"github.com/fxccm/fxccm/provider/openstack/internal/recent"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// Config is what [New] needs. All fields are required unless marked otherwise.
type Config struct {
	Octavia  *octavia.API
	Neutron  *neutron.API
	Defaults settings.Defaults
	// Routes are fxccm's own routes to pods. They count if Defaults declare no ranges of pods.
	Routes Routes
	// RemovalTaints are further keys of taints that mark a node for removal. Such a node gets no
	// new connections.
	RemovalTaints []string
	// SortNodes returns those of the nodes that are in the region of the load balancers, and those
	// whose region is unknown. nil: all are in it.
	SortNodes func(context.Context, []*v1.Node) (here, unknown []*v1.Node)
	// Addresses returns the addresses of the nodes' servers by the names of the nodes. A node is
	// missing until OpenStack has shown its server. nil: each node has what it reports.
	Addresses func(context.Context, []*v1.Node) map[string][]v1.NodeAddress
	// CheckAge limits the age of the lists that a check for drift uses. Before a change, new ones
	// are read. 0: new lists are always read.
	CheckAge time.Duration

	// Owner is the name of the cluster in its fleet, which the cluster cannot choose. "": none.
	Owner string
	// RequireOwnerMark: an object that names a cluster without the mark of Owner is another's.
	RequireOwnerMark bool
	// ClusterUID returns the UID of the namespace kube-system. Nil: it is read with Kube.
	ClusterUID func(context.Context) (string, error)
	// Kube returns a client of the API server, whose requests end with the term. It is called for
	// each use.
	Kube func() (kubernetes.Interface, error)

	Clock  clock.Clock
	Logger logr.Logger
	// Recorder writes events on Services. Nil: none.
	Recorder record.EventRecorder
	// Observer receives measurements. It may be nil.
	Observer Observer
	// Trouble receives the outcome of creations. It may be nil.
	Trouble *trouble.Report
}

// Routes are the ranges of pods to which the route controller, of fxccm or of another program,
// writes routes. The zero value: it writes none.
type Routes struct {
	RouterID string
	Ranges   []netip.Prefix
}

// Observer receives measurements. It must be safe for concurrent use, and return at once.
type Observer interface {
	// Reconciled is called after each reconcile with OCCM's name of the operation. Err is nil if
	// the reconcile only waits.
	Reconciled(operation string, err error, duration time.Duration)
	// Served is called when a new Service has its load balancer for the first time, with the age
	// of the Service.
	Served(after time.Duration)
	// Drifted is called when a load balancer differs although nothing in Kubernetes has changed,
	// and Repaired when it no longer differs after that.
	Drifted()
	Repaired()
}

// These timeouts and delays decide when a reconcile acts, not what it does.
const (
	// reconcileTimeout is how long a reconcile waits for Octavia in total.
	reconcileTimeout = 4 * time.Second
	// deleteTimeout is the same for a deletion, which occupies a worker of the service controller
	// while it waits.
	deleteTimeout = 10 * time.Second
	// A waiting Service is retried after a tenth of the time that it has waited, within these
	// bounds.
	minRetryDelay, maxRetryDelay = time.Second, 15 * time.Second
	// floatingIPMaxAge is how long floating IPs are not read again that were created with a load
	// balancer, or read before a wait for it. The repair of drift always reads them.
	floatingIPMaxAge = 5 * time.Minute
	// A refused Service is checked again after as long as it has not been served, within these
	// bounds. A change of the Service starts a check at once.
	minRefusalRecheck, maxRefusalRecheck = time.Minute, 5 * time.Minute
)

// LoadBalancers serves Services. It is safe for concurrent use. [LoadBalancers.Close] ends it.
type LoadBalancers struct {
	config Config
	runner *plan.Runner
	locks  locks.Locks
	states byUID[*serviceState]
	// tracked holds the Services that follow changes of the cloud and of nodes.
	tracked byUID[serviceName]
	// reports holds the last results.
	reports byUID[Report]
	objects atomic.Pointer[objects]
	repairs *repairs
}

var _ cloudprovider.LoadBalancer = (*LoadBalancers)(nil)

// New makes no request.
func New(config Config) *LoadBalancers {
	l := &LoadBalancers{config: config, runner: plan.NewRunner(plan.Runner{
		Octavia: config.Octavia, Neutron: config.Neutron,
		Clock: config.Clock, Logger: config.Logger,
	})}
	if l.config.ClusterUID == nil {
		l.config.ClusterUID = readClusterUID(config.Kube)
	}
	l.repairs = newRepairs(l)
	return l
}

// EndWith stops starting repairs when the channel is closed: the term is about to end, and waits
// for the repairs in flight.
func (l *LoadBalancers) EndWith(stop <-chan struct{}) { l.repairs.endWith(stop) }

// Close ends the repairs, and waits for those in flight.
func (l *LoadBalancers) Close() { l.repairs.close() }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (l *LoadBalancers) GetLoadBalancerName(
	_ context.Context, clusterName string, service *v1.Service,
) string {
	return identity(clusterName, "", service).LoadBalancerName()
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. It returns an api.RetryError while the
// load balancer is not ready.
//
// If the provider has informers, their nodes are used instead of the caller's, who leaves out those
// that are shut down or about to be removed: they get no new connections, until they are gone.
func (l *LoadBalancers) EnsureLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	return l.ensureForCaller(ctx,
		request{cluster: clusterName, service: service, nodes: nodes, mode: mode{create: true}})
}

// ensureForCaller is ensure for the service controller.
func (l *LoadBalancers) ensureForCaller(
	ctx context.Context, of request,
) (status *v1.LoadBalancerStatus, err error) {
	defer l.measure("loadbalancer_ensure", &err)()
	status, err = l.ensure(ctx, of)
	if state := l.states.get(of.service.UID); state != nil {
		state.isRetried.Store(err != nil)
	}
	return status, err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. It does the same as EnsureLoadBalancer,
// but creates no load balancer: a caller may pass a Service that has been deleted meanwhile.
func (l *LoadBalancers) UpdateLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) error {
	return l.updateForCaller(ctx,
		request{cluster: clusterName, service: service, nodes: nodes, mode: mode{nodes: true}})
}

// updateForCaller is ensure for the service controller, after a change of nodes or endpoints.
func (l *LoadBalancers) updateForCaller(ctx context.Context, of request) (err error) {
	defer l.measure("loadbalancer_update", &err)()
	_, err = l.ensure(ctx, of)
	return err
}

func (l *LoadBalancers) measure(operation string, err *error) func() {
	begin := l.config.Clock.Now()
	return func() {
		if l.config.Observer == nil {
			return
		}
		failure := *err
		if isWait(failure) {
			failure = nil
		}
		l.config.Observer.Reconciled(operation, failure, l.config.Clock.Since(begin))
	}
}

// isWait reports whether an error only means that the reconcile came too early.
func isWait(err error) bool {
	var retry *api.RetryError
	return errors.As(err, &retry)
}

func identity(clusterName, clusterUID string, service *v1.Service) desired.Identity {
	return desired.Identity{
		ClusterName: clusterName, ClusterUID: clusterUID,
		Namespace: service.Namespace, Name: service.Name, UID: string(service.UID),
		Created: service.CreationTimestamp.Time, LastAddress: lastAddress(service),
	}
}

// errUnwanted means that the Service was deleted or changed its type meanwhile.
var errUnwanted = errors.New("no longer requests a load balancer")

// ensure reconciles the Service.
func (l *LoadBalancers) ensure(ctx context.Context, of request) (*v1.LoadBalancerStatus, error) {
	r, err := l.begin(ctx, of, false)
	if err != nil {
		return nil, err
	}
	defer r.close()
	service, ok := l.objects.Load().current(r.service)
	if !ok {
		return nil, fmt.Errorf("service %s/%s %w", r.service.Namespace, r.service.Name, errUnwanted)
	}
	r.service, r.notes.service = service, service
	ctx = recent.With(ctx, &r.state.requests)
	if !r.repair {
		r.state.endpoints = r.endpoints
	}
	// An update that comes after the deletion of a Service must leave no state behind.
	if r.create {
		l.states.set(service.UID, r.state)
		l.tracked.set(service.UID, serviceName{r.cluster, service.Namespace, service.Name})
	}
	l.repairs.start(ctx)
	if r.awaitsEndpoints(of.service) {
		return nil, retryAfter(minRetryDelay, "service %s/%s has changed: its members are pods, "+
			"whose endpoints are not passed yet", service.Namespace, service.Name)
	}
	if err := r.stillRefused(); err != nil {
		return nil, err
	}
	status, err := r.reconcile(ctx)
	if err == nil && !r.repair && r.state.isUnverified.Load() {
		l.repairs.queue.AddRateLimited(repair{service: service.UID})
	}
	return status, err
}

// InRegion sets the region of the load balancers. Call it before the other methods. Without it,
// they serve the Services of each region.
func (l *LoadBalancers) InRegion(regions settings.Regions) { l.config.Defaults.Regions = regions }

// Forget frees the state of a Service that is deleted, or that is served in another region. A
// reconcile in progress keeps it until its end.
func (l *LoadBalancers) Forget(uid types.UID) {
	l.states.forget(uid)
	l.tracked.forget(uid)
	l.reports.forget(uid)
	l.config.Trouble.Gone(uid)
	l.cache().ForgetService(string(uid))
}

// readClusterUID returns a function that reads the UID of the namespace kube-system once. The UID
// identifies the cluster.
func readClusterUID(
	kube func() (kubernetes.Interface, error),
) func(context.Context) (string, error) {
	var known atomic.Pointer[string]
	return func(ctx context.Context) (string, error) {
		if uid := known.Load(); uid != nil {
			return *uid, nil
		}
		client, err := kube()
		if err != nil {
			return "", fmt.Errorf("get a client to read namespace %s: %w", metav1.NamespaceSystem,
				err)
		}
		namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem,
			metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf(
				"read the UID of namespace %s, which identifies this cluster's load balancers: %w",
				metav1.NamespaceSystem, failure.New(apiServer, "", err))
		}
		uid := string(namespace.UID)
		if !isUID(uid) {
			return "", fmt.Errorf("namespace %s has no valid UID, which identifies this cluster's "+
				"load balancers", metav1.NamespaceSystem)
		}
		known.Store(&uid)
		return uid, nil
	}
}

// isUID reports whether a text is short and plain enough for a UID, which becomes a part of tags.
// The API server of a tenant may report anything.
func isUID(text string) bool {
	return text != "" && len(text) <= 40 && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-'
	})
}

// objects are the listers of Services and nodes. Nil: no informers exist.
type objects struct {
	services corelisters.ServiceLister
	nodes    corelisters.NodeLister
	// synced reports whether both are complete.
	synced func() bool
}

func (o *objects) areComplete() bool { return o != nil && o.synced() }

// current returns the Service from the informer, or the caller's if the informers are not complete;
// false if the Service requests no load balancer.
func (o *objects) current(service *v1.Service) (*v1.Service, bool) {
	if !o.areComplete() {
		return service, requestsLoadBalancer(service)
	}
	now, err := o.services.Services(service.Namespace).Get(service.Name)
	if err != nil || now.UID != service.UID {
		return nil, false
	}
	return now, requestsLoadBalancer(now)
}

// requestsLoadBalancer reports whether the Service requests a load balancer. The service controller
// selects the classes.
func requestsLoadBalancer(service *v1.Service) bool {
	return service.Spec.Type == v1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil
}

func (o *objects) nodesOr(given []*v1.Node) []*v1.Node {
	if !o.areComplete() {
		return given
	}
	all, err := o.nodes.List(labels.Everything())
	if err != nil {
		return given
	}
	return all
}

// SetInformers makes fxccm read Services and nodes from informers. members lists the nodes that may
// be members. It must be called before the informers are started.
func (l *LoadBalancers) SetInformers(
	factory informers.SharedInformerFactory, members corelisters.NodeLister,
) {
	services, nodes := factory.Core().V1().Services(), factory.Core().V1().Nodes()
	servicesSynced, nodesSynced := services.Informer().HasSynced, nodes.Informer().HasSynced
	l.objects.Store(&objects{
		services: services.Lister(), nodes: members,
		synced: func() bool { return servicesSynced() && nodesSynced() },
	})
}
