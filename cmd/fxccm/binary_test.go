package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/child"
)

// limit ends a wait that hangs, not a slow one.
const limit = time.Minute

// buildDir is removed by TestMain.
var buildDir string

// cluster is shared by all tests, which are sequential.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fxccm-example-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := controlplane.Tests{M: m, ControlPlane: &cluster}.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// build builds the binary like a release, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "fxccm")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return path, nil
})

func binary(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// result is the result of a finished process.
type result struct {
	stdout, stderr string
	code           int
}

// execute runs the binary to its end.
func execute(t *testing.T, args ...string) result {
	t.Helper()
	return executeAs(t, binary(t), args...) // the first call builds it, which can be slow
}

// executeAs runs the binary under a path to its end.
func executeAs(t *testing.T, path string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// process is a running binary.
type process struct {
	*child.Process
	t    *testing.T
	port int
}

// launch runs the binary with its secure port on loopback, until the test or the binary ends.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchCommand(t, nil, args...)
}

// launchCommand runs a command that runs until it is stopped; an empty one is the binary itself.
func launchCommand(t *testing.T, command []string, args ...string) *process {
	t.Helper()
	port := freeport.ForTest(t)
	return &process{t: t, port: port, Process: child.Start(t, binary(t), slices.Concat(command,
		[]string{
			"--cloud-provider=fake", "--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", port),
		}, args)...)}
}

// get sends a request to the secure port, whose certificate is self-signed. config holds the
// credentials.
func (p *process) get(path string, config *rest.Config) (int, string, error) {
	return p.getAs("*/*", path, config)
}

// getAs is like get, with a media type that the client accepts.
func (p *process) getAs(accept, path string, config *rest.Config) (int, string, error) {
	settings := &tls.Config{InsecureSkipVerify: true}
	if config != nil && len(config.CertData) > 0 {
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		if err != nil {
			return 0, "", err
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{
		Timeout:   limit,
		Transport: &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true},
	}
	request, err := http.NewRequest(http.MethodGet,
		fmt.Sprintf("https://127.0.0.1:%d%s", p.port, path), nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Accept", accept)
	if config != nil && config.BearerToken != "" {
		request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	}
	resp, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// awaitAnswer waits until a path is answered with the status.
func (p *process) awaitAnswer(path string, status int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%s is answered with %d", path, status), func() (string, bool) {
		got, body, err := p.get(path, nil)
		return fmt.Sprintf("%d %s %v", got, body, err), err == nil && got == status
	})
}

// eventually waits until cond holds, and otherwise fails with the last state.
func (p *process) eventually(what string, cond func() (string, bool)) {
	p.t.Helper()
	waittest.Until(p.t, what, func() error {
		seen, ok := cond()
		if ok {
			return nil
		}
		select {
		case <-p.Exited:
			p.t.Fatalf("the binary has ended with code %d before %s", p.ExitCode(), what)
		default:
		}
		return errors.New(seen)
	})
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// world is the environment of the binary: a control plane, and a cloud in this process.
type world struct {
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	cloud  *fake.Cloud
	// args configure the binary for the control plane, as the ServiceAccount that is shipped with
	// it.
	args []string
}

const account = "cloud-controller-manager"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{cp: cluster, cloud: fake.New()}
	w.client = kubernetes.NewForConfigOrDie(w.cp.RESTConfig())
	t.Cleanup(func() {
		// A killed leader does not release its lease, and the next test would wait for it.
		if err := w.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(
			context.Background(), account, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	ccmtest.ApplyRBAC(t, w.client, "../../deploy/base/rbac.yaml")
	identity, err := w.cp.ServiceAccountConfig(metav1.NamespaceSystem, account)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, identity); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w.cloud.Handler())
	t.Cleanup(func() {
		w.cloud.ClearFaults()
		server.CloseClientConnections()
		server.Close()
	})
	w.args = []string{
		"--kubeconfig=" + kubeconfig, "--cluster-cidr=10.200.0.0/16",
		"--cloud-config=" + writeFile(t, "cloud.yaml", "endpoint: "+server.URL+"\n"),
	}
	return w
}

func (w *world) launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launch(t, append(slices.Clone(w.args), args...)...)
}

func (w *world) holder(t *testing.T) string {
	t.Helper()
	lease, err := w.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), account,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestHelp_ShowsEveryFlagInItsGroup(t *testing.T) {
	got := execute(t, "--help")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q, want 0 and no output", got.code, got.stderr)
	}
	for _, group := range []string{
		"Debugging", "Generic", "Cloud-node-controller",
		"Cloud-node-lifecycle-controller", "Service-lb-controller",
		"Secure serving", "Authentication", "Authorization", "Misc",
		"Global",
	} {
		if !strings.Contains(got.stdout, "\n"+group+" flags:\n") {
			t.Errorf("the help has no group %q", group)
		}
	}
	for _, flag := range []string{
		"--cloud-provider", "--leader-elect ", "--secure-port",
		"--config ", "--logging-format", "--vmodule", "-v, --v", "--version", "-h, --help",
	} {
		if !strings.Contains(got.stdout, flag) {
			t.Errorf("the help does not show %s", flag)
		}
	}
	for _, hidden := range []string{"Not supported:", "--webhooks", "--enable-leader-migration"} {
		if strings.Contains(got.stdout, hidden) {
			t.Errorf("the help shows %s, which is not supported", hidden)
		}
	}
}

func TestVersion_NamesTheBuild(t *testing.T) {
	got := execute(t, "--version")
	if got.code != 0 || got.stderr != "" ||
		!regexp.MustCompile(
			`^fxccm \S+ \(commit .*k8s\.io/cloud-provider v0\.\d+\.\d+, go1\..*\)\n$`).MatchString(
			got.stdout) {
		t.Errorf("exit code %d, stderr %q, stdout %q", got.code, got.stderr, got.stdout)
	}
}

func TestPlugin_OfKubectl_HasItsNameAndRunsNoCCM(t *testing.T) {
	path := filepath.Join(t.TempDir(), pluginName)
	if err := os.Symlink(binary(t), path); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"Usage:\n  kubectl fxccm":                                      nil,
		"Usage:\n  kubectl fxccm plan [service/]NAME":                  {"plan", "--help"},
		`kubectl fxccm: unknown command "staus"; did you mean status?`: {"staus"},
	} {
		got := executeAs(t, path, args...)
		if !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("%q: exit code %d, it lacks %q:\n%s%s", args, got.code, want, got.stdout,
				got.stderr)
		}
	}
}

func TestCompletion_OfACommand_ListsItsFlagsAndSubcommands(t *testing.T) {
	for want, args := range map[string][]string{
		"describe\t":        {"__complete", "d"},
		"--context\t":       {"__complete", "status", "--con"},
		"rollback\t":        {"__complete", "migrate", ""},
		"__start_fxccm":     {"completion", "bash"},
		"#compdef fxccm":    {"completion", "zsh"},
		"complete -c fxccm": {"completion", "fish"},
	} {
		if got := execute(t, args...); got.code != exitClean ||
			!strings.Contains(got.stdout, want) {
			t.Errorf("%q: exit code %d, it lacks %q:\n%.500s%s", args, got.code, want, got.stdout,
				got.stderr)
		}
	}
}

// An error is one sentence that names the flag or the file.
func TestBadInput_IsOneSentence(t *testing.T) {
	apiServer := "--master=http://127.0.0.1:1"
	cloudConf := writeFile(t, "cloud.conf",
		"[Global]\nauth-url = https://keystone.example/v3\nusrname = ccm\n"+
			"application-credential-id = 1\napplication-credential-secret = s3cret\n")
	cases := map[string]struct {
		args []string
		want []string
	}{
		"unknown flag": {[]string{"--replicas=2"}, []string{"unknown flag: --replicas"}},
		"argument":     {[]string{"start"}, []string{`unknown command "start"`}},
		"misspelt":     {[]string{"stauts"}, []string{"did you mean status?"}},
		"not a number": {[]string{"--concurrent-node-syncs=many"}, []string{"--concurrent-node-syncs", "many"}},
		"out of range": {[]string{"--concurrent-service-syncs=0"}, []string{"--concurrent-service-syncs", "at least 1"}},
		"durations in disorder": {
			[]string{
				"--leader-elect-renew-deadline=20s",
				"--leader-elect-lease-duration=15s",
			},
			[]string{"--leader-elect-lease-duration", "renewDeadline"},
		},
		"misspelt feature gate": {
			[]string{"--feature-gates=CloudControllerManagerWebhooks=true"},
			[]string{"--feature-gates", "did you mean CloudControllerManagerWebhook?"},
		},
		"refused flag":           {[]string{"--enable-leader-migration"}, []string{"--enable-leader-migration", "not supported"}},
		"bad CIDR":               {[]string{apiServer, "--cluster-cidr=10.0.0.0"}, []string{"--cluster-cidr", "10.0.0.0"}},
		"unknown controller":     {[]string{apiServer, "--controllers=*,-dns"}, []string{"--controllers", "-dns", "node-route-controller"}},
		"unknown provider":       {[]string{apiServer, "--cloud-provider=moon"}, []string{"--cloud-provider", "moon", "fake", "openstack"}},
		"no provider":            {[]string{apiServer, "--cloud-provider="}, []string{"--cloud-provider", "fake, openstack"}},
		"log format":             {[]string{apiServer, "--logging-format=xml"}, []string{"--logging-format", "xml"}},
		"module levels and JSON": {[]string{apiServer, "--logging-format=json", "--vmodule=term=4"}, []string{"--vmodule"}},
		"no kubeconfig":          {[]string{"--kubeconfig=/does/not/exist"}, []string{"--kubeconfig", "/does/not/exist"}},
		"no API server":          {nil, []string{"--kubeconfig", "--master"}},
		"malformed kubeconfig":   {[]string{"--kubeconfig=" + writeFile(t, "kubeconfig", "clusters: 7")}, []string{"--kubeconfig"}},
		"no configuration file":  {[]string{"--config=/does/not/exist"}, []string{"configuration file", "/does/not/exist"}},
		"unknown field in configuration": {
			[]string{"--config=" +
				writeFile(t, "config.yaml",
					"apiVersion: fxccm.dev/v1alpha1\nkind: CloudControllerManagerConfiguration\nclusterNam: blue\n")},
			[]string{"config.yaml", "clusterNam", "line 3"},
		},
		"no cloud configuration": {[]string{apiServer, "--cloud-config=/does/not/exist"}, []string{"--cloud-config", "/does/not/exist"}},
		"unknown field in cloud configuration": {
			[]string{
				apiServer,
				"--cloud-config=" + writeFile(t, "cloud.yaml", "endpont: http://127.0.0.1:1\n"),
			},
			[]string{"--cloud-config", "cloud.yaml", "endpont"},
		},
		"no cloud.conf": {[]string{apiServer, "--cloud-provider=openstack"}, []string{"--cloud-config", "no configuration"}},
		"misspelt key in cloud.conf": {
			[]string{
				apiServer, "--cloud-provider=openstack",
				"--cloud-config=" + cloudConf,
			},
			[]string{"--cloud-config", "cloud.conf line 3", "usrname", "username"},
		},
		"certificate that is not there": {[]string{
			apiServer, "--tls-cert-file=/a.crt",
			"--tls-private-key-file=/a.key",
		}, []string{"--tls-cert-file", "/a.crt"}},
		"certificate without key": {[]string{apiServer, "--tls-cert-file=/a.crt"}, []string{"--tls-cert-file"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := execute(t, append([]string{"--cloud-provider=fake"}, c.args...)...)
			code := exitFailed
			if slices.Contains([]string{
				"unknown flag", "argument", "misspelt", "not a number", "misspelt feature gate",
			}, name) {
				code = cli.ExitUsage
			}
			if got.code != code || got.stdout != "" {
				t.Errorf("exit code %d and stdout %q, want %d and no output", got.code, got.stdout,
					code)
			}
			if !strings.HasPrefix(got.stderr, "fxccm: ") || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("want one line that begins with the program's name, got:\n%s", got.stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("want a sentence that says %q, got: %s", want, got.stderr)
				}
			}
			for _, noise := range []string{"fx.", "dig", "goroutine", ".go:", "s3cret"} {
				if strings.Contains(got.stderr, noise) {
					t.Errorf("the sentence shows internals or secrets (%q): %s",
						noise, got.stderr)
				}
			}
		})
	}
}

func TestPortInUse_IsASentenceAndExitCode1(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	got := execute(t, "--cloud-provider=fake", "--master=http://127.0.0.1:1",
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port))
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	last := lines[len(lines)-1]
	if got.code != 1 || !strings.HasPrefix(last, "fxccm: ") ||
		!strings.Contains(last, fmt.Sprint(port)) || !strings.Contains(last, "--secure-port") {
		t.Errorf("exit code %d, last line %q; want 1, and a sentence with --secure-port and %d",
			got.code, last, port)
	}
}

// The test covers the whole life of a replica, with exactly the shipped RBAC rules.
func TestBinary_LeadsWorksAndReleasesTheLease(t *testing.T) {
	w := newWorld(t)
	if err := w.cloud.AddInstances(fake.Instance{Name: "node-1", Zone: "region-1b"}); err != nil {
		t.Fatal(err)
	}
	p := w.launch(t, "--logging-format=json", "--v=4", "--leader-elect-identity=replica-a")

	for _, probe := range []*corev1.Probe{
		container(t).StartupProbe, container(t).LivenessProbe,
		container(t).ReadinessProbe,
	} {
		if probe.HTTPGet.Scheme != corev1.URISchemeHTTPS ||
			probe.HTTPGet.Port.StrVal != container(t).Ports[0].Name {
			t.Errorf("a probe uses %+v, want HTTPS on the container's port", probe.HTTPGet)
		}
		p.awaitAnswer(probe.HTTPGet.Path, http.StatusOK)
	}

	ccmtest.CreateNode(t, w.client,
		ccmtest.TaintedNode("node-1", ccmtest.NodePodCIDRs("10.200.1.0/24")))
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(w.client, "node-1"))
	if node.Spec.ProviderID != "fake://region-1/node-1" ||
		node.Labels[corev1.LabelTopologyZone] != "region-1b" {
		t.Errorf("the node has provider ID %q and zone %q", node.Spec.ProviderID,
			node.Labels[corev1.LabelTopologyZone])
	}
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("web"))
	if address := ccmtest.Eventually(t, "the Service has an address",
		ccmtest.ServiceAddress(w.client, metav1.NamespaceDefault, "web")); address != "192.0.2.1" {
		t.Errorf("the Service has the address %s, want the cloud's", address)
	}
	if got := w.holder(t); got != "replica-a" {
		t.Errorf("the lease names %q, want replica-a", got)
	}
	wantMetrics(t, w, p)

	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if got := w.holder(t); got != "" {
		t.Errorf("the lease still names %q after a clean stop", got)
	}
	wantJSONLog(t, p.Output.String())
	wantNothingDenied(t, w)
}

// The binary gives the provider its environment and a metrics registry.
func TestBinary_OnOpenStack(t *testing.T) {
	t.Setenv("OS_CCM_REGIONAL", "true")
	sim := openstacktest.NewCloud(openstacktest.WithRegion("north"))
	t.Cleanup(sim.Close)
	id := sim.AddServer(openstacktest.Server{Name: "node-1", AvailabilityZone: "north-1"})
	w := newWorld(t)
	p := w.launch(t, "--cloud-provider=openstack",
		"--cloud-config="+
			writeFile(t, "cloud.conf", sim.CloudConf("application-credential")))

	ccmtest.CreateNode(t, w.client, ccmtest.TaintedNode("node-1"))
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(w.client, "node-1"))
	if want := "openstack://north/" + id; node.Spec.ProviderID != want ||
		node.Labels[corev1.LabelTopologyZone] != "north-1" {
		t.Errorf("the node has provider ID %q and zone %q, want %q and north-1",
			node.Spec.ProviderID, node.Labels[corev1.LabelTopologyZone], want)
	}
	status, body, err := p.get("/metrics", w.cp.RESTConfig())
	if want := "fxccm_openstack_request_duration_seconds_count{"; err != nil ||
		status != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("/metrics has status %d, %v, and lacks %s", status, err, want)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	wantNothingDenied(t, w)
}

// Metrics that need a hook of the process are registered by the binary, not by the library.
func wantMetrics(t *testing.T, w *world, p *process) {
	t.Helper()
	status, body, err := p.get("/metrics", w.cp.RESTConfig())
	if err != nil || status != http.StatusOK {
		t.Fatalf("/metrics as administrator: %d %v", status, err)
	}
	for _, want := range []string{
		`workqueue_depth{name="service"`,
		`leader_election_master_status{name="cloud-controller-manager"} 1`,
		"rest_client_requests_total{", "running_managed_controllers{",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if status, _, err := p.get("/metrics", nil); err != nil || status == http.StatusOK {
		t.Errorf("/metrics is answered without credentials: %d %v", status, err)
	}
}

// Every line is an object with a time and a message, also those of Kubernetes' libraries, fx, and
// the standard library.
func wantJSONLog(t *testing.T, log string) {
	t.Helper()
	said := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			TS  *float64 `json:"ts"`
			Msg *string  `json:"msg"`
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil || entry.TS == nil ||
			entry.Msg == nil {
			t.Errorf("this line of the log is not a JSON entry (%v): %s", err, lines.Text())
			continue
		}
		said[*entry.Msg] = true
	}
	for _, want := range []string{
		"Starting", "Term begins", "Term is ready", "Term has drained",
		"Stopped", "provided",
	} {
		if !said[want] {
			t.Errorf("the log lacks %q", want)
		}
	}
}

func wantNothingDenied(t *testing.T, w *world) {
	t.Helper()
	user := controlplane.ByUser(controlplane.ServiceAccountUser(metav1.NamespaceSystem, account))
	all, err := w.cp.Audit().All(user)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d requests under the shipped identity, %v", len(all), err)
	}
	denied, err := w.cp.Audit().All(user, controlplane.Denied())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range denied {
		t.Errorf("the rules in deploy/base/rbac.yaml do not allow %s %s %s", r.Verb,
			r.ResourcePath(), r.Name)
	}
}

// The process neither ends nor becomes unhealthy because of a temporary failure.
func TestBinary_RunsWithoutAnAPIServer(t *testing.T) {
	p := launch(t, "--master=http://127.0.0.1:1")
	p.awaitAnswer("/livez", http.StatusOK)
	p.awaitAnswer("/readyz", http.StatusInternalServerError)
	p.Signal(os.Interrupt)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d after SIGINT, want 0", code)
	}
}

// hang makes the creation of a load balancer hang until the cloud's faults are cleared, and waits
// until a creation hangs.
func (w *world) hang(t *testing.T) {
	t.Helper()
	w.cloud.On("EnsureLoadBalancer").Hang()
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("web"))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if _, err := w.cloud.WaitForCall(ctx,
		func(c fake.Call) bool { return c.Method == "EnsureLoadBalancer" }); err != nil {
		t.Fatal(err)
	}
}

// After the drain timeout a call may still act: the exit code shows it, and the lease is left to
// expire.
func TestDrainTimeout_IsExitCode3AndKeepsTheLease(t *testing.T) {
	w := newWorld(t)
	p := w.launch(t, "--drain-timeout=1ns", "--leader-elect-identity=replica-a")
	w.hang(t)
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != ccm.ExitDrainTimeout {
		t.Errorf("exit code %d, want %d", code, ccm.ExitDrainTimeout)
	}
	if got := w.holder(t); got != "replica-a" {
		t.Errorf("the lease names %q: it was released with a call in flight", got)
	}
	if log := p.Output.String(); !strings.Contains(log, "still running") {
		t.Error("the log does not report that a call still ran")
	}
}

func TestSecondSignal_ExitsAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.launch(t, "--drain-timeout=10m")
	w.hang(t)
	p.Signal(syscall.SIGTERM)
	p.eventually("the first signal is logged", func() (string, bool) {
		log := p.Output.String()
		return log, strings.Contains(log, "another signal exits at once")
	})
	p.Signal(os.Interrupt)
	if code := p.Wait(); code != ccm.ExitDrainTimeout {
		t.Errorf("exit code %d, want %d", code, ccm.ExitDrainTimeout)
	}
}

// A cloud in the binary's own process needs no cloud server.
func TestFakeCloud_InTheProcess_HasTheConfiguredInstances(t *testing.T) {
	w := newWorld(t)
	config := writeFile(t, "cloud.json", `{"instances": [{"name": "node-1", "zone": "region-1c"}]}`)
	w.launch(t, "--cloud-config="+config)
	ccmtest.CreateNode(t, w.client, ccmtest.TaintedNode("node-1"))
	node := ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(w.client, "node-1"))
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != "region-1c" {
		t.Errorf("the node's zone is %q, want the configured one", zone)
	}
}
