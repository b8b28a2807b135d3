package initfunc_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that does not import this package must not link upstream's command.
func TestImports_StayInThisPackage(t *testing.T) {
	const self, command = "github.com/fxccm/fxccm/hosting/initfunc", "k8s.io/cloud-provider/app"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}} {{join .Deps " "}}`,
		"./ccm/...", "./controllers/...", "./hosting/...",
		"./options/...", "./provider/...", "./internal/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := false
	for line := range strings.Lines(string(out)) {
		pkg, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pkg == self {
			linked = strings.Contains(deps, command)
			continue
		}
		for dep := range strings.FieldsSeq(deps) {
			if dep == self || dep == command || strings.HasPrefix(dep, command+"/") {
				t.Errorf("%s links %s", pkg, dep)
			}
		}
	}
	if !linked {
		t.Errorf("go list does not find %s in %s, so this test checks nothing", command,
			self)
	}
}
