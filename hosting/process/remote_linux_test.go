package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// remote is the provider in the child: its cloud is in the test's process, at the address in the
// child's first argument. The second one selects a variant, or more. Its caller is the ID of its
// process.
var remote = ccm.Provider{
	Name: "remote",
	New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
		if len(os.Args) < 2 || os.Args[1] == "broken" {
			return nil, fmt.Errorf("no cloud at %q", os.Args[1:])
		}
		client, err := fake.Dial(ctx, os.Args[1])
		if err != nil {
			return nil, err
		}
		caller := fake.WithCaller(strconv.Itoa(os.Getpid()))
		if len(os.Args) < 3 {
			return client.Provider(caller), nil
		}
		initializing := func(
			f func(cloudprovider.ControllerClientBuilder, <-chan struct{}),
		) (cloudprovider.Interface, error) {
			return client.Provider(caller, fake.WithInitialize(f)), nil
		}
		own := &ownController{cloud: client.Provider(caller)}
		switch os.Args[2] {
		case "panics":
			panic("cannot begin")
		case "describes":
			return client.Provider(caller), describe(env)
		case "fails":
			return initializing(func(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
				env.Fail(errors.New("credentials were revoked"))
			})
		case "calls after its stop":
			return initializing(func(
				_ cloudprovider.ControllerClientBuilder, stop <-chan struct{},
			) {
				go func() {
					<-stop
					own.call("stopped", 1)
				}()
			})
		case "starts a program":
			return initializing(func(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
				started := exec.Command("sleep", "1000")
				if err := started.Start(); err != nil {
					panic(err)
				}
				own.call("started-"+strconv.Itoa(started.Process.Pid), 1)
			})
		case "controls":
			return client.Provider(caller, fake.WithInitialize(own.initialize),
				fake.WithSetInformers(own.setInformers)), nil
		}
		if vary := variants()[os.Args[2]]; vary != nil {
			return vary(client.Provider(caller)), nil
		}
		return nil, fmt.Errorf("unknown argument %q", os.Args[2])
	},
}

// variants change which interfaces a provider has beside those of the fake cloud.
func variants() map[string]func(cloudprovider.Interface) cloudprovider.Interface {
	return map[string]func(cloudprovider.Interface) cloudprovider.Interface{
		"reports": func(c cloudprovider.Interface) cloudprovider.Interface { return reporting{c} },
		"cleans":  func(c cloudprovider.Interface) cloudprovider.Interface { return cleaning{c} },
		"plain":   func(c cloudprovider.Interface) cloudprovider.Interface { return plain{c} },
		"endpoints": func(c cloudprovider.Interface) cloudprovider.Interface {
			return endpointCloud{c}
		},
		"all": func(c cloudprovider.Interface) cloudprovider.Interface {
			return struct {
				cleaning
				cloudprovider.PVLabeler
				ccm.ObjectReporter
			}{cleaning{c}, c.(cloudprovider.PVLabeler), reporting{}}
		},
		"late": func(c cloudprovider.Interface) cloudprovider.Interface {
			return &late{Interface: c}
		},
	}
}

// description is the environment of a child, as the child reports it.
type description struct {
	Config            ccm.Config
	ConfigFile        string
	Identity, Manager string
	Owner             string
	RequireOwnerMark  bool
	Term              uint64
	IsVerbose         bool
	IsTooVerbose      bool
	// Environment is the environment of the process.
	Environment []string
}

func describe(env ccm.ProviderEnv) error {
	text, err := json.Marshal(description{
		Config: env.Config, ConfigFile: env.ConfigFile, Identity: env.Identity,
		Manager: env.Manager, Owner: env.Owner, Term: env.Term,
		RequireOwnerMark: env.RequireOwnerMark,
		IsVerbose:        klog.V(3).Enabled(), IsTooVerbose: klog.V(4).Enabled(),
		Environment: os.Environ(),
	})
	if err != nil {
		return err
	}
	env.ReportTrouble("description", errors.New(string(text)))
	return nil
}

// reporting also reports the state of its objects.
type reporting struct{ cloudprovider.Interface }

var since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (reporting) LoadBalancerStatus() []status.LoadBalancer {
	return []status.LoadBalancer{{
		Service: "web", State: status.LoadBalancerWaiting, Since: since, Drift: []string{"port"},
	}}
}

func (reporting) NodeStatus() []status.Node {
	return []status.Node{{Name: "node-1", Reason: "InstanceNotFound", Since: since}}
}

// cleaning also cleans up after deleted clusters.
type cleaning struct{ cloudprovider.Interface }

func (cleaning) CleanUpCluster(_ context.Context, uid string) ([]string, error) {
	return []string{"load balancer of " + uid}, errors.New("the cloud is busy")
}

// plain does not report pod ranges.
type plain struct{ cloudprovider.Interface }

func (p plain) InstancesV2() (cloudprovider.InstancesV2, bool) {
	inner, ok := p.Interface.InstancesV2()
	return struct{ cloudprovider.InstancesV2 }{inner}, ok
}

// endpointCloud has load balancers with endpoints as members, for the Services with an annotation.
type endpointCloud struct{ cloudprovider.Interface }

func (c endpointCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := c.Interface.LoadBalancer()
	return endpointBalancers{inner}, ok
}

type endpointBalancers struct{ cloudprovider.LoadBalancer }

func (endpointBalancers) WantsEndpoints(service *v1.Service) bool {
	return service.Annotations["members"] == "endpoints"
}

// EnsureEndpointLoadBalancer returns its arguments in the status.
func (endpointBalancers) EnsureEndpointLoadBalancer(
	_ context.Context, cluster string, service *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	current := &v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{
		{Hostname: cluster + "." + service.Name},
	}}
	for _, node := range nodes {
		current.Ingress = append(current.Ingress, v1.LoadBalancerIngress{Hostname: node.Name})
	}
	for _, slice := range endpoints {
		for _, endpoint := range slice.Endpoints {
			current.Ingress = append(current.Ingress,
				v1.LoadBalancerIngress{IP: endpoint.Addresses[0]})
		}
	}
	return current, nil
}

func (endpointBalancers) UpdateEndpointLoadBalancer(
	_ context.Context, _ string, _ *v1.Service, _ []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) error {
	return fmt.Errorf("%d EndpointSlices", len(endpoints))
}

// late learns in Initialize which interfaces its cloud supports.
type late struct {
	cloudprovider.Interface
	isInitialized atomic.Bool
}

func (l *late) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	l.isInitialized.Store(true)
}

func (l *late) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, _ := l.Interface.LoadBalancer()
	return inner, l.isInitialized.Load()
}

// ownController is a controller that a provider starts in Initialize. It labels Nodes continually,
// and calls the cloud after its stop.
type ownController struct {
	cloud  cloudprovider.Interface
	client kubernetes.Interface
	stop   <-chan struct{}
}

// lastCalls are the calls of the controller after the stop.
const lastCalls = 20

func (o *ownController) initialize(
	builder cloudprovider.ControllerClientBuilder, stop <-chan struct{},
) {
	o.client, o.stop = builder.ClientOrDie("own-controller"), stop
	go func() {
		<-stop
		o.call("stopped", lastCalls)
	}()
}

func (o *ownController) setInformers(factory informers.SharedInformerFactory) {
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			name := object.(*v1.Node).Name
			o.call("saw-"+name, 1)
			go o.label(name)
		}})
	if err != nil {
		panic(err)
	}
}

func (o *ownController) call(name string, times int) {
	instances, _ := o.cloud.Instances()
	for range times {
		_ = instances.AddSSHKeyToAllInstances(context.Background(), name, nil)
	}
}

// label never stops by itself.
func (o *ownController) label(node string) {
	for n := 0; ; n++ {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"own":"%d"}}}`, n)
		_, _ = o.client.CoreV1().Nodes().Patch(context.Background(), node,
			types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		time.Sleep(10 * time.Millisecond)
	}
}
