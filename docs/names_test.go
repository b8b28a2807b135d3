package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/options"
)

// packages are the packages whose names appear on pages.
var packages = map[string]string{
	"ccm":                   "ccm",
	"ccmtest":               "ccm/ccmtest",
	"election":              "ccm/election",
	"conformance":           "ccm/ccmtest/conformance",
	"controlplane":          "ccm/ccmtest/controlplane",
	"serving":               "ccm/serving",
	"servingconfig":         "ccm/serving/servingconfig",
	"endpoints":             "ccm/serving/endpoints",
	"options":               "options",
	"fake":                  "provider/fake",
	"openstack":             "provider/openstack",
	"config":                "provider/openstack/cloudconf",
	"openstacktest":         "provider/openstack/openstacktest",
	"process":               "hosting/process",
	"registered":            "hosting/registered",
	"persistentvolumelabel": "controllers/persistentvolumelabel",
	"initfunc":              "hosting/initfunc",
	"nodeipam":              "controllers/nodeipam",
}

var (
	namedThing = regexp.MustCompile(`^(?:([a-z]+)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*\))?$`)
	namedFlag  = regexp.MustCompile(`^--([a-z][a-z0-9-]+)`)
)

// Names that a page quotes as code exist: `ccm.New`, `ccm.Term.Cloud`, and names of package ccm
// without the package, such as `Params.Clock`.
func TestNames_Exist(t *testing.T) {
	known := map[string]map[string]bool{}
	for name, dir := range packages {
		known[name] = exported(t, filepath.Join(root, dir))
	}
	for _, page := range pages(t) {
		for i, line := range prose(read(t, page)) {
			for _, span := range codeSpan.FindAllString(line, -1) {
				if name := strings.Trim(span, "`"); !exists(known, name) {
					t.Errorf("%s:%d: there is no %s", page, i+1, name)
				}
			}
		}
	}
}

func exists(known map[string]map[string]bool, name string) bool {
	found := namedThing.FindStringSubmatch(name)
	if found == nil {
		return true
	}
	of, thing, member := found[1], found[2], found[3]
	switch {
	case of == "" && member == "":
		return true // a word
	case of == "":
		of = "ccm"
		if !known[of][thing] {
			return true // of something else
		}
	case known[of] == nil:
		return true
	}
	return known[of][strings.TrimSuffix(thing+"."+member, ".")]
}

// exported lists the names of a package: functions, types, values, and Type.Member for methods and
// fields.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no package in %s: %v", dir, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			declare(all, decl)
		}
	}
	return all
}

func declare(all map[string]bool, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		all[functionName(d)] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					all[name.Name] = true
				}
			case *ast.TypeSpec:
				all[s.Name.Name] = true
				declareMembers(all, s)
			}
		}
	}
}

func declareMembers(all map[string]bool, s *ast.TypeSpec) {
	var members *ast.FieldList
	switch of := s.Type.(type) {
	case *ast.StructType:
		members = of.Fields
	case *ast.InterfaceType:
		members = of.Methods
	default:
		return
	}
	for _, field := range members.List {
		for _, name := range field.Names {
			all[s.Name.Name+"."+name.Name] = true
		}
	}
}

// commandFlag is a flag in the help of a subcommand.
var commandFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`)

// Flags that a guide names are those of package options, or of a subcommand.
func TestFlags_Exist(t *testing.T) {
	// The page is the commands' own help.
	commands := map[string]bool{}
	for _, found := range commandFlag.FindAllStringSubmatch(
		read(t, "docs/reference/commands.md"), -1) {
		commands[found[1]] = true
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, prefix := range []string{"", "ccm-"} {
		if err := options.New().AddFlags(flags, options.WithPrefix(prefix)); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range pages(t) {
		if !strings.HasPrefix(page, "docs/how-to/") {
			continue
		}
		for i, line := range prose(read(t, page)) {
			for _, span := range codeSpan.FindAllString(line, -1) {
				found := namedFlag.FindStringSubmatch(strings.Trim(span, "`"))
				if found != nil && flags.Lookup(found[1]) == nil && !commands[found[1]] {
					t.Errorf("%s:%d: there is no flag --%s", page, i+1, found[1])
				}
			}
		}
	}
}

var (
	namedTest    = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	declaredTest = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
)

// A test that a page names as a proof exists.
func TestTests_Exist(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, found := range declaredTest.FindAllStringSubmatch(string(text), -1) {
			declared[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages(t) {
		if page == "docs/evidence/openstack-runs.md" {
			continue // of earlier commits
		}
		for _, found := range namedTest.FindAllStringSubmatch(read(t, page), -1) {
			if named++; !declared[found[1]] {
				t.Errorf("%s: the test %s does not exist", page, found[1])
			}
		}
	}
	if named == 0 {
		t.Error("no page names a test")
	}
}
