package never

import (
	"go/ast"
	"go/types"
	"strings"
)

// duration finds durations among the values of a log line. Loggers do not agree on their form: slog
// writes nanoseconds as JSON, zap writes seconds, and klog writes text.
func (c *checker) duration(call *ast.CallExpr) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return
	}
	f, ok := c.pass.TypesInfo.Uses[sel.Sel].(*types.Func)
	if !ok || !strings.HasPrefix(f.FullName(), "(github.com/go-logr/logr.Logger).") {
		return
	}
	for _, arg := range call.Args {
		if types.TypeString(c.pass.TypesInfo.TypeOf(arg), nil) == "time.Duration" {
			c.report(arg, RuleDuration, "the unit depends on the logger; log the duration's String()")
		}
	}
}
