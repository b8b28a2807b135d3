package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/child"
)

const (
	// exitLimit is for a process that hangs.
	exitLimit = time.Minute

	identity = "host-under-test"
)

// world is a control plane, a cloud in this process, and the program as a process with the shipped
// RBAC rules.
type world struct {
	t      *testing.T
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	cloud  *fake.Cloud
	// records receives the requests to the cloud's DNS.
	records conformance.Gate

	url     string
	process *child.Process
}

func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	w := &world{t: t, cp: controlplane.ForTest(t), cloud: fake.New()}
	w.client = kubernetes.NewForConfigOrDie(w.cp.RESTConfig())
	ccmtest.ApplyRBAC(t, w.client, "../../deploy/base/rbac.yaml")
	ccmtest.ApplyRBAC(t, w.client, "rbac.yaml")
	account, err := w.cp.ServiceAccountConfig(metav1.NamespaceSystem, "control-plane")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, account); err != nil {
		t.Fatal(err)
	}
	cloud := httptest.NewServer(w.cloud.Handler())
	t.Cleanup(func() {
		w.cloud.ClearFaults()
		cloud.CloseClientConnections()
		cloud.Close()
	})
	records := httptest.NewServer(w.records.Handler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil))
	t.Cleanup(func() {
		records.CloseClientConnections()
		records.Close()
	})
	cloudConfig := filepath.Join(t.TempDir(), "cloud.yaml")
	if err := os.WriteFile(cloudConfig, fmt.Appendf(nil, "endpoint: %s\nrecords: %s\n", cloud.URL,
		records.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.ForTest(t)))
	w.url = "http://" + address
	w.process = child.Start(t, binary, append([]string{
		"--kubeconfig=" + kubeconfig, "--listen=" + address, "--leader-elect-identity=" + identity,
		"--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s",
		"--leader-elect-retry-period=500ms",
		"--ccm-cloud-config=" + cloudConfig, "--ccm-cluster-cidr=10.200.0.0/16",
		"--ccm-route-reconciliation-period=500ms", "--ccm-node-monitor-period=500ms",
	}, args...)...)
	return w
}

// terminate sends SIGTERM and returns the exit code.
func (w *world) terminate() int {
	w.t.Helper()
	w.process.Signal(syscall.SIGTERM)
	return w.process.Wait()
}

// lives fails the test if the process has ended.
func (w *world) lives() {
	w.t.Helper()
	select {
	case <-w.process.Exited:
		w.t.Fatalf("the program has ended with code %d", w.process.ExitCode())
	default:
	}
}

func (w *world) get(ctx context.Context, path string) (string, error) {
	select {
	case <-w.process.Exited:
		return "", fmt.Errorf("the program has ended with code %d", w.process.ExitCode())
	default:
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", path, resp.StatusCode, body)
	}
	return strings.TrimSpace(string(body)), err
}

// awaitState waits until /ccm/statusz shows a state and a term; a term that leads must be ready.
func (w *world) awaitState(state status.State, term uint64) {
	w.t.Helper()
	ccmtest.Eventually(w.t, fmt.Sprintf("/ccm/statusz shows %q in term %d", state, term),
		func(ctx context.Context) (string, error) {
			body, err := w.get(ctx, "/ccm/statusz")
			if err != nil {
				return "", err
			}
			var current status.Manager
			if err := json.Unmarshal([]byte(body), &current); err != nil {
				return "", err
			}
			if current.State != state || current.Term != term ||
				current.Ready != (state == status.Leading) {
				return "", fmt.Errorf("it shows %s", body)
			}
			return body, nil
		})
}

// awaitPage waits until a page of the host has the content.
func (w *world) awaitPage(path, want string) {
	w.t.Helper()
	ccmtest.Eventually(w.t, fmt.Sprintf("%s is %q", path, want),
		func(ctx context.Context) (string, error) {
			got, err := w.get(ctx, path)
			if err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return got, err
		})
}

// awaitCensus waits until the host's controller beside the four has counted want nodes in the zone
// region-1a.
func (w *world) awaitCensus(want string) {
	w.t.Helper()
	ccmtest.Eventually(w.t, "the ConfigMap node-census counts "+want,
		func(ctx context.Context) (string, error) {
			census, err := w.client.CoreV1().ConfigMaps(censusNamespace).Get(ctx, censusName,
				metav1.GetOptions{})
			if err == nil && census.Data["region-1a"] != want {
				err = fmt.Errorf("it has %v", census.Data)
			}
			return "", err
		})
}

func (w *world) createNamespace(name string) {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.client.CoreV1().Namespaces().Create(w.t.Context(), namespace,
		metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) podSecurityOf(ctx context.Context, name string) (string, error) {
	namespace, err := w.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return namespace.Labels[podSecurity], nil
}

// awaitReconciled waits until the reconciler has labeled a namespace.
func (w *world) awaitReconciled(name string) {
	w.t.Helper()
	ccmtest.Eventually(w.t, "the reconciler has labeled namespace "+name,
		func(ctx context.Context) (string, error) {
			level, err := w.podSecurityOf(ctx, name)
			if err == nil && level != podSecurityLevel {
				err = fmt.Errorf("its label is %q", level)
			}
			return level, err
		})
}

// works makes the reconciler, the four and the controller beside them act, and waits for each
// effect. count is the number of nodes then.
func (w *world) works(name string, pods string, count int) {
	w.t.Helper()
	w.addNode(name, pods)
	w.createNamespace(name)
	ccmtest.CreateService(w.t, w.client, ccmtest.LoadBalancerService(name))
	w.worked(name, pods, count)
}

func (w *world) addNode(name, pods string) {
	w.t.Helper()
	if err := w.cloud.AddInstances(fake.Instance{Name: name, Zone: "region-1a"}); err != nil {
		w.t.Fatal(err)
	}
	ccmtest.CreateNode(w.t, w.client, ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(pods)))
}

func (w *world) worked(name, pods string, count int) {
	w.t.Helper()
	ccmtest.Eventually(w.t, "the node is initialized", ccmtest.Initialized(w.client, name))
	ccmtest.Eventually(w.t, "the Service has an address",
		ccmtest.ServiceAddress(w.client, metav1.NamespaceDefault, name))
	ccmtest.Eventually(w.t, "the route exists", ccmtest.Routed(w.cloud, name, pods))
	w.awaitCensus(fmt.Sprint(count))
	w.awaitReconciled(name)
}

func (w *world) holder(ctx context.Context) (string, error) {
	lease, err := w.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, leaseName,
		metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

// writeHolder writes a name into the lease, like another process that takes it; "" releases it,
// with the proof of that process. Without the proof the elector would wait for the expiry.
func (w *world) writeHolder(name string) {
	w.t.Helper()
	leases := w.client.CoordinationV1().Leases(leaseNamespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(w.t.Context(), leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &name, &metav1.MicroTime{Time: time.Now()}
		lease.Spec.LeaseDurationSeconds = ptr.To(int32(3600)) // the host waits for twice its own
		token := "another"
		digest := sha256.Sum256([]byte(token))
		lease.Annotations = map[string]string{
			"fxccm.dev/release-digest": hex.EncodeToString(digest[:]),
		}
		if name == "" {
			lease.Spec.AcquireTime, lease.Spec.LeaseDurationSeconds = lease.Spec.RenewTime,
				ptr.To(int32(1))
			lease.Annotations = map[string]string{"fxccm.dev/release-token": token}
		}
		_, err = leases.Update(w.t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		w.t.Fatalf("write %q into the lease: %v", name, err)
	}
}

// nothingDenied checks in the audit log that rbac.yaml was enough.
func (w *world) nothingDenied() {
	w.t.Helper()
	user := controlplane.ByUser(
		controlplane.ServiceAccountUser(metav1.NamespaceSystem, "control-plane"))
	denied, err := w.cp.Audit().All(user, controlplane.Denied())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(denied) > 0 {
		w.t.Errorf("%d requests were denied, such as %s", len(denied), denied[0])
	}
}

func TestLeaseTaken_ProcessStandsByAndLeadsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.awaitState(status.Leading, 1)
	w.works("first", "10.200.1.0/24", 1)

	w.writeHolder("another-process")
	w.awaitState(status.Standby, 1)
	w.cloud.ResetCalls()

	// The host sees the new node, because its own informers continue.
	w.addNode("second", "10.200.2.0/24")
	w.createNamespace("second")
	ccmtest.CreateService(w.t, w.client, ccmtest.LoadBalancerService("second"))
	w.awaitPage("/nodes", "2")
	w.awaitPage("/healthz", "ok")
	w.writeHolder("another-process") // it renews, however busy the machine is
	// It is three times the period of the four controllers.
	watching, stopWatching := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer stopWatching()
	if call, err := w.cloud.WaitForCall(watching); err == nil {
		t.Errorf("in standby the cloud was called: %+v", call)
	}
	if level, err := w.podSecurityOf(t.Context(), "second"); err != nil || level != "" {
		t.Errorf("in standby the reconciler has set the label %q (%v)", level, err)
	}
	w.lives()
	w.awaitState(status.Standby, 1)

	w.writeHolder("")
	w.awaitState(status.Leading, 2)
	w.worked("second", "10.200.2.0/24", 2)
	for _, call := range w.cloud.Calls() {
		if !strings.HasSuffix(call.Caller, "/term-2") {
			t.Errorf("a call of another term than the second: %+v", call)
		}
	}
	w.works("third", "10.200.3.0/24", 3)
	w.lives()

	if code := w.terminate(); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d, want 0", code)
	}
	if holder, err := w.holder(t.Context()); err != nil || holder != "" {
		t.Errorf("after the end the lease is held by %q (%v), want no holder", holder, err)
	}
	w.nothingDenied()
}

// awaitRecord waits until the cloud's DNS has received a request that matches.
func (w *world) awaitRecord(what string, is func(conformance.Request) bool) {
	w.t.Helper()
	ccmtest.Eventually(w.t, what, func(context.Context) (string, error) {
		requests := w.records.Requests()
		if !slices.ContainsFunc(requests, is) {
			return "", fmt.Errorf("the DNS got %v", requests)
		}
		return "", nil
	})
}

// The reconciler itself writes to the cloud, as in a cloud controller manager without a
// cloudprovider.Interface.
func TestLeaseTaken_ReconcilerIsWritingToTheCloud_NextTermWritesAgain(t *testing.T) {
	t.Parallel()
	const writing = "PUT /default/web"
	w := newWorld(t)
	w.awaitState(status.Leading, 1)
	release := w.records.Hold(writing)
	defer release()
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("web"))
	w.awaitRecord("the reconciler writes the record", func(r conformance.Request) bool {
		return r.Operation == writing && r.Ended.IsZero()
	})

	w.writeHolder("another-process")
	w.awaitState(status.Standby, 1)
	w.awaitRecord("the request was canceled", func(r conformance.Request) bool {
		return r.Operation == writing && !r.Ended.IsZero()
	})
	release()
	before := len(w.records.Requests())
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("other"))
	led := time.Now()
	w.writeHolder("")
	w.awaitState(status.Leading, 2)
	for _, name := range []string{"web", "other"} {
		w.awaitRecord("the second term writes the record of "+name,
			func(r conformance.Request) bool {
				return r.Operation == "PUT /default/"+name && r.Began.After(led) &&
					!r.Ended.IsZero()
			})
	}
	for _, r := range w.records.Requests()[before:] {
		if r.Began.Before(led) {
			t.Errorf("in standby the DNS got %v", r)
		}
	}
	w.lives()
	w.nothingDenied()
}

// Controller-runtime itself detects that it could not renew. It returns without waiting for its
// reconcilers, and cannot be started again.
func TestAPIServerGone_ProcessLeadsAgainWhenItIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.awaitState(status.Leading, 1)
	w.works("first", "10.200.1.0/24", 1)
	if err := w.cp.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	ccmtest.Eventually(t, "controller-runtime has given up", func(context.Context) (string, error) {
		if !strings.Contains(w.process.Output.String(), `reason="leader election lost"`) {
			return "", fmt.Errorf("the log lacks it")
		}
		return "", nil
	})
	w.lives()
	if err := w.cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.awaitState(status.Leading, 2)
	w.works("second", "10.200.2.0/24", 2)
	w.lives()
	if code := w.terminate(); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d, want 0", code)
	}
}

// The cloud controller manager stops before the manager of controller-runtime, which still renews
// the lease then: a stop is not a loss.
func TestSIGTERM_CallInFlight_Finishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.awaitState(status.Leading, 1)
	w.cloud.On("EnsureLoadBalancer").Delay(2 * time.Second)
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("slow"))
	ensures := fake.CallFilter{Method: "EnsureLoadBalancer"}.Matches
	ccmtest.Eventually(t, "EnsureLoadBalancer is in flight", ccmtest.Called(w.cloud, ensures))

	if code := w.terminate(); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d, want 0", code)
	}
	for _, call := range w.cloud.Calls(ensures) {
		if !call.Finished || call.Err != "" {
			t.Errorf("the call in flight did not finish: %+v", call)
		}
	}
	if holder, err := w.holder(t.Context()); err != nil || holder != "" {
		t.Errorf("after the end the lease is held by %q (%v), want no holder", holder, err)
	}
}

func TestMetrics_OfBoth_AreServedWithoutConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.awaitState(status.Leading, 1)
	w.createNamespace("first")
	w.awaitReconciled("first")
	for path, want := range map[string][]string{
		"/metrics": {
			"controller_runtime_reconcile_total", "fxccm_leading",
			"workqueue_adds_total", `leader_election_master_status{name="control-plane"} 1`,
		},
		"/ccm/metrics": {"running_managed_controllers", "go_goroutines"},
	} {
		page, err := w.get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			if !strings.Contains(page, name) {
				t.Errorf("%s does not have %s:\n%s", path, name, page)
			}
		}
		seen := map[string]bool{}
		for line := range strings.Lines(page) {
			series, _, _ := strings.Cut(line, " ")
			if !strings.HasPrefix(line, "#") && seen[series] {
				t.Errorf("%s has the series %s twice", path, series)
			}
			seen[series] = true
		}
	}
}

func TestBadInput_IsOneSentenceAndExitCode1(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--kubeconfig=/does/not/exist":             "--kubeconfig: stat /does/not/exist",
		"--ccm-cloud-config=/does/not/exist":       "--ccm-cloud-config: open /does/not/exist",
		"--ccm-controllers=dns":                    "dns",
		"--cluster-cidr=10.0.0.0/8":                "unknown flag: --cluster-cidr",
		"--leader-elect=false --ccm-kubeconfig=me": "--ccm-kubeconfig has no effect",
	} {
		kubeconfig, cloudConfig := filepath.Join(t.TempDir(), "kubeconfig"),
			filepath.Join(t.TempDir(), "cloud.yaml")
		if err := errors.Join(
			controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: "http://127.0.0.1:1"}),
			os.WriteFile(cloudConfig, []byte("endpoint: http://127.0.0.1:1\n"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		all := append([]string{"--kubeconfig=" + kubeconfig, "--ccm-cloud-config=" + cloudConfig},
			strings.Fields(args)...)
		ctx, cancel := context.WithTimeout(t.Context(), exitLimit)
		out, err := exec.CommandContext(ctx, binary, all...).CombinedOutput()
		cancel()
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
			strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, want exit code 1 and one line with %q, got:\n%s", args, err,
				want, out)
		}
	}
}
