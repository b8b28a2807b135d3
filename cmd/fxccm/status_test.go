package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/child"
	"github.com/fxccm/fxccm/test/commandblocks"
	"github.com/fxccm/fxccm/test/kubelet"
)

// addPod creates a node with the kubelet and a pod of the manifest that runs there.
func (w *world) addPod(
	t *testing.T, namespace, name string, of v1.PodTemplateSpec, kubeletPort int, phase v1.PodPhase,
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
			Name: name, Labels: of.Labels,
		},
		Spec: v1.PodSpec{
			NodeName: node.Name, ServiceAccountName: of.Spec.ServiceAccountName,
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

// podOf is the template of the pods of a manifest.
func podOf(t *testing.T, file string) v1.PodTemplateSpec {
	t.Helper()
	objects := objectsOf(t, file)
	workload, ok := strictly(t, objects[len(objects)-1]).(*appsv1.Deployment)
	if !ok {
		t.Fatalf("%s does not end with a Deployment", file)
	}
	return workload.Spec.Template
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
	commands, err := commandblocks.RunBy("cmd/fxccm", page)
	if err != nil || len(commands) != 1 {
		t.Fatalf("%s has the commands %v, %v, want one", page, commands, err)
	}
	if args, err = commands[0].Args("fxccm"); err != nil {
		t.Fatalf("%s:%v", page, err)
	}
	return commands[0], args
}

// squeezed replaces several spaces of a table by one.
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
	of := podOf(t, "workload.yaml")
	w.addPod(t, metav1.NamespaceSystem, "ccm-1", of, kubelet.Start(t, p.port), v1.PodRunning)
	w.addPod(t, metav1.NamespaceSystem, "ccm-2", of, 1, v1.PodPending)
	command, onPage := commandOfPage(t, "../../docs/how-to/look-at-a-running-ccm.md")
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
	var current struct {
		Lease    leaseStatus
		Replicas []struct {
			Name   string
			Status status.Manager
		}
	}
	if err := json.Unmarshal([]byte(stdout), &current); err != nil || code != exitClean {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if len(current.Replicas) != 1 || current.Replicas[0].Name != address ||
		!current.Replicas[0].Status.Ready || current.Lease.Holder != w.holder(t) {
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
	text := filepath.Join(t.TempDir(), "no-certificate")
	if err := os.WriteFile(text, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := runSubcommand("status", "--kubeconfig="+admin, "--server="+address,
		"--server-ca="+text); code != exitFailed || stdout != "" ||
		!strings.Contains(stderr, "--server-ca: read "+text) {
		t.Errorf("a CA without a certificate: exit code %d, %q, %q", code, stdout, stderr)
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
	line := &statusLine{lease: defaultLease}
	set := pflag.NewFlagSet("status", pflag.ContinueOnError)
	line.addFlags(set, metav1.NamespaceSystem, podsSelector)
	if err := set.Parse([]string{
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
	waittest.Until(t, "the watch shows the end of the leader",
		func() bool { return strings.Contains(squeezed(watched.String()), "ccm-1 unknown") })
	stop()
	if err := <-done; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestStatusTables_LoadBalancersAndTexts_AreSortedAndOnOneLine(t *testing.T) {
	now := time.Now()
	text, err := statusTables(clusterStatus{Replicas: []replica[status.Manager]{{
		Name: "ccm-1", Status: status.Manager{
			State: status.Leading,
			Troubles: []status.Trouble{{
				Subject: "Octavia", Reason: "503 Service Unavailable; retrying",
				Since: now.Add(-5 * time.Minute),
			}},
			LoadBalancers: []status.LoadBalancer{
				{
					Namespace: "shop", Service: "web", State: status.LoadBalancerRefused,
					Reason: "UnsupportedConfiguration", Message: "no SCTP\n\x1b[2Jhere",
					Since: now.Add(-time.Hour),
				},
				{Namespace: "shop", Service: "fine", State: status.LoadBalancerReady},
				{
					Namespace: "shop", Service: "open", State: status.LoadBalancerReady,
					Reason: "LoadBalancerSourceRangesIgnored", Message: "every client may connect",
				},
				{
					Namespace: "shop", Service: "moved", State: status.LoadBalancerReady,
					Addresses: []string{"203.0.113.7"}, DriftedAt: now.Add(-time.Minute),
					Drift: []string{"update member a"},
				},
			},
			Nodes: []status.Node{{Name: "w1", Reason: "InstanceNotFound", Message: "gone"}},
			Running: []status.Activity{
				{Name: "call X.Y", Object: "shop/web", Since: now}, {Name: "mine"},
			},
		},
	}}}, now).Text(cli.Screen{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" Octavia: 503 Service Unavailable; retrying (for 5m)\n",
		"Load balancers: 4, 1 of them ready without drift or defect\n",
		"\nshop/open ready - LoadBalancerSourceRangesIgnored: every client may connect\n",
		"\nshop/web refused 60m UnsupportedConfiguration: no SCTP [2Jhere\n",
		"\nshop/moved ready - 203.0.113.7 drift 60s ago: update member a\n",
		"\nw1 - InstanceNotFound: gone\n", "\nX.Y shop/web 0s\n",
	} {
		if !strings.Contains(squeezed(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "shop/fine") || strings.Contains(text, "mine") {
		t.Errorf("it shows an object that needs no attention:\n%s", text)
	}
}

func TestStatus_Watched_PrintsAgainForMoreThanAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began, reads := time.Now(), 0
		var out strings.Builder
		line := &replicasLine{watch: true}
		if err := line.print(ctx, &out, func(context.Context) (snapshot, error) {
			reads++
			current := status.Manager{State: status.Leading, Terms: []status.Term{{Began: began}}}
			if reads >= 5 {
				current.State = status.Degraded
			}
			if reads == 8 {
				stop()
			}
			return clusterStatus{
				Lease:    leaseStatus{Holder: "ccm-1", Renewed: time.Now()},
				Replicas: []replica[status.Manager]{{Name: "ccm-1", Status: current}},
			}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "REPLICA"); n != 2 ||
			!strings.Contains(squeezed(out.String()), "ccm-1 degraded 0 false 8s") {
			t.Errorf("after %d reads it has printed %d times:\n%s", reads, n, &out)
		}
	})
}

func TestStatus_BadInput_IsAnError(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"read KUBECONFIG":                {exitFailed, nil},
		"read --kubeconfig":              {exitFailed, []string{"--kubeconfig=nowhere"}},
		"want flags only":                {cli.ExitUsage, []string{"web"}},
		"want json or yaml":              {cli.ExitUsage, []string{"--kubeconfig=x", "-o", "xml"}},
		"--insecure-skip-tls-verify are": {cli.ExitUsage, []string{"--insecure-skip-tls-verify"}},
		"--lease=a/b/c is not [name":     {cli.ExitUsage, []string{"--lease=a/b/c"}},
		"--lease=/b is not [name":        {cli.ExitUsage, []string{"--lease=/b"}},
		"--selector=a=b=c is not a":      {cli.ExitUsage, []string{"-l", "a=b=c"}},
		"has the port 99999":             {cli.ExitUsage, []string{"--server=127.0.0.1:99999"}},
		"give one of --server-ca and": {cli.ExitUsage, []string{
			"--server=a:1", "--server-ca=x", "--insecure-skip-tls-verify",
		}},
		"unknown flag: --pods": {cli.ExitUsage, []string{"--pods"}},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"status"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

// encoding/json escapes only the control characters of ASCII.
func TestStatus_JSONAndYAMLWithControlCharacters_DoNotReachATerminal(t *testing.T) {
	want := clusterStatus{Lease: leaseStatus{Error: "red\u009b31m, del\u007f"}}
	for _, format := range []string{"json", "yaml"} {
		var out strings.Builder
		err := (&cli.Output{Format: format}).Print(&out, want, nil)
		if err != nil || strings.ContainsAny(out.String(), "\u009b\u007f") {
			t.Errorf("the output is %q: %v", &out, err)
		}
		var got clusterStatus
		if err := yaml.Unmarshal([]byte(out.String()), &got); err != nil ||
			got.Lease != want.Lease {
			t.Errorf("%q is read as %q: %v", &out, got.Lease.Error, err)
		}
	}
}
