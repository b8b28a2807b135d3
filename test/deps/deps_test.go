// Package deps_test keeps out of the library what a host must not inherit.
package deps_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A host links the packages it imports and all that they import. The core must not bring the API server's machinery, and nothing
// must bring what only our tests need.
func TestLibrary_BringsNoMoreThanItNeeds(t *testing.T) {
	apiserver := []string{"k8s.io/apiserver", "go.etcd.io/etcd", "google.golang.org/grpc"}
	command := []string{"k8s.io/cloud-provider/app", "k8s.io/cloud-provider/options"}
	testsOnly := []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime", "go.uber.org/goleak", "testing"}
	cases := []struct {
		packages  []string
		forbidden []string
	}{
		{[]string{"./ccm", "./controllers/...", "./options", "./ccm/serving/endpoints", "./provider/..."}, slices.Concat(apiserver, command, testsOnly)},
		{[]string{"./ccm/serving"}, slices.Concat(command, testsOnly)},
	}
	for _, c := range cases {
		t.Run(strings.Join(c.packages, " "), func(t *testing.T) {
			for _, dep := range list(t, "-deps", c.packages) {
				for _, forbidden := range c.forbidden {
					if below(dep, forbidden) && !tolerated(dep) {
						t.Errorf("%s reaches a host through %v", dep, c.packages)
					}
				}
			}
		})
	}
}

// The library's go.mod must not pin the versions that only the control plane of our tests needs.
func TestLibrary_ModuleDoesNotRequireWhatOnlyTestsBuild(t *testing.T) {
	for _, module := range list(t, "-m", []string{"all"}) {
		for _, forbidden := range []string{"k8s.io/kubernetes", "sigs.k8s.io/controller-runtime"} {
			if module == forbidden {
				t.Errorf("%s is required by the library's go.mod", module)
			}
		}
	}
}

// The route controller reads the process's feature gate, which lives in a small package of the API server's.
func tolerated(dep string) bool { return dep == "k8s.io/apiserver/pkg/util/feature" }

func below(dep, prefix string) bool { return dep == prefix || strings.HasPrefix(dep, prefix+"/") }

func list(t *testing.T, flag string, patterns []string) []string {
	t.Helper()
	format := "{{.ImportPath}}"
	if flag == "-m" {
		format = "{{.Path}}"
	}
	cmd := exec.Command("go", append([]string{"list", flag, "-f", format}, patterns...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := err.(*exec.ExitError); ok {
			stderr = string(exit.Stderr)
		}
		t.Fatalf("go list %s %v: %v\n%s", flag, patterns, err, stderr)
	}
	found := strings.Fields(string(out))
	if len(found) == 0 {
		t.Fatalf("go list %s %v found nothing", flag, patterns)
	}
	return found
}
