package controlplane_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
)

func client(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

func TestStart_WhenReady_APIServerDoesWhatAClusterNeeds(t *testing.T) {
	t.Parallel()
	cp := shared
	admin := client(t, cp.RESTConfig())
	ctx := t.Context()

	t.Run("Services of both families get addresses", func(t *testing.T) {
		policy := corev1.IPFamilyPolicyRequireDualStack
		svc, err := admin.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{
				Type:           corev1.ServiceTypeLoadBalancer,
				IPFamilyPolicy: &policy,
				Ports:          []corev1.ServicePort{{Port: 80}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(svc.Spec.ClusterIPs) != 2 {
			t.Errorf("a dual-stack Service has cluster IPs %v, want two", svc.Spec.ClusterIPs)
		}
	})

	t.Run("a new Node keeps its taints", func(t *testing.T) {
		taint := corev1.Taint{
			Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true",
			Effect: corev1.TaintEffectNoSchedule,
		}
		node, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{taint}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0] != taint {
			t.Errorf("the Node was created with taint %v and has %v", taint, node.Spec.Taints)
		}
	})

	t.Run("tokens of ServiceAccounts are issued and accepted", func(t *testing.T) {
		if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := rest.AnonymousClientConfig(cp.RESTConfig())
		cfg.BearerToken = token.Status.Token
		if got, want := whoAmI(t, cfg).Username,
			controlplane.ServiceAccountUser("default", "robot"); got != want {
			t.Errorf("the token's bearer is %q, want %q", got, want)
		}
	})

	t.Run("a server that delegates authentication finds the authorities", func(t *testing.T) {
		cm, err := admin.CoreV1().ConfigMaps("kube-system").Get(ctx,
			"extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{
			"client-ca-file", "requestheader-client-ca-file",
			"requestheader-allowed-names",
		} {
			if cm.Data[key] == "" {
				t.Errorf("the ConfigMap has no %s", key)
			}
		}
	})

	t.Run("a client can use a kubeconfig file", func(t *testing.T) {
		cfg, err := cp.UserConfig("jane", "developers")
		if err != nil {
			t.Fatal(err)
		}
		if got := whoAmI(t, throughKubeconfig(t, cfg)).Username; got != "jane" {
			t.Errorf("the kubeconfig's user is %q, want jane", got)
		}
	})
}

func whoAmI(t *testing.T, cfg *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	review, err := client(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo
}

func TestFaults_OfOneControlPlane_LeaveOthersAlone(t *testing.T) {
	t.Parallel()
	cp := controlplane.ForTest(t)
	t.Run("BesideAnotherControlPlane_IsAnotherCluster",
		func(t *testing.T) { testTwoClusters(t, cp, shared) })
	t.Run("StopAndStartAPIServer_SameDataAtTheSamePlace",
		func(t *testing.T) { testStopAndStartAPIServer(t, cp) })
	t.Run("KilledAPIServer_StartsAgain", func(t *testing.T) { testKilledAPIServer(t, cp) })
}

func testTwoClusters(t *testing.T, one, two *controlplane.ControlPlane) {
	t.Helper()
	if _, err := client(t, one.RESTConfig()).CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-in-one"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client(t, two.RESTConfig()).CoreV1().Namespaces().Get(t.Context(), "only-in-one",
		metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the second cluster answers %v for a namespace of the first, want not found", err)
	}
}

func testStopAndStartAPIServer(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	admin := client(t, cp.RESTConfig())
	pid := cp.APIServerPID()
	if _, err := admin.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	if err := cp.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(pid) || cp.APIServerPID() != 0 {
		t.Errorf("kube-apiserver %d still runs, or APIServerPID() is %d, want 0", pid,
			cp.APIServerPID())
	}
	if _, err := net.Dial("tcp", hostOf(t, cp)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling the stopped server: %v, want refused", err)
	}
	if err := cp.StopAPIServer(t.Context()); err != nil {
		t.Errorf("stopping a stopped server: %v", err)
	}

	if err := cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
		t.Errorf("the Node that was created before the stop: %v", err)
	}
}

func testKilledAPIServer(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	killed := cp.APIServerPID()
	p, err := os.FindProcess(killed)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "kube-apiserver is gone", func() bool { return cp.APIServerPID() == 0 })
	if err := cp.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pid := cp.APIServerPID(); pid == killed || !alive(pid) {
		t.Errorf("after the start the server's pid is %d (%d was killed)", pid, killed)
	}
}

func TestStart_WhenTheServerRefusesItsFlags_ShowsItsLogAndLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := controlplane.Start(t.Context(),
		controlplane.Options{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver ended by itself") ||
		!strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("Start: %v, want an error that names the unknown flag", err)
	}
	expectEmpty(t, tmp)
}

func TestStart_Timeout_ErrorNamesTheProcessAndNothingIsLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err := controlplane.Start(t.Context(),
		controlplane.Options{StartTimeout: 700 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "was not ready in time") {
		t.Errorf("Start: %v, want an error that a process was not ready in time", err)
	}
	expectEmpty(t, tmp)
}

func TestStart_TimeoutOfTheEnvironment_IsHonored(t *testing.T) {
	for value, want := range map[string]string{
		"700ms": "was not ready in time",
		"soon":  `KUBEBUILDER_CONTROLPLANE_START_TIMEOUT is "soon": want a positive duration`,
		"-1s":   "want a positive duration, such as 90s",
	} {
		t.Run(value, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			t.Setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", value)
			_, err := controlplane.Start(t.Context(), controlplane.Options{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Start: %v, want %q", err, want)
			}
			expectEmpty(t, tmp)
		})
	}
}

func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func hostOf(t *testing.T, cp *controlplane.ControlPlane) string {
	t.Helper()
	u, err := url.Parse(cp.RESTConfig().Host)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
