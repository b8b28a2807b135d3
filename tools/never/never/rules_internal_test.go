package never

import (
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A misspelled name, or a name that upstream has renamed, would forbid nothing. So each name is
// looked up in the version that the library uses.
func TestForbidden_EachName_Exists(t *testing.T) {
	known := load(t)
	for _, u := range forbidden() {
		pkg := known[u.pkg]
		if pkg == nil {
			t.Errorf("package %s does not exist", u.pkg)
			continue
		}
		if u.names == nil {
			for _, name := range u.except {
				if pkg.Scope().Lookup(name) == nil {
					t.Errorf("%s has no %s that could be an exception", u.pkg, name)
				}
			}
			continue
		}
		for _, name := range u.names {
			if !exists(pkg, name) {
				t.Errorf("%s has no function, variable or method %s", u.pkg, name)
			}
		}
	}
}

func exists(pkg *types.Package, pattern string) bool {
	one := uses{pkg: pkg.Path(), names: []string{pattern}}
	for _, name := range pkg.Scope().Names() {
		switch obj := pkg.Scope().Lookup(name).(type) {
		case *types.Func, *types.Var:
			if one.matches(pkg.Path(), name, "") {
				return true
			}
		case *types.TypeName:
			methods := types.NewMethodSet(types.NewPointer(obj.Type()))
			for selection := range methods.Methods() {
				if f, ok := selection.Obj().(*types.Func); ok &&
					one.matches(pkg.Path(), f.Name(), f.FullName()) {
					return true
				}
			}
		}
	}
	return false
}

func load(t *testing.T) map[string]*types.Package {
	t.Helper()
	var paths []string
	for _, u := range forbidden() {
		paths = append(paths, u.pkg)
	}
	for path := range imported() {
		paths = append(paths, path)
	}
	// The types come from the export data of the build, so the sources of imported packages are not
	// needed.
	mode := packages.NeedName | packages.NeedTypes | packages.NeedExportFile | packages.NeedImports
	cfg := &packages.Config{Mode: mode, Dir: "../../.."}
	found, err := packages.Load(cfg, paths...)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*types.Package{}
	for _, pkg := range found {
		if len(pkg.Errors) > 0 {
			var said []string
			for _, err := range pkg.Errors {
				said = append(said, err.Error())
			}
			t.Errorf("%s: %s", pkg.PkgPath, strings.Join(said, "; "))
			continue
		}
		known[pkg.PkgPath] = pkg.Types
	}
	return known
}
