// Package sideeffects_test watches what linking the library and running a Manager do to the process
// of a host. The rules for the library's own code are checked by tools/never; these tests see what
// happens in the end, dependencies included.
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

// ofUpstreamsCommand are the packages that cannot do without upstream's command, which does to a
// process on import what a library should not. They are for hosts that ask for it.
var ofUpstreamsCommand = []string{module + "/controllers/initfunc"}

// A program that imports all of the library differs in nothing from one that imports what the
// library imports, and prints nothing.
func TestImport_ChangesNothingOfTheHostsProcess(t *testing.T) {
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
		t.Errorf("the import takes from %s: %v", kind, names)
	}
	compare(t, "the dependencies", stable(without.snapshot), dependencies)
}

// The packages for upstream's command add nothing to what the command does.
func TestImport_OfWhatNeedsUpstreamsCommand_AddsNothingToIt(t *testing.T) {
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

// The test above would see these changes.
func TestImport_OfAPackageThatDoesAllThatMustNotBe_IsNoticed(t *testing.T) {
	t.Parallel()
	bad := []string{module + "/test/sideeffects/testdata/surprises/bad"}
	with, without := importing(t, bad), importing(t, thirdParty(t, bad))
	if with.output != "bad output\nbad error output\n" {
		t.Errorf("the output was taken for %q", with.output)
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
		t.Errorf("settings that have changed: %s, want that of slog", got)
	}
}

// A Manager is made, leads, works and is stopped; what is left in the process is what upstream's
// controllers register.
func TestManager_ChangesNothingOfTheHostsProcess(t *testing.T) {
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
		t.Errorf("a Manager takes from %s: %v", kind, names)
	}
}

// compare fails the test unless what is there is exactly what was named.
func compare(t *testing.T, who string, got, want snapshot.Snapshot) {
	t.Helper()
	for kind, names := range got.Since(want) {
		t.Errorf("%s: %s has got what is not on the list: %q", who, kind, names)
	}
	for kind, names := range want.Since(got) {
		t.Errorf("%s: %s has not got what is on the list: %q", who, kind, names)
	}
}

// stable leaves out what depends on the machine, or is a list of upstream's that changes with each
// of its versions: the test's environment, settings that are the same with and without the library,
// feature gates, and the metrics of Go itself.
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

// program is a program that has been run.
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

	// The program is in the module, where it may import what is internal and has the module's
	// versions; but only the compiler sees it.
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

// libraryPackages are those that a host may link, as far as a program of this module may import
// them: what is internal to one of them is linked with it.
func libraryPackages(t *testing.T) []string {
	t.Helper()
	listed := goCommand(t, "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`,
		"./ccm/...", "./controllers/...", "./options/...", "./provider/...", "./internal/...")
	return slices.DeleteFunc(strings.Fields(listed), func(pkg string) bool {
		return slices.Index(strings.Split(strings.TrimPrefix(pkg, module+"/"), "/"), "internal") > 0
	})
}

// thirdParty are the packages of others that the packages import, directly or not, as far as a
// program may import them.
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
