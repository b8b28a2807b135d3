package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// shape is how a distribution installs OCCM, reduced to what fxccm migrate reads.
type shape struct {
	kind, namespace, name string
	annotations           map[string]string
	labels                map[string]string
	pod                   v1.PodSpec
	objects               []runtime.Object
	// copies are the local copies that the operator gives, by the paths in the Pods.
	copies map[string]string
	// cloudConfig is the local copy of cloud.conf; "": from the cluster.
	cloudConfig string
	// isHosted: the Pods serve another cluster. isLocal: they name their own cluster.
	isHosted, isLocal bool
	// wants are what blocks without the flags above.
	wants []string
	// blocked is what blocks with all flags; "": nothing.
	blocked string
	// args are arguments of fxccm. reports is a finding.
	args    []string
	reports string
	// subject gets fxccm's rights; "": fxccm's own account.
	subject string
}

const (
	occmBinary = "/bin/" + occmName
	occmImage  = "registry.k8s.io/provider-os/" + occmName + ":v1.36.0"
)

// container returns a Pod of OCCM with the arguments.
func container(command, args []string, changes ...func(*v1.PodSpec)) v1.PodSpec {
	spec := v1.PodSpec{
		ServiceAccountName: "cloud-controller-manager",
		SecurityContext:    &v1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)},
		Containers: []v1.Container{{
			Name: occmName, Image: occmImage, Command: command, Args: args,
		}},
	}
	for _, change := range changes {
		change(&spec)
	}
	return spec
}

func withSecret(at, name string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) { addVolume(s, at, ofSecret(name)) }
}

func withHostPath(at string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		addVolume(s, at, v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: at}})
	}
}

func withEnv(name, value string) func(*v1.PodSpec) {
	return addEnv(v1.EnvVar{Name: name, Value: value})
}

// controlPlane is the label of a node of the control plane.
const controlPlane = "node-role.kubernetes.io/control-plane"

// onControlPlane requires a node of the control plane.
func onControlPlane(s *v1.PodSpec) {
	s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: controlPlane, Operator: v1.NodeSelectorOpExists},
				},
			}},
		},
	}}
}

// shapes have no load balancers, because there is no OpenStack.
func shapes(t *testing.T) map[string]shape {
	t.Helper()
	conf, chartConf := conf+"[LoadBalancer]\nenabled = false\n[Global]\n",
		strings.ReplaceAll(chartConf, "[LoadBalancer]\n", "[LoadBalancer]\nenabled = false\n")
	in := func(namespace string, s *v1.Secret) *v1.Secret { s.Namespace = namespace; return s }
	cloudConfig := func(name, content string) *v1.Secret {
		return secretOf(name, map[string]string{"cloud.conf": content})
	}
	admin := kubeconfigOf(t, clientcmdapi.AuthInfo{
		ClientCertificateData: certificateOf(t, "kubernetes-admin"),
	})
	chart := chartSet().Spec.Template.Spec
	helm := map[string]string{"meta.helm.sh/release-name": "occm"}
	cattle := map[string]string{"objectset.rio.cattle.io/owner-name": "occm"}
	return map[string]shape{
		"manifests of cloud-provider-openstack": {
			kind: daemonSetKind,
			pod: container(nil, []string{
				occmBinary, "--v=1", "--cluster-name=$(CLUSTER_NAME)",
				"--cloud-config=$(CLOUD_CONFIG)", "--cloud-provider=openstack",
				"--use-service-account-credentials=false", "--bind-address=127.0.0.1",
			}, withEnv("CLOUD_CONFIG", "/etc/config/cloud.conf"),
				withEnv("CLUSTER_NAME", "kubernetes"), withHostPath("/etc/kubernetes/pki"),
				withHostPath("/etc/ssl/certs"), withSecret("/etc/config", "cloud-config"),
				withNodeNetwork,
				func(s *v1.PodSpec) { s.NodeSelector = map[string]string{controlPlane: ""} }),
			objects: []runtime.Object{cloudConfig("cloud-config", conf)},
			args:    []string{"--cluster-name=kubernetes", configFlag, "--bind-address=127.0.0.1"},
			reports: "read from Secret kube-system/cloud-config",
		},
		"chart of cloud-provider-openstack": {
			kind: daemonSetKind, annotations: helm, pod: chart,
			objects: []runtime.Object{cloudConfig("cloud-config", chartConf)},
			args: []string{
				configFlag, "--configure-cloud-routes=false",
				"--controllers=cloud-node,cloud-node-lifecycle,route,service",
			},
			reports: "Helm release occm",
		},
		"Kubespray": {
			kind: daemonSetKind,
			pod: container(nil, []string{
				occmBinary, "--v=1", "--cloud-config=$(CLOUD_CONFIG)",
				"--cluster-name=$(CLUSTER_NAME)", "--cloud-provider=openstack",
				"--use-service-account-credentials=true",
			}, withEnv("CLOUD_CONFIG", "/etc/config/cloud.conf"), withEnv("CLUSTER_NAME", "k"),
				withHostPath("/etc/kubernetes/ssl"),
				withSecret("/etc/config", "external-openstack-cloud-config")),
			objects: []runtime.Object{secretOf("external-openstack-cloud-config",
				map[string]string{
					"cloud.conf": conf + "ca-file = /etc/config/ca.crt\n", "ca.crt": "pem",
				})},
			args: []string{configFlag}, reports: "ca-file /etc/config/ca.crt, read from Secret",
		},
		"RKE2": {
			kind: daemonSetKind, annotations: maps.Clone(cattle), pod: chart,
			objects: []runtime.Object{cloudConfig("cloud-config", chartConf)},
			args:    []string{configFlag}, reports: "add-on occm of K3s, RKE2 or Fleet",
		},
		"K3s": {
			kind: deploymentKind, annotations: cattle,
			pod: container([]string{occmBinary}, []string{
				"--cloud-config", "/etc/config/cloud.conf", "--cloud-provider", "openstack",
				"--secure-port", "10268",
			}, withSecret("/etc/config", "openstack")),
			objects: []runtime.Object{cloudConfig("openstack", conf)},
			args:    []string{configFlag, "--secure-port=10268"},
			reports: "Secret kube-system/openstack",
		},
		"k0s": {
			kind: deploymentKind, namespace: "occm", annotations: helm,
			pod: container(nil, []string{occmBinary, "--cloud-config=/etc/config/cloud.conf"},
				func(s *v1.PodSpec) {
					s.Containers[0].EnvFrom = []v1.EnvFromSource{{
						SecretRef: &v1.SecretEnvSource{
							LocalObjectReference: v1.LocalObjectReference{Name: "openstack"},
						},
					}}
				}, withSecret("/etc/config", "openstack")),
			objects: []runtime.Object{in("occm", secretOf("openstack", map[string]string{
				"cloud.conf": conf, "OS_CCM_REGIONAL": "true",
			}))},
			args: []string{configFlag}, reports: "those from ConfigMaps and Secrets",
		},
		"kOps": {
			kind:   daemonSetKind,
			labels: map[string]string{"addonmanager.kubernetes.io/mode": "Reconcile"},
			pod: container(nil, []string{
				occmBinary, "--v=2", "--cloud-config=/etc/kubernetes/cloud.config",
				"--allocate-node-cidrs=true", "--configure-cloud-routes=false",
				"--cluster-cidr=100.96.0.0/11", "--cluster-name=k.example",
			}, withEnv("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
				withHostPath("/etc/kubernetes/cloud.config"), onControlPlane),
			cloudConfig: conf, isLocal: true,
			wants: []string{"--workload-kubeconfig"},
			args:  []string{"--cluster-cidr=100.96.0.0/11"}, reports: "the add-on manager",
		},
		"Magnum": {
			kind: daemonSetKind,
			pod: container(nil, []string{
				occmBinary, "--v=2", "--cloud-config=/etc/kubernetes/cloud-config-occm",
				"--cluster-name=$(CLUSTER_NAME)", "--use-service-account-credentials=true",
				"--bind-address=127.0.0.1",
			}, withEnv("CLUSTER_NAME", "magnum"), withHostPath("/etc/kubernetes"),
				withNodeNetwork),
			cloudConfig: conf + "ca-file = /etc/kubernetes/ca-bundle.crt\n",
			copies:      map[string]string{"/etc/kubernetes/ca-bundle.crt": "pem"},
			wants:       []string{"--cloud-config=FILE"}, reports: "on this machine",
			args: []string{"--cluster-name=magnum", "--bind-address=127.0.0.1"},
		},
		"Gardener": {
			kind: deploymentKind, namespace: "shoot--p--c", name: "cloud-controller-manager",
			pod: container([]string{
				occmBinary, "--allocate-node-cidrs=true", "--cloud-provider=openstack",
				"--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf",
				"--configure-cloud-routes=false", "--cluster-name=shoot--p--c",
				"--kubeconfig=/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig",
				"--leader-elect=true", "--secure-port=10258",
			}, nil, withSecret("/etc/kubernetes/cloudprovider", "cloud-provider-config"),
				func(s *v1.PodSpec) {
					addVolume(s, "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig",
						v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
							Sources: []v1.VolumeProjection{
								{Secret: &v1.SecretProjection{
									LocalObjectReference: v1.LocalObjectReference{Name: "generic"},
								}},
								{Secret: &v1.SecretProjection{
									LocalObjectReference: v1.LocalObjectReference{Name: "access"},
									Items: []v1.KeyToPath{{
										Key:  "token",
										Path: "token",
									}},
								}},
							},
						}})
				}),
			objects: []runtime.Object{
				in("shoot--p--c", secretOf("cloud-provider-config", map[string]string{
					"cloudprovider.conf": conf + "[LoadBalancer]\ncreate-monitor = true\n" +
						"monitor-delay = 20s\nmonitor-timeout = 30s\n",
				})),
				in("shoot--p--c", secretOf("generic", map[string]string{
					"kubeconfig": kubeconfigOf(t, clientcmdapi.AuthInfo{
						TokenFile: "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/token",
					}),
				})),
				in("shoot--p--c", secretOf("access", map[string]string{
					"token": tokenOf("system:serviceaccount:kube-system:cloud-controller-manager"),
				})),
			},
			isHosted: true, wants: []string{"--workload-kubeconfig"},
			subject: "kube-system/cloud-controller-manager", reports: "Secret shoot--p--c/access",
			args: []string{"--cluster-name=shoot--p--c"},
		},
		"Kubermatic": {
			kind: deploymentKind, namespace: "cluster-x",
			pod: container([]string{"/http-prober-bin/http-prober"}, []string{
				"-endpoint", "https://apiserver", "-command",
				`{"command":"` + occmBinary + `","args":["--kubeconfig=/etc/kubeconfig"]}`,
			}, func(s *v1.PodSpec) {
				addVolume(s, "/http-prober-bin",
					v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})
			}),
			isHosted: true, wants: []string{"http-prober starts OCCM"},
			blocked: "http-prober starts OCCM",
		},
		"HyperShift": {
			kind: deploymentKind, namespace: "clusters-x",
			pod: container([]string{"/usr/bin/" + occmName}, []string{
				"--v=1", "--cloud-config=$(CLOUD_CONFIG)", "--cluster-name=$(INFRA)",
				"--cloud-provider=openstack", "--kubeconfig=/etc/kubernetes/kubeconfig/kubeconfig",
				"--leader-elect-resource-namespace=openshift-cloud-controller-manager",
			}, withEnv("CLOUD_CONFIG", "/etc/openstack/config/cloud.conf"), withEnv("INFRA", "x-1"),
				withSecret("/etc/kubernetes/kubeconfig", "kubeconfig"),
				withSecret("/etc/openstack/secrets", "credentials"),
				func(s *v1.PodSpec) {
					s.Containers[0].Image = "example.com/release@sha256:1"
					addVolume(s, "/etc/openstack/config", v1.VolumeSource{
						ConfigMap: &v1.ConfigMapVolumeSource{
							LocalObjectReference: v1.LocalObjectReference{Name: "conf"},
						},
					})
				}),
			objects: []runtime.Object{
				in("clusters-x", secretOf("kubeconfig", map[string]string{"kubeconfig": admin})),
				in("clusters-x", secretOf("credentials", map[string]string{
					"clouds.yaml": cloudsAt("https://keystone.example/v3"),
				})),
				&v1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "clusters-x", Name: "conf"},
					Data: map[string]string{
						"cloud.conf": cloudsConf +
							"clouds-file = /etc/openstack/secrets/clouds.yaml\ncloud = prod\n" +
							"[LoadBalancer]\nenabled = false\n",
					},
				},
			},
			isHosted: true, wants: []string{"--workload-kubeconfig"}, subject: "/kubernetes-admin",
			reports: "clouds.yaml /etc/openstack/secrets/clouds.yaml, read from Secret",
			args:    []string{"--leader-elect-resource-namespace=openshift-cloud-controller-manager"},
		},
		"OpenShift": {
			kind: deploymentKind, namespace: "openshift-cloud-controller-manager",
			pod: container([]string{
				"/bin/bash", "-c", "set -o allexport\nexec /usr/bin/" + occmName +
					" --cloud-config=$(CLOUD_CONFIG) --leader-elect=true",
			}, nil, withEnv("CLOUD_CONFIG", "/etc/config/cloud.conf"),
				withSecret("/etc/config", "cloud-config")),
			objects: []runtime.Object{in("openshift-cloud-controller-manager",
				cloudConfig("cloud-config", conf))},
			wants: []string{"a shell starts OCCM"}, blocked: "a shell starts OCCM",
		},
		"k0smotron": {
			kind: deploymentKind, namespace: "hosted",
			pod: container(nil, []string{
				occmBinary, "--cloud-config=/etc/config/cloud.conf",
				"--kubeconfig=/etc/kube/value", "--bind-address=127.0.0.1",
			}, withSecret("/etc/config", "cloud-config"), withSecret("/etc/kube", "x-kubeconfig")),
			objects: []runtime.Object{
				in("hosted", cloudConfig("cloud-config", conf)),
				in("hosted", secretOf("x-kubeconfig", map[string]string{"value": admin})),
			},
			isHosted: true, wants: []string{"--workload-kubeconfig"}, subject: "/kubernetes-admin",
			reports: "Secret hosted/x-kubeconfig", args: []string{"--kubeconfig=/etc/kube/value"},
		},
		"Cluster API": {
			kind: daemonSetKind,
			pod: container(nil, []string{
				occmBinary, "--cloud-config=$(CLOUD_CONFIG)", "--cluster-name=$(CLUSTER_NAME)",
			}, withEnv("CLOUD_CONFIG", "/etc/config/cloud.conf"), withEnv("CLUSTER_NAME", "capi"),
				withSecret("/etc/config", "cloud-config"), withSecret("/etc/certs",
					"cloud-config")),
			objects: []runtime.Object{secretOf("cloud-config", map[string]string{
				"cloud.conf": conf + "ca-file = /etc/certs/cacert\n", "cacert": "pem",
			})},
			args: []string{configFlag, "--cluster-name=capi"}, reports: "ca-file /etc/certs/cacert",
		},
	}
}

// shapeCluster has the clusters of a shape: that of OCCM's Pods, and the one that OCCM serves if it
// is another one.
type shapeCluster struct{ own, served *Cluster }

// newCluster returns the clusters. A Pod of fxccm leads while its Deployment has replicas.
func (s shape) newCluster(t *testing.T, client *fake.Clientset) shapeCluster {
	t.Helper()
	c := shapeCluster{own: &Cluster{&cli.Cluster{Interface: client, Source: "the kubeconfig"}}}
	c.own.Config = applyServer(t, client)
	leases := client
	if s.isHosted {
		c.served = clusterOf("c2")
		c.served.Config = c.own.Config
		leases = c.served.Interface.(*fake.Clientset)
	}
	namespace := "kube-system"
	for _, arg := range s.pod.Containers[0].Args {
		if value, is := strings.CutPrefix(arg, "--leader-elect-resource-namespace="); is {
			namespace = value
		}
	}
	client.PrependReactor("patch", "deployments", func(a clienttesting.Action) (bool,
		runtime.Object, error,
	) {
		pods := v1.SchemeGroupVersion.WithResource("pods")
		all := coordinationv1.SchemeGroupVersion.WithResource("leases")
		if a.GetSubresource() != "scale" {
			return false, nil, nil
		}
		if strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), ":0}") {
			_ = client.Tracker().Delete(pods, s.namespace, "fxccm-1") // it may not exist
			_ = leases.Tracker().Delete(all, namespace, "cloud-controller-manager")
			return false, nil, nil
		}
		lease := leaseOf("fxccm-1")
		lease.Namespace = namespace
		return false, nil, errors.Join(leases.Tracker().Add(lease), client.Tracker().Add(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.namespace, Name: "fxccm-1", Labels: fxccmSelector().MatchLabels,
			},
			Status: v1.PodStatus{Conditions: []v1.PodCondition{
				{Type: v1.PodReady, Status: v1.ConditionTrue},
			}},
		}))
	})
	return c
}

// applyServer is an API server that accepts each object, and stores a Deployment in the client.
func applyServer(t *testing.T, client *fake.Clientset) *rest.Config {
	t.Helper()
	groups := map[string][]metav1.APIResource{
		"/api/v1":       {{Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true}},
		"/apis/apps/v1": {{Name: "deployments", Kind: "Deployment", Namespaced: true}},
		"/apis/policy/v1": {
			{Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true},
		},
		"/apis/rbac.authorization.k8s.io/v1": {
			{Name: "clusterroles", Kind: "ClusterRole"},
			{Name: "clusterrolebindings", Kind: "ClusterRoleBinding"},
			{Name: "roles", Kind: "Role", Namespaced: true},
			{Name: "rolebindings", Kind: "RoleBinding", Namespaced: true},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(value any) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(value); err != nil {
				t.Error(err)
			}
		}
		switch {
		case r.URL.Path == "/api":
			answer(metav1.APIVersions{Versions: []string{"v1"}})
		case r.URL.Path == "/apis":
			var list metav1.APIGroupList
			for path := range groups {
				version, is := strings.CutPrefix(path, "/apis/")
				if name, _, _ := strings.Cut(version, "/"); is {
					of := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: "v1"}
					list.Groups = append(list.Groups, metav1.APIGroup{
						Name: name, Versions: []metav1.GroupVersionForDiscovery{of},
						PreferredVersion: of,
					})
				}
			}
			answer(list)
		case r.Method == http.MethodGet:
			version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/")
			answer(metav1.APIResourceList{
				GroupVersion: version, APIResources: groups[r.URL.Path],
			})
		default:
			var object map[string]any
			if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
				t.Error(err)
			}
			if object["kind"] == deploymentKind && r.URL.Query().Get("dryRun") == "" {
				var d appsv1.Deployment
				err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &d)
				if err = errors.Join(err, client.Tracker().Add(&d)); err != nil {
					t.Error(err)
				}
			}
			answer(object)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// run returns an administrator's command on the cluster of the shape.
func (s shape) run(t *testing.T, c shapeCluster, withFlags bool) (*migration,
	*strings.Builder,
) {
	t.Helper()
	var out strings.Builder
	m := &migration{
		Cluster: c.own, program: newProgram(), line: newLine(t), in: strings.NewReader(""),
		out: &out,
	}
	m.line.yes, m.line.image = true, "example.com/fxccm:v1"
	if withFlags {
		dir := t.TempDir()
		for path, content := range s.copies {
			m.line.files[path] = writeFile(t, dir, "copy", content)
		}
		if s.cloudConfig != "" {
			m.line.cloudConfig = writeFile(t, dir, "cloud.conf", s.cloudConfig)
		}
		switch {
		case s.isHosted:
			m.workload = c.served
		case s.isLocal:
			m.workload = m.Cluster
		}
	}
	return m, &out
}

func (s shape) podLabels() map[string]string {
	return map[string]string{"k8s-app": occmName, "release": s.name}
}

func (s shape) workload() runtime.Object {
	labels := s.podLabels()
	meta := metav1.ObjectMeta{
		Namespace: s.namespace, Name: s.name, Annotations: s.annotations, Labels: s.labels,
	}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: s.pod}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	if s.kind == daemonSetKind {
		return &appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
		}
	}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(2)), Selector: selector, Template: template,
	}}
}

// The way of each shape: check without and with the operator's flags, plan, the objects and the
// stop of apply, and rollback.
func TestMigrate_EachShape_IsTakenOverAndBackOrBlocked(t *testing.T) {
	for name, s := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			if s.namespace == "" {
				s.namespace = "kube-system"
			}
			if s.name == "" {
				s.name = occmName
			}
			client := fake.NewClientset(append(s.objects, s.workload(), &v1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "c1"},
			})...)
			cluster := s.newCluster(t, client)
			m, out := s.run(t, cluster, false)
			want := 0
			if len(s.wants) > 0 {
				want = ExitBlocked
			}
			if err := m.runCheck(t.Context()); codeOf(err) != want {
				t.Errorf("check: %v, want exit code %d:\n%s", err, want, out)
			}
			for _, want := range s.wants {
				if !strings.Contains(out.String(), want) {
					t.Errorf("check does not print %q:\n%s", want, out)
				}
			}

			m, out = s.run(t, cluster, true)
			want = 0
			if s.blocked != "" {
				want = ExitBlocked
			}
			if err := m.runCheck(t.Context()); codeOf(err) != want ||
				!strings.Contains(out.String(), s.blocked) {
				t.Fatalf("check with all flags: %v, want exit code %d:\n%s", err, want, out)
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			if !strings.Contains(text, s.reports) || strings.Contains(text, "s3cret") {
				t.Errorf("the report lacks %q, or has a secret:\n%s", s.reports, out)
			}
			m, out = s.run(t, cluster, true)
			if err := m.runPlan(t.Context()); codeOf(err) != want {
				t.Errorf("plan: %v, want exit code %d:\n%s", err, want, out)
			}
			before := s.spec(t, client)
			if s.blocked != "" {
				m, out = s.run(t, cluster, true)
				if err := m.runApply(t.Context()); codeOf(err) != ExitBlocked {
					t.Errorf("apply: %v:\n%s", err, out)
				}
			} else {
				s.apply(t, cluster, client)
			}
			m, out = s.run(t, cluster, true)
			if err := m.runRollback(t.Context()); err != nil {
				t.Errorf("rollback: %v:\n%s", err, out)
			}
			if after := s.spec(t, client); !reflect.DeepEqual(after, before) {
				t.Errorf("after rollback OCCM is %+v, want %+v", after, before)
			}
		})
	}
}

// apply runs the command, and compares the objects that it installs.
func (s shape) apply(t *testing.T, cluster shapeCluster, client *fake.Clientset) {
	t.Helper()
	m, _ := s.run(t, cluster, true)
	if err := m.check(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	objects, err := m.objects(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var b struct {
			Subjects []struct{ Namespace, Name string }
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err != nil {
			t.Fatal(err)
		}
		for _, subject := range b.Subjects {
			got, want := subject.Namespace+"/"+subject.Name, s.subject
			if want == "" || strings.HasSuffix(subject.Name, "-status") {
				want = s.namespace + "/" + o.GetName()
				want = strings.TrimSuffix(strings.TrimSuffix(want, "-authentication"), "-routes")
			}
			if got != want {
				t.Errorf("%s %s is for %s, want %s", o.GetKind(), o.GetName(), got, want)
			}
		}
	}
	m, out := s.run(t, cluster, true)
	if err := m.runApply(t.Context()); err != nil {
		t.Fatalf("apply: %v:\n%s", err, out)
	}
	if !strings.Contains(out.String(), "OpenStack was not compared") {
		t.Errorf("apply without load balancers claims a comparison:\n%s", out)
	}
	if s.isHosted {
		m, out := s.run(t, cluster, false)
		err := m.runApply(t.Context())
		if codeOf(err) != ExitBlocked || !strings.Contains(err.Error(), "--workload-kubeconfig") {
			t.Errorf("apply again, without its flags: %v:\n%s", err, out)
		}
	}
	d, err := client.AppsV1().Deployments(s.namespace).Get(t.Context(), fxccmName,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	for _, arg := range s.args {
		if !slices.Contains(c.Args, arg) {
			t.Errorf("fxccm does not get %q: %q", arg, c.Args)
		}
	}
	mounts := slices.Clone(s.pod.Containers[0].VolumeMounts)
	for i := range mounts {
		mounts[i].ReadOnly = true
	}
	if d.Namespace != s.namespace || !reflect.DeepEqual(c.VolumeMounts, mounts) ||
		!reflect.DeepEqual(d.Spec.Template.Spec.Volumes, s.pod.Volumes) {
		t.Errorf("fxccm's Deployment is\n%+v", d)
	}
	var affinity *v1.NodeAffinity
	if s.pod.Affinity != nil {
		affinity = s.pod.Affinity.NodeAffinity
	}
	placed := d.Spec.Template.Spec
	if !maps.Equal(placed.NodeSelector, s.pod.NodeSelector) ||
		!reflect.DeepEqual(placed.Affinity.NodeAffinity, affinity) {
		t.Errorf("fxccm needs the node selector %v and the affinity %v, want OCCM's: %v, %v",
			placed.NodeSelector, placed.Affinity.NodeAffinity, s.pod.NodeSelector, affinity)
	}
	const loopback = "--bind-address=127.0.0.1"
	if host := c.ReadinessProbe.HTTPGet.Host; !placed.HostNetwork &&
		(host != "" || slices.Contains(c.Args, loopback)) {
		t.Errorf("no kubelet reaches fxccm: the probes have the host %q, the arguments are %q",
			host, c.Args)
	}
	if err := m.find(t.Context()); err != nil || !m.occm.isStopped() {
		t.Errorf("OCCM is not stopped: %v", err)
	}
}

// Two hosted control planes have their OCCMs in one namespace, and fxccm replaces the first one.
func TestMigrate_AnotherOCCMOfTheNamespaceIsMigrated_Blocks(t *testing.T) {
	first := shapes(t)["k0smotron"]
	first.name = "occm-a"
	second := first
	second.name, second.pod = "occm-b", *first.pod.DeepCopy()
	second.pod.Volumes[1].VolumeSource = ofSecret("y-kubeconfig")
	client := fake.NewClientset(append(first.objects, first.workload(), second.workload(),
		occmPodIn("hosted", "occm-b-1", v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: second.podLabels()}, Spec: second.pod,
		}), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "c1"}})...)
	cluster := first.newCluster(t, client)
	other := clusterOf("c3", leaseOf("occm-b-1_x"))
	other.Config = cluster.own.Config
	command := func(s shape, served *Cluster) (*migration, *strings.Builder) {
		m, out := s.run(t, shapeCluster{cluster.own, served}, true)
		m.line.occm = s.namespace + "/" + s.name
		return m, out
	}
	m, out := command(first, cluster.served)
	if err := m.runApply(t.Context()); err != nil {
		t.Fatalf("apply of the first: %v:\n%s", err, out)
	}
	deployments := client.AppsV1().Deployments("hosted")
	before, err := deployments.Get(t.Context(), fxccmName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantBlocked := func(object string) {
		t.Helper()
		for name, run := range map[string]func(*migration, context.Context) error{
			"check": (*migration).runCheck, "apply": (*migration).runApply,
			"rollback": (*migration).runRollback,
		} {
			m, out := command(second, other)
			err := run(m, t.Context())
			text := strings.Join(strings.Fields(fmt.Sprintf("%s %v", out, err)), " ")
			if codeOf(err) != ExitBlocked || !strings.Contains(text, object) ||
				!strings.Contains(text, "belongs to the migration of Deployment hosted/occm-a") {
				t.Errorf("%s of the second: exit code %d:\n%s", name, codeOf(err), text)
			}
		}
	}
	wantBlocked("Deployment fxccm")
	after, err := deployments.Get(t.Context(), fxccmName, metav1.GetOptions{})
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the first fxccm is %+v, %v, want %+v", after, err, before)
	}

	// An interrupted migration, whose Deployment was deleted by hand.
	err = errors.Join(m.writeRecord(t.Context(), record{Replicas: 1}),
		deployments.Delete(t.Context(), fxccmName, metav1.DeleteOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	wantBlocked("ConfigMap fxccm-migration")
	if r, err := m.readRecord(t.Context()); r == nil || err != nil {
		t.Errorf("the record of the first is %+v, %v", r, err)
	}
}

// Both have the same kubeconfig. Without Pods, the second one does not act.
func TestMigrate_AnotherOCCMOfTheHostedCluster_BlocksWhileItHasPods(t *testing.T) {
	first := shapes(t)["k0smotron"]
	first.name = "occm-a"
	second := first
	second.name = "occm-b"
	for replicas, want := range []int{0, ExitBlocked} {
		other := second.workload().(*appsv1.Deployment)
		other.Spec.Replicas = ptr.To(int32(replicas))
		client := fake.NewClientset(append(first.objects, first.workload(), other, &v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "c1"},
		})...)
		m, out := first.run(t, first.newCluster(t, client), true)
		m.line.occm = "hosted/occm-a"
		err := m.runCheck(t.Context())
		text := strings.Join(strings.Fields(out.String()), " ")
		has := strings.Contains(text, "Deployment hosted/occm-b it runs OCCM for this cluster, too")
		if codeOf(err) != want || has != (want == ExitBlocked) {
			t.Errorf("%d replicas: exit code %d, want %d:\n%s", replicas, codeOf(err), want, out)
		}
	}
}

// spec is that of OCCM's workload.
func (s shape) spec(t *testing.T, client *fake.Clientset) any {
	t.Helper()
	if s.kind == daemonSetKind {
		d, err := client.AppsV1().DaemonSets(s.namespace).Get(t.Context(), s.name,
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return []any{d.Spec, d.Annotations[restoreAnnotation]}
	}
	d, err := client.AppsV1().Deployments(s.namespace).Get(t.Context(), s.name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return []any{d.Spec, d.Annotations[restoreAnnotation]}
}
