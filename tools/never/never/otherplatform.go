package never

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strconv"
	"strings"
)

// otherPlatforms checks the package's files for other platforms, as far as possible without types:
// uses of imported names, init, panic and print.
func (c *checker) otherPlatforms() {
	for _, name := range c.pass.IgnoredFiles {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := c.pass.ReadFile(name)
		if err != nil {
			continue // the file was deleted
		}
		file, err := parser.ParseFile(c.pass.Fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			c.pass.Reportf(c.pass.Files[0].Name.Pos(), "%s cannot be read: %v", path.Base(name),
				err)
			continue
		}
		c.untyped(file)
	}
}

func (c *checker) untyped(file *ast.File) {
	c.imports(file)
	imported := importNames(file)
	for _, decl := range file.Decls {
		c.in = ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			c.begin(f)
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if id, ok := n.X.(*ast.Ident); ok && imported[id.Name] != "" {
					c.named(n.Sel, imported[id.Name])
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok {
					c.builtin(id, id.Name)
				}
			}
			return true
		})
	}
}

// named checks a name of an imported package.
func (c *checker) named(id *ast.Ident, pkg string) {
	for _, u := range forbidden() {
		if u.matches(pkg, id.Name, "") && token.IsExported(id.Name) {
			c.report(id, u.rule, pkg+"."+id.Name+" "+u.why)
		}
	}
	if diesOnError(id.Name) {
		c.report(id, RulePanic,
			pkg+"."+id.Name+" panics or exits where an error should be returned")
	}
}

// importNames maps the names of imported packages in the file to their paths. An import without a
// name has the last element of its path as name, without a version.
func importNames(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(full)
		if isVersion(name) {
			name = path.Base(path.Dir(full))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = full
	}
	return names
}

func isVersion(s string) bool {
	digits, found := strings.CutPrefix(s, "v")
	_, err := strconv.Atoi(digits)
	return found && err == nil
}
