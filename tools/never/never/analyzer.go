// Package never is an analyzer that finds code that a library must not contain: code that ends the
// process, uses its signals, flags or global registries, changes its settings, prints, keeps
// process-wide state, or logs a duration as a number without a unit.
//
// Test files are not checked. The analyzer misses a change of a package variable through a local
// alias, and the code of dependencies, which the tests in test/sideeffects check in a running
// program.
package never

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// An Allowance is one place where a rule may be broken.
type Allowance struct {
	// Package is an import path. In is a function, a method (Type.Method) or a package variable, or
	// for RuleImport the imported path. [Anywhere] is the whole package.
	Package, In string
	// Rule is the rule that may be broken there.
	Rule Rule
	// Why explains the allowance to readers.
	Why string
}

// Anywhere is the whole package in an [Allowance].
const Anywhere = "*"

// New returns the analyzer. It also reports allowances that are no longer needed.
func New(allowed []Allowance) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: "never",
		Doc:  "report what a library must never do to the program that links it",
		Run: func(pass *analysis.Pass) (any, error) {
			check(pass, allowed)
			return nil, nil
		},
	}
}

// checker checks one package.
type checker struct {
	pass    *analysis.Pass
	path    string
	allowed []Allowance
	used    map[Allowance]bool
	// in is the declaration that is being checked.
	in string
}

func check(pass *analysis.Pass, allowed []Allowance) {
	// The package of a test binary is called "path [path.test]".
	path, _, _ := strings.Cut(pass.Pkg.Path(), " ")
	if pass.Pkg.Name() == "main" {
		return // a program, which may do with its process what it likes
	}
	c := &checker{pass: pass, path: path, allowed: allowed, used: map[Allowance]bool{}}
	var first *ast.File
	for _, file := range pass.Files {
		if strings.HasSuffix(pass.Fset.File(file.Pos()).Name(), "_test.go") {
			continue
		}
		if first == nil {
			first = file
		}
		c.file(file)
	}
	if first != nil {
		c.unused(first)
	}
}

func (c *checker) file(file *ast.File) {
	c.imports(file)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			c.begin(decl)
			c.body(decl)
		case *ast.GenDecl:
			c.declaration(decl)
		}
	}
}

// begin begins the check of a function.
func (c *checker) begin(decl *ast.FuncDecl) {
	c.in = nameOf(decl)
	if decl.Recv == nil && decl.Name.Name == "init" {
		c.report(decl.Name, RuleInit, "init runs in every program that imports the package")
	}
}

func (c *checker) declaration(decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		c.in = value.Names[0].Name
		c.variables(decl, value)
		c.body(value)
	}
}

// body checks all statements of a declaration.
func (c *checker) body(node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			c.use(n)
		case *ast.CallExpr:
			c.scheme(n)
			c.duration(n)
		}
		c.change(n)
		return true
	})
}

// report reports a broken rule, unless an allowance covers it.
func (c *checker) report(at ast.Node, rule Rule, text string) { c.reportIn(at, rule, c.in, text) }

func (c *checker) reportIn(at ast.Node, rule Rule, in, text string) {
	for _, a := range c.allowed {
		if a.Package == c.path && (a.In == in || a.In == Anywhere) && a.Rule == rule {
			c.used[a] = true
			return
		}
	}
	c.pass.Reportf(at.Pos(), "%s: %s", rule, text)
}

// unused reports the allowances of this package that are not needed.
func (c *checker) unused(file *ast.File) {
	for _, a := range c.allowed {
		if a.Package == c.path && !c.used[a] {
			c.pass.Reportf(file.Name.Pos(),
				"%s is allowed in %s and not needed there: take it off the list", a.Rule, a.In)
		}
	}
}

// nameOf returns Function or Type.Method.
func nameOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return decl.Name.Name
	}
	expr := decl.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name + "." + decl.Name.Name
		default:
			return decl.Name.Name
		}
	}
}
