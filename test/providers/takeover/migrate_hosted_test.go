//go:build linux

package takeover_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/cmd/fxccm/migrate"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// newManagement starts the cluster of a hosted control plane. It is not one of the shared control
// planes: a test that waits for a second one could wait for ever.
func newManagement(t *testing.T) *suite.Suite {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	admin, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &suite.Suite{ControlPlane: plane, Admin: admin}
}

// newHosted makes a cluster whose OCCM runs in another cluster, and reaches it with a kubeconfig of
// a ServiceAccount.
func newHosted(t *testing.T) *migrating {
	t.Helper()
	const namespace, account = "hosted", "occm"
	o := newOCCM(t, "kubernetes")
	on := &machine{
		t: t, cluster: newManagement(t), served: o.cluster, kind: "Deployment", ns: namespace,
		holder: "occm-1_5f0c",
	}
	ctx, opts := t.Context(), metav1.CreateOptions{}
	if _, err := on.cluster.Admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
	}, opts); err != nil {
		t.Fatal(err)
	}
	accounts := o.cluster.Admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: account},
	}, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := accounts.Delete(context.Background(), account, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	file, err := on.accountKubeconfig(ctx, o.cluster, metav1.NamespaceSystem, account)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := on.cluster.Admin.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeconfig"},
		Data:       map[string][]byte{"value": content},
	}, opts); err != nil {
		t.Fatal(err)
	}
	mount := t.TempDir()
	return newMigratingIn(o, on, func(template *corev1.PodTemplateSpec) {
		spec := &template.Spec
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: "kubeconfig", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: "kubeconfig"},
			},
		})
		c := &spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: "kubeconfig", MountPath: mount})
		c.Args = append(c.Args, "--kubeconfig="+filepath.Join(mount, "value"))
	})
}

func TestMigrate_OCCMOfAHostedControlPlane_AndBack(t *testing.T) {
	t.Parallel()
	m := newHosted(t)
	spec := m.spec()
	m.want(migrate.ExitBlocked, []string{"--workload-kubeconfig", "is blocked"}, "check")
	m.want(migrate.ExitBlocked, []string{"nothing was changed"}, "apply", "--yes",
		"--image="+goodImage)

	// The cluster that the Pods run in is not the one that OCCM serves.
	m.flags = []string{"--workload-kubeconfig=" + m.kubeconfig}
	m.want(migrate.ExitBlocked, []string{"does OCCM serve the cluster of --workload-kubeconfig?"},
		"check")

	began := time.Now()
	m.flags = []string{"--workload-kubeconfig=" + m.occm.kubeconfig(m.occm.cluster.RESTConfig())}
	m.want(0, []string{
		"2 tags only", "can start", m.flags[0][len("--workload-kubeconfig="):], m.holder,
		"Secret hosted/kubeconfig", "ServiceAccount occm gets fxccm's rights",
	}, "check")
	m.want(0, []string{"default/web", "2 Services: 2 tags only."}, "plan")
	m.wantNothingWritten(began)
	if now := m.spec(); !reflect.DeepEqual(now, spec) {
		t.Errorf("before apply OCCM is changed to %v", now)
	}

	m.want(0, []string{
		"fxccm runs the cluster", "kubectl -n hosted logs deployment/fxccm",
	}, "apply", "--yes", "--image="+goodImage)
	m.wantOnlyTags()
	m.wantServed("plan")
	m.want(0, []string{"already"}, "apply", "--yes", "--image="+goodImage)
	m.wantNoneOf(began, "nodes", "services", "leases")

	flags := m.flags
	m.flags = nil
	m.want(migrate.ExitBlocked, []string{"name a kubeconfig of the cluster"}, "apply", "--yes",
		"--image="+goodImage)
	m.want(migrate.ExitBlocked, []string{"name a kubeconfig of the cluster"}, "rollback", "--yes")
	m.flags = flags
	m.want(0, []string{"runs again"}, "rollback", "--yes")
	if now := m.spec(); !reflect.DeepEqual(now, spec) {
		t.Errorf("after the rollback OCCM is %v, want %v", now, spec)
	}
	m.awaitOCCM()
	m.wantOnlyTags()
}

// wantNoneOf fails the test if a program of fxccm has asked for such objects of the cluster that
// the Pods run in.
func (m *migrating) wantNoneOf(since time.Time, resources ...string) {
	t := m.machine.t
	t.Helper()
	asked, err := m.machine.cluster.Audit().All(controlplane.ReceivedAfter(since),
		controlplane.ByUserAgent("fxccm"), func(r controlplane.AuditRecord) bool {
			for _, resource := range resources {
				if strings.Contains(r.RequestURI, "/"+resource) &&
					!strings.Contains(r.RequestURI, "/"+resource+"accounts") {
					return true
				}
			}
			return false
		})
	if err != nil || len(asked) > 0 {
		t.Errorf("the cluster of the Pods received %v, %v", asked, err)
	}
}
