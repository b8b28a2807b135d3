package initfunc

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	cmapp "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// stubTerm is a term without a Manager, whose API server cannot be reached.
type stubTerm struct {
	cfg    ccm.Config
	cloud  cloudprovider.Interface
	shared informers.SharedInformerFactory
	events *recorded
	refuse error
}

func newStubTerm(t *testing.T) *stubTerm {
	t.Helper()
	term := &stubTerm{cfg: ccm.DefaultConfig(), cloud: fake.New().Provider(), events: &recorded{}}
	client, err := term.Client("informers")
	if err != nil {
		t.Fatal(err)
	}
	term.shared = informers.NewSharedInformerFactory(client, 0)
	return term
}

func (t *stubTerm) Config() ccm.Config                         { return t.cfg }
func (t *stubTerm) Logger() logr.Logger                        { return logr.Discard() }
func (t *stubTerm) Cloud() cloudprovider.Interface             { return t.cloud }
func (t *stubTerm) Informers() informers.SharedInformerFactory { return t.shared }
func (t *stubTerm) Recorder(string) record.EventRecorder       { return t.events }

func (t *stubTerm) Metrics() *controllersmetrics.ControllerManagerMetrics {
	return controllersmetrics.NewControllerManagerMetrics("stub")
}

func (t *stubTerm) RESTConfig(name string) (*rest.Config, error) {
	if name == "refused" {
		return nil, t.refuse
	}
	return &rest.Config{
		Host: "http://" + name,
		Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("no API server here")
		}),
	}, nil
}

func (t *stubTerm) Client(name string) (kubernetes.Interface, error) {
	cfg, err := t.RESTConfig(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

// recorded keeps the events of a term.
type recorded struct {
	record.EventRecorder
	mu      sync.Mutex
	objects []runtime.Object
	reasons []string
}

func (r *recorded) AnnotatedEventf(
	object runtime.Object, _ map[string]string, _, reason, _ string, _ ...any,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects, r.reasons = append(r.objects, object), append(r.reasons, reason)
}

// constructorOf returns an upstream constructor for an InitFunc.
func constructorOf(f app.InitFunc) app.ControllerInitFuncConstructor {
	return app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: "tested"},
		Constructor: func(
			app.ControllerInitContext, *config.CompletedConfig, cloudprovider.Interface,
		) app.InitFunc {
			return f
		},
	}
}

// initialized is the input of an InitFunc.
type initialized struct {
	ctx     context.Context
	context cmapp.ControllerContext
}

// answering returns an InitFunc that records its arguments and returns the given results.
func answering(given *initialized, c controller.Interface, started bool, err error) app.InitFunc {
	return func(ctx context.Context, cc cmapp.ControllerContext) (controller.Interface, bool,
		error,
	) {
		*given = initialized{ctx: ctx, context: cc}
		return c, started, err
	}
}

// released reports whether InformersStarted is closed.
func (i initialized) released() bool {
	select {
	case <-i.context.InformersStarted:
		return true
	default:
		return false
	}
}
