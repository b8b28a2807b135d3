package ccm_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/netfault"
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
		if c.Name == name {
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
			"mine").Detail(); detail != "not running: leading: build provider" {
			t.Errorf("the check of a controller that does not run reports %q", detail)
		}
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		mustHaveEvent(t, recorder, "Warning ProviderStartTimeout",
			`"build provider" has not ended within 2m0s`)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if s := m.Status(); s.State != status.Degraded ||
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
		if !s.Ready || s.Term != 2 || len(runWarnings(s)) != 1 ||
			!strings.Contains(runWarnings(s)[0], "term 1") ||
			!strings.Contains(runWarnings(s)[0], "build provider") {
			t.Errorf("later: %+v", s)
		}
		if detail := check(t, m.LivenessChecks(), "mine").Detail(); detail != "ok" {
			t.Errorf("the check of a controller that runs reports %q", detail)
		}
	})
}

// Each term that hangs may hold memory, so they follow each other more and more slowly. The Manager
// serves again without a restart when a term does not hang.
func TestProviderStart_HangsFiveTimes_TermsFollowMoreSlowlyUntilOneServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var built atomic.Int32
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface, error) {
			if built.Add(1) <= 5 {
				<-release
			}
			return emptyCloud(), nil
		})}
		_ = recordEvents(&p)
		m, _ := start(t, p)
		// A start times out and drains in 128 s. The pauses are 30 s, 1, 2, 4 and 8 minutes.
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if n := built.Load(); n != 3 {
			t.Errorf("the provider was built %d times in 9 minutes, want 3", n)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		s := m.Status()
		if wait := time.Until(s.RetryAt); s.State != status.Degraded || wait <= time.Minute ||
			wait > 8*time.Minute || !strings.Contains(s.Reason, "retryAt") {
			t.Errorf("after the fifth term: %+v; want its reason and the time of the next one", s)
		}
		if err := check(t, m.LivenessChecks(), "drain").Check(nil); err == nil ||
			!strings.Contains(err.Error(), "build provider") {
			t.Errorf("liveness: %v", err)
		}
		time.Sleep(8 * time.Minute)
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 6 || len(runWarnings(s)) != 5 {
			t.Errorf("after the sixth term has begun: %+v; want it to serve, and five warnings", s)
		}
		if err := check(t, m.LivenessChecks(), "drain").Check(nil); err != nil {
			t.Errorf("liveness: %v", err)
		}
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := m.Status(); !s.Ready || len(runWarnings(s)) > 0 {
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
		eventually(t, m.Status, func(s status.Manager) bool {
			return s.State == status.Degraded &&
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
		cloud.On("ListRoutes").Panic("no routes today")
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
		eventually(t, m.Status, func(s status.Manager) bool {
			return s.Ready && len(runWarnings(s)) == 1 &&
				strings.Contains(runWarnings(s)[0], "panicked 3 times in Routes.ListRoutes")
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
	if detail := ready.Detail(); !strings.Contains(detail, "problem with identity since ") ||
		strings.Contains(detail, "refused") {
		t.Errorf("detail of readiness: %q", detail)
	}
	const page = `# HELP fxccm_cloud_trouble 1 while the cloud or the cloud controllers have a problem; Status says why and since when.
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

func TestRoutes_CannotBeListed_StatusReadinessAndOneEventReportItUntilTheyCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New()
		cloud.On("ListRoutes").Fail(errors.New("404 router not found"))
		p := sharedParams(t, clientfake.NewClientset(), "node-route-controller")
		p.Config.ClusterCIDR = "10.244.0.0/16"
		p.Providers = []ccm.Provider{cloud.CCMProvider()}
		recorder := recordEvents(&p)
		m, _ := start(t, p)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := m.Status(); !s.Ready || len(s.Troubles) != 1 || s.Troubles[0].Subject != "routes" ||
			s.Troubles[0].Reason != "list the routes: 404 router not found" {
			t.Errorf("after ten minutes: %+v", s)
		}
		ready := m.ReadinessChecks()[0]
		if detail := ready.Detail(); ready.Check(nil) != nil ||
			!strings.Contains(detail, "problem with routes since ") {
			t.Errorf("readiness: %v, %q", ready.Check(nil), detail)
		}
		mustHaveEvent(t, recorder,
			"Warning ControllerProblem routes: list the routes: 404 router not found")
		if n := len(recorder.Events); n > 0 {
			t.Errorf("%d further events for one problem", n)
		}
		cloud.ClearFaults()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := m.Status(); len(s.Troubles) > 0 || ready.Detail() != "ok" {
			t.Errorf("after the routes are listed again: %+v", s)
		}
	})
}

// A watch ends after minutes at the latest. The right may have been taken meanwhile.
func TestInformer_FailsAfterItsSync_StatusReadinessAndOneEventReportItUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clientfake.NewClientset()
		var isForbidden atomic.Bool
		forbidden := apierrors.NewForbidden(v1.Resource("services"), "", errors.New("no rule"))
		var watching atomic.Pointer[watch.FakeWatcher]
		client.PrependReactor("list", "services",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return isForbidden.Load(), nil, forbidden
			})
		client.PrependWatchReactor("services",
			func(clienttesting.Action) (bool, watch.Interface, error) {
				if isForbidden.Load() {
					return true, nil, forbidden
				}
				watcher := watch.NewFake()
				watching.Store(watcher)
				return true, watcher, nil
			})
		p := sharedParams(t, client, "service-lb-controller")
		recorder := recordEvents(&p)
		m, _ := start(t, p)
		waitReady(t, m)
		synctest.Wait()
		isForbidden.Store(true)
		watching.Load().Stop()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 1 || len(s.Troubles) != 1 ||
			s.Troubles[0].Subject != "informer of services" ||
			!strings.Contains(s.Troubles[0].Reason, "lacks RBAC rules") ||
			!strings.Contains(s.Troubles[0].Reason, "no rule") {
			t.Errorf("after ten minutes: %+v", s)
		}
		ready := m.ReadinessChecks()[0]
		if detail := ready.Detail(); ready.Check(nil) != nil ||
			!strings.Contains(detail, "problem with informer of services since ") {
			t.Errorf("readiness: %v, %q", ready.Check(nil), detail)
		}
		mustHaveEvent(t, recorder, "Warning ControllerProblem informer of services: ", "no rule")
		if n := len(recorder.Events); n > 0 {
			t.Errorf("%d further events for one problem", n)
		}
		isForbidden.Store(false)
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if s := m.Status(); len(s.Troubles) > 0 || ready.Detail() != "ok" {
			t.Errorf("after the right is back: %+v", s)
		}
	})
}

func TestCall_IgnoresItsContext_StatusWarnsUntilItReturns(t *testing.T) {
	for name, test := range map[string]struct {
		method   fake.Method
		deadline time.Duration // of the caller, or 0
		from     time.Duration
	}{
		"read":               {"InstanceMetadata", 0, 10 * time.Second},
		"read with deadline": {"InstanceMetadata", 3 * time.Second, 4 * time.Second},
		"write":              {"EnsureLoadBalancer", 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := fake.New()
				release := cloud.On(test.method).IgnoringContext().Hang()
				p := standaloneParams("mine")
				p.Providers = []ccm.Provider{cloud.CCMProvider()}
				p.Controllers = []ccm.Controller{{
					Name: "mine",
					New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
						return ccm.RunnableFunc(func(ctx context.Context) error {
							limited := ctx
							if test.deadline > 0 {
								var cancel context.CancelFunc
								limited, cancel = context.WithTimeout(ctx, test.deadline)
								defer cancel()
							}
							object := metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}
							if test.method == "EnsureLoadBalancer" {
								balancers, _ := term.Cloud().LoadBalancer()
								_, _ = balancers.EnsureLoadBalancer(limited, "c",
									&v1.Service{ObjectMeta: object}, nil)
							} else {
								instances, _ := term.Cloud().InstancesV2()
								_, _ = instances.InstanceMetadata(limited,
									&v1.Node{ObjectMeta: object})
							}
							<-ctx.Done()
							return nil
						}), nil
					},
				}}
				m, _ := start(t, p)
				time.Sleep(test.from - time.Millisecond)
				synctest.Wait()
				if s := m.Status(); len(runWarnings(s)) > 0 {
					t.Errorf("after less than %s: %q", test.from, runWarnings(s))
				}
				time.Sleep(2 * time.Millisecond)
				want := string(test.method)
				if s := m.Status(); !s.Ready || len(runWarnings(s)) != 1 ||
					!strings.Contains(runWarnings(s)[0], want) ||
					!strings.Contains(runWarnings(s)[0], "has not returned since") {
					t.Errorf("after %s: %+v; want a warning about %s", test.from, s, want)
				}
				release()
				synctest.Wait()
				if s := m.Status(); len(runWarnings(s)) > 0 {
					t.Errorf("after the call has returned: %q", runWarnings(s))
				}
			})
		})
	}
}

// A process that stops may lose its lease while a call ends. Run must return before another process
// leads.
func TestStop_LeadershipIsLostWhileACallHangs_IsReportedBeforeAnotherMayLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := fake.New()
		release := cloud.On("EnsureLoadBalancer").IgnoringContext().Hang()
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
		elector := election.NewHost()
		p.Elector = elector
		_, stop := start(t, p)
		begun := time.Now()
		free := begun.Add(15 * time.Second)
		lent := make(chan error, 1)
		go func() {
			lent <- elector.Lead(context.Background(), election.Grant{
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

// countingConn counts the bytes that were written.
type countingConn struct {
	*net.TCPConn
	written *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// The network fails while a request is on its way, leadership is lost, and the network works again.
func TestTerm_RequestIsPendingWhenTheNetworkFails_NeverArrives(t *testing.T) {
	for name, protocols := range map[string][]string{"HTTP/2": nil, "HTTP/1.1": {"http/1.1"}} {
		t.Run(name, func(t *testing.T) {
			var open atomic.Int32
			var patches atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPatch {
						patches.Add(1)
					}
					http.NotFound(w, r)
				}))
			server.EnableHTTP2 = true
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				switch state {
				case http.StateNew:
					open.Add(1)
				case http.StateClosed, http.StateHijacked:
					open.Add(-1)
				}
			}
			server.StartTLS()
			t.Cleanup(server.Close)
			network, err := netfault.Listen(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = network.Close() })

			var written atomic.Int64
			connected, send := make(chan struct{}), make(chan struct{})
			result := make(chan error, 1)
			p := standaloneParams("mine")
			p.RESTConfig = &rest.Config{
				Host:            "https://" + network.Addr(),
				TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: protocols},
				Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
					if err != nil {
						return nil, err
					}
					return countingConn{conn.(*net.TCPConn), &written}, nil
				},
			}
			p.Controllers = []ccm.Controller{{
				Name: "mine",
				New: func(_ context.Context, term *ccm.Term) (ccm.Runnable, error) {
					client, err := term.Client("mine")
					return ccm.RunnableFunc(func(ctx context.Context) error {
						nodes := client.CoreV1().Nodes()
						_, _ = nodes.Get(ctx, "a", metav1.GetOptions{})
						close(connected)
						<-send
						_, err := nodes.Patch(context.TODO(), "a", types.MergePatchType,
							[]byte(`{}`), metav1.PatchOptions{})
						result <- err
						<-ctx.Done()
						return nil
					}), err
				},
			}}
			elector := election.NewHost()
			p.Elector = elector
			start(t, p)
			leading, lose := context.WithCancel(t.Context())
			drained := make(chan error, 1)
			go func() { drained <- elector.Lead(leading, election.Grant{}) }()
			<-connected
			if err := network.Set(netfault.Stall()); err != nil {
				t.Fatal(err)
			}
			before := written.Load()
			close(send)
			eventually(t, written.Load, func(n int64) bool { return n > before },
				"bytes of the PATCH")
			lose()
			if err := <-drained; err != nil {
				t.Fatal(err)
			}
			if err := <-result; !errors.Is(err, ccm.ErrTermOver) {
				t.Errorf("the request ended with %v", err)
			}
			// A connection that is only closed stays open in the network, which has its last bytes.
			eventually(t, network.Connections, func(n int) bool { return n == 0 },
				"reset of the connections of the term")
			if err := network.Set(netfault.Pass()); err != nil {
				t.Fatal(err)
			}
			eventually(t, open.Load, func(n int32) bool { return n == 0 },
				"end of the connections of the term")
			if n := patches.Load(); n > 0 {
				t.Errorf("%d requests arrived after another process may lead", n)
			}
		})
	}
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
