package openstack_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// program type-checks the packages of the provider from their files. Others are empty: only fields
// of Config matter, so errors about the rest are ignored.
type program struct {
	files *token.FileSet
	made  map[string]*types.Package
	// read are the fields that an expression selects, except to set or to bind them, and elsewhere
	// those of them that another package than their own reads.
	read, elsewhere map[types.Object]bool
}

const providerPath = "github.com/fxccm/fxccm/provider/openstack"

// Import implements types.Importer.
func (p *program) Import(path string) (*types.Package, error) {
	if made := p.made[path]; made != nil {
		return made, nil
	}
	below, isOurs := strings.CutPrefix(path, providerPath)
	if !isOurs {
		made := types.NewPackage(path, filepath.Base(path))
		made.MarkComplete()
		p.made[path] = made
		return made, nil
	}
	names, err := filepath.Glob(filepath.Join(".", below, "*.go"))
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(p.files, name, nil, 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: p, Error: func(error) {}}
	made, _ := config.Check(path, p.files, parsed, info)
	p.made[path] = made
	for _, file := range parsed {
		p.note(file, info, made)
	}
	return made, nil
}

// note records the fields that a file reads. Table, defaults and checks of cloudconf do not count:
// they have options without an effect, too.
func (p *program) note(file *ast.File, info *types.Info, in *types.Package) {
	name := filepath.Base(p.files.Position(file.Pos()).Filename)
	if file.Name.Name == "cloudconf" && slices.Contains(
		[]string{"table.go", "default.go", "validate.go", "rule.go", "load.go"}, name) {
		return
	}
	written := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				written[left] = true
			}
		case *ast.UnaryExpr:
			written[n.X] = n.Op == token.AND
		case *ast.SelectorExpr:
			if s := info.Selections[n]; s != nil && !written[n] {
				p.read[s.Obj()] = true
				p.elsewhere[s.Obj()] = p.elsewhere[s.Obj()] || s.Obj().Pkg() != in
			}
		}
		return true
	})
}

// checkProvider type-checks the provider.
func checkProvider(t *testing.T) *program {
	t.Helper()
	p := &program{
		files: token.NewFileSet(), made: map[string]*types.Package{},
		read: map[types.Object]bool{}, elsewhere: map[types.Object]bool{},
	}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "openstacktest" || entry.Name() == "testdata" {
			return filepath.SkipDir
		}
		_, err = p.Import(strings.TrimSuffix(providerPath+"/"+filepath.ToSlash(path), "/."))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *program) fieldsOf(path, name string) *types.Struct {
	return p.made[providerPath+path].Scope().Lookup(name).Type().Underlying().(*types.Struct)
}

func TestOptions_Each_IsReadByTheProvider(t *testing.T) {
	// The reference page says that these have no effect.
	without := []string{"LoadBalancer.LBVersion", "Metadata.SearchOrder"}
	p := checkProvider(t)
	for section := range p.fieldsOf("/cloudconf", "Config").Fields() {
		of := section.Type()
		if named, isMap := of.Underlying().(*types.Map); isMap {
			of = named.Elem()
		}
		options, isSection := of.Underlying().(*types.Struct)
		if !isSection {
			t.Fatalf("%s is no section", section.Name())
		}
		for option := range options.Fields() {
			name := section.Name() + "." + option.Name()
			if p.read[option] == slices.Contains(without, name) {
				t.Errorf("%s: the provider reads it: %t", name, p.read[option])
			}
		}
	}
}

func TestSettings_OfAService_AreReadOutsideTheirPackage(t *testing.T) {
	p := checkProvider(t)
	for setting := range p.fieldsOf("/internal/loadbalancer/settings", "Settings").Fields() {
		if !p.elsewhere[setting] {
			t.Errorf("%s is read from the annotations, and then not used", setting.Name())
		}
	}
}
