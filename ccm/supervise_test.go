package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// startControllers runs a Manager of the given controllers in the bubble of a test.
func startControllers(t *testing.T, controllers ...ccm.Controller) *ccm.Manager {
	t.Helper()
	names := make([]string, 0, len(controllers))
	for _, c := range controllers {
		names = append(names, c.Name)
	}
	p := standaloneParams(names...)
	p.Controllers = controllers
	m, stop := start(t, p)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	return m
}

func statusOf(t *testing.T, m *ccm.Manager, name string) status.Controller {
	t.Helper()
	for _, c := range m.Status().Controllers {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("Status has no controller %s", name)
	return status.Controller{}
}

// flaky returns a controller that fails the given number of times before it works.
func flaky(name string, failures int, fail func() error) (ccm.Controller, *atomic.Int32) {
	var built atomic.Int32
	return ccm.Controller{
		Name: name, RestartOnFailure: true,
		New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
			n := int(built.Add(1))
			return ccm.RunnableFunc(func(ctx context.Context) error {
				if n <= failures {
					time.Sleep(time.Second)
					return fail()
				}
				<-ctx.Done()
				return nil
			}), nil
		},
	}, &built
}

func TestController_RestartPolicy_RestartsOnlyTheFailedController(t *testing.T) {
	ways := map[string]func() error{
		"an error":       func() error { return errors.New("out of order") },
		"a panic":        func() error { panic("out of order") },
		"a return early": func() error { return nil },
	}
	for name, fail := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var steady atomic.Int32
				other := ccm.Controller{
					Name: "steady",
					New: func(ctx context.Context, t *ccm.Term) (ccm.Runnable, error) {
						steady.Add(1)
						return idle("steady").New(ctx, t)
					},
				}
				c, built := flaky("flaky", 2, fail)
				m := startControllers(t, c, other)
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
				if s := statusOf(t, m, "flaky"); s.State != status.ControllerFailed ||
					s.Reason == "" || s.RetryAt.Before(time.Now()) {
					t.Errorf("after the failure the status is %+v", s)
				}
				if w := runWarnings(m.Status()); len(w) != 1 ||
					!strings.Contains(w[0], "controller flaky failed and is restarting") {
					t.Errorf("warnings: %q", w)
				}
				for _, check := range m.LivenessChecks() {
					if err := check.Check(nil); err != nil {
						t.Errorf("%s is unhealthy while it waits for its restart: %v", check.Name,
							err)
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := statusOf(t, m, "flaky"); s.State != status.ControllerRunning ||
					s.Restarts != 2 || !s.RetryAt.IsZero() {
					t.Errorf("after the restarts the status is %+v", s)
				}
				if built.Load() != 3 || steady.Load() != 1 || m.Status().Term != 1 ||
					len(runWarnings(m.Status())) != 0 {
					t.Errorf(
						"flaky was built %d times and steady %d times in term %d, want 3, 1, 1; warnings %q",
						built.Load(), steady.Load(), m.Status().Term, runWarnings(m.Status()))
				}
			})
		})
	}
}

// Many clouds put the ID of the request into each error.
func TestController_FailuresDifferInTheRequestID_AreOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		c, _ := flaky("flaky", 3, func() error {
			return fmt.Errorf("403 Forbidden (request %032x)", requests.Add(1))
		})
		p := standaloneParams(c.Name, "steady")
		p.Controllers = []ccm.Controller{c, idle("steady")}
		recorder := recordEvents(&p)
		m, stop := start(t, p)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := statusOf(t, m, "flaky").Restarts; n != 3 {
			t.Errorf("the controller was restarted %d times, want 3", n)
		}
		mustHaveEvent(t, recorder, "Warning ControllerFailed controller flaky: ", "403 Forbidden")
		if n := len(recorder.Events); n > 0 {
			t.Errorf("%d further events for one cause", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestController_RestartPolicyAndFailingNew_IsBuiltAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built atomic.Int32
		m := startControllers(t, idle("steady"),
			ccm.Controller{
				Name: "late", RestartOnFailure: true,
				New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
					switch built.Add(1) {
					case 1:
						return nil, errors.New("not yet")
					case 2:
						panic("not yet")
					case 3:
						return nil, nil
					}
					return nil, fmt.Errorf("%w: there is nothing to do after all", ccm.ErrSkip)
				},
			})
		synctest.Wait()
		if s := m.Status(); !s.Ready {
			t.Errorf("the term is not ready: %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := statusOf(t, m, "late"); s.State != status.ControllerSkipped || s.Restarts != 3 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestController_FailureByDefault_EndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, built := flaky("fatal", 1, func() error { return errors.New("out of order") })
		c.RestartOnFailure = false
		m := startControllers(t, c, idle("steady"))
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if s := m.Status(); s.State != status.Degraded ||
			!strings.Contains(s.Reason, "controller fatal: out of order") {
			t.Errorf("after the failure: %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := m.Status(); s.Term != 2 || !s.Ready || built.Load() != 2 {
			t.Errorf("later: %+v, built %d times", s, built.Load())
		}
	})
}

func TestController_WithoutLeaderElection_RunsInStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := make(chan *ccm.Term, 10)
		always := observed("always", terms)
		always.NeedLeaderElection = new(false)
		leading := make(chan *ccm.Term, 10)
		p := standaloneParams("always", "leading")
		p.Controllers = []ccm.Controller{always, observed("leading", leading)}
		e := election.NewHost()
		p.Elector = e
		m, stop := start(t, p)
		synctest.Wait()
		if s := m.Status(); s.State != status.Standby ||
			statusOf(t, m, "always").State != status.ControllerRunning ||
			statusOf(t, m, "leading").State != status.ControllerWaiting {
			t.Errorf("in standby: %+v", s)
		}
		if term := <-terms; term.Number() != 0 || term.Cloud() != nil || term.Informers() == nil {
			t.Errorf("term %d with cloud %v", term.Number(), term.Cloud())
		}
		host, lose := context.WithCancel(t.Context())
		go func() { _ = e.Lead(host, election.Grant{}) }()
		synctest.Wait()
		if term := <-leading; term.Number() != 1 || term.Cloud() == nil {
			t.Errorf("the controller that needs the lease got term %d", term.Number())
		}
		lose()
		synctest.Wait()
		if len(terms) != 0 || statusOf(t, m, "always").State != status.ControllerRunning ||
			statusOf(t, m, "leading").State != status.ControllerWaiting {
			t.Errorf("after leadership was lost: %+v", m.Status())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestController_WithoutLeaderElectionFails_IsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, built := flaky("always", 1, func() error { return errors.New("out of order") })
		c.NeedLeaderElection, c.RestartOnFailure = new(false), false
		m := startControllers(t, c, idle("leading"))
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		s := m.Status()
		if s.State != status.Leading || !s.Ready || len(runWarnings(s)) != 1 ||
			!strings.Contains(runWarnings(s)[0],
				"without leader election: controller always: out of order") {
			t.Errorf("after the failure: %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := m.Status(); built.Load() != 2 || s.Term != 1 || len(runWarnings(s)) != 0 ||
			statusOf(t, m, "always").State != status.ControllerRunning {
			t.Errorf("later: %+v, built %d times", s, built.Load())
		}
	})
}

func TestController_WithoutLeaderElectionHangs_IsADrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := stubborn("always", release)
		c.NeedLeaderElection = new(false)
		p := standaloneParams("always", "leading")
		p.Controllers = []ccm.Controller{c, idle("leading")}
		_, stop := start(t, p)
		synctest.Wait()
		err := stop()
		var timedOut *ccm.DrainTimeoutError
		if !errors.As(err, &timedOut) || len(timedOut.Running) != 1 ||
			timedOut.Running[0].Name != "controller always" {
			t.Errorf("Run returned %v", err)
		}
		close(release)
	})
}

// debuggable serves the path of the request.
type debuggable struct{ ccm.RunnableFunc }

func (debuggable) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		fmt.Fprint(w, "saw ", r.Method, " ", r.URL.Path)
	})
}

func TestDebuggingHandler_RunningControllers_AreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shows := func(name string) ccm.Controller {
			return ccm.Controller{
				Name: name,
				New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
					return debuggable{func(ctx context.Context) error {
						<-ctx.Done()
						return nil
					}}, nil
				},
			}
		}
		always := shows("example.com/always")
		always.NeedLeaderElection = new(false)
		m := startControllers(t, shows("example.com"), always, idle("mute"))
		synctest.Wait()
		for path, want := range map[string]string{
			"/example.com/x/y":        "saw GET /x/y",
			"/example.com/":           "saw GET /",
			"/example.com/always/z":   "saw GET /z",
			"example.com/always/z":    "saw GET /z",
			"/mute/x":                 "404 page not found\n",
			"/unknown/x":              "404 page not found\n",
			"/":                       "404 page not found\n",
			"/example.community/x/yz": "404 page not found\n",
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL.Path = path
			m.DebuggingHandler().ServeHTTP(w, r)
			if got := w.Body.String(); got != want {
				t.Errorf("%s is %q, want %q", path, got, want)
			}
		}
	})
}

// sharedParams describes a Manager of cloud controllers, with the host's informers.
func sharedParams(t *testing.T, client kubernetes.Interface, controllers ...string) ccm.Params {
	t.Helper()
	p := standaloneParams(controllers...)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	p.Informers.Factory = informers.NewSharedInformerFactory(client, 0)
	p.Informers.Stop = stop
	p.Providers = []ccm.Provider{fake.New().CCMProvider()}
	return p
}

func TestUpstreamsController_CannotBeBuilt_IsRetriedWhileTheOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sharedParams(t, clientfake.NewClientset(), "node-route-controller", "mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		recorder := recordEvents(&p)
		m, stop := start(t, p)
		defer func() { _ = stop() }()
		for range 2 {
			synctest.Wait()
			s := m.Status()
			if route := statusOf(t, m, "node-route-controller"); !s.Ready || s.Term != 1 ||
				statusOf(t, m, "mine").State != status.ControllerRunning ||
				route.State != status.ControllerFailed || route.RetryAt.Before(time.Now()) ||
				!strings.Contains(route.Reason, "--cluster-cidr") {
				t.Errorf("status: %+v", s)
			}
			time.Sleep(5 * time.Minute)
		}
		if restarts := statusOf(t, m, "node-route-controller").Restarts; restarts < 10 {
			t.Errorf("in ten minutes, the controller was built again %d times", restarts)
		}
		ready := m.ReadinessChecks()[0]
		if detail := ready.Detail(); ready.Check(nil) != nil ||
			detail != "ok; controller node-route-controller has failed and is retried" {
			t.Errorf("readiness: %v, %q", ready.Check(nil), detail)
		}
		mustHaveEvent(t, recorder, "Warning ControllerFailed controller node-route-controller: ",
			"--cluster-cidr")
		if n := len(recorder.Events); n > 0 {
			t.Errorf("%d further events for one cause", n)
		}
	})
}

// Another replica may be able to start them.
func TestUpstreamsControllers_NoneCanBeBuilt_TermFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sharedParams(t, clientfake.NewClientset(), "node-route-controller")
		_ = recordEvents(&p)
		m, stop := start(t, p)
		defer func() { _ = stop() }()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if s := m.Status(); s.State != status.Degraded ||
			!strings.Contains(s.Reason, "controller node-route-controller: ") {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestController_InformerDoesNotSync_OthersRunMeanwhile(t *testing.T) {
	client := clientfake.NewClientset()
	var mayList atomic.Bool
	client.PrependReactor("list", "services",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if mayList.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "services"},
				"", errors.New("no rule"))
		})
	p := sharedParams(t, client, "service-lb-controller", "mine")
	p.Config.CacheSyncTimeout.Duration = 3 * time.Second
	p.Controllers = []ccm.Controller{idle("mine")}
	recorder := recordEvents(&p)
	m, stop := start(t, p)
	eventually(t, m.Status, func(s status.Manager) bool {
		return !s.Ready && s.State == status.Degraded &&
			statusOf(t, m, "mine").State == status.ControllerRunning &&
			strings.Contains(s.Reason, "informer of services has not synced")
	}, "a term in which the other controller runs")
	eventually(t, m.Status, func(s status.Manager) bool {
		c := statusOf(t, m, "service-lb-controller")
		return s.Ready && s.State == status.Leading && c.State == status.ControllerFailed &&
			strings.Contains(c.Reason, "lacks RBAC rules") &&
			strings.Contains(c.Reason, "informer of services has not synced")
	}, "a ready term with a failed controller")
	mustHaveEvent(t, recorder, "Warning ControllerFailed", "lacks RBAC rules",
		"controller service-lb-controller: informer of services")
	mayList.Store(true)
	s := eventually(t, m.Status, func(status.Manager) bool {
		return statusOf(t, m, "service-lb-controller").State == status.ControllerRunning
	}, "a controller that runs with the rule")
	if !s.Ready || s.Term != 1 {
		t.Errorf("with the rule: %+v", s)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
