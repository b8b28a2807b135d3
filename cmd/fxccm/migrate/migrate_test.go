package migrate

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/options"
)

func newProgram() Program {
	return Program{OldFlags: map[string]string{"address": "use --bind-address."}, NewFlags: func() (
		*pflag.FlagSet, func() (options.Completed, error),
	) {
		o, all := options.New(), pflag.NewFlagSet("fxccm", pflag.ContinueOnError)
		groups := o.Flags()
		for _, name := range groups.Order {
			all.AddFlagSet(groups.FlagSets[name])
		}
		return all, o.Complete
	}}
}

// newLine is a command line with the flags of all commands.
func newLine(t *testing.T, args ...string) *line {
	t.Helper()
	l, set := &line{}, pflag.NewFlagSet("fxccm migrate", pflag.ContinueOnError)
	l.addFlags(set)
	l.addReadFlags(set)
	l.addChangeFlags(set)
	l.addImage(set)
	if err := errors.Join(set.Parse(args), l.checkSource()); err != nil {
		t.Fatal(err)
	}
	return l
}

// codeOf is the exit code of a command that returns the error.
func codeOf(err error) int {
	var exit *cli.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	return 1
}

const configFlag = "--cloud-config=/etc/config/cloud.conf"

func wordsOf(args ...string) (words []word) {
	for _, arg := range args {
		words = append(words, word{arg, arg})
	}
	return words
}

func TestJudge_EachFlag_IsKeptLeftOutOrBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		kept  []string
		level Level
		want  string
	}{
		"kept": {[]string{"--cluster-name=prod"}, []string{"--cluster-name=prod"}, Same, "--cluster-name=prod: kept"},
		"value in the next argument": {
			[]string{"--cluster-name", "prod"},
			[]string{"--cluster-name=prod"},
			Same, "--cluster-name=prod: kept",
		},
		"a switch": {
			[]string{"--leader-elect", "--cluster-name=prod"},
			[]string{"--leader-elect", "--cluster-name=prod"},
			Same, "--leader-elect: kept",
		},
		"another default":  {nil, nil, Differs, "--concurrent-service-syncs: the default is 16 instead of 1"},
		"unknown":          {[]string{"--gone=true"}, nil, Differs, "--gone=true: fxccm does not have"},
		"unknown, in two":  {[]string{"--port", "0"}, nil, Differs, "--port=0: fxccm does not have"},
		"old":              {[]string{"--address=127.0.0.1"}, nil, Differs, "left out: use --bind-address"},
		"service accounts": {[]string{"--use-service-account-credentials"}, nil, Differs, "left out"},
		"no secure port":   {[]string{"--secure-port=0"}, nil, Differs, "the probes need"},
		"no effect": {
			[]string{"--allocate-node-cidrs=true"},
			[]string{"--allocate-node-cidrs=true"},
			Differs,
			"--allocate-node-cidrs: has no effect",
		},
		"an argument": {[]string{"now"}, nil, Differs, "now: it is not a flag"},
		"no election": {
			[]string{"--leader-elect=false"},
			[]string{"--leader-elect=false"},
			Blocks, "without leader election",
		},
		"refused": {
			[]string{"--enable-leader-migration"},
			[]string{"--enable-leader-migration"},
			Blocks, "not supported",
		},
		"a bad value": {[]string{"--kube-api-qps=much"}, []string{"--kube-api-qps=much"}, Blocks, "much"},
	} {
		s, err := newProgram().judge(wordsOf(append([]string{configFlag}, c.args...)...),
			false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(s.args, append([]string{configFlag}, c.kept...)) {
			t.Errorf("%s: fxccm gets %q, want %q", name, s.args, c.kept)
		}
		if !slices.ContainsFunc(s.findings, func(f Finding) bool {
			return f.Level == c.level && strings.Contains(f.Subject+": "+f.Text, c.want)
		}) {
			t.Errorf("%s: no finding %q that %s:\n%+v", name, c.want, c.level, s.findings)
		}
	}
	if _, err := newProgram().judge(nil, false); err == nil {
		t.Error("a command line without --cloud-config is accepted")
	}
}

// occmPod returns the Pod of OCCM's manifests.
func occmPod(change func(*v1.PodSpec)) v1.PodTemplateSpec {
	spec := v1.PodSpec{
		ServiceAccountName: "cloud-controller-manager",
		Containers: []v1.Container{{
			Name: "occm", Image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1",
			Args: []string{"/bin/openstack-cloud-controller-manager", "--cloud-config=$(CONF)"},
			Env:  []v1.EnvVar{{Name: "CONF", Value: "/etc/config/cloud.conf"}},
			VolumeMounts: []v1.VolumeMount{
				{Name: "conf", MountPath: "/etc/config"}, {Name: "pki", MountPath: "/etc/pki"},
			},
		}},
		Volumes: []v1.Volume{
			{Name: "conf", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "cloud-config"}}},
			{Name: "pki", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc/pki"}}},
		},
	}
	if change != nil {
		change(&spec)
	}
	return v1.PodTemplateSpec{Spec: spec}
}

func daemonSet(name string, template v1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec:       appsv1.DaemonSetSpec{Template: template},
	}
}

func TestFindOCCM_ByImageCommandOrLabels(t *testing.T) {
	other := func(s *v1.PodSpec) {
		s.Containers[0].Image, s.Containers[0].Args = "example.com/mirror@sha256:1", nil
	}
	labeled := occmPod(other)
	labeled.Labels = map[string]string{"k8s-app": occmName}
	byCommand := occmPod(func(s *v1.PodSpec) {
		other(s)
		s.Containers = append([]v1.Container{{Name: "sidecar"}}, s.Containers...)
		s.Containers[1].Command = []string{"/usr/bin/" + occmName}
	})
	for name, c := range map[string]struct {
		template v1.PodTemplateSpec
		ref      string
		want     string
	}{
		"image":         {occmPod(nil), "", "occm"},
		"labels":        {labeled, "", "occm"},
		"command":       {byCommand, "", "occm"},
		"other":         {occmPod(other), "", ""},
		"other, named":  {occmPod(other), "kube-system/ccm", "occm"},
		"another name":  {occmPod(nil), "kube-system/other", ""},
		"its namespace": {occmPod(nil), "default/ccm", ""},
		"namespace":     {occmPod(nil), "kube-system/", "occm"},
		"another one":   {occmPod(nil), "default/", ""},
	} {
		c2 := &Cluster{&cli.Cluster{Interface: fake.NewClientset(daemonSet("ccm", c.template))}}
		found, err := c2.findOCCM(t.Context(), c.ref)
		got := ""
		if len(found) == 1 {
			got = found[0].container.Name
		}
		if err != nil || got != c.want {
			t.Errorf("%s: container %q, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestReadMounted_FromASecret_ReturnsTheFileOrTheCause(t *testing.T) {
	secret := &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-config"},
		Data:       map[string][]byte{"cloud.conf": []byte("content"), "ca": []byte("pem")},
	}
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		file   string
		want   string
		err    error
	}{
		"key":       {nil, "/etc/config/cloud.conf", "content", nil},
		"host path": {nil, "/etc/pki/ca.crt", "", errUnreadable},
		"nowhere":   {nil, "/etc/other/ca.crt", "", errNotMounted},
		"item": {func(s *v1.PodSpec) {
			s.Volumes[0].Secret.Items = []v1.KeyToPath{{Key: "ca", Path: "tls/ca.crt"}}
		}, "/etc/config/tls/ca.crt", "pem", nil},
		"sub path": {func(s *v1.PodSpec) {
			s.Containers[0].VolumeMounts[0] = v1.VolumeMount{
				Name: "conf", MountPath: "/etc/occm.conf", SubPath: "cloud.conf",
			}
		}, "/etc/occm.conf", "content", nil},
		"projected": {func(s *v1.PodSpec) {
			s.Volumes[0].VolumeSource = v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{{Secret: &v1.SecretProjection{
					LocalObjectReference: v1.LocalObjectReference{Name: "cloud-config"},
				}}},
			}}
		}, "/etc/config/ca", "pem", nil},
	} {
		w := ofDaemonSet(daemonSet("ccm", occmPod(c.change)))
		w.findContainer(false)
		cluster := &Cluster{&cli.Cluster{Interface: fake.NewClientset(secret)}}
		got, err := cluster.readMounted(t.Context(), w, nil, c.file)
		if string(got.content) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got.content, err, c.want, c.err)
		}
	}
}

func TestRemoveConditions_ConditionsOfOthers_Stay(t *testing.T) {
	service := func(name string, types ...string) *v1.Service {
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		for _, conditionType := range types {
			s.Status.Conditions = append(s.Status.Conditions,
				metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse})
		}
		return s
	}
	client := fake.NewClientset(service("refused", "example.com/Other", conditionType),
		service("ready", "example.com/Other"), service("only", conditionType))
	cluster := &Cluster{&cli.Cluster{Interface: client}}
	if err := cluster.removeConditions(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"refused": 1, "ready": 1, "only": 0} {
		s, err := client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Status.Conditions) != want || len(s.Status.LoadBalancer.Ingress) != 1 ||
			want == 1 && s.Status.Conditions[0].Type != "example.com/Other" {
			t.Errorf("%s has the status %+v", name, s.Status)
		}
	}
	for _, action := range client.Actions() {
		if patch, ok := action.(clienttesting.PatchAction); ok &&
			(patch.GetName() == "ready" || patch.GetSubresource() != "status") {
			t.Errorf("it patches %s, subresource %q", patch.GetName(), patch.GetSubresource())
		}
	}
}

// checked runs check on a cluster with the workload and more objects.
func checked(
	t *testing.T, template v1.PodTemplateSpec, conf string, args []string, more ...runtime.Object,
) *migration {
	t.Helper()
	set := daemonSet("ccm", template)
	set.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "infra"}
	return checkedSet(t, set, conf, args, more...)
}

func checkedSet(
	t *testing.T, set *appsv1.DaemonSet, conf string, args []string, more ...runtime.Object,
) *migration {
	t.Helper()
	objects := append([]runtime.Object{
		set, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "c1"}},
		&v1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: "cloud-config", Annotations: set.Annotations,
			},
			Data: map[string][]byte{"cloud.conf": []byte(conf)},
		},
	}, more...)
	l := newLine(t, args...)
	m := &migration{
		Cluster: &Cluster{&cli.Cluster{Interface: fake.NewClientset(objects...)}},
		program: newProgram(), line: l, out: io.Discard,
	}
	if err := m.check(context.Background(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return m
}

const conf = "[Global]\nauth-url = https://keystone.example/v3\nusername = ccm\n" +
	"password = s3cret\ntenant-name = t\ndomain-name = d\n"

// chartSet is the DaemonSet that OCCM's Helm chart renders with its defaults and a metrics port.
// Its containers have no command, its labels are older than those of Kubernetes, and the image may
// come from a mirror.
func chartSet() *appsv1.DaemonSet {
	hostPath := func(name, path string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			HostPath: &v1.HostPathVolumeSource{Path: path},
		}}
	}
	mount := func(name, path string) v1.VolumeMount {
		return v1.VolumeMount{Name: name, MountPath: path, ReadOnly: true}
	}
	const flexvolumes = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
	set := daemonSet(occmName, v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			"app": occmName, "release": "occm", "component": "controllermanager",
		}},
		Spec: v1.PodSpec{
			ServiceAccountName: "cloud-controller-manager", HostNetwork: true,
			SecurityContext: &v1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)},
			Containers: []v1.Container{{
				Name: occmName, Image: "mirror.example.com/k8s/occm:v1.34.0",
				Args: []string{
					"/bin/openstack-cloud-controller-manager", "--v=2",
					"--cloud-config=$(CLOUD_CONFIG)", "--cluster-name=$(CLUSTER_NAME)",
					"--cloud-provider=openstack", "--use-service-account-credentials=false",
					"--controllers=cloud-node,cloud-node-lifecycle,route,service",
					"--bind-address=0.0.0.0",
				},
				Env: []v1.EnvVar{
					{Name: "CLOUD_CONFIG", Value: "/etc/config/cloud.conf"},
					{Name: "CLUSTER_NAME", Value: "kubernetes"},
				},
				Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 10258, HostPort: 10258}},
				VolumeMounts: []v1.VolumeMount{
					mount("cloud-config-volume", "/etc/config"),
					mount("flexvolume-dir", flexvolumes),
					mount("ca-certs", "/etc/ssl/certs"), mount("k8s-certs", "/etc/kubernetes/pki"),
				},
			}},
			Volumes: []v1.Volume{
				{Name: "cloud-config-volume", VolumeSource: v1.VolumeSource{
					Secret: &v1.SecretVolumeSource{SecretName: "cloud-config"},
				}},
				hostPath("flexvolume-dir", flexvolumes), hostPath("ca-certs", "/etc/ssl/certs"),
				hostPath("k8s-certs", "/etc/kubernetes/pki"),
			},
		},
	})
	set.Status.DesiredNumberScheduled = 3
	set.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	set.Annotations = map[string]string{"meta.helm.sh/release-name": "occm"}
	return set
}

// chartConf has the form of the chart: quoted values, and sections without keys.
const chartConf = `[Global]
auth-url = "https://keystone.example/v3"
username = "ccm"
password = "s3cret"
tenant-name = "t"
domain-name = "d"

[Networking]

[LoadBalancer]

[BlockStorage]

[Metadata]

[Route]
`

func TestCheck_OCCMsChart_IsTakenOver(t *testing.T) {
	m := checkedSet(t, chartSet(), chartConf, nil, &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cloud-controller-manager"},
	})
	found := map[string]Finding{}
	for _, f := range m.findings {
		if f.Level == Blocks {
			t.Errorf("it blocks: %s: %s", f.Subject, f.Text)
		}
		found[f.Subject] = f
	}
	for subject, want := range map[string]Finding{
		"OCCM":                       {Same, "", "DaemonSet kube-system/" + occmName},
		"managed by":                 {Differs, "", "Helm release occm"},
		"volume cloud-config-volume": {Same, "", "Secret cloud-config"},
		"Secret cloud-config": {
			Differs, "", "Helm release occm owns it, and helm uninstall would delete it",
		},
		"ServiceAccount cloud-controller-manager": {Differs, "", "another fullnameOverride"},
		"volume ca-certs":                         {Same, "", "host path /etc/ssl/certs"},
		"volume k8s-certs":                        {Same, "", "host path /etc/kubernetes/pki"},
		"variable CLUSTER_NAME":                   {Same, "", "taken over"},
		"lease":                                   {Differs, "", "does not exist"},
	} {
		got := found[subject]
		if got.Level != want.Level || !strings.Contains(got.Text, want.Text) {
			t.Errorf("%s: the finding is %+v, want %+v", subject, got, want)
		}
	}
	// The flags of the log belong to the program, which this test does not use.
	if want := []string{
		"--cloud-config=/etc/config/cloud.conf", "--cluster-name=kubernetes",
		"--cloud-provider=openstack",
		"--controllers=cloud-node,cloud-node-lifecycle,route,service", "--bind-address=0.0.0.0",
	}; !slices.Equal(m.settings.args, want) {
		t.Errorf("fxccm gets %q, want %q", m.settings.args, want)
	}
	if _, found := found["user"]; found {
		t.Error("the user of the chart is not root")
	}
}

func TestCheck_BlockersAndDifferences_AreReported(t *testing.T) {
	secrets := []runtime.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "occm"}, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"},
			}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "occm"},
			RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "occm"},
			Subjects: []rbacv1.Subject{{
				Kind: "ServiceAccount", Namespace: "kube-system", Name: "cloud-controller-manager",
			}},
		},
	}
	ofHelm := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "kube-system", Name: name,
			Annotations: map[string]string{releaseAnnotation: "ccm"},
		}
	}
	kept := &v1.Secret{ObjectMeta: ofHelm("pull")}
	kept.Annotations["helm.sh/resource-policy"] = "keep"
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		conf   string
		args   []string
		more   []runtime.Object
		level  Level
		want   string
	}{
		"GitOps":      {nil, conf, nil, nil, Differs, "Flux Kustomization infra"},
		"Secrets":     {nil, conf, nil, secrets, Differs, "can read all Secrets"},
		"a shell":     {func(s *v1.PodSpec) { s.Containers[0].Command = []string{"/bin/sh", "-c"} }, conf, nil, nil, Blocks, "a shell"},
		"a bad conf":  {nil, "[Global]\nauth-url = ftp://x\n", nil, nil, Blocks, "auth-url"},
		"an old conf": {nil, conf + "nonsense = 1\n", nil, nil, Differs, `"nonsense"`},
		"a node's CA": {nil, conf + "ca-file = /etc/pki/ca.crt\n", nil, nil, Blocks, "--file=/etc/pki/ca.crt=FILE"},
		"a lost CA":   {nil, conf + "ca-file = /other/ca.crt\n", nil, nil, Blocks, "in no volume of OCCM"},
		"a node's conf": {func(s *v1.PodSpec) {
			s.Containers[0].Env[0].Value = "/etc/pki/cloud.conf"
		}, conf, nil, nil, Blocks, "--cloud-config"},
		"a variable": {func(s *v1.PodSpec) {
			s.Containers[0].Env = append(s.Containers[0].Env,
				v1.EnvVar{Name: "OCCM_WAIT_LB_ACTIVE_STEPS", Value: "9"})
		}, conf, nil, nil, Differs, "no effect"},
		"no routes":        {nil, conf, nil, nil, Same, "not served"},
		"routes, no range": {nil, conf + "[Route]\nrouter-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n", nil, nil, Blocks, "router-id"},
		"root":             {nil, conf, nil, nil, Differs, "OCCM may run as root"},
		"no lease":         {nil, conf, nil, nil, Differs, "OCCM has never led"},
		"a release's ConfigMap": {
			func(s *v1.PodSpec) {
				s.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{
					LocalObjectReference: v1.LocalObjectReference{Name: "proxies"},
				}}}
				s.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}, {Name: "absent"}}
			}, conf, nil,
			[]runtime.Object{&v1.ConfigMap{ObjectMeta: ofHelm("proxies")}, kept},
			Differs, "ConfigMap proxies Helm release ccm owns it",
		},
		"fxccm of Helm": {
			nil, conf, nil,
			[]runtime.Object{&appsv1.Deployment{ObjectMeta: ofHelm(fxccmName)}},
			Blocks, "Deployment fxccm Helm release ccm owns it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := checked(t, occmPod(c.change), c.conf, c.args, c.more...)
			var text strings.Builder
			if err := m.report().WriteTable(&text); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(m.findings, func(f Finding) bool {
				return f.Level == c.level && strings.Contains(f.Subject+" "+f.Text, c.want)
			}) {
				t.Errorf("no finding %q that %s:\n%s", c.want, c.level, &text)
			}
			if blocked := m.report().Blocked; blocked != (c.level == Blocks) {
				t.Errorf("blocked: %t:\n%s", blocked, &text)
			}
			if strings.Contains(text.String(), "Secret pull") {
				t.Errorf("the report has a Secret that helm uninstall keeps:\n%s", &text)
			}
			if strings.Contains(text.String(), "s3cret") {
				t.Errorf("the report has the password:\n%s", &text)
			}
		})
	}
}

// The kubelet has the files of Secrets readable by the group of fsGroup, whatever their mode.
func TestObjects_OCCMIsRoot_FxccmReadsItsSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		context *v1.PodSecurityContext
		want    *int64
	}{
		"root":         {nil, ptr.To[int64](65532)},
		"another user": {&v1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)}, nil},
		"a group": {
			&v1.PodSecurityContext{FSGroup: ptr.To[int64](1002)}, ptr.To[int64](1002),
		},
	} {
		m := checked(t, occmPod(func(s *v1.PodSpec) { s.SecurityContext = c.context }), conf,
			[]string{"--image=example.com/fxccm:v1"})
		objects, err := m.objects(0)
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(
			objects[len(objects)-1].Object, &d); err != nil {
			t.Fatal(err)
		}
		if got := d.Spec.Template.Spec.SecurityContext.FSGroup; !ptr.Equal(got, c.want) {
			t.Errorf("%s: fsGroup is %d, want %d", name, ptr.Deref(got, 0), ptr.Deref(c.want, 0))
		}
	}
}

func TestObjects_HaveOCCMsSettings(t *testing.T) {
	user := int64(1001)
	m := checked(t, occmPod(func(s *v1.PodSpec) {
		c := &s.Containers[0]
		c.Args = append(c.Args, "--bind-address=127.0.0.1", "--secure-port=10270",
			"--leader-elect-resource-name=occm", "--leader-elect-resource-namespace=leases")
		c.Env = append(c.Env, v1.EnvVar{Name: podName, Value: "other"})
		s.HostNetwork, s.DNSPolicy = true, v1.DNSClusterFirstWithHostNet
		s.NodeSelector = map[string]string{"role": "infra"}
		s.Tolerations = []v1.Toleration{{Key: "infra", Operator: v1.TolerationOpExists}}
		s.SecurityContext = &v1.PodSecurityContext{RunAsUser: &user, FSGroup: &user}
		s.HostAliases = []v1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"keystone"}}}
	}), conf+"nonsense = 1\n", []string{"--image=example.com/fxccm:v1"})
	m.occm.Namespace = "cloud"
	objects, err := m.objects(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if !strings.HasPrefix(o.GetName(), fxccmName) {
			t.Errorf("%s has the name %s, which may be OCCM's", o.GetKind(), o.GetName())
		}
		switch {
		case o.GetKind() == "Role" && o.GetName() == fxccmName:
			var role rbacv1.Role
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object,
				&role); err != nil {
				t.Fatal(err)
			}
			if role.Namespace != "leases" || role.Rules[1].ResourceNames[0] != "occm" {
				t.Errorf("the rules of the lease are %+v", role)
			}
		case o.GetKind() == "RoleBinding" && o.GetName() == "fxccm-authentication",
			strings.HasPrefix(o.GetKind(), "Role") && o.GetName() == "fxccm-routes":
			if o.GetNamespace() != "kube-system" {
				t.Errorf("%s is in namespace %s", o.GetName(), o.GetNamespace())
			}
		}
		if strings.HasSuffix(o.GetKind(), "Binding") {
			subjects := o.Object["subjects"].([]any)
			want := map[string]any{"kind": "ServiceAccount", "name": "fxccm", "namespace": "cloud"}
			if o.GetName() == "fxccm-status" {
				want["name"] = "fxccm-status"
			}
			if !reflect.DeepEqual(subjects, []any{want}) {
				t.Errorf("%s has the subjects %v", o.GetName(), subjects)
			}
		}
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(
		objects[len(objects)-1].Object, &d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	has := func(arg string) bool { return slices.Contains(c.Args, arg) }
	for what, ok := range map[string]bool{
		"namespace": d.Namespace == "cloud" && *d.Spec.Replicas == 0,
		"selector":  d.Spec.Selector.MatchLabels[nameLabel] == "fxccm",
		"labels":    d.Spec.Template.Labels[nameLabel] == "fxccm",
		"image":     c.Image == "example.com/fxccm:v1",
		"arguments": has(configFlag) && has("--cloud-config-strict=false") &&
			has("--configure-cloud-routes=false"),
		"identity":      has("--leader-elect-identity=$(POD_NAME)"),
		"environment":   len(c.Env) == 2 && c.Env[1].ValueFrom != nil,
		"port":          c.Ports[0].ContainerPort == 10270,
		"probes":        c.ReadinessProbe.HTTPGet.Host == "127.0.0.1",
		"node selector": pod.NodeSelector["role"] == "infra" && pod.Affinity.NodeAffinity == nil,
		"tolerations":   pod.Tolerations[len(pod.Tolerations)-1].Key == "infra",
		"user":          *pod.SecurityContext.RunAsUser == user,
		"group":         *pod.SecurityContext.FSGroup == user,
		"host aliases":  len(pod.HostAliases) == 1,
		"DNS":           pod.DNSPolicy == v1.DNSClusterFirstWithHostNet,
		"volumes":       len(pod.Volumes) == 2 && c.VolumeMounts[1].ReadOnly,
		"account":       pod.ServiceAccountName == fxccmName,
	} {
		if !ok {
			t.Errorf("%s: the Deployment is\n%+v", what, d)
		}
	}
}

func TestStatusCommand_HasOnlyFlagsThatAreNotDefaults(t *testing.T) {
	for want, args := range map[string][]string{
		"fxccm status": nil,
		"fxccm status --lease=leases/occm --port=10300": {
			"--leader-elect-resource-namespace=leases", "--leader-elect-resource-name=occm",
			"--secure-port=10300",
		},
	} {
		m := checked(t, occmPod(func(s *v1.PodSpec) {
			s.Containers[0].Args = append(s.Containers[0].Args, args...)
		}), conf, nil)
		if got := m.statusCommand(); got != want {
			t.Errorf("with %q it is %q, want %q", args, got, want)
		}
	}
}

func TestWarnUnsupported_EachSettingThatOCCMLacks_IsListed(t *testing.T) {
	service := func(name string, protocol v1.Protocol, settings ...string) *v1.Service {
		s := &v1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Annotations: map[string]string{},
			},
			Spec: v1.ServiceSpec{
				Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Protocol: protocol}},
			},
		}
		for _, setting := range settings {
			key, value, _ := strings.Cut(setting, "=")
			s.Annotations[annotations+key] = value
		}
		return s
	}
	two := service("two", v1.ProtocolTCP)
	two.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{
		{IP: "192.0.2.1"}, {IP: "2001:db8::1"},
	}
	own := "ca-file = /etc/pki/ca.crt\n[Client]\nrequest-rate = 7\n"
	m := checked(t, occmPod(nil), conf+own, nil,
		service("plain", v1.ProtocolTCP, "proxy-protocol=true"),
		service("datagrams", v1.ProtocolUDP, "proxy-protocol=v2"),
		service("ports", v1.ProtocolTCP, "listener-protocols=80=HTTP"), two)
	var out strings.Builder
	m.out = &out
	if err := m.warnUnsupported(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"default/datagrams, annotation " + annotations + "proxy-protocol with UDP",
		"default/ports, annotation " + annotations + "listener-protocols",
		"default/two: OCCM drops",
		"OCCM ignores [Client]",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 || strings.Contains(out.String(), "s3cret") {
		t.Errorf("%d lines, want 4 without a secret:\n%s", n, &out)
	}
}

func TestCommand_BadInput_IsAnErrorWithItsExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"command":     {[]string{"begin"}, cli.ExitUsage, `unknown command "begin"`},
		"misspelt":    {[]string{"chekc"}, cli.ExitUsage, "did you mean check?"},
		"two":         {[]string{"check", "apply"}, cli.ExitUsage, "want flags only"},
		"image":       {[]string{"apply"}, cli.ExitUsage, "--image must be given"},
		"format":      {[]string{"check", "-oxml"}, cli.ExitUsage, "--output=xml"},
		"timeout":     {[]string{"rollback", "--timeout=0s"}, cli.ExitUsage, "--timeout"},
		"occm":        {[]string{"check", "--occm=a/b/c"}, cli.ExitUsage, "--occm=a/b/c is not [namespace/]name"},
		"two names":   {[]string{"plan", "-n=a/b"}, cli.ExitUsage, "--namespace=a/b is not the name of a namespace"},
		"namespace":   {[]string{"plan", "--occm=a/b", "-n=c"}, cli.ExitUsage, "--occm=a/b has another namespace"},
		"context":     {[]string{"check", "--workload-context=a"}, cli.ExitUsage, "--workload-kube"},
		"kubeconfig":  {[]string{"check", "--kubeconfig=/nowhere"}, 1, "--kubeconfig"},
		"other flags": {[]string{"rollback", "--image=a"}, 1, "unknown flag"},
	} {
		var out, errs strings.Builder
		command := newProgram().Command()
		command.SetArgs(c.args)
		command.SetOut(&out)
		command.SetErr(&errs)
		command.SilenceErrors, command.SilenceUsage = true, true
		err := command.ExecuteContext(t.Context())
		if code := codeOf(err); code != c.code || out.String()+errs.String() != "" ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit code %d, %v, %q%q, want %q", name, code, err, &out, &errs, c.want)
		}
	}
}
