package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// checkPlatform loads packages as they are built for a platform, such as windows/amd64, without
// compiling anything, and checks their types and the analyzer's rules.
func checkPlatform(platform string, analyzer *analysis.Analyzer, patterns []string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	own, err := os.Getwd()
	if err != nil {
		return err
	}
	config := &packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule,
		Env:  append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		// What functions of dependencies do is their own matter, and most of the work.
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			if strings.HasPrefix(name, own) {
				return parser.ParseFile(fset, name, src, parser.AllErrors|parser.ParseComments)
			}
			file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if file != nil {
				withoutBodies(file)
			}
			return file, err
		},
	}
	loaded, err := packages.Load(config, patterns...)
	if err != nil {
		return err
	}
	if len(loaded) == 0 {
		return fmt.Errorf("no package matches %q", patterns)
	}
	var found []error
	for _, p := range loaded {
		for _, e := range p.Errors {
			found = append(found, e)
		}
	}
	if len(found) > 0 {
		return errors.Join(found...)
	}
	// Dependencies have errors without their bodies, such as unused imports.
	analyzer.RunDespiteErrors = true
	graph, err := checker.Analyze([]*analysis.Analyzer{analyzer}, loaded, nil)
	if err != nil {
		return err
	}
	for _, action := range graph.Roots {
		if action.Err != nil {
			found = append(found, action.Err)
		}
		for _, d := range action.Diagnostics {
			found = append(found,
				fmt.Errorf("%s: %s", action.Package.Fset.Position(d.Pos), d.Message))
		}
	}
	return errors.Join(found...)
}

func withoutBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			f.Body = nil
		}
	}
}
