package cloudcontrollers_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withoutContext lists upstream's calls that do not end with the context of the controller's Run.
// The fence cancels those that are writes of the term's clients or calls of the guarded cloud. The
// end of the term's reads cancels the others. For a new call in a new version, check that it ends
// with the term.
var withoutContext = map[string]string{
	"k8s.io/cloud-provider/node/helpers: addOrUpdateLabelsOnNode Get":   "read",
	"k8s.io/cloud-provider/node/helpers: addOrUpdateLabelsOnNode Patch": "write",
	"k8s.io/cloud-provider/node/helpers: AddOrUpdateTaintOnNode Get":    "read",
	"k8s.io/cloud-provider/node/helpers: PatchNodeTaints Patch":         "write",
	"k8s.io/cloud-provider/node/helpers: RemoveTaintOffNode Get":        "read",
	"k8s.io/cloud-provider/service/helpers: PatchService Patch":         "write",
	"k8s.io/component-helpers/node/util: PatchNodeStatus Patch":         "write",
	"k8s.io/component-helpers/node/util: SetNodeCondition PatchStatus":  "write",
}

func TestUpstream_CallsWithoutTheControllersContext_AreKnown(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles \",\"}}", ".")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	scanned := 0
	for line := range bytes.Lines(out) {
		fields := strings.Split(strings.TrimSpace(string(line)), "\t")
		if len(fields) != 3 || !strings.HasPrefix(fields[0], "k8s.io/cloud-provider") &&
			!strings.HasPrefix(fields[0], "k8s.io/component-helpers") {
			continue
		}
		for name := range strings.SplitSeq(fields[2], ",") {
			scanned++
			scanContexts(t, fields[0], filepath.Join(fields[1], name), found)
		}
	}
	if scanned < 15 {
		t.Fatalf("only %d files were scanned", scanned)
	}
	for call := range found {
		if withoutContext[call] == "" {
			t.Errorf("unknown: %s", call)
		}
	}
	for _, call := range slices.Sorted(maps.Keys(withoutContext)) {
		if !found[call] {
			t.Errorf("gone: %s", call)
		}
	}
}

// scanContexts finds the calls of a file that are given context.TODO() or context.Background().
func scanContexts(t *testing.T, pkg, path string, found map[string]bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(function, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !slices.ContainsFunc(call.Args, isNoContext) {
				return true
			}
			name := "?"
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
				name = selector.Sel.Name
			}
			found[pkg+": "+functionName(function)+" "+name] = true
			return true
		})
	}
}

func isNoContext(arg ast.Expr) bool {
	call, ok := arg.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "context" &&
		(selector.Sel.Name == "TODO" || selector.Sel.Name == "Background")
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
