package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/child"
	"github.com/fxccm/fxccm/test/commandblocks"
)

// defaultPort is the secure port of a pod unless a command says otherwise.
const defaultPort = "10258"

// kubelet forwards ports as a node's kubelet does for the API server. All ports of all pods are
// those of this machine, and the default port is securePort.
func kubelet(t *testing.T, securePort int) (port int) {
	t.Helper()
	var open sync.WaitGroup
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/portForward/") {
			http.NotFound(w, r)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 8)
		errors := map[string]httpstream.Stream{} // by request
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
			func(s httpstream.Stream, _ <-chan struct{}) error {
				streams <- s
				return nil
			})
		if connection == nil {
			return
		}
		defer func() { _ = connection.Close() }()
		for {
			select {
			case <-connection.CloseChan():
				return
			case s := <-streams:
				request := s.Headers().Get(v1.PortForwardRequestIDHeader)
				if s.Headers().Get(v1.StreamType) != v1.StreamTypeData {
					errors[request] = s
					continue
				}
				port := s.Headers().Get(v1.PortHeader)
				if port == defaultPort {
					port = strconv.Itoa(securePort)
				}
				to, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					_, _ = fmt.Fprint(errors[request], err)
					_, _ = errors[request].Close(), s.Reset()
					continue
				}
				open.Go(func() {
					_, _ = io.Copy(to, s)
					_ = to.Close()
				})
				open.Go(func() {
					_, _ = io.Copy(s, to)
					_ = s.Close()
				})
			}
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		open.Wait()
	})
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// addPod creates a node with the kubelet and a pod of the app that runs there.
func (w *world) addPod(
	t *testing.T, namespace, name, app string, kubeletPort int, phase v1.PodPhase,
) {
	t.Helper()
	node := ccmtest.CreateNode(t, w.client, &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + name},
	})
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(kubeletPort)
	if _, err := w.client.CoreV1().Nodes().UpdateStatus(t.Context(), node,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := w.client.CoreV1().Pods(namespace).Create(t.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app.kubernetes.io/name": app},
		},
		Spec: v1.PodSpec{
			NodeName: node.Name, ServiceAccountName: app,
			Containers: []v1.Container{{Name: "fxccm", Image: "registry.example.com/fxccm"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.client.CoreV1().Pods(namespace).Delete(context.Background(), name,
			*metav1.NewDeleteOptions(0)); err != nil {
			t.Error(err)
		}
	})
	pod.Status.Phase = phase
	if _, err := w.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) admin(t *testing.T) string {
	t.Helper()
	return w.adminNamed(t, "admin.conf")
}

func (w *world) adminNamed(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := controlplane.WriteKubeconfig(path, w.cp.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	return path
}

func runSubcommand(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

// commandOfPage is the only command of the page that this package runs, with its arguments.
func commandOfPage(t *testing.T, page string) (command commandblocks.Command, args []string) {
	t.Helper()
	commands, err := commandblocks.RunBy("example", page)
	if err != nil || len(commands) != 1 {
		t.Fatalf("%s has the commands %v, %v, want one", page, commands, err)
	}
	if args, err = commands[0].Args("fxccm"); err != nil {
		t.Fatalf("%s:%v", page, err)
	}
	return commands[0], args
}

// squeezed has one space where a table has several.
func squeezed(table string) string {
	return regexp.MustCompile(` +`).ReplaceAllString(table, " ")
}

func TestStatus_OfACluster_ShowsTheLeaderThroughAForwardedPortAndByAddress(t *testing.T) {
	w := newWorld(t)
	p := w.launch(t)
	p.awaitAnswer("/readyz", http.StatusOK)
	p.eventually("the replica leads", func() (string, bool) {
		_, body, err := p.get("/statusz", w.cp.RESTConfig())
		return fmt.Sprint(body, err), strings.Contains(body, `"ready": true`)
	})
	w.addPod(t, metav1.NamespaceSystem, "ccm-1", account, kubelet(t, p.port), v1.PodRunning)
	w.addPod(t, metav1.NamespaceSystem, "ccm-2", account, 1, v1.PodPending)
	command, onPage := commandOfPage(t, "../docs/how-to/look-at-a-running-ccm.md")
	admin, address := w.admin(t), fmt.Sprintf("https://127.0.0.1:%d", p.port)
	t.Chdir(filepath.Dir(admin))

	code, stdout, stderr := runSubcommand(onPage...)
	for _, want := range []string{command.Missing(stdout), " held by " + w.holder(t) + ", "} {
		if code != exitClean || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, it lacks %q:\n%s%s", code, want, stdout, stderr)
		}
	}

	code, stdout, stderr = runSubcommand("status", "--kubeconfig="+admin, "--output=json",
		"--server="+address, "--insecure-skip-tls-verify")
	var status struct {
		Lease    leaseStatus
		Replicas []struct {
			Name   string
			Status ccm.Status
		}
	}
	if err := json.Unmarshal([]byte(stdout), &status); err != nil || code != exitClean {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if len(status.Replicas) != 1 || status.Replicas[0].Name != address ||
		!status.Replicas[0].Status.Ready || status.Lease.Holder != w.holder(t) {
		t.Errorf("the JSON is %s", stdout)
	}

	unprivileged, err := w.cp.ServiceAccountConfig("default", "default")
	if err != nil {
		t.Fatal(err)
	}
	weak := filepath.Join(t.TempDir(), "weak.conf")
	if err := controlplane.WriteKubeconfig(weak, unprivileged); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown certificate": {
			[]string{"--kubeconfig=" + admin, "--server=" + address}, "see --server-ca",
		},
		"no permission": {[]string{
			"--kubeconfig=" + weak, "--server=" + address, "--insecure-skip-tls-verify",
		}, `nonResourceURLs ["/statusz"]`},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"status"}, test.args...)...)
		if code != exitFailed || !strings.Contains(stdout, test.want) {
			t.Errorf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
	}

	// --watch prints again when the leader stops.
	line := newStatusLine()
	if err := line.parse([]string{
		"--kubeconfig=" + admin, fmt.Sprintf("--port=%d", p.port), "--watch",
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var watched child.Output
	done := make(chan error, 1)
	go func() { done <- line.run(ctx, &watched) }()
	p.eventually("the watch shows the leader", func() (string, bool) {
		return watched.String(), strings.Contains(squeezed(watched.String()), "ccm-1 leading")
	})
	p.Kill()
	for deadline := time.Now().Add(limit); !strings.Contains(squeezed(watched.String()),
		"ccm-1 unknown"); {
		if time.Now().After(deadline) {
			t.Fatalf("the watch has not noticed the end of the leader: %s", &watched)
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestStatusTables_LoadBalancersAndTexts_AreShownWorstFirstAndOnOneLine(t *testing.T) {
	now := time.Now()
	text, err := statusTables(clusterStatus{Replicas: []replica[ccm.Status]{{
		Name: "ccm-1", Status: ccm.Status{
			State: ccm.StateLeading,
			LoadBalancers: []ccm.LoadBalancerStatus{
				{
					Namespace: "shop", Service: "web", State: ccm.LoadBalancerRefused,
					Reason: "UnsupportedConfiguration", Message: "no SCTP\n\x1b[2Jhere",
					Since: now.Add(-time.Hour),
				},
				{Namespace: "shop", Service: "fine", State: ccm.LoadBalancerReady},
				{
					Namespace: "shop", Service: "moved", State: ccm.LoadBalancerReady,
					Addresses: []string{"203.0.113.7"}, DriftedAt: now.Add(-time.Minute),
					Drift: []string{"update member a"},
				},
			},
			Nodes: []ccm.NodeStatus{{Name: "w1", Reason: "InstanceNotFound", Message: "gone"}},
			Running: []ccm.Activity{
				{Name: "call X.Y", Object: "shop/web", Since: now}, {Name: "mine"},
			},
		},
	}}}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Load balancers: 3, 1 of them ready without drift\n",
		"\nshop/web refused 60m UnsupportedConfiguration: no SCTP [2Jhere\n",
		"\nshop/moved ready - 203.0.113.7 drift 60s ago: update member a\n",
		"\nw1 - InstanceNotFound: gone\n", "\nX.Y shop/web 0s\n",
	} {
		if !strings.Contains(squeezed(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "shop/fine") || strings.Contains(text, "mine") {
		t.Errorf("it shows what needs no attention:\n%s", text)
	}
}

func TestStatus_BadInput_IsAnError(t *testing.T) {
	for want, args := range map[string][]string{
		"--kubeconfig must be given":     nil,
		"read --kubeconfig":              {"--kubeconfig=nowhere"},
		"want flags only":                {"web"},
		"want json":                      {"--kubeconfig=x", "-o", "yaml"},
		"--insecure-skip-tls-verify are": {"--kubeconfig=x", "--insecure-skip-tls-verify"},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"status"}, args...)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}
