// Package sideeffects_test compares the state of a process before and after it links the library
// and runs a Manager. tools/never checks the library's own code; these tests include the
// dependencies.
package sideeffects_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/sideeffects/snapshot"
)

const module = "github.com/fxccm/fxccm"

// ofUpstreamsCommand are the packages that import upstream's command, which has import side
// effects. Only hosts that need the command's types import them.
var ofUpstreamsCommand = []string{module + "/hosting/initfunc"}

// A program that imports the library has the same process state as a program that imports only the
// library's dependencies, and it prints nothing.
func TestImport_OfTheLibrary_ChangesNothingInTheProcess(t *testing.T) {
	t.Parallel()
	library := slices.DeleteFunc(libraryPackages(t),
		func(pkg string) bool { return slices.Contains(ofUpstreamsCommand, pkg) })
	with, without := importing(t, library), importing(t, thirdParty(t, library))
	if with.output != "" {
		t.Errorf("the import prints:\n%s", with.output)
	}
	for kind, names := range with.snapshot.Since(without.snapshot) {
		t.Errorf("the import adds to %s: %v", kind, names)
	}
	for kind, names := range without.snapshot.Since(with.snapshot) {
		t.Errorf("the import removes from %s: %v", kind, names)
	}
	compare(t, "the dependencies", stable(without.snapshot), dependencies)
}

// The packages that import upstream's command add no side effects to those of the command.
func TestImport_OfPackagesForUpstreamsCommand_AddsNoSideEffect(t *testing.T) {
	t.Parallel()
	all := libraryPackages(t)
	with, without := importing(t, all), importing(t, thirdParty(t, all))
	if with.output != without.output {
		t.Errorf("the import prints:\n%s", with.output)
	}
	for kind, names := range with.snapshot.Since(without.snapshot) {
		t.Errorf("the import adds to %s: %v", kind, names)
	}
}

// The tests above detect each kind of side effect.
func TestImport_OfAPackageWithSideEffects_IsDetected(t *testing.T) {
	t.Parallel()
	bad := []string{module + "/test/sideeffects/testdata/surprises/bad"}
	with, without := importing(t, bad), importing(t, thirdParty(t, bad))
	if with.output != "bad output\nbad error output\n" {
		t.Errorf("the bad package prints %q", with.output)
	}
	added := with.snapshot.Since(without.snapshot)
	compare(t, "the bad package", added, snapshot.Snapshot{
		snapshot.Flags:           {"bad-flag"},
		snapshot.PFlags:          {"bad-pflag"},
		snapshot.Handlers:        {"GET /bad/{handler}"},
		snapshot.Metrics:         {"bad_metric"},
		snapshot.LegacyMetrics:   {"bad_legacy_metric"},
		snapshot.FeatureGates:    {"BadGate=false"},
		snapshot.Goroutines:      {module + "/test/sideeffects/testdata/surprises/bad.wait"},
		snapshot.Settings:        added[snapshot.Settings],
		snapshot.EnvironmentVars: {"BAD_VARIABLE"},
	})
	if got := strings.Join(added[snapshot.Settings], "; "); !strings.Contains(got, "slog") {
		t.Errorf("the changed settings are %q, want one of slog", got)
	}
}

// After a Manager has led and stopped, only the metric of the route controller, which is
// upstream's, remains in the process.
func TestManager_Stopped_LeavesOnlyUpstreamsMetrics(t *testing.T) {
	t.Parallel()
	cp := controlplane.ForTest(t)
	dir := t.TempDir()
	kubeconfig, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "snapshots")
	if err := controlplane.WriteKubeconfig(kubeconfig, cp.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	program := build(t, module+"/test/sideeffects/manager")
	if out, err := exec.CommandContext(t.Context(), program, kubeconfig,
		file).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var taken map[string]snapshot.Snapshot
	read(t, file, &taken)
	compare(t, "New", taken["made"].Since(taken["before"]), snapshot.Snapshot{})
	compare(t, "Run", taken["stopped"].Since(taken["before"]), run)
	for kind, names := range taken["before"].Since(taken["stopped"]) {
		t.Errorf("the Manager removes from %s: %v", kind, names)
	}
}

// compare fails the test unless both snapshots are equal.
func compare(t *testing.T, subject string, got, want snapshot.Snapshot) {
	t.Helper()
	for kind, names := range got.Since(want) {
		t.Errorf("%s: %s has unexpected entries: %q", subject, kind, names)
	}
	for kind, names := range want.Since(got) {
		t.Errorf("%s: %s lacks the entries: %q", subject, kind, names)
	}
}

// stable removes the entries that depend on the machine or on upstream's version: environment
// variables, settings, feature gates, and the metrics of the Go runtime.
func stable(s snapshot.Snapshot) snapshot.Snapshot {
	s = maps.Clone(s)
	for _, kind := range []snapshot.Kind{
		snapshot.EnvironmentVars, snapshot.Settings,
		snapshot.FeatureGates,
	} {
		delete(s, kind)
	}
	for _, kind := range []snapshot.Kind{snapshot.Metrics, snapshot.LegacyMetrics} {
		s[kind] = slices.DeleteFunc(slices.Clone(s[kind]), func(name string) bool {
			return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
		})
	}
	return s
}

// program is the result of a program that has ended.
type program struct {
	output   string
	snapshot snapshot.Snapshot
}

// importing runs a program that imports the packages and does nothing.
func importing(t *testing.T, packages []string) program {
	t.Helper()
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n\t\"os\"\n\n")
	for _, pkg := range packages {
		fmt.Fprintf(&source, "\t_ %q\n", pkg)
	}
	fmt.Fprintf(&source, "\n\t%q\n)\n\n", module+"/test/sideeffects/snapshot")
	source.WriteString(
		"func main() {\n\tif err := snapshot.Write(os.Args[1]); err != nil {\n\t\tpanic(err)\n\t}\n}\n")

	// An overlay adds the program to the module, so that it can import internal packages and uses
	// the module's versions.
	dir := t.TempDir()
	main := filepath.Join(dir, "main.go")
	write(t, main, []byte(source.String()))
	overlay, err := json.Marshal(
		map[string]any{"Replace": map[string]string{filepath.Join(root(t),
			"test/sideeffects/importing/main.go"): main}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), overlay)
	binary := build(t, module+"/test/sideeffects/importing",
		"-overlay="+filepath.Join(dir, "overlay.json"))

	file := filepath.Join(dir, "snapshot")
	out, err := exec.CommandContext(t.Context(), binary, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	p := program{output: string(out)}
	read(t, file, &p.snapshot)
	return p
}

func build(t *testing.T, pkg string, flags ...string) (binary string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "program")
	goCommand(t,
		slices.Concat([]string{"build", "-ldflags=-s -w", "-o", binary}, flags, []string{pkg})...)
	return binary
}

// libraryPackages are the packages that a host can link and that a program of this module can
// import. Nested internal packages are linked through them.
func libraryPackages(t *testing.T) []string {
	t.Helper()
	listed := goCommand(t, "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`,
		"./ccm/...", "./controllers/...", "./hosting/...",
		"./options/...", "./provider/...", "./internal/...")
	return slices.DeleteFunc(strings.Fields(listed), func(pkg string) bool {
		return slices.Index(strings.Split(strings.TrimPrefix(pkg, module+"/"), "/"), "internal") > 0
	})
}

// thirdParty are the dependencies outside this module that a program can import.
func thirdParty(t *testing.T, packages []string) []string {
	t.Helper()
	listed := goCommand(t,
		append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"},
			packages...)...)
	return slices.DeleteFunc(strings.Fields(listed), func(pkg string) bool {
		return strings.HasPrefix(pkg, module+"/") ||
			slices.Contains(strings.Split(pkg, "/"), "internal")
	})
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, stderr.String())
	}
	return string(out)
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
