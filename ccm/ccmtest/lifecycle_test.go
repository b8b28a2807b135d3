package ccmtest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/netfault"
	"github.com/fxccm/fxccm/provider/fake"
)

func TestApp_WhenStartedAgain_WorksAgain(t *testing.T) {
	cloud := cloudWith(t, "node-1", "node-2", "node-3")
	app := ccmtest.StartApp(t, cluster, cloud, ccmtest.WithoutStart())
	for round, node := range []string{"node-1", "node-2", "node-3"} {
		app.Start()
		if status := app.WaitReady(); status.Term != uint64(round+1) {
			t.Errorf("round %d is term %d", round+1, status.Term)
		}
		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode(node))
		ccmtest.WaitNodeInitialized(t, app.Client, node)
		app.Stop()
		app.WaitState(ccm.StateStopped)
		if release := app.Elector.WaitReleased(t); !release.Drained ||
			!errors.Is(release.Err, ccm.ErrStopped) || release.Number != round+1 {
			t.Errorf("round %d ended with %+v", round+1, release)
		}
		app.VerifyNoLeaks()
	}
	if overlaps := cloud.ConcurrentCalls(); len(overlaps) > 0 {
		t.Errorf("two terms changed the cloud at once: %+v", overlaps)
	}
}

func TestManager_WhenStartedAgain_WorksAgain(t *testing.T) {
	cloud := cloudWith(t, "node-1", "node-2")
	c := ccmtest.StartManager(t, cluster, cloud, ccmtest.WithoutStart())
	for _, node := range []string{"node-1", "node-2"} {
		c.Start()
		c.WaitReady()
		ccmtest.CreateNode(t, c.Client, ccmtest.TaintedNode(node))
		ccmtest.WaitNodeInitialized(t, c.Client, node)
		c.VerifyNoLeaks()
	}
}

// silentServer accepts connections and never answers.
type silentServer struct {
	listener net.Listener

	mu       sync.Mutex
	accepted []net.Conn
	ended    chan struct{}
}

func newSilentServer(t *testing.T) *silentServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &silentServer{listener: listener, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.accepted = append(s.accepted, conn)
			s.mu.Unlock()
		}
	}()
	t.Cleanup(s.close)
	return s
}

func (s *silentServer) close() {
	_ = s.listener.Close()
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.accepted {
		_ = conn.Close()
	}
}

func (s *silentServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// The server never answers, so a start that waited for it would not return before the app's start
// timeout, which is an error.
func TestStart_WhenTheAPIServerNeverAnswers_ReturnsAndStopsInOrder(t *testing.T) {
	for name, elect := range map[string]ccmtest.Option{
		"lease":    ccmtest.WithLease(),
		"informer": ccmtest.WithElector(ccm.AlwaysLead()),
	} {
		t.Run(name, func(t *testing.T) {
			server := newSilentServer(t)
			app := ccmtest.StartApp(t, cluster, fake.New(), elect,
				ccmtest.WithIdentity(
					&rest.Config{Host: "http://" + server.listener.Addr().String()}))
			ccmtest.Eventually(t, "the CCM has connected to its API server",
				func(context.Context) (struct{}, error) {
					if server.connections() == 0 {
						return struct{}{}, errors.New("no connection")
					}
					return struct{}{}, nil
				})
			if status := app.Manager.Status(); status.Ready {
				t.Errorf("the CCM is ready without an API server: %+v", status)
			}
			app.VerifyNoLeaks()
		})
	}
}

// behindProxy reaches the shared API server through a proxy, which refuses connections.
func behindProxy(t *testing.T) (*netfault.Proxy, *rest.Config) {
	t.Helper()
	cfg := cluster.RESTConfig()
	proxy, err := netfault.Listen(strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	set(t, proxy, netfault.Refuse())
	cfg.Host = "https://" + proxy.Addr()
	return proxy, cfg
}

func set(t *testing.T, proxy *netfault.Proxy, fault netfault.Fault) {
	t.Helper()
	if err := proxy.Set(fault); err != nil {
		t.Fatal(err)
	}
}

func TestAPIServerDown_StatusNamesItAndTheCCMRecovers(t *testing.T) {
	proxy, cfg := behindProxy(t)
	app := ccmtest.StartApp(t, ccmtest.ClusterAt(cfg), cloudWith(t, "node-a"))
	if status := app.WaitState(ccm.StateDegraded); !strings.Contains(status.Reason,
		"the API server is down or its address is wrong") {
		t.Errorf("the reason is %q", status.Reason)
	}
	set(t, proxy, netfault.Pass())
	app.WaitReady()
	admin := clientOf(t, cluster.RESTConfig())
	ccmtest.CreateNode(t, admin, ccmtest.TaintedNode("node-a"))
	ccmtest.WaitNodeInitialized(t, admin, "node-a")
	app.Stop()
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
	app.VerifyNoLeaks()
}

// A start that fails has built controllers that it never runs; upstream's end what they have
// started only in Run.
func TestStopBeforeInformersHaveSynced_LeavesNothing(t *testing.T) {
	app := ccmtest.StartApp(t, cluster, fake.New(),
		ccmtest.WithIdentity(&rest.Config{Host: "https://127.0.0.1:1"}))
	status := app.WaitState(ccm.StateDegraded)
	if !strings.Contains(status.Reason, "informer of") {
		t.Errorf("the reason is %q, want it to name the informers", status.Reason)
	}
	app.VerifyNoLeaks()
}

func TestTwoAppsWithOneLease_OneActsAndTheOtherTakesOver(t *testing.T) {
	cloud := cloudWith(t, "node-a", "node-b")
	apps := []*ccmtest.CCM{
		ccmtest.StartApp(t, cluster, cloud, ccmtest.WithLease()),
		ccmtest.StartApp(t, cluster, cloud, ccmtest.WithLease()),
	}
	leader := ccmtest.Eventually(t, "one of the two is ready", func(context.Context) (int, error) {
		for i, app := range apps {
			if app.Manager.Status().Ready {
				return i, nil
			}
		}
		return 0, errors.New("none is")
	})
	first, second := apps[leader], apps[1-leader]
	ccmtest.CreateNode(t, first.Client, ccmtest.TaintedNode("node-a"))
	ccmtest.WaitNodeInitialized(t, first.Client, "node-a")
	standby := ccmtest.WaitStatus(t, second.Manager, "the other knows who leads",
		func(s ccm.Status) bool {
			return s.Election.Leader == first.Identity
		})
	if standby.State != ccm.StateStandby {
		t.Errorf("the other is %s: %+v", standby.State, standby)
	}

	first.Stop()
	second.WaitReady()
	ccmtest.CreateNode(t, first.Client, ccmtest.TaintedNode("node-b"))
	ccmtest.WaitNodeInitialized(t, first.Client, "node-b")
	if overlaps := cloud.ConcurrentCalls(); len(overlaps) > 0 {
		t.Errorf("both changed the cloud at once: %+v", overlaps)
	}
	second.Stop()
	first.VerifyNoLeaks()
}
