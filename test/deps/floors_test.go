package deps_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
)

// tree is a folder with the packages below it, except those of a nested tree, and the trees that
// its packages may import. Tests may import any package.
type tree struct {
	dir     string
	imports []string
}

// floors are all trees of this module, and of its nested modules that hosts import, from the top
// down: a tree may only import lower trees.
var floors = [][]tree{
	{
		{"cmd", []string{
			"ccm", "ccm/serving", "ccm/status", "controllers", "deploy", "fleet", "internal",
			"options", "provider/fake", "provider/openstack",
		}},
		{"example", nil},
		{"test", []string{
			"ccm", "ccm/ccmtest", "ccm/ccmtest/controlplane", "ccm/serving", "ccm/status", "deploy",
			"fleet", "internal", "internal/rbac", "options",
			"provider/fake", "provider/openstack", "provider/openstack/openstacktest",
		}},
		{"docs", nil},
		{"tools", nil},
	},
	{
		{"deploy", nil},
		{"hosting/controllerruntime", []string{"ccm", "ccm/election", "internal"}},
		{"provider/huaweicloud", []string{
			"ccm", "internal", "provider/internal/kit", "provider/kit",
		}},
	},
	{
		{"ccm/ccmtest", []string{
			"ccm", "ccm/ccmtest/controlplane", "ccm/election", "ccm/status", "internal",
			"internal/rbac", "provider/fake",
		}},
		{"fleet", []string{"ccm", "ccm/election", "ccm/serving", "ccm/status", "internal"}},
		{"options", []string{"ccm", "ccm/serving", "internal"}},
	},
	{
		{"ccm/serving", []string{"ccm", "ccm/election", "ccm/status", "internal"}},
		{"controllers", []string{"ccm", "internal"}},
		{"provider/fake", []string{"ccm", "internal"}},
		{"provider/openstack", []string{
			"ccm", "ccm/status", "internal", "provider/internal/kit", "provider/kit",
		}},
		{"provider/openstack/internal/simclient", []string{"provider/openstack/openstacktest"}},
		{"internal/rbac", []string{"ccm/ccmtest/controlplane"}},
		{"hosting/initfunc", []string{"ccm", "internal"}},
		{"hosting/process", []string{"ccm", "ccm/status", "internal", "hosting/internal"}},
		{"hosting/program", []string{"ccm", "internal", "hosting/internal"}},
		{"hosting/registered", []string{"ccm", "internal", "hosting/internal"}},
	},
	{
		{"ccm/ccmtest/controlplane", []string{"internal"}},
		{"hosting/internal", []string{"ccm", "ccm/election", "internal"}},
		{"provider/openstack/openstacktest", nil},
	},
	{
		{"ccm", []string{"ccm/election", "ccm/status", "internal"}},
		{"provider/internal/kit", []string{"internal"}},
		{"provider/kit", []string{"internal"}},
	},
	{
		{"ccm/status", []string{"ccm/election"}},
	},
	{
		{"ccm/election", []string{"internal"}},
	},
	{
		{"internal", nil},
	},
}

const (
	floorsPage  = "../../docs/explanation/architecture.md"
	floorsBegin = "<!-- floors: written by go generate ./test/deps -->\n"
	floorsEnd   = "<!-- end of floors -->\n"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestFloors_DiagramIsUpToDate$ .

func TestFloors_PackagesImportOnlyTreesBelowTheirOwn(t *testing.T) {
	for _, problem := range checkFloors(floors, directImports(t)) {
		t.Error(problem)
	}
}

// Only package openstack is a provider of package ccm. The packages below it do not depend on the
// Manager.
func TestFloors_PackagesBelowProviderOpenStack_DoNotImportCCM(t *testing.T) {
	const root = "provider/openstack"
	for pkg, imports := range directImports(t) {
		for _, imported := range imports {
			if strings.HasPrefix(pkg, root+"/") && belowAny(imported, []string{"ccm"}) {
				t.Errorf("%s imports %s; only %s may", pkg, imported, root)
			}
		}
	}
}

func TestFloors_DiagramIsUpToDate(t *testing.T) {
	page, err := os.ReadFile(floorsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), floorsBegin)
	_, after, ends := strings.Cut(rest, floorsEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the lines %q and %q", floorsPage, floorsBegin, floorsEnd)
	}
	pagetest.Check(t, floorsPage, before+floorsBegin+diagram(floors)+floorsEnd+after)
}

// checkFloors returns a sorted sentence for each import that violates the table and each unused
// entry of the table.
func checkFloors(table [][]tree, packages map[string][]string) []string {
	level, allowed, used := map[string]int{}, map[string][]string{}, map[[2]string]bool{}
	for i, floor := range table {
		for _, tree := range floor {
			level[tree.dir], allowed[tree.dir] = i, tree.imports
		}
	}
	var problems []string
	for pkg, imports := range packages {
		from := treeOf(pkg, level)
		if from == "" {
			problems = append(problems, pkg+" belongs to no tree")
			continue
		}
		for _, imported := range imports {
			to := treeOf(imported, level)
			used[[2]string{from, to}] = true
			if to != from && !slices.Contains(allowed[from], to) {
				problems = append(problems,
					fmt.Sprintf("%s imports %s, which is not declared for tree %s", pkg, imported,
						from))
			}
		}
	}
	for from, imports := range allowed {
		for _, to := range imports {
			if level[to] <= level[from] {
				problems = append(problems,
					fmt.Sprintf("tree %s declares an import of %s, which is not below it", from,
						to))
			}
			if !used[[2]string{from, to}] {
				problems = append(problems,
					fmt.Sprintf("tree %s declares an import of %s, which no package needs", from,
						to))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// treeOf returns the innermost tree of a package, or "".
func treeOf(pkg string, trees map[string]int) string {
	found := ""
	for dir := range trees {
		if belowAny(pkg, []string{dir}) && len(dir) > len(found) {
			found = dir
		}
	}
	return found
}

// diagram is the table as a mermaid diagram.
func diagram(table [][]tree) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for i, floor := range table {
		fmt.Fprintf(&b, "    subgraph floor%d[\" \"]\n", i+1)
		for _, tree := range floor {
			fmt.Fprintf(&b, "        %s[\"%s\"]\n", nodeID(tree.dir), tree.dir)
		}
		b.WriteString("    end\n")
	}
	for _, floor := range table {
		for _, tree := range floor {
			for _, imported := range tree.imports {
				fmt.Fprintf(&b, "    %s --> %s\n", nodeID(tree.dir), nodeID(imported))
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

func nodeID(dir string) string { return strings.ReplaceAll(dir, "/", "_") }

// importsFormat makes go list print each package with its imports.
const importsFormat = "-f={{.ImportPath}}{{range .Imports}} {{.}}{{end}}"

// directImports maps each package of the floors to its direct imports, without the module's path.
func directImports(t *testing.T) map[string][]string {
	t.Helper()
	packages := map[string][]string{}
	lines := list(t, ".", importsFormat, "./...")
	for _, nested := range []string{"hosting/controllerruntime", "provider/huaweicloud"} {
		lines = append(lines, list(t, nested, importsFormat, "./...")...)
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		var imports []string
		for _, imported := range fields[1:] {
			if own, ok := strings.CutPrefix(imported, module+"/"); ok {
				imports = append(imports, own)
			}
		}
		packages[strings.TrimPrefix(fields[0], module+"/")] = imports
	}
	if len(packages) < 20 {
		t.Fatalf("go list names only %v", slices.Sorted(maps.Keys(packages)))
	}
	return packages
}
