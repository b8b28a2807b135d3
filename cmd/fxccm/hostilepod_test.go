package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/kubelet"
)

// hostilePod has the labels of a replica. It records what its callers send, and redirects them.
type hostilePod struct {
	mu           sync.Mutex
	requests     int
	tokens       []string
	certificates int
	redirected   int
}

func (h *hostilePod) start(t *testing.T) (port int) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return port
}

func (h *hostilePod) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path == "/redirected" {
		h.redirected++
		return
	}
	h.requests++
	h.tokens = append(h.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	h.certificates += len(r.TLS.PeerCertificates)
	http.Redirect(w, r, "/redirected", http.StatusTemporaryRedirect)
}

// strongToken is a kubeconfig of an administrator who authenticates with a bearer token.
func (w *world) strongToken(t *testing.T) string {
	t.Helper()
	if _, err := w.client.RbacV1().ClusterRoleBindings().Create(t.Context(),
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "strong"},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin",
			},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "strong",
			}},
		}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	accounts := w.client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "strong"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), "strong", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(w.cp.RESTConfig())
	config.BearerToken = token.Status.Token
	path := t.TempDir() + "/strong.conf"
	if err := controlplane.WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStatus_HostilePodWithTheLabels_GetsNoCredentialOfTheAPIServer(t *testing.T) {
	w := newWorld(t)
	hostile := &hostilePod{}
	port := kubelet.Start(t, hostile.start(t))
	w.addPod(t, metav1.NamespaceSystem, "ccm-1", podOf(t, "workload.yaml"), port, v1.PodRunning)
	const service = "web"
	if _, err := w.client.CoreV1().Services("default").Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.client.CoreV1().Services("default").Delete(context.Background(), service,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for _, kubeconfig := range []string{w.admin(t), w.strongToken(t)} {
		for _, command := range [][]string{
			{"status"},
			{"describe", "service", service},
			{"fleet", "status", "-n", "kube-system", "-l", "app.kubernetes.io/part-of=fxccm"},
		} {
			before := hostile.requests
			args := append(command, "--kubeconfig="+kubeconfig)
			_, stdout, stderr := runSubcommand(args...)
			if hostile.requests == before {
				t.Errorf("%q did not reach the pod:\n%s%s", args, stdout, stderr)
			}
		}
	}

	hostile.mu.Lock()
	defer hostile.mu.Unlock()
	if hostile.certificates > 0 || hostile.redirected > 0 {
		t.Errorf("the pod received %d client certificates and redirected %d requests, want none",
			hostile.certificates, hostile.redirected)
	}
	for _, token := range hostile.tokens {
		if token == "" {
			continue
		}
		stolen := rest.AnonymousClientConfig(w.cp.RESTConfig())
		stolen.BearerToken = token
		version, err := kubernetes.NewForConfigOrDie(stolen).Discovery().ServerVersion()
		if err == nil {
			t.Errorf("the API server %s accepts the token that the pod received", version)
		}
	}
}
