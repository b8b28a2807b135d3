package catalog

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/fxccm/fxccm/"

// written is an event as the code writes it.
type written struct{ kind, reason string }

// recorders are the functions that write an event, each with the event's type unless that is an
// argument.
var recorders = map[string]string{
	"Event": "", "Eventf": "", "AnnotatedEventf": "", "tell": "",
	"warn": "Warning", "refuse": "Warning",
}

// The table has exactly the events that linked packages of fxccm, k8s.io/cloud-provider and
// client-go write. The OpenStack provider has its own table.
func TestAll_CodeOfEachController_HasTheSameEvents(t *testing.T) {
	rows := map[written]int{}
	for _, e := range All() {
		rows[written{e.Type, e.Reason}]++
		if !strings.HasSuffix(e.When, ".") || !strings.HasSuffix(e.Advice, ".") {
			t.Errorf("%s: want whole sentences", e.Reason)
		}
	}
	found := map[written]bool{}
	for _, pkg := range packages(t) {
		pkg.scan(found)
		for name, reason := range pkg.constants {
			if strings.HasPrefix(strings.ToLower(name), "reason") &&
				!slices.ContainsFunc(All(), func(e Event) bool { return e.Reason == reason }) {
				t.Errorf("%s: %s has no row", pkg.path, name)
			}
		}
	}
	for event := range found {
		if rows[event] != 1 {
			t.Errorf("%s %s has %d rows, want 1", event.kind, event.reason, rows[event])
		}
	}
	for event := range rows {
		if !found[event] {
			t.Errorf("no code writes %s %s", event.kind, event.reason)
		}
	}
}

// source is a parsed package.
type source struct {
	path      string
	files     []*ast.File
	constants map[string]string
}

// packages returns the linked packages that can write events.
func packages(t *testing.T) []*source {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles \",\"}}",
		module+"ccm/...", module+"controllers/...", module+"fleet",
		module+"hosting/...", module+"provider/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []*source
	for line := range bytes.Lines(out) {
		fields := strings.Split(strings.TrimSpace(string(line)), "\t")
		path := fields[0]
		if len(fields) != 3 || !writesEvents(path) {
			continue
		}
		pkg := &source{path: path, constants: map[string]string{}}
		for name := range strings.SplitSeq(fields[2], ",") {
			name = filepath.Join(fields[1], name)
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			pkg.files = append(pkg.files, file)
			pkg.addConstants(file)
		}
		all = append(all, pkg)
	}
	return all
}

func writesEvents(path string) bool {
	if strings.HasPrefix(path, module) {
		return !strings.HasPrefix(path, module+"provider/openstack")
	}
	return strings.HasPrefix(path, "k8s.io/cloud-provider/") ||
		strings.HasPrefix(path, "k8s.io/client-go/tools/leaderelection")
}

func (s *source) addConstants(file *ast.File) {
	for _, decl := range file.Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if i < len(value.Values) {
					s.constants[name.Name] = s.text(value.Values[i])
				}
			}
		}
	}
}

// text returns the value of a literal or of a constant, and "" for anything else.
func (s *source) text(value ast.Expr) string {
	switch value := value.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(value.Value)
		return text
	case *ast.Ident:
		return s.constants[value.Name]
	}
	return ""
}

// scan adds the events that the package writes. It skips functions that get the reason from their
// caller.
func (s *source) scan(found map[written]bool) {
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			function, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			kind, ok := recorders[function.Sel.Name]
			if !ok {
				return true
			}
			for _, argument := range call.Args {
				if selector, is := argument.(*ast.SelectorExpr); is &&
					strings.HasPrefix(selector.Sel.Name, "EventType") {
					kind = strings.TrimPrefix(selector.Sel.Name, "EventType")
					continue
				}
				reason := s.text(argument)
				if kind != "" && isReason(reason) {
					found[written{kind, reason}] = true
				}
				if reason != "" {
					break
				}
			}
			return true
		})
	}
}

// isReason reports whether a text has the form of a reason.
func isReason(text string) bool {
	return text != "" && text[0] >= 'A' && text[0] <= 'Z' && !strings.Contains(text, " ")
}
