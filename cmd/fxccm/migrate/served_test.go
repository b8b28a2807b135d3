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
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
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
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(int32(15)),
		},
	}
}

// renewLease has each read of a lease return a newer one.
func renewLease(c *Cluster) {
	client, version := c.Interface.(*fake.Clientset), 1
	client.PrependReactor("get", "leases", func(a clienttesting.Action) (bool, runtime.Object,
		error,
	) {
		object, err := client.Tracker().Get(a.GetResource(), a.GetNamespace(),
			a.(clienttesting.GetAction).GetName())
		if lease, is := object.(*coordinationv1.Lease); is {
			version++
			lease.ResourceVersion = strconv.Itoa(version)
		}
		return true, object, err
	})
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

// The rollback of fxccm for another cluster needs the lease and OCCM's workload only.
func TestRollback_FxccmOfAHostedControlPlaneIsBroken_OCCMRunsAgainUnlessAnotherLeads(t *testing.T) {
	kubeconfig := kubeconfigOf(t, clientcmdapi.AuthInfo{
		Token: tokenOf("system:serviceaccount:kube-system:ccm"),
	})
	copied := writeFile(t, t.TempDir(), "kubeconfig", kubeconfig)
	mounted := all(withSecret("/etc/kube", "kubeconfig"),
		addArgs("--kubeconfig=/etc/kube/kubeconfig"))
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		// holder is the last holder of the lease; "": the lease does not exist.
		holder string
		args   []string
		// isLive: the holder renews the lease, so the named cluster is another one.
		isLive bool
	}{
		"its Pod was replaced":  {mounted, "fxccm-1", nil, false},
		"it has never led":      {mounted, "ccm-1_x", nil, false},
		"the lease was deleted": {mounted, "", nil, false},
		"another cluster":       {mounted, "their-ccm_x", nil, true},
		"kubeconfig of an agent": {
			addArgs("--kubeconfig=/vault/kubeconfig"), "fxccm-2",
			[]string{"--file=/vault/kubeconfig=" + copied},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				template := occmPod(c.change)
				template.Spec.NodeSelector = map[string]string{stopSelector: "true"}
				set := daemonSet("ccm", template)
				set.Annotations = map[string]string{restoreAnnotation: "{}"}
				set.Spec.Selector = &metav1.LabelSelector{
					MatchLabels: map[string]string{"k8s-app": occmName},
				}
				m := &migration{
					Cluster: clusterOf("c1", set,
						secretOf("kubeconfig", map[string]string{"kubeconfig": kubeconfig}),
						secretOf("cloud-config", map[string]string{"cloud.conf": conf}),
						&appsv1.Deployment{
							ObjectMeta: metav1.ObjectMeta{
								Namespace: "kube-system", Name: fxccmName,
								Annotations: map[string]string{
									fromAnnotation: "DaemonSet kube-system/ccm",
								},
							},
							Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(1))},
						}, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
							Namespace: "kube-system", Name: "fxccm-2",
							Labels: fxccmSelector().MatchLabels,
						}}),
					program: newProgram(), line: newLine(t, append(c.args, "--yes")...),
					out: io.Discard,
				}
				m.workload = clusterOf("c2")
				if c.holder != "" {
					m.workload = clusterOf("c2", leaseOf(c.holder))
				}
				code := 0
				if c.isLive {
					code = ExitBlocked
					renewLease(m.workload)
				}
				client := m.Interface.(*fake.Clientset)
				client.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool,
					runtime.Object, error,
				) {
					return false, nil, client.Tracker().Delete(
						v1.SchemeGroupVersion.WithResource("pods"), "kube-system", "fxccm-2")
				})
				if err := m.runRollback(t.Context()); codeOf(err) != code {
					t.Fatalf("exit code %d, want %d: %v", codeOf(err), code, err)
				}
				after, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "ccm",
					metav1.GetOptions{})
				if err != nil || ofDaemonSet(after).isStopped() != c.isLive {
					t.Errorf("OCCM is %+v, %v, want stopped: %t", after, err, c.isLive)
				}
			})
		})
	}
}
