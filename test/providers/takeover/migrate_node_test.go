//go:build linux

package takeover_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/internal/program"
	"github.com/fxccm/fxccm/test/internal/suite"
	"github.com/fxccm/fxccm/test/kubelet"
)

// machine plays kube-controller-manager, scheduler and kubelet of a cluster with one node. A Pod of
// OCCM runs a process that holds the lease; a Pod of fxccm runs the program with exactly the
// arguments, the mounted files and the ServiceAccount of the Pod.
type machine struct {
	t       *testing.T
	cluster *suite.Suite
	ns      string
	kind    string
	// served is the cluster that OCCM serves, with the lease. holder is OCCM's identity.
	served *suite.Suite
	holder string

	mu sync.Mutex
	// onStart is called before fxccm's process starts.
	onStart func()
	// node is that of new Pods; none by default.
	node string

	stopOCCM func()
	process  *program.Process
}

const (
	occmName  = "openstack-cloud-controller-manager"
	fxccmName = "fxccm"
	goodImage = "registry.example.com/fxccm:v1"
)

// addNode creates a node for the Pods. Its kubelet forwards ports, and it serves no load balancer.
func (m *machine) addNode(name string) {
	m.t.Helper()
	node := ccmtest.CreateNode(m.t, m.cluster.Admin, ccmtest.ReadyNode(name,
		ccmtest.NodeLabel(corev1.LabelNodeExcludeBalancers, "")))
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(kubelet.Start(m.t, 0))
	if _, err := m.cluster.Admin.CoreV1().Nodes().UpdateStatus(m.t.Context(), node,
		metav1.UpdateOptions{}); err != nil {
		m.t.Fatal(err)
	}
	m.set(func() { m.node = name })
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// run simulates the cluster until the test ends.
func (m *machine) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var playing sync.WaitGroup
	playing.Go(func() {
		for ctx.Err() == nil {
			m.mu.Lock()
			err := errors.Join(m.playOCCM(ctx), m.playFxccm(ctx))
			m.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				m.t.Logf("the machine: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	m.t.Cleanup(func() {
		cancel()
		playing.Wait()
		if m.stopOCCM != nil {
			m.stopOCCM()
		}
		if m.process != nil {
			_ = m.process.Kill()
		}
	})
}

// hostIP is the address of the node, which is this machine: the commands reach what it reaches.
const hostIP = "127.0.0.1"

// ensure creates the Pod if it is wanted, and deletes it after stop if it is not.
func (m *machine) ensure(ctx context.Context, wanted bool, name string,
	template corev1.PodTemplateSpec, stop func() error,
) (*corev1.Pod, error) {
	pods := m.cluster.Admin.CoreV1().Pods(m.ns)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil && !wanted:
		if err := stop(); err != nil {
			return nil, err
		}
		return nil, pods.Delete(ctx, name, *metav1.NewDeleteOptions(0))
	case apierrors.IsNotFound(err) && wanted:
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: template.Labels,
		}, Spec: template.Spec}
		pod.Spec.NodeName = m.node
		if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		pod.Status.HostIP = hostIP
		return pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	case apierrors.IsNotFound(err):
		return nil, nil
	}
	return pod, err
}

func (m *machine) playOCCM(ctx context.Context) error {
	var template corev1.PodTemplateSpec
	var wanted bool
	if m.kind == "DaemonSet" {
		sets := m.cluster.Admin.AppsV1().DaemonSets(m.ns)
		d, err := sets.Get(ctx, occmName, metav1.GetOptions{})
		if err != nil {
			return client404(err)
		}
		// The only node has the label of a control plane, and no other.
		template, wanted = d.Spec.Template, true
		for key := range template.Spec.NodeSelector {
			wanted = wanted && key == "node-role.kubernetes.io/control-plane"
		}
		count := int32(0)
		if wanted {
			count = 1
		}
		if d.Status.DesiredNumberScheduled != count {
			d.Status.DesiredNumberScheduled = count
			if _, err := sets.UpdateStatus(ctx, d, metav1.UpdateOptions{}); err != nil {
				return client404(err)
			}
		}
	} else {
		d, err := m.cluster.Admin.AppsV1().Deployments(m.ns).Get(ctx, occmName,
			metav1.GetOptions{})
		if err != nil {
			return client404(err)
		}
		template, wanted = d.Spec.Template, *d.Spec.Replicas > 0
	}
	pod, err := m.ensure(ctx, wanted, "occm-1", template, func() error {
		if m.stopOCCM != nil {
			m.stopOCCM()
			m.stopOCCM = nil
		}
		return nil
	})
	if pod != nil && m.stopOCCM == nil {
		m.stopOCCM = m.lead(template)
	}
	if pod == nil && err == nil && m.stopOCCM != nil {
		m.stopOCCM()
		m.stopOCCM = nil
	}
	return err
}

func client404(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// leaseNamespace is that of the lease: that of the Pods, unless they run in another cluster.
func (m *machine) leaseNamespace() string {
	if m.served != m.cluster {
		return metav1.NamespaceSystem
	}
	return m.ns
}

// lead simulates OCCM: it holds the lease, and does not release it at its end.
func (m *machine) lead(template corev1.PodTemplateSpec) (stop func()) {
	namespace := metav1.NamespaceSystem
	for _, arg := range template.Spec.Containers[0].Args {
		if value, is := strings.CutPrefix(arg, "--leader-elect-resource-namespace="); is {
			namespace = value
		}
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
			Client:     m.served.Admin.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: m.holder},
		},
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second,
		RetryPeriod: 300 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		m.t.Error(err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var leading sync.WaitGroup
	leading.Go(func() {
		for ctx.Err() == nil {
			elector.Run(ctx)
		}
	})
	return func() { cancel(); leading.Wait() }
}

func (m *machine) playFxccm(ctx context.Context) error {
	d, err := m.cluster.Admin.AppsV1().Deployments(m.ns).Get(ctx, fxccmName,
		metav1.GetOptions{})
	if err != nil {
		return client404(err)
	}
	pod, err := m.ensure(ctx, *d.Spec.Replicas > 0, "fxccm-1", d.Spec.Template, func() error {
		if m.process == nil {
			return nil
		}
		m.process.Stop()
		select {
		case <-m.process.Exited:
			m.process = nil
			return nil
		case <-time.After(ccmtest.WaitLimit):
			return errors.New("fxccm does not end")
		}
	})
	if pod == nil || err != nil {
		return err
	}
	container := pod.Spec.Containers[0]
	if m.process == nil {
		if m.onStart != nil {
			m.onStart()
		}
		return m.start(ctx, pod)
	}
	ready := corev1.ConditionFalse
	if probe(container.ReadinessProbe.HTTPGet, container.Ports) == nil {
		ready = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		HostIP:     hostIP,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
	}
	_, err = m.cluster.Admin.CoreV1().Pods(m.ns).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return client404(err)
}

// probe sends a probe like the kubelet.
func probe(get *corev1.HTTPGetAction, ports []corev1.ContainerPort) error {
	if get.Host == "" {
		return errors.New("fxccm listens on the loopback only")
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	resp, err := client.Get(fmt.Sprintf("https://%s:%d%s", get.Host, ports[0].ContainerPort,
		get.Path))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

// start mounts the Secrets and runs the program.
func (m *machine) start(ctx context.Context, pod *corev1.Pod) error {
	container := pod.Spec.Containers[0]
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != mount.Name || volume.Secret == nil {
				continue
			}
			secret, err := m.cluster.Admin.CoreV1().Secrets(m.ns).Get(ctx,
				volume.Secret.SecretName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for key, content := range secret.Data {
				if err := os.WriteFile(filepath.Join(mount.MountPath, key), content,
					0o600); err != nil {
					return err
				}
			}
		}
	}
	var args []string
	if !slices.ContainsFunc(container.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "--kubeconfig=")
	}) {
		kubeconfig, err := m.accountKubeconfig(ctx, m.cluster, m.ns, pod.Spec.ServiceAccountName)
		if err != nil {
			return err
		}
		args = append(args, "--kubeconfig="+kubeconfig)
	}
	for _, arg := range container.Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAME)", pod.Name))
	}
	var err error
	log := filepath.Join(m.t.TempDir(), "fxccm.log")
	m.process, err = program.Start(shared.Binary, log, args...)
	m.t.Cleanup(func() {
		if text, err := os.ReadFile(log); m.t.Failed() {
			m.t.Logf("the log of fxccm (%v):\n%s", err, program.Tail(string(text), 30))
		}
	})
	return err
}

// accountKubeconfig writes a kubeconfig of a ServiceAccount.
func (m *machine) accountKubeconfig(
	ctx context.Context, cluster *suite.Suite, namespace, name string,
) (path string, err error) {
	token, err := cluster.Admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	account := rest.AnonymousClientConfig(cluster.RESTConfig())
	account.BearerToken = token.Status.Token
	path = filepath.Join(m.t.TempDir(), "kubeconfig")
	return path, controlplane.WriteKubeconfig(path, account)
}

// spec is that of OCCM's workload.
func (m *machine) spec() any {
	m.t.Helper()
	if m.kind == "DaemonSet" {
		d, err := m.cluster.Admin.AppsV1().DaemonSets(m.ns).Get(m.t.Context(), occmName,
			metav1.GetOptions{})
		if err != nil {
			m.t.Fatal(err)
		}
		return []any{d.Spec, d.Annotations["fxccm.dev/migrate-restore"]}
	}
	d, err := m.cluster.Admin.AppsV1().Deployments(m.ns).Get(m.t.Context(), occmName,
		metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	return []any{d.Spec, d.Annotations["fxccm.dev/migrate-restore"]}
}

// install creates OCCM's Secret, its role and its workload.
func (m *machine) install(conf string, template corev1.PodTemplateSpec) {
	m.t.Helper()
	ctx, opts := m.t.Context(), metav1.CreateOptions{}
	must := func(err error) {
		m.t.Helper()
		if err != nil {
			m.t.Fatal(err)
		}
	}
	_, err := m.cluster.Admin.CoreV1().Secrets(m.ns).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-config"},
		Data:       map[string][]byte{"cloud.conf": []byte(conf)},
	}, opts)
	must(err)
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	meta := metav1.ObjectMeta{Name: occmName, Labels: template.Labels}
	if m.kind == "DaemonSet" {
		_, err = m.cluster.Admin.AppsV1().DaemonSets(m.ns).Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}, opts)
	} else {
		one := int32(1)
		meta.Annotations = map[string]string{"meta.helm.sh/release-name": "occm"}
		_, err = m.cluster.Admin.AppsV1().Deployments(m.ns).Create(ctx, &appsv1.Deployment{
			ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{
				Replicas: &one, Selector: selector, Template: template,
			},
		}, opts)
	}
	must(err)
	m.t.Cleanup(m.uninstall)
}

// uninstall deletes what install and fxccm migrate have created.
func (m *machine) uninstall() {
	ctx, cancel := context.WithTimeout(context.Background(), ccmtest.WaitLimit)
	defer cancel()
	gone, now := metav1.DeleteOptions{}, *metav1.NewDeleteOptions(0)
	apps, core, rbac := m.cluster.Admin.AppsV1(), m.cluster.Admin.CoreV1(), m.served.Admin.RbacV1()
	for _, err := range []error{
		apps.DaemonSets(m.ns).DeleteCollection(ctx, gone, metav1.ListOptions{}),
		apps.Deployments(m.ns).DeleteCollection(ctx, gone, metav1.ListOptions{}),
		core.Pods(m.ns).DeleteCollection(ctx, now, metav1.ListOptions{}),
		core.Secrets(m.ns).Delete(ctx, "cloud-config", gone),
		core.ServiceAccounts(m.ns).Delete(ctx, fxccmName, gone),
		rbac.ClusterRoles().Delete(ctx, fxccmName, gone),
		rbac.ClusterRoleBindings().Delete(ctx, fxccmName, gone),
		m.served.Admin.CoordinationV1().Leases(m.leaseNamespace()).Delete(ctx, leaseName, gone),
	} {
		if client404(err) != nil {
			m.t.Error(err)
		}
	}
}
