package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/test/kubelet"
)

func TestFleet_ClustersInSecrets_AreServedAndShown(t *testing.T) {
	w := newWorld(t)
	if err := w.cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
		t.Fatal(err)
	}
	flag := func(name string) string {
		at := slices.IndexFunc(w.args, func(a string) bool { return strings.HasPrefix(a, name) })
		data, err := os.ReadFile(strings.TrimPrefix(w.args[at], name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, namespace := range []string{"clusters", "fxccm-system"} {
		if _, err := w.client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ccmtest.ApplyRBAC(t, w.client, "../../deploy/fleet/rbac.yaml")
	addCluster := func(name, provider string) {
		t.Helper()
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				"fxccm.dev/fleet-cluster": "true", "fxccm.dev/cloud-provider": provider,
			}},
			StringData: map[string]string{
				"kubeconfig": flag("--kubeconfig="), "cloud.conf": flag("--cloud-config="),
			},
		}
		if _, err := w.client.CoreV1().Secrets("clusters").Create(t.Context(), secret,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	addCluster("shop", "fake")
	addCluster("shop-test", "clowd")
	ccmtest.CreateNode(t, w.client, ccmtest.TaintedNode("node-1"))

	command, current := commandOfPage(t, "../../docs/how-to/run-a-fleet.md")
	admin := w.adminNamed(t, "management.conf")
	p := launchCommand(t, []string{"fleet"}, "--kubeconfig="+admin,
		"--clusters=secrets", "--clusters-namespace=clusters", "--identity=fxccm-fleet-1",
		"--clusters-trusted",
		"--cluster-cidr=10.200.0.0/16")
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(w.client, "node-1"))
	p.awaitAnswer("/readyz", http.StatusOK)

	t.Chdir(filepath.Dir(admin))
	w.addPod(t, "fxccm-system", "fxccm-fleet-1", podOf(t, "../fleet/workload.yaml"),
		kubelet.Start(t, p.port), corev1.PodRunning)
	p.eventually("the status has the lines of the page", func() (string, bool) {
		_, stdout, stderr := runSubcommand(current...)
		return stdout + stderr, command.Missing(stdout) == ""
	})
	current = append(current, fmt.Sprintf("--server=https://127.0.0.1:%d", p.port),
		"--insecure-skip-tls-verify")
	code, stdout, stderr := runSubcommand(append(current, "--output=json", "--sort=cluster")...)
	var got fleetStatus
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitClean ||
		len(got.Replicas) != 1 || got.Replicas[0].Identity != "fxccm-fleet-1" ||
		len(got.Clusters) != 2 || got.Clusters[0].Name != "shop" {
		t.Errorf("the JSON: exit code %d, %v: %s%s", code, err, stdout, stderr)
	}

	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != exitClean {
		t.Errorf("the replica's exit code is %d", code)
	}
	leases, err := w.client.CoordinationV1().Leases("fxccm-system").List(t.Context(),
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Items {
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
			t.Errorf("the Lease %s is still held by %s", lease.Name, *holder)
		}
	}
	if code, stdout, _ := runSubcommand(current...); code != exitFailed ||
		!strings.Contains(stdout, "connection refused") {
		t.Errorf("the status without a replica: exit code %d: %s", code, stdout)
	}
}

func TestFleetStatus_SeveralReplicas_ShowsEachClusterOnceWorstFirst(t *testing.T) {
	of := func(identity string, clusters ...fleet.ClusterStatus) replica[fleet.Status] {
		return replica[fleet.Status]{Name: "pod-" + identity, Status: fleet.Status{
			Identity: identity, Clusters: clusters,
			Replicas: []fleet.ReplicaStatus{{Identity: "a", Weight: 1}, {Identity: "b", Weight: 2}},
		}}
	}
	in := func(name string, state status.State, leader, reason string) fleet.ClusterStatus {
		return fleet.ClusterStatus{Name: name, State: state, Leader: leader, Reason: reason}
	}
	answers := []replica[fleet.Status]{
		of("a", in("free", fleet.StateWaiting, "", ""), in("led-by-a", status.Leading, "a", ""),
			in("led-by-b", fleet.StateWaiting, "b", ""),
			in("led-by-c", fleet.StateWaiting, "c", ""),
			in("unread", fleet.StateFailed, "", "no Secret\x1b[2J")),
		of("b", in("free", status.Standby, "", ""), in("led-by-a", fleet.StateWaiting, "a", ""),
			in("led-by-b", status.Degraded, "b", "no cloud"),
			in("led-by-c", fleet.StateWaiting, "c", ""),
			in("unread", fleet.StateFailed, "", "no Secret\x1b[2J")),
		{Name: "pod-c", Error: "the pod is Pending"},
	}
	const want = `REPLICA IDENTITY WEIGHT LEADS PROBLEM
pod-a a 1 0
pod-b b 2 0
pod-c - - - the pod is Pending

Clusters: 5: 1 failed, 1 degraded, 1 standby, 1 leading, 1 unknown

CLUSTER STATE READY LEADER REASON
led-by-c unknown false c
unread failed false - no Secret [2J
led-by-b degraded false b no cloud
free standby false -
led-by-a leading false a
`
	got, err := mergeFleet(answers, "state").tables(time.Time{}).Text(cli.Screen{})
	if squeezed(got) != want || err != nil {
		t.Errorf("got %v\n%swant\n%s", err, got, want)
	}
	for by, want := range map[string]string{
		"cluster": "free led-by-a led-by-b led-by-c unread",
		"leader":  "free unread led-by-a led-by-b led-by-c",
		"reason":  "unread led-by-b free led-by-a led-by-c",
	} {
		var names []string
		for _, c := range mergeFleet(answers, by).Clusters {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("sorted by %s: %s, want %s", by, got, want)
		}
	}
}

func TestFleetStatus_Of1000ClustersInAllStates_CountsAllAndSortsByState(t *testing.T) {
	const clusters = 1000
	states := fleet.States()
	current := fleet.Status{Identity: "a"}
	for i := range clusters {
		c := fleet.ClusterStatus{
			Name: fmt.Sprintf("cluster-%04d", i), State: states[i%len(states)], Leader: "a",
		}
		if c.State == fleet.StateFailed {
			c.Leader, c.Reason = "", fmt.Sprintf("no kubeconfig %d", i)
		}
		current.Clusters = append(current.Clusters, c)
	}
	answers := []replica[fleet.Status]{{Name: "pod-a", Status: current}}
	listed := func(state status.State) (names []string) {
		t.Helper()
		text, err := mergeFleet(answers, "state").in(state).tables(time.Time{}).Text(cli.Screen{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "Clusters: 1000: 167 failed, 167 degraded, 167 draining") {
			t.Errorf("with the state %q the clusters are not counted:\n%.300s", state, text)
		}
		if most := 80 * clusters; len(text) > most {
			t.Errorf("the tables have %d bytes, want %d at most", len(text), most)
		}
		return regexp.MustCompile(`cluster-\d{4}`).FindAllString(text, -1)
	}
	var sorted []string
	for _, state := range states {
		for _, c := range current.Clusters {
			if c.State == state {
				sorted = append(sorted, c.Name)
			}
		}
	}
	if got := listed(""); !slices.Equal(got, sorted) {
		t.Errorf("%d clusters are listed, not sorted by state and name: %q", len(got), got)
	}
	if got := listed(fleet.StateFailed); !slices.Equal(got, sorted[:167]) {
		t.Errorf("%d clusters are listed as failed: %q", len(got), got)
	}
}

func TestFleet_BadInput_IsAnError(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	config := "--kubeconfig=" + writeFile(t, "kubeconfig", "{}")
	failures := []string{
		"--cloud-provider= is unknown: want fake, openstack", "--cloud-provider=aws is unknown",
		"--kubeconfig", "fxccm fleet status: read KUBECONFIG=",
		"--leader-elect-lease-duration (leaderElection.leaseDurat",
	}
	for want, args := range map[string][]string{
		"--cloud-provider= is unknown: want fake, openstack":        {},
		"--cloud-provider=aws is unknown":                           {"--cloud-provider=aws"},
		"--kubeconfig":                                              {"--cloud-provider=fake", config},
		"--clusters=x is not supported":                             {"--clusters=x"},
		"--clusters=secrets needs --clusters-namespace":             {"--clusters=secrets"},
		"--clusters=directory needs --clusters-directory":           {"--clusters=directory"},
		"--clusters-directory needs --clusters=directory":           {"--clusters-directory=/x"},
		"--cluster-name has no effect in a fleet":                   {"--cluster-name=x"},
		"--leader-elect-resource-name has no effect in a fleet":     {"--leader-elect-resource-name=x"},
		"--cloud-list-max-age must not be 0":                        {"--cloud-list-max-age=0"},
		"--lock=x is not supported: want management, workload":      {"--lock=x"},
		"--leader-elect-identity has no effect in a fleet":          {"--leader-elect-identity=x"},
		"--clean-up-load-balancers needs --clusters=clusterapi":     {"--clean-up-load-balancers", "--lock=workload"},
		"--require-owner-mark needs --clusters=clusterapi":          {"--require-owner-mark", "--clusters=secrets", "--clusters-namespace=x"},
		"--clusters-namespace and --clusters-selector have no":      {"--clusters=directory", "--clusters-directory=/x", "--clusters-selector=a=b"},
		"--clusters-trusted accepts all that --clusters-allow-prox": {"--clusters-trusted", "--clusters-allow-proxy"},
		"invalid string being converted to CIDR":                    {"--clusters-refuse-ranges=x"},
		"--state=lost is not supported: want failed, degraded":      {"status", config, "--state=lost"},
		"--sort=age is not supported: want state, cluster":          {"status", config, "--sort=age"},
		"fxccm fleet status: read KUBECONFIG=":                      {"status"},
		"fxccm fleet: unknown flag: --clusters-everywhere":          {"--clusters-everywhere"},
		"--leader-elect-lease-duration (leaderElection.leaseDurat":  {"--leader-elect-renew-deadline=1h"},
	} {
		got := execute(t, append([]string{"fleet"}, args...)...)
		code := cli.ExitUsage
		if slices.Contains(failures, want) {
			code = exitFailed
		}
		if got.code != code || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: exit code %d, %q", args, got.code, got.stderr)
		}
	}
}

// The file would be one of the replica.
func TestFleet_CloudConfNamesAFile_ClusterIsRefused(t *testing.T) {
	file := writeFile(t, "ca.pem", "")
	open := openStackOf(openstack.SharedConfig{}, false)
	const global = "[Global]\nauth-url = https://keystone.example:5000\nusername = u\n" +
		"password = p\ndomain-name = d\ntenant-name = t\n"
	if _, err := open(&fleet.Cluster{CloudConfig: []byte(global)}); err != nil {
		t.Errorf("without a file: %v", err)
	}
	_, err := open(&fleet.Cluster{CloudConfig: []byte(global + "ca-file = " + file + "\n")})
	if err == nil || !strings.Contains(err.Error(), "ca-file") {
		t.Errorf("with a file: %v, want an error that names ca-file", err)
	}
}

// A command refuses the state of the other kind of process, and names the command that prints it.
func TestStatus_OfTheOtherKindOfProcess_IsAnError(t *testing.T) {
	const (
		ofFleet = `{"identity":"a","replicas":null,"clusters":[]}`
		ofCCM   = `{"state":"leading","provider":"openstack"}`
	)
	for _, test := range []struct {
		wantFleet bool
		raw, want string
	}{
		{true, ofFleet, ""},
		{true, ofCCM, "not a fleet, but the CCM of one cluster; see fxccm status"},
		{false, ofCCM, ""},
		{false, ofFleet, "a fleet, not the CCM of one cluster; see fxccm fleet status"},
		{false, "{}", "not fxccm: its /statusz has no status"},
		{true, `{"kind":"PodList","items":[]}`, "not fxccm: its /statusz has no status"},
	} {
		answers := []replica[fleet.Status]{{Name: "a", Raw: json.RawMessage(test.raw)}}
		refuseOthers(answers, test.wantFleet)
		if got := answers[0].Error; got != test.want {
			t.Errorf("%s: the error is %q, want %q", test.raw, got, test.want)
		}
	}
}
