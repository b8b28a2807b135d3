package program_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/program"
	"github.com/fxccm/fxccm/internal/waittest"
)

// cluster is shared by all tests of this package.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	if cloud := os.Getenv(stubVariable); cloud != "" {
		if err := runStub(cloud); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(controlplane.Tests{M: m, ControlPlane: &cluster})
}

// stubCloud receives the requests of the programs.
type stubCloud struct {
	*httptest.Server

	mu       sync.Mutex
	requests map[string]int
	// started is the query of the program that has started last.
	started url.Values
	isSick  bool
}

func newStubCloud(t *testing.T) *stubCloud {
	t.Helper()
	c := &stubCloud{requests: map[string]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *stubCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[r.URL.Path]++
	switch {
	case r.URL.Path == "/started":
		c.started = r.URL.Query()
	case r.URL.Path == "/health" && c.isSick:
		http.Error(w, "sick", http.StatusTeapot)
	}
}

func (c *stubCloud) setSick(sick bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isSick = sick
}

func (c *stubCloud) received(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[path]
}

// program returns the process and the token of the program that has started last.
func (c *stubCloud) program(t *testing.T) (pid int, token string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := strconv.Atoi(c.started.Get("pid"))
	if err != nil {
		t.Fatalf("no program has started: %v", err)
	}
	return pid, c.started.Get("token")
}

// waitWork waits until the program has worked.
func (c *stubCloud) waitWork(t *testing.T) {
	t.Helper()
	before := c.received("/work")
	waittest.Until(t, "the cloud receives requests of the program",
		func() bool { return c.received("/work") >= before+2 })
}

func (c *stubCloud) options(t *testing.T, mode string) program.Options {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(stubVariable, c.URL)
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	return program.Options{
		Name: "stub", Path: path,
		Args: []string{
			"--kubeconfig=$(KUBECONFIG)", "--secure-port=$(PORT)", "--mode=" + mode,
		},
		HealthURL: "http://127.0.0.1:$(PORT)/healthz",
	}
}

func start(t *testing.T, o program.Options) *ccmtest.CCM {
	t.Helper()
	return ccmtest.StartManager(t, cluster, nil, ccmtest.WithProvider(program.Provider(o)))
}

func wantDead(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("process %d still exists: %v", pid, err)
	}
}

func TestProvider_TwoTerms_NothingArrivesAfterEitherFence(t *testing.T) {
	cloud := newStubCloud(t)
	app := start(t, cloud.options(t, ""))
	tokens := map[string]bool{}
	for term := range 2 {
		if term > 0 {
			app.Elector.Lead()
		}
		app.WaitReady()
		cloud.waitWork(t)
		pid, token := cloud.program(t)
		if tokens[token] || token == "" {
			t.Errorf("term %d has the token of an earlier one, or none", term+1)
		}
		tokens[token] = true
		mark := cluster.Audit().Mark()
		if _, err := cluster.Audit().Wait(waittest.Context(t), mark, 2,
			controlplane.ByUser(app.User()), controlplane.Mutating()); err != nil {
			t.Error(err)
		}
		cloud.waitWork(t)
		app.Elector.Lose(nil)
		if released := app.Elector.WaitReleased(t); !released.Drained {
			t.Errorf("term %d did not drain: %v", term+1, released.Err)
		}
		wantDead(t, pid)
		mark, work := cluster.Audit().Mark(), cloud.received("/work")
		ccmtest.CreateNode(t, app.Client, ccmtest.ReadyNode(fmt.Sprint("after-", term)))
		writes, err := cluster.Audit().Since(mark, controlplane.ByUser(app.User()),
			controlplane.Mutating())
		if err != nil || len(writes) > 0 {
			t.Errorf("the API server received after the term: %v, %v", writes, err)
		}
		if late := cloud.received("/work") - work; late > 0 {
			t.Errorf("the cloud received %d requests after the term", late)
		}
	}
	app.VerifyNoLeaks()
}

func TestProvider_ProgramOfATerm_HasNoSecretInArgumentsAndNoOtherAPIServer(t *testing.T) {
	cloud := newStubCloud(t)
	app := start(t, cloud.options(t, ""))
	app.WaitReady()
	pid, token := cloud.program(t)
	if token == "" {
		t.Fatal("the program has no token")
	}
	for _, file := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), token) {
			t.Errorf("%s of the program has its token", file)
		}
	}
	cloud.mu.Lock()
	defer cloud.mu.Unlock()
	if got := cloud.started.Get("incluster"); got != "" {
		t.Errorf("the program has the API server %q of its Pod", got)
	}
}

func TestProvider_ProgramDies_TermEndsWithTheCauseAndTheNextWorks(t *testing.T) {
	cloud := newStubCloud(t)
	app := start(t, cloud.options(t, ""))
	app.WaitReady()
	pid, _ := cloud.program(t)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("(pid %d) ended: exit status 0; its last lines: terminated", pid)
	if got := ccmtest.Eventually(t, "the Manager is degraded",
		ccmtest.State(app.Manager, status.Degraded)).Reason; !strings.Contains(got, want) {
		t.Errorf("reason %q, want one with %q", got, want)
	}
	app.WaitReady()
	if second, _ := cloud.program(t); second == pid {
		t.Errorf("the second term has the dead program %d", pid)
	}
}

func TestProvider_StopOfTheManager_ProgramIsTerminatedAndKilledIfItStays(t *testing.T) {
	for mode, wantStopped := range map[string]int{"": 1, "stubborn": 0} {
		t.Run("mode "+mode, func(t *testing.T) {
			cloud := newStubCloud(t)
			app := start(t, cloud.options(t, mode))
			app.WaitReady()
			pid, _ := cloud.program(t)
			if err := app.TryStop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			wantDead(t, pid)
			if got := cloud.received("/stopped"); got != wantStopped {
				t.Errorf("the program has ended in order %d times, want %d", got, wantStopped)
			}
		})
	}
}

func TestProvider_ProgramIsUnhealthy_IsReportedAndReplaced(t *testing.T) {
	cloud := newStubCloud(t)
	options := cloud.options(t, "")
	app := start(t, options)
	app.WaitReady()
	pid, _ := cloud.program(t)
	hasTrouble := func(current status.Manager) bool {
		return len(current.Troubles) == 1 && strings.Contains(current.Troubles[0].Reason, "500")
	}
	cloud.setSick(true)
	ccmtest.Eventually(t, "the health is reported", ccmtest.Status(app.Manager, hasTrouble))
	cloud.setSick(false)
	ccmtest.Eventually(t, "the report is withdrawn",
		ccmtest.Status(app.Manager,
			func(current status.Manager) bool { return len(current.Troubles) == 0 }))
	if same, _ := cloud.program(t); same != pid {
		t.Error("the term ended before the health timeout")
	}
	app.Stop()

	options.HealthTimeout = time.Millisecond
	app = start(t, options)
	app.WaitReady()
	cloud.setSick(true)
	const want = "program is unhealthy for "
	if got := ccmtest.Eventually(t, "the Manager is degraded",
		ccmtest.State(app.Manager, status.Degraded)).Reason; !strings.Contains(got, want) {
		t.Errorf("reason %q, want one with %q", got, want)
	}
	cloud.setSick(false)
	app.WaitReady()
}

func TestProvider_HealthCheckIsRedirected_ProgramIsUnhealthyAndNoRequestFollows(t *testing.T) {
	cloud := newStubCloud(t)
	redirecting := httptest.NewServer(http.RedirectHandler(cloud.URL+"/other", http.StatusFound))
	defer redirecting.Close()
	options := cloud.options(t, "")
	options.HealthURL = redirecting.URL
	app := start(t, options)
	ccmtest.Eventually(t, "the health is reported", ccmtest.Status(app.Manager,
		func(current status.Manager) bool {
			return len(current.Troubles) == 1 && strings.Contains(current.Troubles[0].Reason, "302")
		}))
	if n := cloud.received("/other"); n > 0 {
		t.Errorf("%d requests followed the redirect", n)
	}
}

func TestProvider_ProgramThatCannotStart_IsAnErrorWithItsCause(t *testing.T) {
	cloud := newStubCloud(t)
	for name, c := range map[string]struct {
		change func(*program.Options)
		want   string
	}{
		"no path": {func(o *program.Options) { o.Path = "" }, `Path is empty`},
		"program does not exist": {
			func(o *program.Options) { o.Path = "/does/not/exist" },
			`start the program of provider "stub".*no such file`,
		},
		"program exits": {
			func(o *program.Options) { o.Args = append(o.Args, "--mode=exits") },
			`ended: exit status 1; its last lines: no such zone`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := cloud.options(t, "")
			c.change(&options)
			reason := ccmtest.Eventually(t, "the Manager is degraded",
				ccmtest.State(start(t, options).Manager, status.Degraded)).Reason
			if !regexp.MustCompile(c.want).MatchString(reason) {
				t.Errorf("reason %q, want a match of %q", reason, c.want)
			}
		})
	}
}
