package migrate

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// cloudsConf leaves the login to clouds.yaml.
const cloudsConf = "[Global]\nuse-clouds = true\n"

// cloudsAt is a clouds.yaml of a cloud.
func cloudsAt(url string) string {
	return "clouds: {prod: {auth: {auth_url: '" + url +
		"', username: u, password: s3cret, project_name: p, domain_name: d}}}\n"
}

func secretOf(name string, data map[string]string) *v1.Secret {
	s := &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Data:       map[string][]byte{},
	}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

// addVolume mounts a volume into OCCM's container.
func addVolume(s *v1.PodSpec, at string, source v1.VolumeSource) {
	name := "v" + strings.ReplaceAll(at, "/", "-")
	s.Volumes = append(s.Volumes, v1.Volume{Name: name, VolumeSource: source})
	s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts,
		v1.VolumeMount{Name: name, MountPath: at})
}

// mountFile mounts clouds.yaml of a Secret as a file.
func mountFile(at, secret string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		addVolume(s, at, ofSecret(secret))
		mounts := s.Containers[0].VolumeMounts
		mounts[len(mounts)-1].SubPath = "clouds.yaml"
	}
}

func ofSecret(name string) v1.VolumeSource {
	return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}
}

func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// at is conf with another Keystone.
func at(host string) string { return strings.ReplaceAll(conf, "keystone.example", host) }

// withAlias gives Pods on the network of their node the address of a name.
func withAlias(ip, name string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.HostNetwork = true
		s.HostAliases = []v1.HostAlias{{IP: ip, Hostnames: []string{name}}}
	}
}

func addEnv(env v1.EnvVar) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) { s.Containers[0].Env = append(s.Containers[0].Env, env) }
}

func addArgs(args ...string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) { s.Containers[0].Args = append(s.Containers[0].Args, args...) }
}

// withNodeNetwork has the Pods use the network of their node.
func withNodeNetwork(s *v1.PodSpec) { s.HostNetwork = true }

func all(changes ...func(*v1.PodSpec)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		for _, change := range changes {
			change(s)
		}
	}
}

func fromSecret(name, secret, key string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: secret}, Key: key,
	}}}
}

func fromField(name, path string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{
		FieldRef: &v1.ObjectFieldSelector{FieldPath: path},
	}}
}

// injected is what an agent adds to OCCM's running Pod.
func injected(change func(*v1.PodSpec)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "ccm-1", Labels: map[string]string{"k8s-app": "ccm"},
			OwnerReferences: []metav1.OwnerReference{{
				Kind: daemonSetKind, Name: "ccm", Controller: ptr.To(true),
			}},
		},
		Spec: occmPod(nil).Spec,
	}
	change(&pod.Spec)
	return pod
}

// onNode is OCCM's running Pod on a node with this address.
func onNode(address string) *v1.Pod {
	pod := injected(func(s *v1.PodSpec) { s.HostNetwork = true })
	pod.Status.HostIP = address
	return pod
}

// secondSet is another DaemonSet of OCCM, with a number of Pods.
func secondSet(change func(*v1.PodSpec), pods int32) *appsv1.DaemonSet {
	set := daemonSet("second", occmPod(change))
	set.Namespace, set.Status.DesiredNumberScheduled = "occm", pods
	return set
}

// Each kind of thing that check does not see as OCCM's Pods see it blocks, with a way out.
func TestCheck_WhatThePodsSeeOtherwise_Blocks(t *testing.T) {
	dir := t.TempDir()
	local := func(name, content string) string { return writeFile(t, dir, name, content) }
	theConf := local("cloud.conf", conf)
	theClouds := local("clouds-copy.yaml", cloudsAt("https://copied.example/v3"))
	// A file that no flag names, where a search on this machine would find it.
	local("clouds.yaml", cloudsAt("https://wrong.example/v3"))
	t.Chdir(dir)
	hostPath := v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc/openstack"}}
	nothing := func(*v1.PodSpec) {}
	annotated := map[string]string{"vault.example.com/inject": "true"}
	elsewhere := func(s *v1.PodSpec) { s.Containers[0].Env[0].Value = "/vault/cloud.conf" }
	for name, c := range map[string]struct {
		change      func(*v1.PodSpec)
		annotations map[string]string
		conf        string
		args        []string
		more        []runtime.Object
		// blocks is the finding that blocks; "": it does not block.
		blocks string
		// url is the address of OpenStack that check reads.
		url string
		// reports is another finding.
		reports string
	}{
		// Variables.
		"a variable of a Secret": {
			change: all(addEnv(fromSecret("NAME", "names", "name")),
				addArgs("--cluster-name=$(NAME)")),
			more: []runtime.Object{secretOf("names", map[string]string{"name": "s3cret"})},
			url:  "https://keystone.example/v3", reports: "--cluster-name=$(NAME) kept",
		},
		"an invalid variable of a Secret": {
			change: all(addEnv(fromSecret("QPS", "names", "name")),
				addArgs("--kube-api-qps=$(QPS)")),
			more:   []runtime.Object{secretOf("names", map[string]string{"name": "s3cret"})},
			blocks: "write the values instead",
		},
		"a variable of a Secret that does not exist": {
			change: all(addEnv(fromSecret("NAME", "absent", "name")),
				addArgs("--cluster-name=$(NAME)")),
			blocks: "Secret kube-system/absent",
		},
		"a variable of the running Pod": {
			change: all(addEnv(fromField("HOST", "status.hostIP")),
				addArgs("--bind-address=$(HOST)")),
			blocks: "only the running Pod has status.hostIP; write the value instead",
		},
		"a variable that refers to it": {
			change: all(addEnv(fromField("HOST", "status.hostIP")),
				addEnv(v1.EnvVar{Name: "IT", Value: "$(HOST)"}), addArgs("--bind-address=$(IT)")),
			blocks: "only the running Pod has status.hostIP",
		},
		"a variable of a Service": {
			change: addArgs("--cluster-name=$(WEB_SERVICE_HOST)"),
			blocks: "OCCM's container does not define it",
		},
		"a dollar sign": {
			change: addArgs("--cluster-name=a$$(HOST)"),
			url:    "https://keystone.example/v3", reports: "--cluster-name=a$$(HOST) kept",
		},
		"a variable that cloud.conf reads": {
			change: addEnv(fromField("OS_CCM_REGIONAL", "metadata.name")),
			blocks: "variable OS_CCM_REGIONAL: only the running Pod has metadata.name",
		},
		"variables of an unknown Secret": {
			change: func(s *v1.PodSpec) {
				s.Containers[0].EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{
					LocalObjectReference: v1.LocalObjectReference{Name: "absent"},
				}}}
			},
			blocks: "Secret kube-system/absent",
		},
		// The command line.
		"a shell": {
			change: func(s *v1.PodSpec) {
				s.Containers[0].Command = []string{"/bin/bash", "-c", "exec " + occmName + " $ARGS"}
			},
			blocks: "a shell starts OCCM",
		},
		"a wrapper": {
			change: func(s *v1.PodSpec) { s.Containers[0].Command = []string{"/tini", "--"} },
			blocks: "tini starts OCCM",
		},
		"env": {
			change: func(s *v1.PodSpec) { s.Containers[0].Command = []string{"env", "OS_CLOUD=x"} },
			blocks: "env starts OCCM",
		},
		"a file of fxccm": {
			change: addArgs("--config=" + theConf), blocks: "OCCM has no such flag",
		},
		"a loopback of the node": {
			change: all(withNodeNetwork, addArgs("--bind-address=127.0.0.1")),
			url:    "https://keystone.example/v3", reports: "--bind-address=127.0.0.1 kept",
		},
		"a port of root on the node": {
			change: all(withNodeNetwork, addArgs("--secure-port=443")),
			blocks: "only root may bind port 443",
		},
		"a port of root in the Pod": {
			change: addArgs("--secure-port=443"), url: "https://keystone.example/v3",
		},
		"a loopback of the Pod": {
			change: addArgs("--bind-address", "::1"), url: "https://keystone.example/v3",
			reports: "--bind-address=::1 left out: fxccm binds all addresses of the Pod",
		},
		// cloud.conf.
		"a relative path": {
			change: func(s *v1.PodSpec) { s.Containers[0].Env[0].Value = "cloud.conf" },
			blocks: "write an absolute path",
		},
		"in the working directory": {
			change: func(s *v1.PodSpec) {
				s.Containers[0].Env[0].Value = "cloud.conf"
				s.Containers[0].WorkingDir = "/etc/config"
			},
			url: "https://keystone.example/v3", reports: "Secret kube-system/cloud-config",
		},
		"on the node": {
			change: func(s *v1.PodSpec) { s.Containers[0].Env[0].Value = "/etc/pki/cloud.conf" },
			blocks: "give a copy with --cloud-config=FILE",
		},
		"on the node, with a copy": {
			change: func(s *v1.PodSpec) { s.Containers[0].Env[0].Value = "/etc/pki/cloud.conf" },
			args:   []string{"--cloud-config=" + theConf},
			url:    "https://keystone.example/v3", reports: theConf + " on this machine",
		},
		"in the working directory of the node, with a copy": {
			change: func(s *v1.PodSpec) {
				s.Containers[0].Env[0].Value = "./cloud.conf"
				s.Containers[0].WorkingDir = "/etc/pki"
			},
			args: []string{"--cloud-config=" + theConf}, url: "https://keystone.example/v3",
		},
		"a key file by a path with dots": {
			conf:   conf + "ca-file = /etc/config/../pki/ca.crt\n",
			blocks: "--file=/etc/pki/ca.crt=FILE", url: "https://keystone.example/v3",
		},
		"of a CSI driver": {
			change: func(s *v1.PodSpec) {
				s.Volumes[0].VolumeSource = v1.VolumeSource{
					CSI: &v1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"},
				}
			},
			blocks: "give a copy with --cloud-config=FILE",
		},
		"of an init container": {
			change: func(s *v1.PodSpec) {
				s.Volumes[0].VolumeSource = v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
			},
			args:   []string{"--cloud-config=" + theConf},
			blocks: "another container of OCCM's Pods writes it",
		},
		"of an agent": {
			change: elsewhere, annotations: annotated, args: []string{"--cloud-config=" + theConf},
			blocks: "Their template has vault.example.com/inject",
			url:    "https://keystone.example/v3",
		},
		"of an agent, without a copy": {
			change: elsewhere, annotations: annotated,
			args: []string{"--copy-metadata=vault.example.com/*"}, blocks: "--cloud-config=FILE",
		},
		"of an agent, with its annotations": {
			change: elsewhere, annotations: annotated,
			args:    []string{"--cloud-config=" + theConf, "--copy-metadata=vault.example.com/*"},
			url:     "https://keystone.example/v3",
			reports: "an agent must inject it into fxccm's Pods",
		},
		"metadata that does not exist": {
			change: nothing, args: []string{"--copy-metadata=vault"},
			blocks: "no annotation or label of OCCM's Pods has this name",
		},
		// What an admission webhook adds.
		"an injected variable": {
			more:   []runtime.Object{injected(addEnv(v1.EnvVar{Name: "OS_CLOUD", Value: "x"}))},
			blocks: "variable OS_CLOUD",
		},
		"an injected variable of a Secret": {
			change: addEnv(fromSecret("OS_CLOUD", "names", "one")),
			more: []runtime.Object{
				secretOf("names", map[string]string{"one": "x", "two": "y"}),
				injected(addEnv(fromSecret("OS_CLOUD", "names", "two"))),
			},
			blocks: "variable OS_CLOUD",
		},
		"injected variables": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				s.Containers[0].EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{
					LocalObjectReference: v1.LocalObjectReference{Name: "names"},
				}}}
			})},
			blocks: "variables of Secret names",
		},
		"an injected host alias": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				s.HostAliases = []v1.HostAlias{
					{IP: "192.0.2.1", Hostnames: []string{"keystone.example"}},
				}
			})},
			blocks: "host alias 192.0.2.1",
		},
		"an injected sidecar": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				s.Containers = append(s.Containers, v1.Container{Name: "proxy"})
			})},
			blocks: "container proxy",
		},
		"an injected sidecar among the init containers": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				s.InitContainers = append(s.InitContainers, v1.Container{
					Name: "proxy", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
				})
			})},
			blocks: "container proxy",
		},
		"a variable that the running Pod does not have": {
			change: addEnv(v1.EnvVar{Name: "OS_CLOUD", Value: "x"}),
			more:   []runtime.Object{injected(func(*v1.PodSpec) {})},
			blocks: "variable OS_CLOUD",
		},
		"another Secret in the running Pod": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				s.Volumes[0].VolumeSource = ofSecret("cloud-config-of-the-last-rollout")
			})},
			blocks: "volume conf",
		},
		"an injected volume": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				addVolume(s, "/vault/secrets", v1.VolumeSource{})
			})},
			blocks: "volume at /vault/secrets",
		},
		"the token of the Pod": {
			more: []runtime.Object{injected(func(s *v1.PodSpec) {
				addVolume(s, accountDir, v1.VolumeSource{})
			})},
			url: "https://keystone.example/v3",
		},
		"other arguments": {
			more:   []runtime.Object{injected(addArgs("--cluster-name=other"))},
			blocks: "its arguments differ from those of its template",
		},
		// clouds.yaml.
		"beside cloud.conf": {
			change: func(s *v1.PodSpec) { addVolume(s, "/etc/clouds", ofSecret("clouds")) },
			conf:   cloudsConf + "clouds-file = /etc/clouds/clouds.yaml\n",
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			url: "https://theirs.example/v3", reports: "read from Secret kube-system/clouds",
		},
		"in /etc/openstack": {
			change: func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", ofSecret("clouds")) },
			conf:   cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
				"secure.yaml": "clouds: {prod: {auth: {auth_url: 'https://secure.example/v3'}}}",
			})},
			url: "https://secure.example/v3", reports: "secure.yaml",
		},
		"named by a variable": {
			change: all(addEnv(v1.EnvVar{Name: "OS_CLIENT_CONFIG_FILE", Value: "/c/mine"}),
				func(s *v1.PodSpec) { addVolume(s, "/c", ofSecret("clouds")) }),
			conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"mine": cloudsAt("https://theirs.example/v3"),
			})},
			url: "https://theirs.example/v3",
		},
		"in a home directory": {
			change: func(s *v1.PodSpec) {
				addVolume(s, "/root/.config/openstack", ofSecret("clouds"))
			},
			conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			blocks: "fxccm has another home directory", url: "https://theirs.example/v3",
		},
		"a file in a home directory": {
			change: all(mountFile("/root/.config/openstack/clouds.yaml", "clouds"),
				func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", ofSecret("others")) }),
			conf: cloudsConf,
			more: []runtime.Object{
				secretOf("clouds", map[string]string{
					"clouds.yaml": cloudsAt("https://theirs.example/v3"),
				}),
				secretOf("others", map[string]string{
					"clouds.yaml": cloudsAt("https://others.example/v3"),
				}),
			},
			blocks: "fxccm has another home directory", url: "https://theirs.example/v3",
		},
		"an item in a home directory": {
			change: func(s *v1.PodSpec) {
				volume := ofSecret("clouds")
				volume.Secret.Items = []v1.KeyToPath{
					{Key: "clouds.yaml", Path: ".config/openstack/clouds.yaml"},
				}
				addVolume(s, "/root", volume)
			},
			conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			blocks: "fxccm has another home directory", url: "https://theirs.example/v3",
		},
		"a home directory of the node": {
			change: all(withHostPath("/root"),
				func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", ofSecret("clouds")) }),
			conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			blocks: "--file=/root/.config/openstack/clouds.yaml=FILE",
		},
		"a folder of settings of the node": {
			change: all(withHostPath("/home/occm/.config"),
				func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", ofSecret("clouds")) }),
			conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			blocks: "--file=/home/occm/.config/openstack/clouds.yaml=FILE",
		},
		"a file in the image's working directory": {
			change: mountFile("/clouds.yaml", "clouds"), conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			blocks: "another working directory", url: "https://theirs.example/v3",
		},
		"a named file in a home directory": {
			change: mountFile("/root/.config/openstack/clouds.yaml", "clouds"),
			conf:   cloudsConf + "clouds-file = /root/.config/openstack/clouds.yaml\n",
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": cloudsAt("https://theirs.example/v3"),
			})},
			url: "https://theirs.example/v3",
		},
		"in no volume": {conf: cloudsConf, blocks: "no clouds.yaml exists"},
		"named, in none": {
			conf:   cloudsConf + "clouds-file = clouds.yaml\n",
			blocks: "absolute path",
		},
		"named, injected": {
			conf:   cloudsConf + "clouds-file = /x/c.yaml\n",
			blocks: "--file=/x/c.yaml=FILE",
		},
		"of another region": {
			conf:   conf + "region = one\n[Global \"two\"]\nuse-clouds = true\n",
			blocks: "no clouds.yaml exists",
		},
		"clouds.yaml on the node": {
			change: func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", hostPath) },
			conf:   cloudsConf, blocks: "--file=/etc/openstack/clouds.yaml=FILE",
		},
		"clouds.yaml on the node, with copies": {
			change: func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", hostPath) },
			conf:   cloudsConf,
			args: []string{
				"--file=/etc/openstack/clouds.yaml=" + theClouds,
				"--file=/etc/openstack/secure.yaml=", "--file=/etc/openstack/secure.yml=",
			},
			url: "https://copied.example/v3", reports: theClouds + " on this machine",
		},
		"the key file of another region": {
			conf:   conf + "region = one\n[Global \"two\"]\nca-file = /etc/pki/two.crt\n",
			blocks: "--file=/etc/pki/two.crt=FILE", url: "https://keystone.example/v3",
		},
		"a copy that is a device": {
			conf:   conf + "ca-file = /etc/pki/ca.crt\n",
			args:   []string{"--file=/etc/pki/ca.crt=/dev/null"},
			blocks: "neither a regular file nor a pipe", url: "https://keystone.example/v3",
		},
		"an unknown choice of several clouds": {
			change: all(addEnv(fromField("OS_CLOUD", "metadata.name")),
				func(s *v1.PodSpec) { addVolume(s, "/etc/openstack", ofSecret("clouds")) }),
			conf: cloudsConf,
			more: []runtime.Object{secretOf("clouds", map[string]string{
				"clouds.yaml": "clouds: {one: {}, two: {}}\n",
			})},
			blocks: "variable OS_CLOUD: only the running Pod has metadata.name",
		},
		"the authorities of the system": {
			change: addEnv(v1.EnvVar{Name: "SSL_CERT_FILE", Value: "/etc/pki/ca.crt"}),
			blocks: "--file=/etc/pki/ca.crt=FILE", url: "https://keystone.example/v3",
		},
		// The cluster.
		"the kubeconfig of a cluster": {
			change: addArgs("--kubeconfig=/etc/config/kubeconfig"), blocks: "--workload-kubeconfig",
		},
		"an API server": {
			change: addArgs("--master=https://192.0.2.1"), blocks: "--workload-kubeconfig",
		},
		"the variable of an API server": {
			change: addEnv(v1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "192.0.2.1"}),
			blocks: "--workload-kubeconfig",
		},
		"the account of another cluster": {
			change: func(s *v1.PodSpec) {
				addVolume(s,
					"/run/secrets/kubernetes.io/serviceaccount", ofSecret("x"))
			},
			blocks: "--workload-kubeconfig",
		},
		// The way to OpenStack.
		"a name of hostAliases": {
			change: withAlias("192.0.2.1", "localhost"), conf: at("localhost"),
			blocks: `add "192.0.2.1 localhost" to /etc/hosts`, url: "https://localhost/v3",
		},
		"a name that this machine resolves alike": { // a name that needs no DNS
			change: withAlias("192.0.2.1", "192.0.2.1"), conf: at("192.0.2.1"),
			url: "https://192.0.2.1/v3",
		},
		"a name of the loopback": {
			change: withAlias("127.0.0.1", "keystone.example"),
			blocks: "an address of OCCM's node itself", url: "https://keystone.example/v3",
		},
		"an address of the Pod": {
			conf: at("127.0.0.1:5000"), blocks: "an address of OCCM's Pod itself",
			url: "https://127.0.0.1:5000/v3",
		},
		"an unspecified address": {
			conf: at("0.0.0.0:5000"), blocks: "an address of OCCM's Pod itself",
			url: "https://0.0.0.0:5000/v3",
		},
		"a name below localhost": {
			conf: at("keystone.LocalHost.:5000"), blocks: "an address of OCCM's Pod itself",
			url: "https://keystone.LocalHost.:5000/v3",
		},
		"an address of a sidecar among the init containers": {
			change: func(s *v1.PodSpec) {
				s.HostNetwork = true
				s.InitContainers = append(s.InitContainers, v1.Container{
					Name: "proxy", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
				})
			},
			conf: at("127.0.0.1:5000"), blocks: "an address of OCCM's Pod itself",
			url: "https://127.0.0.1:5000/v3",
		},
		"an address of the node": {
			change: func(s *v1.PodSpec) { s.HostNetwork = true },
			conf:   at("127.0.0.1:5000"), blocks: "an address of OCCM's node itself",
			url: "https://127.0.0.1:5000/v3",
		},
		"an address of the node, which is this machine": {
			change: func(s *v1.PodSpec) { s.HostNetwork = true },
			conf:   at("127.0.0.1:5000"), url: "https://127.0.0.1:5000/v3",
			more: []runtime.Object{onNode("127.0.0.1")},
		},
		"an address of another node": {
			change: func(s *v1.PodSpec) { s.HostNetwork = true },
			conf:   at("127.0.0.1:5000"), blocks: "run the command on a node with a Pod of OCCM",
			url:  "https://127.0.0.1:5000/v3",
			more: []runtime.Object{onNode("192.0.2.1")},
		},
		"an address of the node, with a copy": {
			change: func(s *v1.PodSpec) { s.HostNetwork = true },
			conf:   at("127.0.0.1:5000"), args: []string{"--cloud-config=" + theConf},
			url: "https://keystone.example/v3", reports: theConf + " on this machine",
		},
		"OCCM's name in a flag": {
			change: all(func(s *v1.PodSpec) { s.Containers[0].Args[0] = "/bin/occm" },
				addArgs("--leader-elect-resource-name="+occmName)),
			url: "https://keystone.example/v3",
		},
		// Routes.
		"routes without a range": {
			conf:   conf + "[Route]\nrouter-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n",
			blocks: "--configure-cloud-routes=false if the cluster has no routes",
			url:    "https://keystone.example/v3",
		},
		"routes of OCCM's chart": {
			change: addArgs("--controllers=cloud-node,cloud-node-lifecycle,route,service"),
			conf:   conf + "[Route]\nrouter-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n",
			blocks: "--configure-cloud-routes=false", url: "https://keystone.example/v3",
		},
		"no route controller": {
			change: addArgs("--controllers=*,-route"),
			conf:   conf + "[Route]\nrouter-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n",
			url:    "https://keystone.example/v3",
		},
		"other controllers": {
			change: addArgs("--controllers=service"),
			conf:   conf + "[Route]\nrouter-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n",
			url:    "https://keystone.example/v3",
		},
		"a second DaemonSet": {
			args:   []string{"--occm=kube-system/ccm"},
			more:   []runtime.Object{secondSet(nil, 1)},
			blocks: "DaemonSet occm/second it runs OCCM for this cluster, too",
		},
		"a second DaemonSet, in another namespace": {
			args:   []string{"-n=kube-system"},
			more:   []runtime.Object{secondSet(nil, 1)},
			blocks: "DaemonSet occm/second it runs OCCM for this cluster, too",
		},
		"a second DaemonSet without Pods": {
			args: []string{"--occm=kube-system/ccm"},
			more: []runtime.Object{secondSet(nil, 0)}, url: "https://keystone.example/v3",
		},
		"a second DaemonSet of another cluster": {
			args: []string{"--occm=kube-system/ccm"},
			more: []runtime.Object{secondSet(addArgs("--kubeconfig=/etc/c2"), 1)},
			url:  "https://keystone.example/v3",
		},
		"a second DaemonSet with the address of another cluster": {
			args: []string{"--occm=kube-system/ccm"},
			more: []runtime.Object{secondSet(withEnv("KUBERNETES_SERVICE_HOST", "192.0.2.1"), 1)},
			url:  "https://keystone.example/v3",
		},
		"a second DaemonSet with the same kubeconfig of the node": {
			change: addArgs("--kubeconfig=/etc/pki/kubeconfig"),
			args:   []string{"--occm=kube-system/ccm"},
			more:   []runtime.Object{secondSet(addArgs("--kubeconfig", "/etc/pki/kubeconfig"), 1)},
			blocks: "DaemonSet occm/second it runs OCCM for this cluster, too",
		},
		"a Pod of a ReplicaSet without a Deployment": {
			more: []runtime.Object{&v1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "occm", Name: "occm-7d4b9-x",
					OwnerReferences: []metav1.OwnerReference{
						{Kind: "ReplicaSet", Name: "occm-7d4b9", Controller: ptr.To(true)},
					},
				},
				Spec: occmPod(nil).Spec,
			}},
			blocks: "belongs to a ReplicaSet, which fxccm migrate cannot stop",
		},
		"a static Pod, too": {
			more: []runtime.Object{&v1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "kube-system", Name: "occm-node-1",
					Annotations: map[string]string{v1.MirrorPodAnnotationKey: "x"},
				},
				Spec: occmPod(nil).Spec,
			}},
			blocks: "only node",
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := occmPod(c.change)
			template.Annotations = c.annotations
			template.Labels = map[string]string{"k8s-app": "ccm"}
			set := daemonSet("ccm", template)
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: template.Labels}
			if c.conf == "" {
				c.conf = conf
			}
			m := checkedSet(t, set, c.conf, c.args, c.more...)
			var text strings.Builder
			if err := m.report().WriteTable(&text); err != nil {
				t.Fatal(err)
			}
			has := func(level Level, part string) bool {
				return slices.ContainsFunc(m.findings, func(f Finding) bool {
					return (level == "" || f.Level == level) &&
						strings.Contains(f.Subject+" "+f.Text, part)
				})
			}
			url := ""
			if m.conf != nil {
				url = m.conf.Global.AuthURL
			}
			switch {
			case c.blocks != "" && !has(Blocks, c.blocks):
				t.Errorf("no finding blocks with %q", c.blocks)
			case c.blocks == "" && m.isBlocked():
				t.Error("it blocks")
			case url != c.url:
				t.Errorf("check reads the cloud at %q, want %q", url, c.url)
			case !has("", c.reports):
				t.Errorf("it does not report %q", c.reports)
			case strings.Contains(text.String(), "s3cret"):
				t.Error("it shows a secret")
			}
			if t.Failed() {
				t.Log(text.String())
			}
		})
	}
}

func TestFind_OCCMIsNoDeploymentOrDaemonSet_ErrorSaysWhatToDo(t *testing.T) {
	pod := func(owner string) *v1.Pod {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "occm-node-1"},
			Spec:       occmPod(nil).Spec,
		}
		p.Spec.NodeName = "node-1"
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{
				{Kind: owner, Name: "x", Controller: ptr.To(true)},
			}
		}
		return p
	}
	other := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	other.Spec.Template.Spec.Containers = []v1.Container{{Name: "web", Image: "example.com/web"}}
	for name, c := range map[string]struct {
		objects []runtime.Object
		args    []string
		want    string
	}{
		"static": {
			[]runtime.Object{pod("Node")},
			nil,
			"is a static Pod: only node node-1 can stop it",
		},
		"static, named": {
			[]runtime.Object{pod("Node")},
			[]string{"--occm=kube-system/occm-node-1"},
			"is a static Pod",
		},
		"alone":       {[]runtime.Object{pod("")}, nil, "belongs to no workload"},
		"ReplicaSet":  {[]runtime.Object{pod("ReplicaSet")}, nil, "belongs to a ReplicaSet"},
		"StatefulSet": {[]runtime.Object{pod("StatefulSet")}, nil, "belongs to a StatefulSet"},
		"none":        {[]runtime.Object{other}, nil, "name it with --occm=namespace/name"},
		"wrong name": {
			[]runtime.Object{other},
			[]string{"--occm=default/occm"},
			"no Deployment or DaemonSet default/occm exists",
		},
		"namespace": {
			[]runtime.Object{other},
			[]string{"-n=default"},
			"no Deployment or DaemonSet in namespace default runs",
		},
		"namespace, and a Pod elsewhere": {
			[]runtime.Object{pod("StatefulSet")},
			[]string{"-n=default"},
			"no Deployment or DaemonSet in namespace default runs",
		},
		"name in a namespace": {
			[]runtime.Object{other},
			[]string{"-n=default", "--occm=occm"},
			"no Deployment or DaemonSet default/occm exists",
		},
		"another name": {
			[]runtime.Object{pod(daemonSetKind)},
			[]string{"--occm=occm"},
			"occm exists",
		},
	} {
		l := newLine(t, c.args...)
		m := &migration{
			Cluster: &Cluster{&cli.Cluster{Interface: fake.NewClientset(c.objects...)}},
			program: newProgram(), line: l, out: io.Discard,
		}
		if err := m.find(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.want)
		}
	}
}

func TestReadMounted_EachSource_IsThatOfTheKubelet(t *testing.T) {
	projected := func(names ...string) v1.VolumeSource {
		var sources []v1.VolumeProjection
		for _, name := range names {
			sources = append(sources, v1.VolumeProjection{Secret: &v1.SecretProjection{
				LocalObjectReference: v1.LocalObjectReference{Name: name}, Optional: ptr.To(true),
			}})
		}
		return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}
	}
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		file   string
		want   string
		err    error
	}{
		"the last source": {
			func(s *v1.PodSpec) { addVolume(s, "/p", projected("one", "absent", "two")) }, "/p/f",
			"2", nil,
		},
		"a slash at the end": {
			func(s *v1.PodSpec) { addVolume(s, "/p/", ofSecret("one")) },
			"/p/f", "1", nil,
		},
		"the deepest mount": {
			func(s *v1.PodSpec) {
				addVolume(s, "/p/f",
					v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}})
				addVolume(s, "/p", ofSecret("one"))
			}, "/p/f", "", errUnreadable,
		},
		"a name that begins like the mount": {
			func(s *v1.PodSpec) { addVolume(s, "/p", ofSecret("one")) }, "/pf", "", errNotMounted,
		},
		"a token": {
			func(s *v1.PodSpec) {
				addVolume(s, "/p", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
					Sources: []v1.VolumeProjection{{
						ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"},
					}},
				}})
			}, "/p/token", "", errUnreadable,
		},
		"a sub path of the Pod": {
			func(s *v1.PodSpec) {
				addVolume(s, "/p", ofSecret("one"))
				mounts := s.Containers[0].VolumeMounts
				mounts[len(mounts)-1].SubPathExpr = "$(X)"
			}, "/p", "", errUnreadable,
		},
		"no source": {
			func(s *v1.PodSpec) { addVolume(s, "/p", v1.VolumeSource{}) }, "/p/f", "",
			errWritten,
		},
	} {
		w := ofDaemonSet(daemonSet("ccm", occmPod(c.change)))
		w.findContainer(false)
		cluster := &Cluster{&cli.Cluster{Interface: fake.NewClientset(
			secretOf("one", map[string]string{"f": "1"}),
			secretOf("two", map[string]string{"f": "2"}))}}
		got, err := cluster.readMounted(t.Context(), w, nil, c.file)
		if string(got.content) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, got.content, err, c.want, c.err)
		}
	}
}
