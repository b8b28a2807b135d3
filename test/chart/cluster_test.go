package chart

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/rbac"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/child"
	"github.com/fxccm/fxccm/test/internal/project"
)

const (
	namespace = metav1.NamespaceSystem
	name      = "cloud-controller-manager"
)

// helm is a Helm client for the API server.
func helm(t *testing.T, cp *controlplane.ControlPlane) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = ptr.To(kubeconfig(t, cp.RESTConfig()))
	flags.Namespace = ptr.To(namespace)
	cfg := action.NewConfiguration()
	if err := cfg.Init(flags, namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func kubeconfig(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path, cfg); err != nil {
		t.Fatal(err)
	}
	return path
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func install(t *testing.T, cfg *action.Configuration, text string) {
	t.Helper()
	if err := tryInstall(t, cfg, text); err != nil {
		t.Fatal(err)
	}
}

func tryInstall(t *testing.T, cfg *action.Configuration, text string) error {
	t.Helper()
	installation := action.NewInstall(cfg)
	installation.ReleaseName, installation.Namespace = "ccm", namespace
	installation.ServerSideApply = true
	installation.WaitStrategy = kube.HookOnlyStrategy
	_, err := installation.RunWithContext(t.Context(), load(t), values(t, text))
	return err
}

func TestChart_InstalledUpgradedAndRolledBack_TheAPIServerHasWhatItRenders(t *testing.T) {
	cp := controlplane.ForTest(t)
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	cfg := helm(t, cp)
	install(t, cfg, "")
	workload := func() *appsv1.Deployment {
		t.Helper()
		d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if got := *workload().Spec.Replicas; got != 2 {
		t.Errorf("%d replicas, want the default 2", got)
	}

	upgrade := action.NewUpgrade(cfg)
	upgrade.Namespace, upgrade.WaitStrategy = namespace, kube.HookOnlyStrategy
	upgrade.ServerSideApply = "true"
	if _, err := upgrade.RunWithContext(t.Context(), "ccm", load(t),
		values(t, "{replicas: 3, clusterName: other}")); err != nil {
		t.Fatal(err)
	}
	upgraded := workload()
	if args := upgraded.Spec.Template.Spec.Containers[0].Args; *upgraded.Spec.Replicas != 3 ||
		!strings.Contains(fmt.Sprint(args), "--cluster-name=other ") {
		t.Errorf("after the upgrade: %d replicas, %q", *upgraded.Spec.Replicas, args)
	}

	rollback := action.NewRollback(cfg)
	rollback.Version, rollback.WaitStrategy = 1, kube.HookOnlyStrategy
	rollback.ServerSideApply = "true"
	if err := rollback.Run("ccm"); err != nil {
		t.Fatal(err)
	}
	back := workload()
	if args := back.Spec.Template.Spec.Containers[0].Args; *back.Spec.Replicas != 2 ||
		!strings.Contains(fmt.Sprint(args), "--cluster-name=kubernetes ") {
		t.Errorf("after the rollback: %d replicas, %q", *back.Spec.Replicas, args)
	}

	uninstall := action.NewUninstall(cfg)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run("ccm"); err != nil {
		t.Fatal(err)
	}
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=fxccm"})
	if err != nil || len(roles.Items) != 0 {
		t.Errorf("after the removal there are %d cluster roles, %v", len(roles.Items), err)
	}
}

// OCCM's manifests have a ServiceAccount with the chart's default name.
func TestChart_BesideOCCM_NeedsAnotherName(t *testing.T) {
	cp := controlplane.ForTest(t)
	accounts := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().ServiceAccounts(namespace)
	before, err := accounts.Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := helm(t, cp)
	if err := tryInstall(t, cfg, ""); err == nil || !strings.Contains(err.Error(),
		`ServiceAccount "cloud-controller-manager" in namespace "kube-system" exists`) {
		t.Errorf("Helm replaces OCCM's ServiceAccount: %v", err)
	}
	install(t, cfg, "fullnameOverride: fxccm-chart")
	after, err := accounts.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("OCCM's ServiceAccount is changed: %v, %v", after, err)
	}
}

// Each set of values renders objects that the API server accepts, and a Pod that it accepts.
func TestChart_WithOtherValues_IsAcceptedByTheAPIServer(t *testing.T) {
	cp := controlplane.ForTest(t)
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	installOperatorCRDs(t, cp)
	for what, text := range map[string]string{
		"daemon set": "{kind: DaemonSet, hostCertificates: /etc/ssl/certs}",
		"routes":     "{routes: {enabled: true}, clusterCIDR: 10.244.0.0/16}",
		"one":        "{replicas: 1, leaderElection: {enabled: false}}",
		"fleet":      fleetValues(t),
		"secrets": `{fleet: {enabled: true, clusters: secrets, clustersNamespace: default},
			metrics: {service: {enabled: true}}}`,
		"all": `{fullnameOverride: fxccm, imagePullSecrets: [{name: pull}], nodeSelector: {a: b},
			image: {digest: "sha256:` + strings.Repeat("ab", 32) + `"}, persistentVolumeLabel: {enabled: true},
			podLabels: {team: x}, podAnnotations: {note: written}, tolerations: [{operator: Exists}],
			env: [{name: A, value: b}], extraArgs: [--drain-timeout=20s],
			extraVolumes: [{name: v, emptyDir: {}}], extraVolumeMounts: [{name: v, mountPath: /v}],
			serviceAccount: {name: mine, annotations: {k: v}}, metrics: {
			service: {enabled: true, annotations: {k: v}}, serviceMonitor: {enabled: true, labels: {release: p}},
			prometheusRule: {enabled: true, labels: {release: p}},
			dashboard: {enabled: true, labels: {team: x}}, reader: {namespace: monitoring, name: prometheus}}}`,
	} {
		t.Run(what, func(t *testing.T) {
			checkFields(t, cp, text)
			cfg := helm(t, cp)
			install(t, cfg, text)
			defer func() {
				uninstall := action.NewUninstall(cfg)
				uninstall.WaitStrategy = kube.HookOnlyStrategy
				if _, err := uninstall.Run("ccm"); err != nil {
					t.Error(err)
				}
			}()
			template := podTemplate(t, text)
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.GenerateName = "pod-"
			if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Error(err)
			}
		})
	}
}

func podTemplate(t *testing.T, text string) corev1.PodTemplateSpec {
	t.Helper()
	manifests, err := render(t, "Helm", text)
	if err != nil {
		t.Fatal(err)
	}
	var workload appsv1.Deployment // a DaemonSet has its template in the same place
	if err := yaml.Unmarshal([]byte(manifests["workload.yaml"]), &workload); err != nil {
		t.Fatal(err)
	}
	return workload.Spec.Template
}

// A process with the rendered arguments, the mounted Secret and the ServiceAccount serves a
// cluster. The audit log shows that the rendered rules are exactly those that it needs.
func TestProgram_WithTheRenderedManifests_ServesTheCluster(t *testing.T) {
	cp := controlplane.ForTest(t)
	admin := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	cloud := project.New(t,
		project.OnSimulator(openstacktest.WithProvisioning(50*time.Millisecond)))
	port, mount := freeport.ForTest(t), t.TempDir()
	text := fmt.Sprintf(`{securePort: %d, cloudConfig: {mountPath: %q}, clusterCIDR: 10.244.0.0/16,
		routes: {enabled: true}, leaderElection: {resourceName: previous, resourceNamespace: default},
		routes: {enabled: true}, metrics: {reader: {namespace: default, name: reader}},
		extraArgs: [--bind-address=127.0.0.1, --node-monitor-period=200ms]}`,
		port, mount)
	install(t, helm(t, cp), text)
	conf := cloud.Credentials().CloudConf("password") +
		"\n[Route]\nrouter-id = " + cloud.Router + "\n[LoadBalancer]\nfloating-network-id = " +
		cloud.Public + "\nsubnet-id = " + cloud.Subnets[4] + "\n"
	if err := os.WriteFile(filepath.Join(mount, "cloud.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program := start(t, podTemplate(t, text).Spec.Containers[0].Args, serviceAccount(t, cp, name),
		port)

	servers := cloud.AddServers([]string{"node-1", "node-2"})
	for _, server := range servers {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: server.Name},
			Spec: corev1.NodeSpec{
				PodCIDR: "10.244." + server.Name[5:] + ".0/24",
				Taints: []corev1.Taint{{
					Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true",
					Effect: corev1.TaintEffectNoSchedule,
				}},
			},
		}
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), node,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.CoreV1().Nodes().Patch(t.Context(), node.Name,
			types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
			metav1.PatchOptions{},
			"status"); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Until(t, "nodes are initialized and have routes", func(ctx context.Context) error {
		nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			routed := false
			for _, condition := range node.Status.Conditions {
				routed = routed || condition.Type == corev1.NodeNetworkUnavailable &&
					condition.Status == corev1.ConditionFalse
			}
			if node.Spec.ProviderID == "" || len(node.Status.Addresses) == 0 || !routed {
				return fmt.Errorf("%s: provider ID %q, addresses %v, conditions %v", node.Name,
					node.Spec.ProviderID, node.Status.Addresses, node.Status.Conditions)
			}
		}
		return nil
	})
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	services := admin.CoreV1().Services("default")
	if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the Service has an address", func(ctx context.Context) error {
		got, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && len(got.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("no address: %v", got.Status)
		}
		return err
	})
	if err := services.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the Service is gone", func(ctx context.Context) error {
		if got, err := services.Get(ctx, "web", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("it exists: %v", got.Finalizers)
		}
		return nil
	})
	cloud.Act(servers[0].ID, "os-stop")
	waittest.Until(t, "the stopped server's node is tainted", func(ctx context.Context) error {
		node, err := admin.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(node.Spec.Taints), "shutdown") {
			err = fmt.Errorf("taints %v", node.Spec.Taints)
		}
		return err
	})
	metrics(t, admin, port)
	stop(t, program)

	// A node is deleted only after minutes of confirmed absence; package tests show it. Only the
	// node-ipam-controller gets nodes, and only load balancers that forward to pods need
	// EndpointSlices.
	compareRules(t, cp, text, name, "delete nodes", "get nodes",
		"list endpointslices.discovery.k8s.io", "watch endpointslices.discovery.k8s.io")
}

func TestProgram_WithTheArgumentsOfTheDaemonSet_Leads(t *testing.T) {
	cp := controlplane.ForTest(t)
	admin := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	cloud := project.New(t, project.OnSimulator())
	port, mount := freeport.ForTest(t), t.TempDir()
	text := fmt.Sprintf(`{kind: DaemonSet, securePort: %d, cloudConfig: {mountPath: %q},
		hostCertificates: /etc/ssl/certs, extraArgs: [--bind-address=127.0.0.1]}`, port, mount)
	install(t, helm(t, cp), text)
	conf := cloud.Credentials().CloudConf("password")
	if err := os.WriteFile(filepath.Join(mount, "cloud.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	daemonSet, err := admin.AppsV1().DaemonSets(namespace).Get(t.Context(), name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, daemonSet.Spec.Template.Spec.Containers[0].Args, serviceAccount(t, cp, name), port)
	waittest.Until(t, "the program leads", func(ctx context.Context) error {
		lease, err := admin.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			err = fmt.Errorf("the Lease has no holder: %v", lease.Spec)
		}
		return err
	})
}

// compareRules compares the rendered rules with the requests of the account, except permissions
// that the test does not need.
func compareRules(t *testing.T, cp *controlplane.ControlPlane, text, account string,
	unneeded ...string,
) {
	t.Helper()
	user := "system:serviceaccount:" + namespace + ":" + account
	records, err := cp.Audit().All(controlplane.ByUser(user))
	if err != nil {
		t.Fatal(err)
	}
	report := rbac.Compare(permissions(t, text, user), records, user)
	report.Unused = slices.DeleteFunc(report.Unused,
		func(p rbac.Permission) bool { return slices.Contains(unneeded, p.String()) })
	if !report.OK() {
		t.Errorf("the chart's rules differ from those that the program needs:\n%s", report)
	}
}

// serviceAccount is a kubeconfig with the identity of the Pods.
func serviceAccount(t *testing.T, cp *controlplane.ControlPlane, name string) string {
	t.Helper()
	cfg, err := cp.ServiceAccountConfig(namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig(t, cfg)
}

// permissions are the permissions of the rendered rules.
func permissions(t *testing.T, text, user string) []rbac.Permission {
	t.Helper()
	return permissionsIn(t, namespace, text, user)
}

func permissionsIn(t *testing.T, release, text, user string) []rbac.Permission {
	t.Helper()
	manifests, err := renderInto(t, release, "Helm", text)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rbac.yaml")
	if err := os.WriteFile(file, []byte(manifests["rbac.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := rbac.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := rules.Permissions(user)
	if err != nil {
		t.Fatal(err)
	}
	return granted
}

// start runs the program until it is ready.
func start(t *testing.T, args []string, kubeconfig string, port int) *child.Process {
	t.Helper()
	program := filepath.Join(t.TempDir(), "fxccm")
	build := exec.Command("go", "build", "-o", program, "./cmd/fxccm")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	p := child.Start(t, program, append(args, "--kubeconfig="+kubeconfig)...)
	waittest.Until(t, "the program is ready", func(ctx context.Context) error {
		return fetch(ctx, "", port, "/readyz")
	})
	return p
}

func stop(t *testing.T, p *child.Process) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("the program ended with exit code %d", code)
	}
}

// metrics reads the metrics as the account with the right to read them, and as another one.
func metrics(t *testing.T, admin kubernetes.Interface, port int) {
	t.Helper()
	for name, want := range map[string]string{"reader": "", "other": "403"} {
		accounts := admin.CoreV1().ServiceAccounts("default")
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := accounts.CreateToken(t.Context(), name,
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		err = fetch(t.Context(), token.Status.Token, port, "/metrics")
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the ServiceAccount %s: %v, want %q", name, err, want)
		}
	}
}

func fetch(ctx context.Context, token string, port int, path string) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"https://127.0.0.1:"+strconv.Itoa(port)+path, nil)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}
