package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
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
	// CheckAge limits the age of the lists that a check for drift reads first. Before it changes
	// anything, it reads new ones. 0: it always does.
	CheckAge time.Duration

	// ClusterUID is that of the namespace kube-system. Nil: it is read by Kube.
	ClusterUID func(context.Context) (string, error)
	// Kube gives a client of the API server, whose requests end with the term. It is called for
	// each use.
	Kube func() (kubernetes.Interface, error)

	Clock  clock.Clock
	Logger logr.Logger
	// Recorder writes events on Services. Nil: none.
	Recorder record.EventRecorder
	// Observer measures. Nil: nothing does.
	Observer Observer
	// Trouble receives the outcome of creations. It may be nil.
	Trouble *trouble.Report
}

// Observer is told what is worth measuring. It must be safe for concurrent use, and return at once.
type Observer interface {
	// Reconciled is called after each reconcile with OCCM's name of the operation. That something
	// is waited for is no error.
	Reconciled(operation string, err error, duration time.Duration)
	// Served is called when a new Service has its load balancer for the first time, with the age
	// of the Service.
	Served(after time.Duration)
	// Drifted is called when a load balancer differs although nothing in Kubernetes has changed,
	// and Repaired when it no longer differs after that.
	Drifted()
	Repaired()
}

// Timeouts and delays. They change when something is done, not what.
const (
	// reconcileTimeout is how long a reconcile waits for Octavia in total.
	reconcileTimeout = 4 * time.Second
	// deleteTimeout is the same for a deletion. A deletion occupies a worker of the service
	// controller wherever it waits.
	deleteTimeout = 10 * time.Second
	// listMaxAge is how old a list of load balancers may be that tells whether one is ready.
	listMaxAge = 2 * time.Second
	// A waiting Service is retried after a tenth of the time that it has waited, within these
	// bounds.
	minRetryDelay, maxRetryDelay = time.Second, 15 * time.Second
	// creationMaxAge is for how long the floating IPs that were created with a load balancer are
	// not read again. Drift is repaired all the same.
	creationMaxAge = 5 * time.Minute
	// refusalRecheck is when a refused Service is checked again. A change of the Service is seen at
	// once.
	refusalRecheck = 5 * time.Minute
)

// LoadBalancers serves Services. It is safe for concurrent use. [LoadBalancers.Close] ends it.
type LoadBalancers struct {
	config   Config
	executor *executor
	locks    locks.Locks
	states   byUID[*serviceState]
	// tracked are the Services that follow changes of the cloud and of nodes.
	tracked byUID[serviceName]
	// reports are the last results.
	reports byUID[Report]
	objects objects
	repairs *repairs
}

var _ cloudprovider.LoadBalancer = (*LoadBalancers)(nil)

// New makes no request.
func New(config Config) *LoadBalancers {
	l := &LoadBalancers{config: config, executor: newExecutor(config)}
	if l.config.ClusterUID == nil {
		l.config.ClusterUID = readClusterUID(config.Kube)
	}
	l.repairs = newRepairs(l)
	return l
}

// EndWith has no repairs made any more when the channel is closed: the term is about to end, and
// waits for what goes on.
func (l *LoadBalancers) EndWith(stop <-chan struct{}) { l.repairs.endWith(stop) }

// Close ends the repairs, and waits for those under way.
func (l *LoadBalancers) Close() { l.repairs.close() }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (l *LoadBalancers) GetLoadBalancerName(
	_ context.Context, clusterName string, service *v1.Service,
) string {
	return identity(clusterName, "", service).LoadBalancerName()
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. A load balancer that is not ready yet
// is an api.RetryError.
//
// If the provider has informers the nodes are theirs, and not the caller's: upstream's node sync
// and its service workers do not wait for each other, so the older list of nodes may come last.
func (l *LoadBalancers) EnsureLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (status *v1.LoadBalancerStatus, err error) {
	defer l.measure("loadbalancer_ensure", &err)()
	return l.ensure(ctx,
		request{cluster: clusterName, service: service, nodes: nodes, mode: mode{create: true}})
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. It does what EnsureLoadBalancer does,
// but makes no load balancer: upstream's node sync may come with a Service that has been deleted
// meanwhile.
func (l *LoadBalancers) UpdateLoadBalancer(
	ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node,
) (err error) {
	defer l.measure("loadbalancer_update", &err)()
	_, err = l.ensure(ctx, request{cluster: clusterName, service: service, nodes: nodes})
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

// isWait tells whether an error only says that it is too early.
func isWait(err error) bool {
	var retry *api.RetryError
	return errors.As(err, &retry)
}

func identity(clusterName, clusterUID string, service *v1.Service) desired.Identity {
	return desired.Identity{
		ClusterName: clusterName, ClusterUID: clusterUID,
		Namespace: service.Namespace, Name: service.Name, UID: string(service.UID),
	}
}

// ensure reconciles the Service.
func (l *LoadBalancers) ensure(ctx context.Context, of request) (*v1.LoadBalancerStatus, error) {
	r, err := l.begin(ctx, of, false)
	if err != nil {
		return nil, err
	}
	defer r.close()
	service, ok := l.objects.current(r.service)
	if !ok {
		return nil,
			fmt.Errorf("service %s/%s no longer requests a load balancer", r.service.Namespace,
				r.service.Name)
	}
	r.service, r.notes.service = service, service
	ctx = recent.With(ctx, &r.state.requests)
	r.nodes = l.objects.nodesOr(r.nodes)
	// Upstream's node sync may come after the deletion of a Service, and must leave nothing behind.
	if r.create {
		l.states.set(service.UID, r.state)
		l.tracked.set(service.UID, serviceName{r.cluster, service.Namespace, service.Name})
	}
	l.repairs.start()
	return r.reconcile(ctx)
}

// forget frees all that is known of a Service that is gone. A reconcile in progress keeps its state
// to its end.
func (l *LoadBalancers) forget(uid types.UID) {
	l.states.forget(uid)
	l.tracked.forget(uid)
	l.reports.forget(uid)
	l.cache().ForgetService(string(uid))
}
