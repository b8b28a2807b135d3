package initfunc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cpconfig "k8s.io/cloud-provider/config"
	cmapp "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/healthz"

	"github.com/fxccm/fxccm/ccm"
)

var errBroken = errors.New("broken")

func TestBuild_ControllerIsNotStarted_IsSkippedAndReleased(t *testing.T) {
	var given initialized
	_, err := adapter{name: "ipam", constructor: constructorOf(answering(&given, nil, false,
		nil))}.build(t.Context(), newStubTerm(t))
	if !errors.Is(err, ccm.ErrSkip) {
		t.Errorf("error is %v, want ErrSkip", err)
	}
	if given.ctx.Err() == nil || !given.released() {
		t.Errorf(
			"context ended: %v, InformersStarted closed: %v, want both, so that goroutines of a skipped controller end",
			given.ctx.Err(), given.released())
	}
}

func TestBuild_InitFuncFails_ErrorIsReturned(t *testing.T) {
	var given initialized
	_, err := adapter{name: "ipam", constructor: constructorOf(answering(&given, nil, true,
		errBroken))}.build(t.Context(), newStubTerm(t))
	if !errors.Is(err, errBroken) || errors.Is(err, ccm.ErrSkip) {
		t.Errorf("error is %v, want the InitFunc's", err)
	}
	if given.ctx.Err() == nil {
		t.Error("the context of the InitFunc has not ended")
	}
}

func TestBuild_InitFuncPanics_EnvironmentIsReleased(t *testing.T) {
	var given initialized
	panics := func(ctx context.Context, cc cmapp.ControllerContext) (controller.Interface, bool,
		error,
	) {
		given = initialized{ctx: ctx, context: cc}
		panic(errBroken)
	}
	defer func() {
		if r := recover(); r != errBroken {
			t.Errorf("panic value is %v, want the InitFunc's, which the Manager turns into an error", r)
		}
		if given.ctx.Err() == nil || !given.released() {
			t.Error("the context or InformersStarted is open after the panic")
		}
	}()
	_, err := adapter{name: "ipam", constructor: constructorOf(panics)}.build(t.Context(),
		newStubTerm(t))
	t.Errorf("no panic, got %v", err)
}

func TestBuild_ConstructorReturnsNoInitFunc_IsAnError(t *testing.T) {
	_, err := adapter{name: "ipam", constructor: constructorOf(nil)}.build(t.Context(),
		newStubTerm(t))
	if err == nil || !strings.Contains(err.Error(), "no InitFunc") {
		t.Errorf("error is %v", err)
	}
}

func TestBuild_InitFunc_GetsItsWholeInput(t *testing.T) {
	term := newStubTerm(t)
	term.cfg.ClusterName = "blue"
	var completed *config.CompletedConfig
	var initContext app.ControllerInitContext
	var cloud cloudprovider.Interface
	var given initialized
	constructor := app.ControllerInitFuncConstructor{
		InitContext: app.ControllerInitContext{ClientName: "mycloud-ipam"},
		Constructor: func(
			ic app.ControllerInitContext, c *config.CompletedConfig,
			provider cloudprovider.Interface,
		) app.InitFunc {
			initContext, completed, cloud = ic, c, provider
			return answering(&given, nil, true, nil)
		},
	}
	allocate := func(c *cpconfig.CloudControllerManagerConfiguration) {
		c.KubeCloudShared.AllocateNodeCIDRs = true
	}
	a := adapter{
		name: "ipam", constructor: constructor,
		configure: []func(*cpconfig.CloudControllerManagerConfiguration){allocate},
	}
	run, err := a.build(t.Context(), term)
	if err != nil {
		t.Fatal(err)
	}
	defer ended(t, run)

	if initContext.ClientName != "mycloud-ipam" || cloud != term.cloud {
		t.Errorf("client name %q, cloud %v", initContext.ClientName, cloud)
	}
	shared := completed.ComponentConfig.KubeCloudShared
	if shared.ClusterName != "blue" || !shared.AllocateNodeCIDRs {
		t.Errorf("cluster name %q, allocate node CIDRs %v", shared.ClusterName,
			shared.AllocateNodeCIDRs)
	}
	if completed.Kubeconfig.Host != "http://mycloud-ipam" {
		t.Errorf("the configuration is for %s, want the identity of the client name",
			completed.Kubeconfig.Host)
	}
	cc := given.context
	for what, missing := range map[string]bool{
		"Client":                          completed.Client == nil,
		"VersionedClient":                 completed.VersionedClient == nil,
		"completed.ClientBuilder":         completed.ClientBuilder == nil,
		"SharedInformers":                 completed.SharedInformers == nil,
		"EventRecorder":                   completed.EventRecorder == nil,
		"EventBroadcaster":                completed.EventBroadcaster == nil,
		"ClientBuilder":                   cc.ClientBuilder == nil,
		"InformerFactory":                 cc.InformerFactory == nil,
		"ObjectOrMetadataInformerFactory": cc.ObjectOrMetadataInformerFactory == nil,
		"RESTMapper":                      cc.RESTMapper == nil,
		"Stop":                            cc.Stop == nil,
		"InformersStarted":                cc.InformersStarted == nil,
		"ControllerManagerMetrics":        cc.ControllerManagerMetrics == nil,
	} {
		if missing {
			t.Errorf("%s is nil", what)
		}
	}
	least := term.cfg.MinResyncPeriod.Duration
	if period := cc.ResyncPeriod(); period < least || period > 2*least {
		t.Errorf("resync period is %s, want it between %s and twice that", period, least)
	}
	if given.released() {
		t.Error("InformersStarted is closed before any informer has been started")
	}
}

func TestBuild_ClientCannotBeMade_EndsTheTermButNotTheProcess(t *testing.T) {
	term := newStubTerm(t)
	term.refuse = errBroken
	asks := map[string]func(cmapp.ControllerContext) error{
		"ConfigOrDie": func(cc cmapp.ControllerContext) error {
			_, err := cc.ClientBuilder.ConfigOrDie("refused").Transport.RoundTrip(&http.Request{})
			return err
		},
		"ClientOrDie": func(cc cmapp.ControllerContext) error {
			_, err := cc.ClientBuilder.ClientOrDie("refused").CoreV1().Nodes().Get(t.Context(), "a",
				metav1.GetOptions{})
			return err
		},
		"DiscoveryClientOrDie": func(cc cmapp.ControllerContext) error {
			_, err := cc.ClientBuilder.DiscoveryClientOrDie("refused").ServerVersion()
			return err
		},
	}
	for method, ask := range asks {
		t.Run(method, func(t *testing.T) {
			var used error
			insists := func(_ context.Context, cc cmapp.ControllerContext) (controller.Interface,
				bool, error,
			) {
				used = ask(cc)
				return nil, true, nil
			}
			_, err := adapter{name: "ipam", constructor: constructorOf(insists)}.build(t.Context(),
				term)
			if !errors.Is(err, errBroken) {
				t.Errorf("error is %v, want the client's error", err)
			}
			if !errors.Is(used, errBroken) {
				t.Errorf("a request of the client fails with %v, want the client's error", used)
			}
		})
	}
}

func TestRun_TermIsOpen_InformersStartedIsClosedAndTheContextIsOpen(t *testing.T) {
	var given initialized
	run, err := adapter{name: "ipam", constructor: constructorOf(answering(&given, nil, true,
		nil))}.build(t.Context(), newStubTerm(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- run.Run(ctx) }()
	<-given.context.InformersStarted
	if given.ctx.Err() != nil {
		t.Error("the context of the InitFunc has ended while its controller runs")
	}
	cancel()
	if err := <-result; err != nil {
		t.Error(err)
	}
	<-given.context.Stop
}

func TestRun_TermIsOver_EnvironmentIsReleased(t *testing.T) {
	var given initialized
	run, err := adapter{name: "ipam", constructor: constructorOf(answering(&given, nil, true,
		nil))}.build(t.Context(), newStubTerm(t))
	if err != nil {
		t.Fatal(err)
	}
	ended(t, run)
	if given.ctx.Err() == nil || !given.released() {
		t.Errorf("context ended: %v, InformersStarted closed: %v", given.ctx.Err(),
			given.released())
	}
}

// ended runs a built controller in a term that is over.
func ended(t *testing.T, run ccm.Runnable) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run.Run(ctx); err != nil {
		t.Errorf("Run in a term that is over: %v", err)
	}
}

// patient is a controller with a health check and a debugging handler.
type patient struct {
	health  error
	handler http.Handler
}

func (patient) Name() string                                  { return "patient" }
func (p patient) HealthChecker() healthz.UnnamedHealthChecker { return p }
func (p patient) Check(*http.Request) error                   { return p.health }
func (p patient) DebuggingHandler() http.Handler              { return p.handler }

// silent is a controller whose methods return nil.
type silent struct{}

func (silent) Name() string                                { return "silent" }
func (silent) HealthChecker() healthz.UnnamedHealthChecker { return nil }
func (silent) DebuggingHandler() http.Handler              { return nil }

func TestRunnable_HealthAndDebugging_AreTheControllers(t *testing.T) {
	cases := []struct {
		name       string
		controller controller.Interface
		health     error
		debug      bool
	}{
		{"sick", patient{health: errBroken, handler: http.NotFoundHandler()}, errBroken, true},
		{"healthy", patient{handler: http.NotFoundHandler()}, nil, true},
		{"silent", silent{}, nil, false},
		{"none", nil, nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var given initialized
			run, err := adapter{name: c.name, constructor: constructorOf(answering(&given,
				c.controller, true, nil))}.build(t.Context(), newStubTerm(t))
			if err != nil {
				t.Fatal(err)
			}
			defer ended(t, run)
			if got := run.(ccm.HealthChecker).HealthCheck(nil); got != c.health {
				t.Errorf("health is %v, want %v", got, c.health)
			}
			shows, ok := run.(interface{ DebuggingHandler() http.Handler })
			if ok != c.debug {
				t.Errorf("debuggable: %v, want %v", ok, c.debug)
			}
			if ok && shows.DebuggingHandler() == nil {
				t.Error("its handler is nil")
			}
		})
	}
}
