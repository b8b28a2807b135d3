package hostintegration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/provider/fake"
)

// get asks the endpoints of a Manager.
func get(handler http.Handler, path string) (code int, body string) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// inspected is a controller with a health of its own and something to show.
type inspected struct {
	sick chan struct{}
	maps cache.GenericLister
}

func (i *inspected) Run(ctx context.Context) error { return untilEnd(ctx) }

func (i *inspected) HealthCheck(*http.Request) error {
	select {
	case <-i.sick:
		return errors.New("the queue does not move")
	default:
		return nil
	}
}

func (i *inspected) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := i.maps.ByNamespace(metav1.NamespaceDefault).Get(
			strings.TrimPrefix(r.URL.Path, "/")); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "knows %s", r.URL.Path)
	})
}

func newInspected(sick chan struct{}) ccm.Controller {
	return ccm.Controller{
		Name: "inspected",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			maps, err := term.Informers().ForResource(configMaps)
			if err != nil {
				return nil, err
			}
			return &inspected{sick: sick, maps: maps.Lister()}, nil
		},
	}
}

func TestControllers_OfAValueGroup_AreSwitchedByName(t *testing.T) {
	t.Parallel()
	optional := idle("example.com/optional")
	optional.DisabledByDefault, optional.Aliases = true, []string{"optional"}
	group := ccmtest.WithFx(fx.Provide(
		ccm.AsController(func() ccm.Controller { return idle("usual") }),
		ccm.AsController(func() ccm.Controller { return optional }),
	))
	const fourOff = "-cloud-node,-cloud-node-lifecycle,-service,-route"
	for switches, want := range map[string][2]ccm.ControllerState{
		"*":               {ccm.ControllerRunning, ccm.ControllerDisabled},
		"*,optional":      {ccm.ControllerRunning, ccm.ControllerRunning},
		"optional,-usual": {ccm.ControllerDisabled, ccm.ControllerRunning},
	} {
		t.Run(switches, func(t *testing.T) {
			t.Parallel()
			app := startApp(t, newCloud(t), group,
				only(strings.Split(switches+","+fourOff, ",")...))
			app.WaitReady()
			if got := [2]ccm.ControllerState{
				statusOf(t, app.Manager, "usual").State,
				statusOf(t, app.Manager, "example.com/optional").State,
			}; got != want {
				t.Errorf("with --controllers=%s they are %q, want %q", switches, got, want)
			}
			code, _ := get(endpoints.NewHandler(app.Manager, endpoints.WithProfiling(true)),
				"/healthz/example.com/optional")
			if enabled := want[1] == ccm.ControllerRunning; enabled != (code == http.StatusOK) {
				t.Errorf("its health check answers %d", code)
			}
		})
	}
}

func TestControllers_TellTheirHealthAndShowTheirInside(t *testing.T) {
	t.Parallel()
	sick := make(chan struct{})
	createConfigMap(t, objectName(t))
	app := startApp(t, newCloud(t), only("inspected"), ccmtest.WithControllers(newInspected(sick)))
	app.WaitReady()
	pages := endpoints.NewHandler(app.Manager, endpoints.WithProfiling(true))
	shown := "/debug/controllers/inspected/" + objectName(t)
	if code, body := get(pages, "/healthz/inspected"); code != http.StatusOK {
		t.Errorf("healthy, it answers %d %s", code, body)
	}
	if code, body := get(pages, shown); code != http.StatusOK || body != "knows /"+objectName(t) {
		t.Errorf("its debugging handler answers %d %s", code, body)
	}
	close(sick)
	if code, body := get(pages, "/healthz/inspected"); code != http.StatusInternalServerError ||
		!strings.Contains(body, "the queue does not move") {
		t.Errorf("sick, it answers %d %s", code, body)
	}
	if code, _ := get(pages, "/livez"); code != http.StatusInternalServerError {
		t.Errorf("/livez answers %d", code)
	}
	lose(t, app.Elector)
	if code, body := get(pages, "/healthz/inspected"); code != http.StatusOK {
		t.Errorf("without a term its health is %d %s", code, body)
	}
	if code, _ := get(pages, shown); code != http.StatusNotFound {
		t.Errorf("without a term its debugging handler answers %d", code)
	}
}

// What needs no lease works in every replica, whoever leads.
func TestControllers_WithoutLeaderElection_WorkInAReplicaThatStandsBy(t *testing.T) {
	t.Parallel()
	built := make(chan [2]*witness, 2)
	everywhere := watching("everywhere", built)
	everywhere.NeedLeaderElection = new(false)
	leader, standby := newCloud(t), newCloud(t)
	first := startApp(t, leader, only("leads"), ccmtest.WithControllers(idle("leads")))
	first.WaitReady()
	app := startApp(t, standby, only("everywhere", "leads"),
		ccmtest.WithControllers(everywhere, idle("leads")),
		ccmtest.WithElector(first.Elector)) // it is the first one's
	waitController(t, app.Manager, "everywhere",
		func(s ccm.ControllerStatus) bool { return s.State == ccm.ControllerRunning })
	createConfigMap(t, objectName(t))
	seen := <-built
	seen[1].wait(t, "add "+objectName(t), 1)
	if s := app.Manager.Status(); s.State != ccm.StateStandby ||
		statusOf(t, app.Manager, "leads").State != ccm.ControllerWaiting {
		t.Errorf("the replica that stands by: %+v", s)
	}
	if calls := standby.Calls(); len(calls) > 0 {
		t.Errorf("it has called its cloud: %+v", calls)
	}
	// It leads, and the controller is not disturbed.
	first.Stop()
	app.WaitReady()
	createConfigMap(t, objectName(t)+"-2")
	seen[1].wait(t, "add "+objectName(t)+"-2", 1)
	if len(built) > 0 || statusOf(t, app.Manager, "everywhere").Restarts != 0 {
		t.Error("the controller was built anew")
	}
	if got := requests(t, controlplane.ByResource("", "configmaps"),
		controlplane.ByVerb("watch")); len(got) != 1 {
		t.Errorf("ConfigMaps were watched by %d requests, want 1: %v", len(got), got)
	}
}

func TestControllers_RestartedAlone_SeeEverythingAnew(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"own informers": true, "informers of the host": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			built, fail := make(chan [2]*witness, 3), make(chan error)
			flaky := watching("flaky", built)
			build := flaky.New
			flaky.OnFailure = ccm.RestartController
			flaky.New = func(ctx context.Context, term *ccm.Term) (ccm.Runnable, error) {
				if _, err := build(ctx, term); err != nil {
					return nil, err
				}
				return ccm.RunnableFunc(func(ctx context.Context) error {
					select {
					case err := <-fail:
						return err
					case <-ctx.Done():
						return nil
					}
				}), nil
			}
			p := params(t, newCloud(t), leading())
			p.Controllers, p.Config.Controllers = []ccm.Controller{flaky, idle("steady")},
				[]string{"flaky", "steady"}
			if !own {
				p.Informers = startProgram(t).informers()
			}
			m, _ := run(t, p)
			ccmtest.WaitReady(t, m)
			kind := strings.ReplaceAll(name, " ", "-")
			createConfigMap(t, kind+"-before")
			first := <-built
			first[1].wait(t, "add "+kind+"-before", 1)
			fail <- errors.New("out of order")
			waitController(t, m, "flaky", func(s ccm.ControllerStatus) bool {
				return s.State == ccm.ControllerFailed && strings.Contains(s.Reason, "out of order")
			})
			// Its status is there before its handlers are removed.
			second := <-built
			told := first[1].count()
			createConfigMap(t, kind+"-after")
			second[1].wait(t, "add "+kind+"-before", 1)
			second[1].wait(t, "add "+kind+"-after", 1)
			if got := first[1].count(); got != told {
				t.Errorf("the handler of the failed controller was told of %d things", got-told)
			}
			if s := m.Status(); s.Term != 1 || statusOf(t, m, "steady").Restarts != 0 {
				t.Errorf("the others were disturbed: %+v", s)
			}
			waitController(t, m, "flaky", func(s ccm.ControllerStatus) bool {
				return s.State == ccm.ControllerRunning && s.Restarts == 1
			})
		})
	}
}

// panicking panics when it is told of a ConfigMap of the name.
func panicking(name string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if obj.(*corev1.ConfigMap).Name == name {
			panic("cannot bear " + name)
		}
	}}
}

func TestEventHandlers_ThatPanic_DoNotEndTheProcess(t *testing.T) {
	t.Parallel()
	t.Run("of a controller", func(t *testing.T) {
		t.Parallel()
		name := objectName(t)
		fragile := controller("fragile", func(term *ccm.Term) (ccm.RunnableFunc, error) {
			_, err := term.Informers().Core().V1().ConfigMaps().Informer().AddEventHandler(
				panicking(name))
			return untilEnd, err
		})
		fragile.OnFailure = ccm.RestartController
		app := startApp(t, newCloud(t), only("fragile", "steady"),
			ccmtest.WithControllers(fragile, idle("steady")))
		app.WaitReady()
		createConfigMap(t, name)
		failed := waitController(t, app.Manager, "fragile",
			func(s ccm.ControllerStatus) bool { return s.State == ccm.ControllerFailed })
		if !strings.Contains(failed.Reason,
			"panic in an event handler of configmaps: cannot bear "+name) {
			t.Errorf("its reason is %q", failed.Reason)
		}
		if s := app.Manager.Status(); s.Term != 1 || !s.Ready ||
			statusOf(t, app.Manager, "steady").State != ccm.ControllerRunning {
			t.Errorf("the others were disturbed: %+v", s)
		}
	})
	t.Run("of the provider", func(t *testing.T) {
		t.Parallel()
		name := objectName(t)
		cloud := newCloud(t)
		app := startApp(t, cloud, only("steady"), ccmtest.WithControllers(idle("steady")),
			ccmtest.WithProvider(
				cloud.CCMProvider(
					fake.WithSetInformers(func(factory informers.SharedInformerFactory) {
						if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(
							panicking(name)); err != nil {
							panic(err)
						}
					}))))
		app.WaitReady()
		createConfigMap(t, name)
		status := ccmtest.WaitStatus(t, app.Manager, "the term has failed",
			func(s ccm.Status) bool { return s.State == ccm.StateDegraded })
		if !strings.Contains(status.Reason, "cannot bear "+name) || status.RetryAt.IsZero() {
			t.Errorf("status: %+v", status)
		}
	})
}
