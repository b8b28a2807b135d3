// Package deps_test limits the dependencies of the library that a host inherits.
package deps_test

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/fxccm/fxccm"

// A host links the packages that it imports and all their dependencies. kinds are groups of
// packages, including the packages below them. Packages of the library must not depend on them,
// except for exceptions.
var kinds = map[string][]string{
	"the API server's machinery": {"k8s.io/apiserver"},
	"storage and RPC":            {"go.etcd.io/etcd", "google.golang.org/grpc"},
	"upstream's command": {
		"k8s.io/cloud-provider/app",
		"k8s.io/cloud-provider/options",
	},
	"what only our tests need": {
		"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime",
		"go.uber.org/goleak", "testing",
	},
	"handlers on the default mux":  {"net/http/pprof", "golang.org/x/net/trace"},
	"the flag --version on import": {"k8s.io/component-base/version/verflag"},
	"a claim on client-go's metrics": {
		"k8s.io/component-base/metrics/prometheus/clientgo",
		"k8s.io/component-base/metrics/prometheus/workqueue",
		"k8s.io/component-base/metrics/prometheus/restclient",
	},
	"a registry of configurations": {"k8s.io/component-base/configz"},
	"an exporter of traces": {
		"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters",
		"go.opentelemetry.io/proto",
	},
	"a template engine":               {"html/template", "text/template"},
	"the command line of this module": {module + "/cmd"},
	"a library for command lines":     {"github.com/spf13/cobra"},
}

// exceptions are the kinds that a package may depend on. They hold only for the package itself,
// neither for those below it nor for those that import it.
var exceptions = map[string][]string{
	// The secure port delegates authentication and authorization with the API server's own code;
	// see also its own test. They import cobra.
	module + "/ccm/serving": {
		"the API server's machinery", "a template engine", "a library for command lines",
	},
	// The groups of flags are in component-base's package for cobra, which has templates. Only
	// programs that use them link them.
	module + "/options": {"a template engine", "a library for command lines"},
	// It runs controllers that were written for upstream's command, and needs the command's types.
	module + "/hosting/initfunc": {
		"the API server's machinery", "storage and RPC", "upstream's command",
		"handlers on the default mux", "the flag --version on import",
		"a claim on client-go's metrics", "a registry of configurations", "a template engine",
		"a library for command lines", "an exporter of traces",
	},
	// Packages for tests of hosts.
	module + "/ccm/ccmtest":              {"what only our tests need"},
	module + "/ccm/ccmtest/conformance":  {"what only our tests need"},
	module + "/ccm/ccmtest/controlplane": {"what only our tests need"},
	// Packages for tests of this module.
	module + "/internal/waittest":                             {"what only our tests need"},
	module + "/internal/pagetest":                             {"what only our tests need"},
	module + "/internal/rbac":                                 {"what only our tests need"},
	module + "/internal/metrics/metricstest":                  {"what only our tests need"},
	module + "/provider/openstack/internal/simclient":         {"what only our tests need"},
	module + "/provider/openstack/internal/events/eventstest": {"what only our tests need"},
}

// The route controller reads the process's feature gate, which is in a small package of the API
// server.
const tolerated = "k8s.io/apiserver/pkg/util/feature"

// Every package of the library is checked, new ones too.
func TestLibrary_DependsOnlyOnAllowedPackages(t *testing.T) {
	for _, problem := range judge(dependencies(t)) {
		t.Error(problem)
	}
}

// The library's go.mod must not pin versions that only the control plane of our tests needs.
func TestLibrary_Module_DoesNotRequireModulesForTests(t *testing.T) {
	for _, path := range list(t, ".", "-m", "-f", "{{.Path}}", "all") {
		for _, forbidden := range []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime"} {
			if path == forbidden {
				t.Errorf("%s is required by the library's go.mod", path)
			}
		}
	}
}

// judge returns a sentence for each forbidden dependency and for each exception without use.
func judge(packages map[string][]string) []string {
	var problems []string
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			brought := slices.DeleteFunc(slices.Clone(packages[pkg]),
				func(dep string) bool { return dep == tolerated || !belowAny(dep, kinds[kind]) })
			excepted := slices.Contains(exceptions[pkg], kind)
			switch {
			case excepted && len(brought) == 0:
				problems = append(problems,
					fmt.Sprintf("%s is excepted for %s and does not bring it", pkg, kind))
			case !excepted && len(brought) > 0:
				for _, dep := range brought {
					problems = append(problems, fmt.Sprintf("%s brings %s: %s", pkg, kind, dep))
				}
			}
		}
	}
	return problems
}

func belowAny(dep string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return dep == prefix || strings.HasPrefix(dep, prefix+"/")
	})
}

// depsFormat makes go list print each package with all its dependencies.
const depsFormat = "-f={{.ImportPath}}{{range .Deps}} {{.}}{{end}}"

// dependencies maps each package of the library to all that it imports, directly or not.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	for _, line := range list(t, ".", depsFormat, "./...") {
		pkg, deps, _ := strings.Cut(line, " ")
		if belongsToLibrary(pkg) {
			packages[pkg] = strings.Fields(deps)
		}
	}
	for _, pkg := range []string{
		"/ccm", "/ccm/serving/endpoints", "/hosting/initfunc",
		"/options", "/provider/fake", "/internal/fence",
	} {
		if len(packages[module+pkg]) == 0 {
			t.Fatalf("go list did not list %s", module+pkg)
		}
	}
	return packages
}

// belongsToLibrary reports whether a host can link the package.
func belongsToLibrary(pkg string) bool {
	return !belowAny(pkg, []string{
		module + "/cmd", module + "/example", module + "/test", module + "/tools",
	})
}

// list returns the lines that go list prints in the module's folder.
func list(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = filepath.Join("../..", dir)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = string(exit.Stderr)
		}
		t.Fatalf("go list %v: %v\n%s", args, err, stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
