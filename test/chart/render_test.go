package chart

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what is generated from the chart")

const (
	chartDir = "../../deploy/chart"
	baseDir  = "../../deploy/base"
	fleetDir = "../../deploy/fleet"
	// kustomize is the releasing service for the base, which has no Helm release.
	kustomize = "kustomize"
)

func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := loaded.Validate(); err != nil {
		t.Fatal(err)
	}
	return loaded
}

// render returns the manifests by the names of their templates. values is YAML that overrides the
// defaults.
func render(t *testing.T, service, values string) (map[string]string, error) {
	t.Helper()
	return renderInto(t, "kube-system", service, values)
}

func renderInto(t *testing.T, namespace, service, values string) (map[string]string, error) {
	t.Helper()
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	loaded := load(t)
	all, err := commonutil.ToRenderValues(loaded, given, common.ReleaseOptions{
		Name: "ccm", Namespace: namespace, Revision: 1, IsInstall: true,
	}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	all["Release"].(map[string]any)["Service"] = service
	rendered, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	manifests := map[string]string{}
	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			manifests[path.Base(name)] = strings.TrimLeft(text, "\n")
		}
	}
	return manifests, nil
}

// The chart is the only source of the manifests: the Kustomize base is rendered from it.
func TestBase_IsTheChartWithItsDefaults(t *testing.T) {
	want, err := render(t, kustomize, "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := render(t, kustomize, "persistentVolumeLabel: {enabled: true}")
	if err != nil {
		t.Fatal(err)
	}
	want[optional] = all[optional]
	compareManifests(t, baseDir, want)
}

// The manifests of a fleet are rendered from the chart with the values in their folder.
func TestFleet_IsTheChartWithItsValues(t *testing.T) {
	want, err := renderInto(t, "fxccm-system", kustomize, fleetValues(t))
	if err != nil {
		t.Fatal(err)
	}
	compareManifests(t, fleetDir, want)
}

func TestFleet_MemoryLimitOfGo_IsBelowThatOfTheContainer(t *testing.T) {
	container := podTemplate(t, fleetValues(t)).Spec.Containers[0]
	limit := float64(container.Resources.Limits.Memory().Value())
	at := slices.IndexFunc(container.Env, func(e corev1.EnvVar) bool {
		return e.Name == "GOMEMLIMIT"
	})
	if at < 0 {
		t.Fatal("GOMEMLIMIT is not set")
	}
	of, err := resource.ParseQuantity(strings.TrimSuffix(container.Env[at].Value, "B"))
	if err != nil {
		t.Fatal(err)
	}
	if share := of.AsApproximateFloat64() / limit; share < 0.8 || share > 0.95 {
		t.Errorf("GOMEMLIMIT is %.2f of the container's limit", share)
	}
}

// The last value of a flag counts.
func TestNodeLabels_FollowTheInstances_UnlessExtraArgsTurnThatOff(t *testing.T) {
	for _, values := range []string{"", fleetValues(t)} {
		values += "\nextraArgs: [--update-node-labels=false]"
		args := podTemplate(t, values).Spec.Containers[0].Args
		on := slices.Index(args, "--update-node-labels")
		off := slices.Index(args, "--update-node-labels=false")
		if on < 0 || off < on {
			t.Errorf("the arguments are %q", args)
		}
	}
}

func TestFleet_Values_AreFlags(t *testing.T) {
	args := podTemplate(t, strings.Replace(fleetValues(t), "enabled: true",
		"enabled: true\n  clusterMetrics: true\n  requireOwnerMark: true\n"+
			"  cloud: {requestRate: 2.5, listMaxAge: 4m}", 1)).Spec.Containers[0].Args
	for _, want := range []string{
		"--cluster-metrics", "--require-owner-mark", "--cloud-request-rate=2.5",
		"--cloud-request-burst=50", "--cloud-list-max-age=4m",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%q has no %s", args, want)
		}
	}
}

func TestFleet_CleanUpLoadBalancers_AddsItsFlagAndItsRules(t *testing.T) {
	off := fleetValues(t)
	on := strings.Replace(off, "enabled: true", "enabled: true\n  cleanUpLoadBalancers: true", 1)
	for values, want := range map[string]bool{off: false, on: true} {
		manifests, err := renderInto(t, "fxccm-system", kustomize, values)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"workload.yaml": "- --clean-up-load-balancers\n",
			"rbac.yaml":     "resources: [\"clusters\"]\n    verbs: [\"get\", \"patch\"]\n",
		} {
			if got := strings.Contains(manifests[name], text); got != want {
				t.Errorf("%s has %q: %t, want %t:\n%s", name, text, got, want, manifests[name])
			}
		}
	}
}

func fleetValues(t *testing.T) string {
	t.Helper()
	values, err := os.ReadFile(filepath.Join(fleetDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(values)
}

// compareManifests compares a folder with the rendered manifests, and writes it with -update.
func compareManifests(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var have []string
	for _, entry := range entries {
		if name := entry.Name(); !slices.Contains(handwritten, name) {
			have = append(have, name)
		}
	}
	if names := slices.Sorted(maps.Keys(want)); !*update && !slices.Equal(have, names) {
		t.Errorf("%s has %q, the chart renders %q", dir, have, names)
	}
	for name, text := range want {
		text = "# Rendered from deploy/chart; to change it, run: go generate ./deploy\n" + text
		file := filepath.Join(dir, name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s differs from the rendered chart (%v); run: go generate ./deploy", file, err)
		}
	}
}

// optional is in the base's folder, for operators who run the controller.
const optional = "persistentvolumelabel.yaml"

// handwritten are files that are not rendered.
var handwritten = []string{
	"kustomization.yaml", "cloud-config.yaml", "namespace.yaml", "values.yaml",
}

func TestValues_Invalid_AreRefusedByName(t *testing.T) {
	for values, want := range map[string]string{
		// Older API servers, such as that of Kubernetes 1.31, refuse these names.
		"fullnameOverride: 1a":                                "fullnameOverride",
		"env: [{name: \"a:\"}]":                               "env",
		"env: [{name: A, value: true}]":                       "env",
		"podLabels: {a/b/c: x}":                               "/podLabels",
		"podAnnotations: {a b: x}":                            "/podAnnotations",
		"kind: StatefulSet":                                   "kind",
		"replicas: two":                                       "replicas",
		"replica: 2":                                          "replica",
		"image: {repository: \"\"}":                           "repository",
		"image: {digest: \"sha256:12\"}":                      "digest",
		"cloudConfig: {mountPath: etc}":                       "mountPath",
		"extraArgs: [v=2]":                                    "extraArgs",
		"leaderElection: {leaseDuration: soon}":               "leaseDuration",
		"leaderElection: {enabled: false}":                    "only one replica may act",
		"leaderElection: {resourceName: A}":                   "resourceName",
		"leaderElection: {resourceNamespace: a.b}":            "resourceNamespace",
		"routes: {enabled: true}":                             "routes.enabled needs clusterCIDR",
		"metrics: {reader: {name: prometheus}}":               "metrics.reader needs a namespace",
		"{kind: DaemonSet, leaderElection: {enabled: false}}": "only one replica may act",
		"{kind: DaemonSet, fleet: {enabled: true}}":           "fleet.enabled needs kind",
		"networkPolicy: {enabled: true}":                      "needs hostNetwork: false",
		"networkPolicy: {exceptIPv4: [10.0.0.0]}":             "exceptIPv4",
		"fleet: {clusters: kamaji}":                           "clusters",
		"fleet: {enabled: true}":                              "fleet.clustersNamespace must not",
		"cloudConfig: {secretName: \"\"}":                     "secretName must not be empty",

		"{fleet: {enabled: true}, leaderElection: {resourceName: a}}": "not for a fleet",

		"fleet: {enabled: true, clusters: secrets, allNamespaces: true}": "clustersNamespace",

		"podLabels: {app.kubernetes.io/name: x}":    "/podLabels/app.kubernetes.io~1name",
		"podLabels: {app.kubernetes.io/part-of: x}": "/podLabels/app.kubernetes.io~1part-of",
	} {
		if _, err := render(t, "Helm", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", values, err, want)
		}
	}
}

// The names are those in values.yaml and in the templates of OCCM's chart
// (charts/openstack-cloud-controller-manager in kubernetes/cloud-provider-openstack).
func TestValues_OfOCCMsChart_EachIsHereOrRefusedWithWhatToSet(t *testing.T) {
	ours := fromFile(t, "values.yaml").(map[string]any)
	for _, name := range []string{
		"cloudConfig", "cloudConfigContents", "cluster", "clusterRoleName", "commonAnnotations",
		"controllerExtraArgs", "dnsPolicy", "enabledControllers", "extraEnv",
		"extraInitContainers", "extraVolumeMounts", "extraVolumes", "fullnameOverride",
		"hostAliases", "image", "imagePullSecrets", "livenessProbe", "logVerbosityLevel",
		"nameOverride", "nodeSelector", "podAnnotations", "podLabels", "podSecurityContext",
		"priorityClassName", "readinessProbe", "resources", "secret", "serviceAccountName",
		"serviceMonitor", "tolerations",
	} {
		if _, isOurs := ours[name]; isOurs {
			continue
		}
		_, err := render(t, "Helm", name+": {a: b}")
		if want := name + " is a value of the chart of"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}

// A value of OCCM's chart is refused with what to set instead, all of them in one error. Values
// that both charts have render.
func TestValues_OfOCCMsChart_AreRefusedWithWhatToSet(t *testing.T) {
	_, err := render(t, "Helm", `
cloudConfig: {global: {auth-url: "https://keystone.example"}, loadBalancer: {enabled: true}}
cluster: {name: prod}
secret: {create: false, name: cloud-config}
enabledControllers: [cloud-node, service]
controllerExtraArgs: "- --cluster-name=prod"
extraEnv: [{name: A, value: b}]
logVerbosityLevel: 4
commonAnnotations: {team: x}
serviceAccountName: cloud-controller-manager
`)
	if err == nil {
		t.Fatal("the values of OCCM's chart are accepted")
	}
	for _, want := range []string{
		"cloudConfig.global is a value", "cloudConfig.loadBalancer is a value",
		"here: clusterName", "here: cloudConfig.secretName", "here: controllers;",
		"here: extraArgs", "here: env", "here: logging.verbosity",
		"here: podAnnotations, ", "here: serviceAccount.name",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	template := podTemplate(t, `
podSecurityContext: {runAsUser: 1000650000}
securityContext: {readOnlyRootFilesystem: false}
hostAliases: [{ip: 192.0.2.1, hostnames: [keystone.example]}]
livenessProbe: {}
nodeSelector: {a: b}
`)
	spec := template.Spec
	if user := spec.SecurityContext.RunAsUser; *user != 1000650000 ||
		!*spec.SecurityContext.RunAsNonRoot ||
		*spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem ||
		*spec.Containers[0].SecurityContext.AllowPrivilegeEscalation ||
		len(spec.HostAliases) != 1 || spec.HostAliases[0].IP != "192.0.2.1" {
		t.Errorf("the Pods have %+v", spec)
	}
}

// With OCCM's image the Pods would end at the first flag that OCCM does not have.
func TestImage_OfOCCM_IsRefused(t *testing.T) {
	for repository, isRefused := range map[string]bool{
		"registry.k8s.io/provider-os/openstack-cloud-controller-manager": true,
		"mirror.example/openstack-cloud-controller-manager-amd64":        true,
		"openstack-cloud-controller-manager":                             true,
		"mirror.example:5000/openstack-cloud-controller-manager/fxccm":   false,
		"registry.example.com/fxccm":                                     false,
	} {
		_, err := render(t, "Helm", "image: {repository: "+repository+", tag: v1.36.0}")
		if (err != nil) != isRefused ||
			err != nil && !strings.Contains(err.Error(), "the repository of fxccm's image") {
			t.Errorf("%s: error %v, want one: %t", repository, err, isRefused)
		}
	}
}

func TestMetrics_SwitchedOn_RenderAServiceMonitorOfTheService(t *testing.T) {
	manifests, err := render(t, "Helm", "metrics: {serviceMonitor: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]any{}
	for _, text := range strings.Split(manifests["metrics.yaml"], "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		kinds[object["kind"].(string)] = object
	}
	service, monitor := kinds["Service"], kinds["ServiceMonitor"]
	if service == nil || monitor == nil || len(kinds) != 2 {
		t.Fatalf("want a Service and a ServiceMonitor, got:\n%s", manifests["metrics.yaml"])
	}
	labels := service["metadata"].(map[string]any)["labels"].(map[string]any)
	selector := monitor["spec"].(map[string]any)["selector"].(map[string]any)["matchLabels"]
	for name, value := range selector.(map[string]any) {
		if labels[name] != value {
			t.Errorf("the ServiceMonitor selects %s=%v, the Service has %v", name, value, labels)
		}
	}
}

func TestMonitoring_SwitchedOn_RendersTheAlertsAndTheDashboard(t *testing.T) {
	manifests, err := render(t, "Helm", "metrics: {prometheusRule: {enabled: true, "+
		"labels: {release: prometheus}}, dashboard: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	alerts, dashboard, both := strings.Cut(manifests["monitoring.yaml"], "\n---\n")
	if !both {
		t.Fatalf("want two objects, got:\n%s", manifests["monitoring.yaml"])
	}
	var rule struct {
		Kind     string
		Metadata struct{ Labels map[string]string }
		Spec     any
	}
	if err := yaml.Unmarshal([]byte(alerts), &rule); err != nil {
		t.Fatal(err)
	}
	if rule.Kind != "PrometheusRule" || rule.Metadata.Labels["release"] != "prometheus" ||
		!reflect.DeepEqual(rule.Spec, fromFile(t, "monitoring/alerts.yaml")) {
		t.Errorf("the PrometheusRule is\n%s", alerts)
	}
	var config struct {
		Kind     string
		Metadata struct{ Labels map[string]string }
		Data     map[string]string
	}
	if err := yaml.Unmarshal([]byte(dashboard), &config); err != nil {
		t.Fatal(err)
	}
	var shown any
	if err := yaml.Unmarshal([]byte(config.Data["fxccm.json"]), &shown); err != nil {
		t.Fatal(err)
	}
	if config.Kind != "ConfigMap" || config.Metadata.Labels["grafana_dashboard"] != "1" ||
		!reflect.DeepEqual(shown, fromFile(t, "monitoring/dashboard.json")) {
		t.Errorf("the ConfigMap is\n%s", dashboard)
	}
}

// fromFile is the content of a file of the chart.
func fromFile(t *testing.T, name string) (content any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	return content
}

// The page lists each value with its default and its comment.
func TestPage_ListsEachValue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	occm, err := os.ReadFile(filepath.Join(chartDir, "occm-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := valuesPage(text, occm, rulesTable(t))
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../docs/reference/chart.md"
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page {
		t.Errorf("%s is not generated from values.yaml (%v); run: go generate ./deploy", file, err)
	}
	for name := range load(t).Values {
		if !strings.Contains(page, fmt.Sprintf("| `%s", name)) {
			t.Errorf("the page lacks %s: give it a comment that begins with --", name)
		}
	}
}
