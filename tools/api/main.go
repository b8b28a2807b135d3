// Command api writes docs/reference/api.md: every exported name of the packages that a host may
// import, with the first sentence of its doc comment. With -check it compares the page instead. A
// name without a doc comment is an error.
//
//	go run ./tools/api [-check]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const page = "docs/reference/api.md"

// private are folders whose packages a host does not or cannot import.
var private = []string{"bin", "cmd", "docs", "example", "internal", "test", "testdata", "tools"}

func main() {
	check := flag.Bool("check", false, "compare the page and write nothing")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	packages, err := publicPackages(".")
	if err != nil {
		return err
	}
	total := 0
	var missing []error
	for _, p := range packages {
		total += len(p.names)
		for _, n := range p.names {
			if n.doc == "" {
				missing = append(missing, fmt.Errorf("%s: %s has no doc comment", p.path, n.name))
			}
		}
	}
	if err := errors.Join(missing...); err != nil {
		return err
	}
	fmt.Printf("public API: %d exported names in %d packages\n", total, len(packages))
	want := render(packages, total)
	if !check {
		return os.WriteFile(page, []byte(want), 0o644)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("%s differs from the code; run: go run ./tools/api", page)
	}
	return nil
}

// publicPackages reads all packages below root that a host may import, sorted by path.
func publicPackages(root string) ([]pkg, error) {
	var packages []pkg
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir() || path == root:
			return nil
		case strings.HasPrefix(entry.Name(), "."), slices.Contains(private, entry.Name()):
			return filepath.SkipDir
		}
		p, err := readPackage(path)
		if err == nil && len(p.names) > 0 {
			packages = append(packages, p)
		}
		return err
	})
	return packages, err
}

func render(packages []pkg, total int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Go API

<!-- Generated from the doc comments; change them there and run: go run ./tools/api -->

All exported names of the packages that a host may import, without the fields of structs.
`+"`go doc github.com/fxccm/fxccm/ccm`"+` and the like show the whole comments.

| package | exported names |
|---|---|
`)
	for _, p := range packages {
		anchor := strings.ReplaceAll(p.path, "/", "")
		fmt.Fprintf(&b, "| [%s](#%s) | %d |\n", p.path, anchor, len(p.names))
	}
	fmt.Fprintf(&b, "| total | %d |\n", total)
	for _, p := range packages {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| kind | name | |\n|---|---|---|\n", p.path, p.doc)
		for _, n := range p.names {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", n.kind, n.name, n.doc)
		}
	}
	return b.String()
}
