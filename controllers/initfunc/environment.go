package initfunc

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cpconfig "k8s.io/cloud-provider/config"
	cpoptions "k8s.io/cloud-provider/options"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	cmapp "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/pkg/informerfactory"

	"github.com/fxccm/fxccm/ccm"
)

// term is what is taken from a term; *ccm.Term is one.
type term interface {
	Config() ccm.Config
	Logger() logr.Logger
	Cloud() cloudprovider.Interface
	RESTConfig(name string) (*rest.Config, error)
	Client(name string) (kubernetes.Interface, error)
	Informers() informers.SharedInformerFactory
	Recorder(source string) record.EventRecorder
	Metrics() *controllersmetrics.ControllerManagerMetrics
}

// environment is what an InitFunc is given in one term, and how that is given back.
type environment struct {
	completed     *config.CompletedConfig
	forController cmapp.ControllerContext

	clients  *clients
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	metadata metadatainformer.SharedInformerFactory
	events   *broadcaster

	// cancel ends the context of the InitFunc.
	cancel context.CancelFunc
	// letGo closes InformersStarted.
	letGo func()
}

// newEnvironment makes all that an InitFunc is given, and the context that it gets. It starts
// nothing and asks the API server for nothing. ctx is the term's; identity names the clients that
// the InitFunc does not name itself.
func newEnvironment(
	ctx context.Context, t term, identity string,
	component cpconfig.CloudControllerManagerConfiguration,
) (*environment, context.Context, error) {
	own, err := t.RESTConfig(identity)
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, nil, fmt.Errorf("client %q: %w", identity, err)
	}
	// Informers that controllers share live as long as the term, and not only as long as this
	// controller.
	typed := newTypedInformers(ctx, t.Informers())
	ctx, cancel := context.WithCancel(ctx)
	env := &environment{
		clients: &clients{term: t}, events: &broadcaster{recorder: t.Recorder},
		cancel: cancel,
	}
	env.completed = (&config.Config{
		ComponentConfig:  component,
		Client:           client,
		Kubeconfig:       own,
		EventBroadcaster: env.events,
		EventRecorder: env.events.NewRecorder(scheme.Scheme,
			corev1.EventSource{Component: cpoptions.CloudControllerManagerUserAgent}),
		ClientBuilder:   env.clients,
		VersionedClient: client,
		SharedInformers: typed,
	}).Complete()
	if err := env.fillContext(ctx, t, own, typed); err != nil {
		cancel()
		return nil, nil, err
	}
	return env, ctx, nil
}

// fillContext makes what is in ControllerContext. ctx is that of the InitFunc.
func (e *environment) fillContext(
	ctx context.Context, t term, own *rest.Config, typed typedInformers,
) (err error) {
	resync := app.ResyncPeriod(e.completed)
	if e.metadata, err = newMetadataInformers(ctx, own, resync()); err != nil {
		return err
	}
	if e.mapper, err = newMapper(ctx, own); err != nil {
		return err
	}
	started := make(chan struct{})
	e.letGo = sync.OnceFunc(func() { close(started) })
	e.forController = cmapp.ControllerContext{
		ClientBuilder:                   e.clients,
		InformerFactory:                 typed,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(typed, e.metadata),
		RESTMapper:                      e.mapper,
		Stop:                            ctx.Done(),
		InformersStarted:                started,
		ResyncPeriod:                    resync,
		ControllerManagerMetrics:        t.Metrics(),
	}
	return nil
}

// end gives everything back, and waits for it.
func (e *environment) end() {
	e.cancel()
	// A goroutine that waits only for InformersStarted would wait forever. It finds its context
	// ended.
	e.letGo()
	e.metadata.Shutdown()
	e.events.Shutdown()
}
