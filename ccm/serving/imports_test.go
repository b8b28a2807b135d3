package serving_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The secure port links neither an API server's storage, expression language and RPC, nor the
// packages that add handlers to http.DefaultServeMux (net/http/pprof, golang.org/x/net/trace).
func TestImports_AreFew(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		for _, unwanted := range []string{
			"go.etcd.io/", "google.golang.org/grpc", "github.com/google/cel-go/",
			"k8s.io/apiserver/pkg/server", "k8s.io/cloud-provider/app",
			"k8s.io/cloud-provider/options", "k8s.io/component-base/configz", "net/http/pprof",
			"golang.org/x/net/trace",
		} {
			if strings.HasPrefix(pkg, unwanted) {
				t.Errorf("imports %s", pkg)
			}
		}
	}
}
