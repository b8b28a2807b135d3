package plan_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A switch elsewhere does not notice a new type of steps. The properties of a step are declared
// with its type, and functions of this package return them.
func TestSteps_OutsideTheirPackage_NoSwitchIsOverTheirTypes(t *testing.T) {
	t.Parallel()
	files, users := token.NewFileSet(), 0
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(source), "/loadbalancer/plan\"") {
			return err
		}
		users++
		file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			choice, isSwitch := n.(*ast.TypeSwitchStmt)
			if isSwitch && namesStep(choice) {
				t.Errorf("%s: a switch over types of steps; add an interface to step.go",
					files.Position(choice.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || users == 0 {
		t.Errorf("%d files import the package, %v", users, err)
	}
}

// namesStep reports whether a case is a type of the package plan.
func namesStep(choice *ast.TypeSwitchStmt) bool {
	for _, clause := range choice.Body.List {
		for _, of := range clause.(*ast.CaseClause).List {
			if selector, ok := of.(*ast.SelectorExpr); ok {
				if name, ok := selector.X.(*ast.Ident); ok && name.Name == "plan" {
					return true
				}
			}
		}
	}
	return false
}
