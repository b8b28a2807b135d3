package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/deploy"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"

	"github.com/fxccm/fxccm/options"
)

const kustomizationFile = "kustomization.yaml"

// manifests are the files with objects for the cluster.
func manifests(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(deploy.Files(), "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == kustomizationFile })
}

func objectsOf(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := deploy.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) == 0 {
		t.Fatalf("%s holds no object", file)
	}
	return objects
}

// only returns the objects of one Go type in all manifests.
func only[T any](t *testing.T) []T {
	t.Helper()
	var all []T
	for _, file := range manifests(t) {
		for _, object := range objectsOf(t, file) {
			if typed, ok := any(strictly(t, object)).(*T); ok {
				all = append(all, *typed)
			}
		}
	}
	return all
}

func deployment(t *testing.T) appsv1.Deployment {
	t.Helper()
	all := only[appsv1.Deployment](t)
	if len(all) != 1 {
		t.Fatalf("the manifests hold %d Deployments, want 1", len(all))
	}
	return all[0]
}

func container(t *testing.T) corev1.Container {
	t.Helper()
	containers := deployment(t).Spec.Template.Spec.Containers
	if len(containers) != 1 {
		t.Fatalf("the Deployment has %d containers, want 1", len(containers))
	}
	return containers[0]
}

// strictly converts an object to its Go type. A field that the type does not have fails the test.
func strictly(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object,
		typed, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return typed
}

func TestManifests_AreAcceptedByTheAPIServer(t *testing.T) {
	cp := controlplane.ForTest(t)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, file := range manifests(t) {
		for _, object := range objectsOf(t, file) {
			strictly(t, object)
			if err := deploy.Create(t.Context(), cp.RESTConfig(), dryRun, object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}

	// The API server accepts a Deployment with an invalid template: admission checks only Pods.
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	for _, account := range only[corev1.ServiceAccount](t) {
		if _, err := client.CoreV1().ServiceAccounts(account.Namespace).Create(t.Context(),
			&account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	template := deployment(t).Spec.Template
	template.GenerateName = "cloud-controller-manager-"
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	made, err := client.CoreV1().Pods(deployment(t).Namespace).Create(t.Context(), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatalf("the Deployment's Pod: %v", err)
	}
	if made.Spec.Priority == nil || *made.Spec.Priority < 1_000_000_000 {
		t.Errorf("the Pod's priority is %v, want a system-critical one", made.Spec.Priority)
	}
}

// optional are the manifests of features that are off by default, which the kustomization omits.
var optional = []string{"persistentvolumelabel.yaml"}

func TestManifests_AreAllInTheKustomization(t *testing.T) {
	data, err := fs.ReadFile(deploy.Files(), kustomizationFile)
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
		Images     []struct {
			Name    string `json:"name"`
			NewName string `json:"newName"`
			NewTag  string `json:"newTag"`
		} `json:"images"`
	}
	if err := yaml.UnmarshalStrict(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	slices.Sort(kustomization.Resources)
	want := slices.DeleteFunc(manifests(t),
		func(name string) bool { return slices.Contains(optional, name) })
	if !slices.Equal(kustomization.Resources, want) {
		t.Errorf("the kustomization lists %v, want %v", kustomization.Resources, want)
	}
	if image := container(t).Image; len(kustomization.Images) != 1 ||
		!strings.HasPrefix(image, kustomization.Images[0].Name+":") {
		t.Errorf("the kustomization replaces images %v, want just %s", kustomization.Images, image)
	}
}

func TestManifests_Flags_AreAcceptedByTheBinary(t *testing.T) {
	cmd := newCommandLine(options.New())
	if err := cmd.all.Parse(container(t).Args); err != nil {
		t.Fatal(err)
	}
	completed, err := cmd.options.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if len(completed.Warnings) > 0 {
		t.Errorf("the Deployment gives flags without effect: %v", completed.Warnings)
	}
	cmd.all.Visit(func(f *pflag.Flag) {
		if f.Deprecated != "" {
			t.Errorf("the Deployment gives the deprecated flag --%s", f.Name)
		}
	})
	if !completed.Config.LeaderElection.LeaderElect {
		t.Error("without leader election, both replicas would act")
	}
	grace := deployment(t).Spec.Template.Spec.TerminationGracePeriodSeconds
	if stop := completed.Config.DrainTimeout.Duration + stopReserve; grace == nil ||
		float64(*grace) <= stop.Seconds() {
		t.Errorf("the Pod is killed after %v s, but a stop takes up to %s", grace, stop)
	}
}

// The file of --cloud-config is in the mounted Secret, and the provider can read it.
func TestManifests_CloudConfigIsWhereTheFlagSays(t *testing.T) {
	flags := flags(t)
	if flags.Name != openstack.Name {
		t.Fatalf("the Deployment runs on the cloud %s, want %s", flags.Name, openstack.Name)
	}
	mounts, volumes := container(t).VolumeMounts, deployment(t).Spec.Template.Spec.Volumes
	if len(mounts) != 1 || len(volumes) != 1 || volumes[0].Secret == nil ||
		mounts[0].Name != volumes[0].Name {
		t.Fatalf("want one Secret that is mounted, got volumes %v and mounts %v", volumes, mounts)
	}
	if mounts[0].SubPath != "" || mounts[0].SubPathExpr != "" || len(volumes[0].Secret.Items) > 0 {
		t.Errorf(
			"want the whole Secret mounted as a folder, where its changes are seen, got %+v of %+v",
			mounts[0], volumes[0].Secret)
	}
	if folder := filepath.Dir(flags.ConfigFile); mounts[0].MountPath != folder {
		t.Errorf("the Secret is mounted at %s, and --cloud-config names a file in %s",
			mounts[0].MountPath, folder)
	}
	content := cloudConf(t)
	loaded, err := cloudconf.Read([]byte(content), cloudconf.Options{Strict: true})
	if err != nil || len(loaded.Warnings) > 0 {
		t.Errorf("the provider rejects cloud.conf: %v %v", err, loaded.Warnings)
	}
	// Options that are commented out must be valid, too.
	if _, err := cloudconf.Read([]byte(uncommented(content)),
		cloudconf.Options{Strict: true}); err != nil {
		t.Errorf(
			"the provider rejects cloud.conf with its commented options: %v",
			err)
	}
}

// flags has the cloud provider settings of the Deployment's arguments.
func flags(t *testing.T) ccm.CloudProviderConfig {
	t.Helper()
	cmd := newCommandLine(options.New())
	if err := cmd.all.Parse(container(t).Args); err != nil {
		t.Fatal(err)
	}
	return cmd.options.Config.CloudProvider
}

// cloudConf is the content of cloud.conf in the Deployment's Pods.
func cloudConf(t *testing.T) string {
	t.Helper()
	name, key := deployment(t).Spec.Template.Spec.Volumes[0].Secret.SecretName,
		filepath.Base(flags(t).ConfigFile)
	for _, secret := range only[corev1.Secret](t) {
		if content, ok := secret.StringData[key]; ok && secret.Name == name &&
			secret.Namespace == deployment(t).Namespace {
			return content
		}
	}
	t.Fatalf("no Secret %s has the key %s", name, key)
	return ""
}

// uncommented enables the options and sections that are commented out without a blank: #key =
// value. An option that needs an ID gets one.
func uncommented(conf string) string {
	conf = regexp.MustCompile(`(?m)^#([a-z[])`).ReplaceAllString(conf, "$1")
	return regexp.MustCompile(`(?m)^(router-id = ).*$`).ReplaceAllString(conf,
		"${1}7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f")
}

func TestManifests_BindingsAreOfTheDeploymentsServiceAccount(t *testing.T) {
	want := rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: deployment(t).Namespace,
		Name: deployment(t).Spec.Template.Spec.ServiceAccountName,
	}
	if want.Name == "" {
		t.Fatal("the Deployment names no ServiceAccount")
	}
	// "fxccm status" uses an account that no Pod runs as.
	status := want
	status.Name += "-status"
	accounts := only[corev1.ServiceAccount](t)
	if len(accounts) != 2 || accounts[0].Name != want.Name || accounts[1].Name != status.Name ||
		accounts[0].Namespace != want.Namespace || accounts[1].Namespace != want.Namespace {
		t.Errorf("the manifests make the ServiceAccounts %v, want %s and %s in %s", accounts,
			want.Name, status.Name, want.Namespace)
	}
	var subjects []rbacv1.Subject
	for _, b := range only[rbacv1.ClusterRoleBinding](t) {
		subjects = append(subjects, b.Subjects...)
	}
	for _, b := range only[rbacv1.RoleBinding](t) {
		subjects = append(subjects, b.Subjects...)
	}
	if len(subjects) == 0 {
		t.Error("no role is bound to a ServiceAccount")
	}
	ofStatus := 0
	for _, got := range subjects {
		switch got {
		case want:
		case status:
			ofStatus++
		default:
			t.Errorf("a role is bound to %+v, want %+v or %+v", got, want, status)
		}
	}
	if ofStatus != 1 {
		t.Errorf("%d roles are bound to the account of the status, want 1", ofStatus)
	}
}

func TestManifests_SelectorsSelectTheDeploymentsPods(t *testing.T) {
	d := deployment(t)
	budgets := only[policyv1.PodDisruptionBudget](t)
	if len(budgets) != 1 {
		t.Fatalf("there are %d PodDisruptionBudgets, want 1", len(budgets))
	}
	antiAffinity := d.Spec.Template.Spec.Affinity.PodAntiAffinity
	affinity := antiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for what, selector := range map[string]*metav1.LabelSelector{
		"the Deployment":          d.Spec.Selector,
		"the PodDisruptionBudget": budgets[0].Spec.Selector,
		"the anti-affinity":       affinity[0].PodAffinityTerm.LabelSelector,
	} {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if s.Empty() || !s.Matches(labels.Set(d.Spec.Template.Labels)) {
			t.Errorf("%s selects %s, not the Deployment's Pods", what, s)
		}
	}
}

// The CCM removes these taints, so its own Pods must not wait for that.
func TestManifests_ReplicasTolerateNodesThatAreNotSetUp(t *testing.T) {
	tolerations := deployment(t).Spec.Template.Spec.Tolerations
	for _, key := range []string{
		"node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/not-ready",
		"node.kubernetes.io/network-unavailable", "node-role.kubernetes.io/control-plane",
		"node-role.kubernetes.io/master", "CriticalAddonsOnly",
	} {
		taint := corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(tolerations, func(tol corev1.Toleration) bool {
			return tol.Key == taint.Key && tol.Operator == corev1.TolerationOpExists &&
				(tol.Effect == taint.Effect || tol.Effect == "")
		}) {
			t.Errorf("the Pods do not tolerate %s", taint.ToString())
		}
	}
}
