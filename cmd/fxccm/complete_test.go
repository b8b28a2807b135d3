package main

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// completions returns what a shell gets for a command line, without descriptions.
func completions(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, _ := runSubcommand(append([]string{"__complete"}, args...)...)
	if code != exitClean {
		t.Fatalf("%q: exit code %d", args, code)
	}
	return stdout
}

const (
	nothing     = ":4\n"
	anyFile     = ":0\n"
	directory   = ":16\n"
	kubeconfig2 = `apiVersion: v1
kind: Config
contexts: [{name: staging, context: {cluster: a}}, {name: prod, context: {cluster: a}}]
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
`
)

func TestCompletion_OfEachKindOfValue_HasItsValues(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	two := writeFile(t, "kubeconfig", kubeconfig2)
	const (
		conf     = "conf\nini\nyaml\nyml\n:8\n"
		manifest = "yaml\nyml\njson\n:8\n"
		contexts = "prod\nstaging\n" + nothing
	)
	for line, want := range map[string]string{
		"status -o <TAB>":                  "json\nyaml\n" + nothing,
		"config check -o <TAB>":            "json\nyaml\n" + nothing,
		"fleet status --sort <TAB>":        "state\ncluster\nleader\nreason\n" + nothing,
		"fleet --clusters <TAB>":           "clusterapi\nsecrets\ndirectory\n" + nothing,
		"config check <TAB>":               conf,
		"plan --cloud-config <TAB>":        conf,
		"plan --service-file <TAB>":        manifest,
		"--config <TAB>":                   manifest,
		"fleet --clusters-directory <TAB>": directory,
		"status --kubeconfig <TAB>":        anyFile,
		"status --server <TAB>":            nothing,
		"status <TAB>":                     nothing,
		"status --context <TAB>":           nothing,
		"status -n <TAB>":                  nothing,
		"describe <TAB>":                   nothing,
		"migrate check --context <TAB>":    nothing,

		"status --kubeconfig K --context <TAB>":                          contexts,
		"migrate check --kubeconfig K --context <TAB>":                   contexts,
		"migrate check --workload-kubeconfig K --workload-context <TAB>": contexts,
		// The server of this context refuses connections.
		"status --kubeconfig K --context prod -n <TAB>":        nothing,
		"describe --kubeconfig K --context prod service/<TAB>": nothing,
	} {
		line = strings.ReplaceAll(line, " K ", " "+two+" ")
		args := strings.Split(strings.TrimSuffix(line, "<TAB>"), " ")
		if got := completions(t, args...); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestCompletion_NamesOfTheCluster_AreListed(t *testing.T) {
	w := newWorld(t)
	for namespace, names := range map[string][]string{"market": {"web", "api"}, "mill": {"test"}} {
		w.create(t, namespace, names)
	}
	admin := w.admin(t)
	for line, want := range map[string]string{
		"describe service/<TAB>":               "service/api\nservice/web\n" + nothing,
		"describe svc/w<TAB>":                  "svc/api\nsvc/web\n" + nothing,
		"describe <TAB>":                       "service/api\nservice/web\n" + nothing,
		"describe service <TAB>":               "api\nweb\n" + nothing,
		"describe service web <TAB>":           nothing,
		"describe service/web <TAB>":           nothing,
		"plan mill/<TAB>":                      "mill/test\n" + nothing,
		"plan service/<TAB>":                   "service/api\nservice/web\n" + nothing,
		"plan --kubeconfig=none service/<TAB>": nothing,
	} {
		words := strings.Split(strings.TrimSuffix(line, "<TAB>"), " ")
		args := append([]string{words[0], "--kubeconfig=" + admin, "-n", "market"}, words[1:]...)
		if got := completions(t, args...); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	for _, line := range []string{"status -n", "describe --ccm-namespace", "fleet status -n"} {
		args := append(strings.Fields(line), "")
		args = append([]string{args[0]}, append(args[1:len(args)-2],
			"--kubeconfig="+admin, args[len(args)-2], "")...)
		if got := completions(t, args...); !strings.Contains(got, "kube-system\n") ||
			!strings.Contains(got, "market\n") {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// create creates Services of type LoadBalancer, and another one.
func (w *world) create(t *testing.T, namespace string, names []string) {
	t.Helper()
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(),
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "internal") {
		service := &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}},
		}
		if name != "internal" {
			service.Spec.Type = v1.ServiceTypeLoadBalancer
		}
		services := w.client.CoreV1().Services(namespace)
		if _, err := services.Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := services.Delete(context.Background(), name,
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A flag whose usage says that it is a file must be in the table.
func TestCompletion_OfEachFileFlag_HasFiles(t *testing.T) {
	aFile := regexp.MustCompile(`(?i)^(a |the )?(\S+ )?(file|kubeconfig|cloud\.conf)\b`)
	eachCommand(newRoot(&bytes.Buffer{}), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			named := strings.HasSuffix(flag.Name, "-file") ||
				strings.HasSuffix(flag.Name, "kubeconfig") || aFile.MatchString(flag.Usage)
			if !named || flag.Hidden || flag.Value.Type() != "string" {
				return
			}
			args := append(strings.Fields(cmd.CommandPath())[1:], "--"+flag.Name, "")
			if got := completions(t, args...); got != anyFile && !strings.HasSuffix(got, ":8\n") {
				t.Errorf("%s --%s: %q, want files", cmd.CommandPath(), flag.Name, got)
			}
		})
	})
}

func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		eachCommand(c, visit)
	}
}
