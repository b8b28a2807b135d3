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

// term is the part of a *ccm.Term that the adapter uses.
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

// environment is the input of an InitFunc in one term. end releases it.
type environment struct {
	completed     *config.CompletedConfig
	forController cmapp.ControllerContext

	clients  *clients
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	metadata metadatainformer.SharedInformerFactory
	events   *broadcaster

	// cancel ends the context of the InitFunc.
	cancel context.CancelFunc
	// closeStarted closes InformersStarted.
	closeStarted func()
}

// newEnvironment makes the input of an InitFunc, and its context. It starts no goroutine and sends
// no request. ctx is the term's context. identity names the clients that the InitFunc does not name
// itself.
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
	// Shared informers run as long as the term, not only as long as this controller.
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

// fillContext makes the ControllerContext. ctx is the context of the InitFunc.
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
	e.closeStarted = sync.OnceFunc(func() { close(started) })
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

// end ends the context, the metadata informers and the events, and waits for them.
func (e *environment) end() {
	e.cancel()
	// A goroutine that waits only for InformersStarted would otherwise wait forever. It then finds
	// that its context has ended.
	e.closeStarted()
	e.metadata.Shutdown()
	e.events.Shutdown()
}
