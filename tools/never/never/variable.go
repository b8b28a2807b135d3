package never

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// variables finds package variables of a mutable type.
func (c *checker) variables(decl *ast.GenDecl, spec *ast.ValueSpec) {
	if decl.Tok != token.VAR {
		return
	}
	for _, name := range spec.Names {
		if v, ok := c.pass.TypesInfo.Defs[name].(*types.Var); ok && name.Name != "_" {
			if kind := changeable(v.Type(), map[types.Type]bool{}); kind != "" {
				c.reportIn(name, RuleVariable, name.Name,
					fmt.Sprintf("package variable %s holds a %s, which is there to change",
						name.Name, kind))
			}
		}
	}
}

// changeable returns the mutable part of a type: a channel, or a type of sync or sync/atomic.
func changeable(t types.Type, seen map[types.Type]bool) string {
	if seen[t] {
		return ""
	}
	seen[t] = true
	if named, ok := types.Unalias(t).(*types.Named); ok {
		if pkg := named.Obj().Pkg(); pkg != nil &&
			(pkg.Path() == "sync" || pkg.Path() == "sync/atomic") {
			return pkg.Name() + "." + named.Obj().Name()
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return "channel"
	case *types.Pointer:
		return changeable(u.Elem(), seen)
	case *types.Array:
		return changeable(u.Elem(), seen)
	case *types.Struct:
		for field := range u.Fields() {
			if kind := changeable(field.Type(), seen); kind != "" {
				return kind
			}
		}
	}
	return ""
}

// change finds code that changes or may change a package variable: an assignment to it or to a part
// of it, its address, a method with a pointer receiver, and built-in functions that change their
// argument.
func (c *checker) change(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				c.changed(left, "is assigned to")
			}
		}
	case *ast.IncDecStmt:
		c.changed(n.X, "is assigned to")
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			c.changed(n.Key, "is assigned to")
			c.changed(n.Value, "is assigned to")
		}
	case *ast.SendStmt:
		c.changed(n.Chan, "is sent to")
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			c.changed(n.X, "is handed out by its address")
		}
	case *ast.SelectorExpr:
		c.changedByMethod(n)
	case *ast.CallExpr:
		c.changedByBuiltin(n)
	}
}

func (c *checker) changed(expr ast.Expr, how string) {
	v := c.rootVariable(expr)
	if v == nil {
		return
	}
	name := v.Name()
	if v.Pkg() != c.pass.Pkg {
		name = v.Pkg().Path() + "." + name
	}
	c.report(expr, RuleVariable, fmt.Sprintf("package variable %s %s", name, how))
}

// changedByMethod finds x.Method where the method has a pointer receiver and x is not a pointer.
func (c *checker) changedByMethod(sel *ast.SelectorExpr) {
	selection, ok := c.pass.TypesInfo.Selections[sel]
	if !ok || selection.Kind() != types.MethodVal || selection.Indirect() {
		return
	}
	recv := selection.Obj().(*types.Func).Signature().Recv()
	if _, byAddress := recv.Type().(*types.Pointer); !byAddress {
		return
	}
	if _, isPointer := selection.Recv().Underlying().(*types.Pointer); isPointer {
		return
	}
	c.changed(sel.X, "is changed by its method "+sel.Sel.Name+", or may be")
}

func (c *checker) changedByBuiltin(call *ast.CallExpr) {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if !ok || len(call.Args) == 0 {
		return
	}
	builtin, ok := c.pass.TypesInfo.Uses[id].(*types.Builtin)
	if !ok {
		return
	}
	switch builtin.Name() {
	case "delete", "clear", "close", "copy":
		c.changed(call.Args[0], "is changed by "+builtin.Name())
	}
}

// rootVariable returns the package variable that expr is or is a part of, or nil.
func (c *checker) rootVariable(expr ast.Expr) *types.Var {
	for {
		switch e := expr.(type) {
		case *ast.ParenExpr:
			expr = e.X
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.SliceExpr:
			expr = e.X
		case *ast.SelectorExpr:
			if v, ok := c.pass.TypesInfo.Uses[e.Sel].(*types.Var); ok && isPackageLevel(v) {
				return v
			}
			expr = e.X
		case *ast.Ident:
			if v, ok := c.pass.TypesInfo.Uses[e].(*types.Var); ok && isPackageLevel(v) {
				return v
			}
			return nil
		default:
			return nil
		}
	}
}

func isPackageLevel(v *types.Var) bool {
	return !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}
