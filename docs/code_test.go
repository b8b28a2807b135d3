package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
)

// Go code on a page follows a line that names its source:
//
//	<!-- code: ccm/example_test.go ExampleModule -->
//
// The path is relative to the root of the project. A name is that of
//
//   - an Example: its body, without what it should print,
//   - another declaration of the file, a method as Type.Method: all of it,
//   - a part of the file, between the comments "// docs: begin <name>" and "// docs: end".
//
// Several names are several pieces, separated by empty lines.
func TestCode_IsFromFilesThatCompile(t *testing.T) {
	for _, page := range pages(t) {
		want, errs := refresh(read(t, page))
		for _, err := range errs {
			t.Errorf("%s:%v", page, err)
		}
		if len(errs) == 0 {
			pagetest.Check(t, filepath.Join(root, page), want)
		}
	}
}

var sourceLine = regexp.MustCompile(`^<!-- code: (\S+)((?: \S+)*) -->$`)

// refresh returns the page with its Go code replaced from the sources. Errors begin with a line
// number.
func refresh(page string) (string, []error) {
	var (
		out    []string
		errs   []error
		source []string // of the code that follows
		lines  = strings.Split(page, "\n")
	)
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out = append(out, line)
		isCode := line == "```go"
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case !isCode && source != nil:
			errs = append(errs, fmt.Errorf("%d: no Go code follows what says where it is from", i))
		case isCode && source == nil:
			errs = append(errs,
				fmt.Errorf("%d: Go code needs a line before it that says where it is from", i+1))
		}
		if isCode && source != nil {
			code, err := snippet(source[1], strings.Fields(source[2]))
			if err != nil {
				errs = append(errs, fmt.Errorf("%d: %w", i+1, err))
			}
			end := i + 1
			for end < len(lines) && lines[end] != "```" {
				end++
			}
			if end == len(lines) {
				return "", append(errs, fmt.Errorf("%d: the code has no end", i+1))
			}
			out = append(out, code, "```")
			i = end
		}
		source = sourceLine.FindStringSubmatch(line)
	}
	return strings.Join(out, "\n"), errs
}

// snippet is code of a file of the project.
func snippet(path string, names []string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return "", err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%s: say what of it", path)
	}
	var pieces []string
	for _, name := range names {
		source, ok := part(string(text), name)
		if !ok {
			from, to := find(parsed, name)
			if !from.IsValid() {
				return "", fmt.Errorf("%s: there is no %q", path, name)
			}
			source = string(text[files.Position(from).Offset:files.Position(to).Offset])
		}
		pieces = append(pieces, dedent(source))
	}
	return strings.Join(pieces, "\n\n"), nil
}

// part returns the marked part of a file.
func part(text, name string) (string, bool) {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		switch strings.TrimSpace(line) {
		case "// docs: begin " + name:
			lines = []string{""}
		case "// docs: end":
			if lines != nil {
				return strings.Join(lines, "\n"), true
			}
		default:
			if lines != nil {
				lines = append(lines, line)
			}
		}
	}
	return "", false
}

// find returns the position of a declaration, or of the body of an Example.
func find(file *ast.File, name string) (from, to token.Pos) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			switch {
			case functionName(d) != name:
			case strings.HasPrefix(name, "Example"):
				return d.Body.Lbrace + 1, endOfExample(file, d)
			default:
				return begin(d, d.Doc), d.End()
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
					return begin(d, d.Doc), d.End()
				}
			}
		}
	}
	return token.NoPos, token.NoPos
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if ident, ok := of.(*ast.Ident); ok {
		return ident.Name + "." + d.Name.Name
	}
	return ""
}

func begin(d ast.Node, doc *ast.CommentGroup) token.Pos {
	if doc != nil {
		return doc.Pos()
	}
	return d.Pos()
}

var outputs = regexp.MustCompile(`(?i)^(unordered )?output:`)

func endOfExample(file *ast.File, d *ast.FuncDecl) token.Pos {
	for _, c := range file.Comments {
		if c.Pos() > d.Body.Pos() && c.End() < d.Body.End() && outputs.MatchString(c.Text()) {
			return c.Pos()
		}
	}
	return d.Body.Rbrace
}

// dedent removes the common indentation, the marks of parts, and empty lines at both ends.
func dedent(code string) string {
	var lines []string
	indent := -1
	for line := range strings.SplitSeq(code, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "// docs: ") {
			continue
		}
		lines = append(lines, strings.TrimRight(line, "\t "))
		if text := strings.TrimLeft(line, "\t"); text != "" &&
			(indent < 0 || len(line)-len(text) < indent) {
			indent = len(line) - len(text)
		}
	}
	for i, line := range lines {
		if line != "" {
			lines[i] = line[indent:]
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
