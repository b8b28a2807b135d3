package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Go code in doc comments compiles. The table surroundings declares the names that the code
// uses but does not declare; a line that begins with "…" or "..." omits code.
func TestDocCode_Compiles(t *testing.T) {
	check := newCodeChecker(t)
	found := 0
	for _, file := range publicFiles(t) {
		for _, block := range codeBlocks(t, file) {
			found++
			if err := check(path.Dir(file), block.code); err != nil {
				t.Errorf("%s: the code in the comment at line %d does not compile:\n%v\n%s", file,
					block.line, err, block.code)
			}
		}
	}
	if found == 0 {
		t.Error("no Go code was found")
	}
}

// imports are packages that code in doc comments uses and that are not in packages, by the names
// that it uses.
var imports = map[string]string{
	"api":         "k8s.io/cloud-provider/api",
	"app":         "k8s.io/cloud-provider/app",
	"context":     "context",
	"errors":      "errors",
	"fx":          "go.uber.org/fx",
	"http":        "net/http",
	"kubernetes":  "k8s.io/client-go/kubernetes",
	"names":       "k8s.io/cloud-provider/names",
	"pflag":       "github.com/spf13/pflag",
	"rest":        "k8s.io/client-go/rest",
	"testing":     "testing",
	"time":        "time",
	"utilfeature": "k8s.io/apiserver/pkg/util/feature",
}

// surroundings declare names that statements in doc comments use, for all packages and for single
// ones.
var surroundings = map[string]string{
	"": `
		var (
			ctx     context.Context
			t       *testing.T
			err     error
			cfg     ccm.Config
			params  ccm.Params
			manager *ccm.Manager
			user    string
		)`,
	"ccm": `
		var (
			newEast, newWest func() ccm.Params
			newCloud         func() ccm.Provider
			deadline         time.Time
		)
		type myElector struct{ election.Elector }`,
	"ccm/ccmtest": `
		var (
			cp, controlPlane *controlplane.ControlPlane
			cloud            *fake.Cloud
			app              *ccmtest.CCM
			client           kubernetes.Interface
			myprogram        struct{ Options func() []fx.Option }
		)`,
	"ccm/ccmtest/conformance":  `var startStub func(testing.TB) conformance.Cloud`,
	"ccm/ccmtest/controlplane": `var cp *controlplane.ControlPlane`,
	"ccm/serving/endpoints":    `var mux *http.ServeMux`,
	"hosting/initfunc":         `var constructors map[string]app.ControllerInitFuncConstructor; var aliases map[string]string`,
	"options":                  `var cmd struct{ Flags func() *pflag.FlagSet }; var completed options.Completed`,
	"provider/fake":            `var cloud *fake.Cloud`,

	"provider/openstack/openstacktest": `var cloud *openstacktest.Cloud`,
}

// isGo matches a call of an exported function or a declaration, which distinguishes Go from other
// text in doc comments.
var isGo = regexp.MustCompile(`(?m)[\w)]\.[A-Z]\w*\(|:= |^(func|type|var|const) `)

type codeBlock struct {
	line int
	code string
}

// codeBlocks are the pieces of Go code in the doc comments of a file.
func codeBlocks(t *testing.T, file string) []codeBlock {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, filepath.Join(root, file), nil,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var all []codeBlock
	ast.Inspect(parsed, func(n ast.Node) bool {
		group, ok := n.(*ast.CommentGroup)
		if !ok {
			return true
		}
		for _, part := range new(comment.Parser).Parse(group.Text()).Content {
			if code, ok := part.(*comment.Code); ok && isGo.MatchString(code.Text) {
				all = append(all, codeBlock{files.Position(group.Pos()).Line, code.Text})
			}
		}
		return false
	})
	return all
}

// publicFiles are the files of packages that a host can import.
func publicFiles(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{"ccm", "controllers", "hosting", "options", "provider"} {
		err := fs.WalkDir(os.DirFS(root), dir,
			func(name string, entry fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case entry.IsDir() && (entry.Name() == "internal" || entry.Name() == "testdata"):
					return fs.SkipDir
				case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
					all = append(all, name)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// newCodeChecker returns a function that checks whether code in the comments of a package compiles.
func newCodeChecker(t *testing.T) func(dir, code string) error {
	t.Helper()
	all := maps.Clone(imports)
	for name, dir := range packages {
		all[name] = "github.com/fxccm/fxccm/" + dir
	}
	exports := exportData(t, slices.Sorted(maps.Values(all)))
	files := token.NewFileSet()
	from := importer.ForCompiler(files, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	header := "package doc\n"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		header += fmt.Sprintf("import %s %q\n", name, all[name])
	}
	return func(dir, code string) error {
		parsed, err := parser.ParseFile(files, "doc.go",
			header+whole(surroundings[""]+"\n"+surroundings[dir], code),
			parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		var errs []error
		config := types.Config{Importer: from, Error: func(err error) {
			// Soft errors are unused variables and imports.
			if of := (types.Error{}); !errors.As(err, &of) || !of.Soft {
				errs = append(errs, err)
			}
		}}
		_, _ = config.Check("doc", files, []*ast.File{parsed}, nil) // the errors go to config.Error
		return errors.Join(errs...)
	}
}

var (
	declaration = regexp.MustCompile(`^(func|type|var|const) `)
	leftOut     = regexp.MustCompile(`(?m)^\s*(…|\.\.\.)`)
)

// whole turns code into declarations.
func whole(surroundings, code string) string {
	marked := "//line code:1\n" + leftOut.ReplaceAllString(code, "// ") + "\n"
	if declaration.MatchString(code) {
		return marked
	}
	return "func _() {" + surroundings + "\n{\n" + marked + "}\n}\n"
}

// exportData returns the file with the export data of each of the packages and of those that they
// import.
func exportData(t *testing.T, paths []string) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"},
			paths...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}
