package ccm_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/fake"
)

// recordEvents returns a recorder that receives the events of a Manager.
func recordEvents(p *ccm.Params) *record.FakeRecorder {
	recorder := record.NewFakeRecorder(100)
	p.EventRecorders = func(string) record.EventRecorder { return recorder }
	return recorder
}

func mustHaveEvent(t *testing.T, recorder *record.FakeRecorder, parts ...string) {
	t.Helper()
	var seen []string
	for {
		select {
		case event := <-recorder.Events:
			seen = append(seen, event)
			if !slices.ContainsFunc(parts,
				func(part string) bool { return !strings.Contains(event, part) }) {
				return
			}
		default:
			t.Errorf("no event with %q; seen: %q", parts, seen)
			return
		}
	}
}

func check(t *testing.T, all []ccm.Check, name string) ccm.Check {
	t.Helper()
	for _, c := range all {
		if c.Name() == name {
			return c
		}
	}
	t.Fatalf("no check %s", name)
	return ccm.Check{}
}

func TestProviderStart_Hangs_TermFailsAndIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var built atomic.Int32
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface, error) {
			if built.Add(1) == 1 {
				<-release
			}
			return emptyCloud(), nil
		})}
		recorder := recordEvents(&p)
		m, _ := start(t, p)
		defer synctest.Wait()
		defer close(release)

		synctest.Wait()
		if s := m.Status(); s.Step != "build provider" || s.Ready {
			t.Errorf("at first: %+v", s)
		}
		if detail := check(t, m.LivenessChecks(),
			"mine").Detail(nil); detail != "not running: leading: build provider" {
			t.Errorf("the check of a controller that does not run reports %q", detail)
		}
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		mustHaveEvent(t, recorder, "Warning ProviderStartTimeout",
			`"build provider" has not ended within 2m0s`)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if s := m.Status(); s.State != ccm.StateDegraded ||
			!strings.Contains(s.Reason, "build provider (2m9s)") {
			t.Errorf("after the drain timeout: %+v", s)
		}
		time.Sleep(15 * time.Second)
		if n := built.Load(); n != 1 {
			t.Errorf("the provider was built %d times while another replica should get the lease",
				n)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		s := m.Status()
		if !s.Ready || s.Term != 2 || len(s.Warnings) != 1 ||
			!strings.Contains(s.Warnings[0], "term 1") ||
			!strings.Contains(s.Warnings[0], "build provider") {
			t.Errorf("later: %+v", s)
		}
		if detail := check(t, m.LivenessChecks(), "mine").Detail(nil); detail != "ok" {
			t.Errorf("the check of a controller that runs reports %q", detail)
		}
	})
}

// Each term that hangs costs memory, and only a restart of the process helps.
func TestProviderStart_HangsEachTime_FewTermsAreLeftBehindAndLivenessFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var built atomic.Int32
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface, error) {
			if built.Add(1) <= 3 {
				<-release
			}
			return emptyCloud(), nil
		})}
		_ = recordEvents(&p)
		m, _ := start(t, p)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := built.Load(); n != 3 {
			t.Errorf("the provider was built %d times, want 3", n)
		}
		if err := check(t, m.LivenessChecks(), "drain").Check(nil); err == nil ||
			!strings.Contains(err.Error(), "build provider") {
			t.Errorf("liveness: %v", err)
		}
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := m.Status(); !s.Ready || len(s.Warnings) > 0 {
			t.Errorf("after the provider answers again: %+v", s)
		}
		if err := check(t, m.LivenessChecks(), "drain").Check(nil); err != nil {
			t.Errorf("liveness: %v", err)
		}
	})
}

type panickingCloud struct{ cloudprovider.Interface }

func (panickingCloud) LoadBalancer() (cloudprovider.LoadBalancer,
	bool,
) {
	panic("no balancers today")
}

func TestProvider_PanicsWhenAskedForAnInterface_TermFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := standaloneParams("service-lb-controller")
		p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface,
			error,
		) {
			return panickingCloud{emptyCloud()}, nil
		})}
		m, stop := start(t, p)
		eventually(t, m.Status, func(s ccm.Status) bool {
			return s.State == ccm.StateDegraded &&
				strings.Contains(s.Reason, "panicked in LoadBalancer: no balancers today")
		}, "the failed term")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestProvider_CallsPanicRepeatedly_StatusAndOneEventReportIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New()
		cloud.On(fake.ListRoutes).Panic("no routes today")
		p := standaloneParams("mine")
		p.Providers = []ccm.Provider{cloud.CCMProvider()}
		recorder := recordEvents(&p)
		p.Controllers = []ccm.Controller{{
			Name: "mine",
			New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(ctx context.Context) error {
					routes, _ := term.Cloud().Routes()
					for range 3 {
						if _, err := routes.ListRoutes(ctx, "c"); err == nil {
							return errors.New("no error")
						}
					}
					<-ctx.Done()
					return nil
				}), nil
			},
		}}
		m, stop := start(t, p)
		eventually(t, m.Status, func(s ccm.Status) bool {
			return s.Ready && len(s.Warnings) == 1 &&
				strings.Contains(s.Warnings[0], "panicked 3 times in Routes.ListRoutes")
		}, "a warning about the panics")
		mustHaveEvent(t, recorder, "Warning ProviderPanicked", "Routes.ListRoutes",
			"no routes today")
		if len(recorder.Events) > 0 {
			t.Errorf("unexpected event: %s", <-recorder.Events)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestReportTrouble_Problem_ShowsInStatusReadinessAndMetricUntilItEnds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var report func(string, error)
	p := standaloneParams("mine")
	p.Registerer = registry
	p.Controllers = []ccm.Controller{idle("mine")}
	p.Providers = []ccm.Provider{{
		Name: "stub",
		New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			report = env.ReportTrouble
			return emptyCloud(), nil
		},
	}}
	m, stop := start(t, p)
	waitReady(t, m)
	begun := time.Now()
	report("identity", errors.New("connection refused"))
	report("identity", errors.New("connection refused again"))
	report("quota", errors.New("no more load balancers"))
	s := m.Status()
	if len(s.Troubles) != 2 || s.Troubles[0].Subject != "identity" ||
		s.Troubles[0].Reason != "connection refused again" || s.Troubles[0].Since.Before(begun) {
		t.Errorf("troubles: %+v", s.Troubles)
	}
	ready := m.ReadinessChecks()[0]
	if err := ready.Check(nil); err != nil {
		t.Errorf("readiness fails: %v", err)
	}
	if detail := ready.Detail(nil); !strings.Contains(detail, "problem with identity since ") ||
		strings.Contains(detail, "refused") {
		t.Errorf("detail of readiness: %q", detail)
	}
	const page = `# HELP fxccm_cloud_trouble 1 while the cloud provider reports a problem of the cloud; Status says why and since when.
# TYPE fxccm_cloud_trouble gauge
fxccm_cloud_trouble{manager="",subject="identity"} %d
fxccm_cloud_trouble{manager="",subject="quota"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(page, 1)),
		"fxccm_cloud_trouble"); err != nil {
		t.Error(err)
	}
	report("identity", nil)
	if s := m.Status(); len(s.Troubles) != 1 {
		t.Errorf("after one problem has ended: %+v", s.Troubles)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(page, 0)),
		"fxccm_cloud_trouble"); err != nil {
		t.Error(err)
	}
	for i := range 100 {
		report(fmt.Sprint("subject ", i), errors.New("x"))
	}
	if n := len(m.Status().Troubles); n != 32 {
		t.Errorf("%d subjects, want 32 at most", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	report("late", errors.New("x")) // must not panic
}

// A process that stops may lose its lease while a call ends. Run must return before another process
// leads.
func TestStop_LeadershipIsLostWhileACallHangs_IsReportedBeforeAnotherMayLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New()
		release := cloud.On(fake.EnsureLoadBalancer).IgnoringContext().Hang()
		p := standaloneParams("mine")
		p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
		p.Providers = []ccm.Provider{cloud.CCMProvider()}
		p.Controllers = []ccm.Controller{{
			Name: "mine",
			New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(ctx context.Context) error {
					balancers, _ := term.Cloud().LoadBalancer()
					_, _ = balancers.EnsureLoadBalancer(ctx, "c",
						&v1.Service{ObjectMeta: metav1.ObjectMeta{
							Namespace: "default", Name: "web",
							UID: "1",
						}}, nil)
					<-ctx.Done()
					return nil
				}), nil
			},
		}}
		elector := ccm.NewHostElector()
		p.Elector = elector
		_, stop := start(t, p)
		begun := time.Now()
		free := begun.Add(15 * time.Second)
		lent := make(chan error, 1)
		go func() {
			lent <- elector.Lead(context.Background(), ccm.Grant{
				ValidUntil:  func() time.Time { return begun.Add(10 * time.Second) },
				LeaseExpiry: func() time.Time { return free },
			})
		}()
		synctest.Wait()
		err := stop()
		timedOut, ok := errors.AsType[*ccm.DrainTimeoutError](err)
		if !ok || !timedOut.MayAct() ||
			!strings.Contains(timedOut.Error(),
				"call LoadBalancer.EnsureLoadBalancer default/web") {
			t.Fatalf("Run returned %v", err)
		}
		if early := time.Until(free); early <= 0 || early > 5*time.Second {
			t.Errorf("reported %s before another process may lead", early)
		}
		if err := <-lent; !errors.Is(err, timedOut) {
			t.Errorf("Lead returned %v", err)
		}
		release()
		<-timedOut.Ended()
	})
}

// hanging returns an API server that does not answer the requests that hang selects.
func hanging(
	t *testing.T, hang func(*http.Request) bool,
) (config *rest.Config, arrived chan string) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after the server has closed
	arrived = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hang(r) {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice the close
		arrived <- r.Method + " " + r.URL.Path
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, arrived
}

// Upstream reads with context.TODO(). Such a read must end with the term instead of exceeding its
// drain timeout.
func TestTerm_ReadWithoutAContextHangs_TermEnds(t *testing.T) {
	config, arrived := hanging(t, func(r *http.Request) bool { return r.Method == http.MethodGet })
	p := standaloneParams("mine")
	p.RESTConfig = config
	p.Controllers = []ccm.Controller{{
		Name: "mine",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			client, err := term.Client("mine")
			return ccm.RunnableFunc(func(ctx context.Context) error {
				if _, err := client.CoreV1().Nodes().Get(context.TODO(), "a",
					metav1.GetOptions{}); !errors.Is(err, ccm.ErrTermOver) {
					t.Errorf("the read ended with %v", err)
				}
				return nil
			}), err
		},
	}}
	_, stop := start(t, p)
	<-arrived
	if err := stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// A request that waits for a token ends with the term, and so does the token request.
func TestTerm_FetchOfATokenHangs_TermEnds(t *testing.T) {
	config, arrived := hanging(t,
		func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/token") })
	p := standaloneParams("mine")
	p.RESTConfig = config
	p.Config.UseServiceAccountCredentials = true
	p.Controllers = []ccm.Controller{{
		Name: "mine",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			client, err := term.Client("mine")
			return ccm.RunnableFunc(func(ctx context.Context) error {
				if err := client.CoreV1().Nodes().Delete(context.TODO(), "a",
					metav1.DeleteOptions{}); err == nil {
					t.Error("the request succeeded")
				}
				return nil
			}), err
		},
	}}
	_, stop := start(t, p)
	<-arrived
	if err := stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// goleak also finds the goroutines of idle connections.
func TestRun_ManyTimes_LeavesNoConnection(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	t.Run("parallel", func(t *testing.T) {
		for range 10 {
			t.Run("runs", func(t *testing.T) {
				t.Parallel()
				for range 10 {
					runWithClient(t, server)
				}
			})
		}
	})
}

// runWithClient runs a Manager with a controller that sends one request and one event.
func runWithClient(t *testing.T, server *httptest.Server) {
	t.Helper()
	p := standaloneParams("mine")
	p.RESTConfig = &rest.Config{
		Host:            server.URL,
		TLSClientConfig: rest.TLSClientConfig{CAData: caOf(server)},
	}
	answered := make(chan struct{})
	p.Controllers = []ccm.Controller{{
		Name: "mine",
		New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
			client, err := term.Client("mine")
			return ccm.RunnableFunc(func(ctx context.Context) error {
				_, _ = client.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
				term.Recorder("mine").Event(&v1.ObjectReference{Kind: "Node", Name: "a"},
					v1.EventTypeNormal, "Seen", "")
				close(answered)
				<-ctx.Done()
				return nil
			}), err
		},
	}}
	_, stop := start(t, p)
	<-answered
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// caOf returns the CA of a server of httptest.
func caOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
