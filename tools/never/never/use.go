package never

import (
	"fmt"
	"go/ast"
	"go/types"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// use checks a used name, whether it is called or passed on.
func (c *checker) use(id *ast.Ident) {
	switch obj := c.pass.TypesInfo.Uses[id].(type) {
	case *types.Builtin:
		c.builtin(id, obj.Name())
	case *types.Func:
		c.function(id, obj)
	case *types.Var:
		if isPackageLevel(obj) {
			c.symbol(id, obj, "")
		}
	}
}

func (c *checker) builtin(id *ast.Ident, name string) {
	switch name {
	case "panic":
		c.report(id, RulePanic, "panic where an error should be returned")
	case "print", "println":
		c.report(id, RuleOutput, name+" "+prints)
	}
}

func (c *checker) function(id *ast.Ident, f *types.Func) {
	if f.Pkg() == nil { // a method of error
		return
	}
	method := ""
	if f.Signature().Recv() != nil {
		method = f.FullName()
	}
	if c.symbol(id, f, method) || f.Pkg() == c.pass.Pkg {
		return
	}
	if diesOnError(f.Name()) {
		c.report(id, RulePanic,
			fmt.Sprintf("%s.%s panics or exits where an error should be returned", f.Pkg().Path(),
				f.Name()))
	}
}

// symbol reports a forbidden name.
func (c *checker) symbol(id *ast.Ident, obj types.Object, method string) (found bool) {
	for _, u := range forbidden() {
		if u.matches(obj.Pkg().Path(), obj.Name(), method) {
			c.report(id, u.rule, fmt.Sprintf("%s.%s %s", obj.Pkg().Path(), obj.Name(), u.why))
			found = true
		}
	}
	return found
}

// diesOnError recognizes the two usual names of a function that panics instead of returning an
// error: MustX and XOrDie.
func diesOnError(name string) bool {
	if strings.HasSuffix(name, "OrDie") {
		return true
	}
	rest, found := strings.CutPrefix(name, "Must")
	first, _ := utf8.DecodeRuneInString(rest)
	return found && (rest == "" || unicode.IsUpper(first))
}

// imports checks the imports of a file.
func (c *checker) imports(file *ast.File) {
	known := imported()
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the compiler reports it
		}
		if why, found := known[path]; found {
			c.reportIn(spec, RuleImport, path, path+" "+why)
			continue
		}
		if spec.Name != nil && spec.Name.Name == "_" {
			c.reportIn(spec, RuleImport, path,
				path+" is imported for what it does to the host's process")
		}
	}
}

// scheme finds calls that add types to client-go's scheme, which the whole process shares: an
// adding method of the scheme, or an AddToScheme with the scheme as argument.
func (c *checker) scheme(call *ast.CallExpr) {
	const text = "client-go's scheme is the host's, too; make one with runtime.NewScheme"
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && c.isSharedScheme(sel.X) &&
		adds(sel.Sel.Name) {
		c.report(call, RuleRegistry, text)
	}
	for _, arg := range call.Args {
		if c.isSharedScheme(arg) && adds(calledName(call)) {
			c.report(call, RuleRegistry, text)
		}
	}
}

func adds(name string) bool {
	for _, prefix := range []string{"Add", "Set", "Register", "Install", "Must"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func calledName(call *ast.CallExpr) string {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func (c *checker) isSharedScheme(expr ast.Expr) bool {
	root := c.rootVariable(expr)
	return root != nil && root.Name() == "Scheme" &&
		root.Pkg().Path() == "k8s.io/client-go/kubernetes/scheme"
}
