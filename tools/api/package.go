package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pkg is a package, its path from the root of the module, and its exported names.
type pkg struct {
	path, doc string
	names     []name
}

// name is an exported name. A method is written as Type.Method.
type name struct{ kind, name, doc string }

var endOfSentence = regexp.MustCompile(`[a-z0-9)\]"][.] [A-Z\[]`)

// readPackage reads the package of a folder. It returns no names for a program, or without Go
// files.
func readPackage(folder string) (pkg, error) {
	p := pkg{path: filepath.ToSlash(folder)}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return p, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return p, err
		}
		if file.Name.Name == "main" {
			return p, nil
		}
		if file.Doc != nil {
			p.doc = firstSentence(file.Doc)
		}
		for _, declaration := range file.Decls {
			p.addDeclaration(declaration)
		}
	}
	slices.SortFunc(p.names, func(a, b name) int { return strings.Compare(a.name, b.name) })
	// A name with a declaration for each platform counts once.
	p.names = slices.CompactFunc(p.names, func(a, b name) bool { return a.name == b.name })
	if len(p.names) > 0 && p.doc == "" {
		return p, fmt.Errorf("%s: the package has no doc comment", p.path)
	}
	return p, nil
}

func (p *pkg) addDeclaration(declaration ast.Decl) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		p.addFunc(d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				p.add("type", s.Name.Name, s.Doc, d.Doc)
				if of, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
					p.addMethods(s.Name.Name, of)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					p.add(d.Tok.String(), n.Name, s.Doc, s.Comment, d.Doc)
				}
			}
		}
	}
}

func (p *pkg) addFunc(d *ast.FuncDecl) {
	if d.Recv == nil {
		p.add("func", d.Name.Name, d.Doc)
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
		p.add("method", of.Name+"."+d.Name.Name, d.Doc)
	}
}

func (p *pkg) addMethods(of string, methods *ast.InterfaceType) {
	for _, field := range methods.Methods.List {
		for _, n := range field.Names {
			if n.IsExported() {
				p.add("method", of+"."+n.Name, field.Doc, field.Comment)
			}
		}
	}
}

// add adds an exported name with the first of its comments.
func (p *pkg) add(kind, of string, comments ...*ast.CommentGroup) {
	if !ast.IsExported(of) {
		return
	}
	n := name{kind: kind, name: of}
	for _, comment := range comments {
		if comment.Text() != "" {
			n.doc = firstSentence(comment)
			break
		}
	}
	p.names = append(p.names, n)
}

// firstSentence returns the sentence for a cell of a table. go/doc's Synopsis drops comments that
// begin with "Author", such as AuthorizationConfig's.
func firstSentence(comment *ast.CommentGroup) string {
	paragraph, _, _ := strings.Cut(comment.Text(), "\n\n")
	sentence := strings.Join(strings.Fields(paragraph), " ")
	if end := endOfSentence.FindStringIndex(sentence); end != nil {
		sentence = sentence[:end[0]+len("x.")]
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "[", "", "]", "").Replace(sentence)
}
