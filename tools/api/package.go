package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// pkg holds the exported names of a package. Each begins with the path of the package and a space;
// a method is written as Type.Method.
type pkg struct {
	path                   string
	documented, hasExample bool
	names                  []string
	// missing has an error for each name without a doc comment, and for a package without an
	// Example.
	missing []error
}

// readPackage reads the package of a folder. It returns no names for a program, or without Go
// files.
func readPackage(folder string) (pkg, error) {
	p := pkg{path: filepath.ToSlash(folder)}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return p, err
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return p, err
		}
		if strings.HasSuffix(path, "_test.go") {
			p.hasExample = p.hasExample || slices.ContainsFunc(file.Decls, isExample)
			continue
		}
		if file.Name.Name == "main" {
			return pkg{}, nil
		}
		p.documented = p.documented || file.Doc.Text() != ""
		for _, declaration := range file.Decls {
			p.addDeclaration(declaration)
		}
	}
	slices.Sort(p.names)
	// A name with a declaration for each platform counts once.
	p.names = slices.Compact(p.names)
	if len(p.names) > 0 && !p.documented {
		p.missing = append(p.missing, fmt.Errorf("%s: the package has no doc comment", p.path))
	}
	if len(p.names) > 0 && !p.hasExample {
		p.missing = append(p.missing, fmt.Errorf("%s: the package has no Example", p.path))
	}
	return p, nil
}

func isExample(declaration ast.Decl) bool {
	f, isFunc := declaration.(*ast.FuncDecl)
	return isFunc && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
}

func (p *pkg) addDeclaration(declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		p.addFunc(d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				p.add(s.Name.Name, s.Doc, d.Doc)
				if of, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
					p.addMethods(s.Name.Name, of)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					p.add(n.Name, s.Doc, s.Comment, d.Doc)
				}
			}
		}
	}
}

func (p *pkg) addFunc(d *ast.FuncDecl) {
	if d.Recv == nil {
		p.add(d.Name.Name, d.Doc)
		return
	}
	receiver := d.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	if of, ok := receiver.(*ast.Ident); ok && of.IsExported() && d.Name.IsExported() {
		p.add(of.Name+"."+d.Name.Name, d.Doc)
	}
}

func (p *pkg) addMethods(of string, methods *ast.InterfaceType) {
	for _, field := range methods.Methods.List {
		for _, n := range field.Names {
			if n.IsExported() {
				p.add(of+"."+n.Name, field.Doc, field.Comment)
			}
		}
	}
}

// add adds a name if it is exported.
func (p *pkg) add(name string, comments ...*ast.CommentGroup) {
	if !ast.IsExported(name) {
		return
	}
	p.names = append(p.names, p.path+" "+name)
	hasText := func(c *ast.CommentGroup) bool { return c.Text() != "" }
	if !slices.ContainsFunc(comments, hasText) {
		p.missing = append(p.missing, fmt.Errorf("%s: %s has no doc comment", p.path, name))
	}
}
