package process_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// cluster is shared by the tests with a Manager, which are sequential.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	// The child is this test binary.
	process.Main(remote)
	if cloud := os.Getenv(hostVariable); cloud != "" {
		if err := runHost(cloud); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(controlplane.Tests{M: m, ControlPlane: &cluster})
}

func startCCM(t *testing.T, more ...string) (*fake.Cloud, *ccmtest.CCM) {
	t.Helper()
	cloud := fake.New()
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	provider := process.Provider(process.Options{
		Name: "remote", Args: append([]string{server.URL}, more...),
	})
	return cloud, ccmtest.StartManager(t, cluster, cloud, ccmtest.WithProvider(provider))
}

// childOf returns the process that made the last call to Initialize.
func childOf(t *testing.T, cloud *fake.Cloud) int {
	t.Helper()
	pid := 0
	for _, call := range cloud.Calls() {
		if call.Method == "Initialize" {
			var err error
			if pid, err = strconv.Atoi(call.Caller); err != nil {
				t.Fatal(err)
			}
		}
	}
	if pid == 0 || pid == os.Getpid() {
		t.Fatalf("Initialize was called by process %d, want a child", pid)
	}
	return pid
}

func wantDead(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d still exists: %v", pid, err)
	}
}

func TestProvider_ThreeTerms_EachHasItsOwnChildAndWorks(t *testing.T) {
	cloud, app := startCCM(t)
	seen := map[int]bool{}
	for term := range 3 {
		if term > 0 {
			app.Elector.Lead()
		}
		app.WaitReady()
		pid := childOf(t, cloud)
		if seen[pid] {
			t.Errorf("term %d has the child %d of an earlier term", term+1, pid)
		}
		seen[pid] = true
		name := fmt.Sprintf("three-%d", term)
		cloud.AddInstances(fake.Instance{Name: name})
		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode(name))
		if got := ccmtest.Eventually(t, "the node is initialized",
			ccmtest.Initialized(app.Client, name)).Spec.ProviderID; got == "" {
			t.Error("the node has no provider ID")
		}
		app.Elector.Lose(nil)
		if released := app.Elector.WaitReleased(t); !released.Drained {
			t.Errorf("term %d did not drain: %v", term+1, released.Err)
		}
		wantDead(t, pid)
	}
	app.VerifyNoLeaks()
}

// The service controller sees through the process that the cloud has only not finished.
func TestProvider_CloudHasNotFinished_NodesFollowWithoutAWarning(t *testing.T) {
	cloud, app := startCCM(t)
	app.WaitReady()
	ccmtest.CreateNode(t, app.Client, ccmtest.ReadyNode("moving-1"))
	cloud.On("EnsureLoadBalancer").Times(2).Fail(
		api.NewRetryError("still building", 100*time.Millisecond))
	service := ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService("moving"))
	ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(app.Client, service.Namespace, service.Name))
	ccmtest.CreateNode(t, app.Client, ccmtest.ReadyNode("moving-2"))
	ccmtest.Eventually(t, "the load balancer has both nodes",
		func(context.Context) (members []string, err error) {
			balancer, _ := cloud.LoadBalancer("default/moving")
			if !slices.Equal(balancer.Members, []string{"moving-1", "moving-2"}) {
				err = fmt.Errorf("it has %q", balancer.Members)
			}
			return balancer.Members, err
		})
	// The events are sent one after the other.
	waittest.Until(t, "an event says that it is ensured, and none that it failed",
		func(ctx context.Context) (err error) {
			list, err := app.Client.CoreV1().Events(service.Namespace).List(ctx,
				metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(service.UID)})
			if err != nil {
				return err
			}
			err = errors.New("it is missing")
			for _, event := range list.Items {
				switch event.Reason {
				case "SyncLoadBalancerFailed":
					t.Fatalf("a wait is a failure: %s", event.Message)
				case "EnsuredLoadBalancer":
					err = nil
				}
			}
			return err
		})
}

func TestProvider_LeadershipLostDuringACallThatHangs_ChildIsKilledAndTheTermDrains(t *testing.T) {
	cloud, app := startCCM(t)
	app.WaitReady()
	pid := childOf(t, cloud)
	release := cloud.On("EnsureLoadBalancer").IgnoringContext().Hang()
	defer release()
	ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService("hangs"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cloud.WaitUntil(ctx, func() bool {
		for _, call := range cloud.Calls() {
			if call.Method == "EnsureLoadBalancer" {
				return true
			}
		}
		return false
	}); err != nil {
		t.Fatal(err)
	}
	app.Elector.Lose(nil)
	if released := app.Elector.WaitReleased(t); !released.Drained {
		t.Errorf("the term did not drain: %v", released.Err)
	}
	wantDead(t, pid)
}

func TestProvider_ChildIsKilled_TermEndsWithTheCauseAndTheNextWorks(t *testing.T) {
	cloud, app := startCCM(t)
	app.WaitReady()
	first := childOf(t, cloud)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	current := ccmtest.Eventually(t, "the Manager is degraded",
		ccmtest.State(app.Manager, status.Degraded))
	if want := fmt.Sprintf("(pid %d) ended: signal: killed", first); !strings.Contains(
		current.Reason, want) {
		t.Errorf("reason %q, want one with %q", current.Reason, want)
	}
	app.WaitReady()
	if second := childOf(t, cloud); second == first {
		t.Errorf("the second term has the dead child %d", first)
	}
}

func TestProvider_OwnControllers_SeeInformersAndDoNotWriteAfterTheTerm(t *testing.T) {
	begin := cluster.Audit().Mark()
	cloud, app := startCCM(t, "controls")
	app.WaitReady()
	pid := childOf(t, cloud)
	ccmtest.CreateNode(t, app.Client, ccmtest.ReadyNode("own-1"))
	ccmtest.Eventually(t, "the informer of the child has the Node",
		ccmtest.Called(cloud, fake.CallFilter{
			Method: "AddSSHKeyToAllInstances", Object: "saw-own-1",
		}.Matches))
	ccmtest.Eventually(t, "the controller of the child labels it",
		ccmtest.Object(app.Client.CoreV1().Nodes().Get, "own-1", func(node *corev1.Node) error {
			if node.Labels["own"] == "" {
				return errors.New("the label is missing")
			}
			return nil
		}))
	// The reason of a watch-list that is refused would be lost.
	streams, err := cluster.Audit().Since(begin, controlplane.ByUser(app.User()),
		func(r controlplane.AuditRecord) bool {
			return strings.Contains(r.RequestURI, "sendInitialEvents=true")
		})
	if err != nil || len(streams) > 0 {
		t.Errorf("informers began with a watch-list: %v, %v", streams, err)
	}
	app.Elector.Lose(nil)
	if released := app.Elector.WaitReleased(t); !released.Drained {
		t.Errorf("the term did not drain: %v", released.Err)
	}
	wantDead(t, pid)
	mark := cluster.Audit().Mark()
	ccmtest.CreateNode(t, app.Client, ccmtest.ReadyNode("own-2"))
	writes, err := cluster.Audit().Since(mark, controlplane.ByUser(app.User()),
		controlplane.Mutating())
	if err != nil || len(writes) > 0 {
		t.Errorf("after the term: %v, %v", writes, err)
	}
}

func TestProvider_StopOfTheManager_GoroutinesOfInitializeCanEnd(t *testing.T) {
	cloud, app := startCCM(t, "controls")
	app.WaitReady()
	pid := childOf(t, cloud)
	app.Stop()
	wantDead(t, pid)
	after := cloud.Calls(fake.CallFilter{
		Method: "AddSSHKeyToAllInstances", Object: "stopped", Finished: true,
	}.Matches)
	if len(after) != lastCalls {
		t.Errorf("the cloud received %d of the %d calls after the stop", len(after), lastCalls)
	}
}

func TestProvider_ChildIsFrozen_IsKilledAtTheEndOfTheTerm(t *testing.T) {
	for name, end := range map[string]func(*ccmtest.CCM){
		"loss": func(app *ccmtest.CCM) { app.Elector.Lose(nil) },
		"stop": (*ccmtest.CCM).Stop,
	} {
		t.Run(name, func(t *testing.T) {
			cloud, app := startCCM(t)
			app.WaitReady()
			pid := childOf(t, cloud)
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			end(app)
			if released := app.Elector.WaitReleased(t); !released.Drained {
				t.Errorf("the term did not drain: %v", released.Err)
			}
			wantDead(t, pid)
		})
	}
}

func TestProvider_ChildThatCannotStart_IsAnErrorWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		options process.Options
		want    string
	}{
		"program is a directory": {
			process.Options{Name: "remote", Path: "/"}, `is a directory`,
		},
		"arguments are too long": {
			process.Options{Name: "remote", Args: []string{strings.Repeat("x", 1<<20)}},
			`argument list too long`,
		},
		"program does not exist": {
			process.Options{Name: "remote", Path: "/does/not/exist"},
			`start the process of provider "remote".*no such file`,
		},
		"provider fails": {
			process.Options{Name: "remote", Args: []string{"broken"}}, `no cloud at`,
		},
		"provider is unknown": {
			process.Options{Name: "unknown"}, `process.Main was not called with the provider`,
		},
		"program exits": {
			process.Options{
				Name: "remote", Path: "/bin/sh", Args: []string{"-c", "echo bye; exit 3"},
			},
			`ended: exit status 3; its last lines: bye`,
		},
		"program sends garbage": {
			process.Options{
				Name: "remote", Path: "/bin/sh",
				Args: []string{"-c", "head -c 100000 /dev/zero | tr '\\0' x >&3; exec sleep 600"},
			},
			`was killed: receive a message from it: message is too large`,
		},
		"program floods its output": {
			process.Options{
				Name: "remote", Path: "/bin/sh",
				Args: []string{"-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end; exit 4"},
			},
			`ended: exit status 4; its last lines: .*end`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := ccmtest.StartManager(t, cluster, nil,
				ccmtest.WithProvider(process.Provider(c.options)))
			reason := ccmtest.Eventually(t, "the Manager is degraded",
				ccmtest.State(app.Manager, status.Degraded)).Reason
			if !regexp.MustCompile(c.want).MatchString(reason) {
				t.Errorf("reason %q, want a match of %q", reason, c.want)
			}
		})
	}
}
