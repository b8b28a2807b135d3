package migrate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// kubeconfigOf is a kubeconfig of a user of another cluster.
func kubeconfigOf(t *testing.T, user clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["u"] = &user
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tokenOf is an unsigned token of a ServiceAccount.
func tokenOf(subject string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub":%q}`, subject)) +
		".s3cret"
}

func certificateOf(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// clusterOf is a cluster with a UID.
func clusterOf(uid types.UID, objects ...runtime.Object) *Cluster {
	return &Cluster{&cli.Cluster{
		Interface: fake.NewClientset(append(objects, &v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid},
		})...),
		Source: "the kubeconfig of " + string(uid),
	}}
}

func leaseOf(holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(holder)},
	}
}

// occmPodIn is the Pod of a Deployment or DaemonSet of OCCM.
func occmPodIn(namespace, name string, template v1.PodTemplateSpec) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{{
				Kind: daemonSetKind, Name: "ccm", Controller: ptr.To(true),
			}},
		},
		Spec: template.Spec,
	}
}

func TestChooseServed_OfEachLogin_IsTheNamedClusterOrBlocks(t *testing.T) {
	const file = "/etc/kube/kubeconfig"
	user := func(u clientcmdapi.AuthInfo) map[string]string {
		return map[string]string{
			"kubeconfig": kubeconfigOf(t, u), "token": tokenOf("system:serviceaccount:a:ccm"),
		}
	}
	withKubeconfig := func(s *v1.PodSpec) {
		addVolume(s, "/etc/kube", ofSecret("kubeconfig"))
		addArgs("--kubeconfig=" + file)(s)
	}
	token := user(clientcmdapi.AuthInfo{Token: tokenOf("system:serviceaccount:kube-system:ccm")})
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		secret map[string]string
		// uid is that of the cluster of --workload-kubeconfig; "": the flag is not given.
		uid    types.UID
		holder string
		// blocks is what blocks; "": nothing, and then subject gets the rights.
		blocks, subject string
	}{
		"not named": {withKubeconfig, token, "", "ccm-1_x", "--workload-kubeconfig", ""},
		"token":     {withKubeconfig, token, "c2", "ccm-1_x", "", "kube-system/ccm"},
		"same":      {withKubeconfig, token, "c1", "", "", "kube-system/ccm"},
		"certificate": {
			withKubeconfig,
			user(clientcmdapi.AuthInfo{ClientCertificateData: certificateOf(t, "system:ccm")}),
			"c2", "ccm-1_x", "", "/system:ccm",
		},
		"token file": {
			withKubeconfig, user(clientcmdapi.AuthInfo{TokenFile: "token"}), "c2", "ccm-1_x", "",
			"a/ccm",
		},
		"token file elsewhere": {
			withKubeconfig, user(clientcmdapi.AuthInfo{TokenFile: "/etc/pki/token"}), "c2",
			"ccm-1_x", "--file=/etc/pki/token=FILE", "",
		},
		"program": {
			withKubeconfig, user(clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
				Command: "login", APIVersion: "client.authentication.k8s.io/v1",
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}}), "c2", "ccm-1_x", "neither a client certificate nor a token", "",
		},
		"opaque token": {
			withKubeconfig, user(clientcmdapi.AuthInfo{Token: "s3cret"}), "c2", "ccm-1_x",
			"its token does not belong to a ServiceAccount", "",
		},
		"no kubeconfig": {
			withKubeconfig,
			map[string]string{"kubeconfig": "s3cret: ["},
			"c2", "ccm-1_x",
			"is not a kubeconfig", "",
		},
		"kubeconfig of the node": {
			addArgs("--kubeconfig=/etc/pki/kubeconfig"), token, "c2", "ccm-1_x",
			"--file=/etc/pki/kubeconfig=FILE", "",
		},
		"kubeconfig of an agent": {
			addArgs("--kubeconfig=/vault/kubeconfig"), token, "c2", "ccm-1_x",
			"--copy-metadata", "",
		},
		"other holder":         {withKubeconfig, token, "c2", "their-ccm_x", "their-ccm_x, which is not a Pod", ""},
		"no lease":             {withKubeconfig, token, "c2", "", "OCCM's Pods run, and it does not exist", ""},
		"node's holder":        {withKubeconfig, token, "c2", "node-1.example.com_x", "", "kube-system/ccm"},
		"not needed":           {nil, token, "c2", "ccm-1_x", "serves the cluster of --kubeconfig", ""},
		"not needed, the same": {nil, token, "c1", "", "", ""},
		"token of the volume": {
			func(s *v1.PodSpec) {
				addVolume(s, accountDir, ofSecret("kubeconfig"))
				addEnv(v1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "api.c2"})(s)
			}, token, "c2", "ccm-1_x", "", "a/ccm",
		},
		"no login": {
			addEnv(v1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "api.c2"}), token, "c2",
			"ccm-1_x", "has no rights in another one", "",
		},
		"another address of the cluster": {
			addEnv(v1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "127.0.0.1"}), token, "c1",
			"", "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := occmPod(c.change)
			template.Labels = map[string]string{"k8s-app": occmName}
			template.Spec.HostNetwork = true
			set := daemonSet("ccm", template)
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: template.Labels}
			objects := []runtime.Object{
				set, secretOf("kubeconfig", c.secret),
				secretOf("cloud-config", map[string]string{"cloud.conf": conf}),
			}
			if c.uid != "c1" {
				pod := occmPodIn("kube-system", "ccm-1", template)
				pod.Spec.NodeName = "node-1"
				objects = append(objects, pod)
			}
			m := &migration{
				Cluster: clusterOf("c1", objects...), program: newProgram(), line: newLine(t),
				out: io.Discard,
			}
			if c.uid != "" {
				m.workload = clusterOf(c.uid)
				if c.holder != "" {
					m.workload = clusterOf(c.uid, leaseOf(c.holder))
				}
			}
			if err := m.check(t.Context(), t.TempDir()); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := m.report().WriteTable(&text); err != nil {
				t.Fatal(err)
			}
			subject := ""
			if m.subject != nil && !m.isBlocked() {
				subject = m.subject.Namespace + "/" + m.subject.Name
			}
			switch {
			case c.blocks == "" && m.isBlocked():
				t.Errorf("it blocks:\n%s", &text)
			case c.blocks != "" && !slices.ContainsFunc(m.findings, func(f Finding) bool {
				return f.Level == Blocks && strings.Contains(f.Subject+" "+f.Text, c.blocks)
			}):
				t.Errorf("no finding blocks with %q:\n%s", c.blocks, &text)
			case subject != c.subject:
				t.Errorf("%q gets the rights, want %q:\n%s", subject, c.subject, &text)
			case c.blocks == "" && m.world.UID != string(c.uid):
				t.Errorf("check reads the cluster %s, want %s", m.world.UID, c.uid)
			case strings.Contains(text.String(), "s3cret"):
				t.Errorf("it shows a secret:\n%s", &text)
			}
		})
	}
}
