// Command api writes docs/reference/api.md: every exported name of the packages that a host may
// import, with the first sentence of its doc comment. With -check it compares the page instead. A
// name without a doc comment is an error. A page with more names than the previous page needs
// a reason, which it then shows.
//
//	go run ./tools/api [-check | -grow "the reason for new names"]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const page = "docs/reference/api.md"

// private are the folders of packages that a host does not import.
var private = []string{"bin", "cmd", "docs", "example", "internal", "test", "testdata", "tools"}

func main() {
	check := flag.Bool("check", false, "compare the page and write nothing")
	reason := flag.String("grow", "", "why the page has more names")
	flag.Parse()
	if err := run(*check, *reason); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(check bool, reason string) error {
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
	before, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	after, err := update(string(before), packages, total, reason)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(page, []byte(after), 0o644)
	}
	if string(before) != after {
		return fmt.Errorf("%s differs from the code; run: go run ./tools/api", page)
	}
	return nil
}

var (
	totalRow   = regexp.MustCompile(`(?m)^\| total \| (\d+) \|$`)
	reasonLine = regexp.MustCompile(`(?m)^The number last grew because (.+)\.$`)
)

// update returns the new page. It fails if the number of names grows without a reason.
func update(before string, packages []pkg, total int, reason string) (string, error) {
	if row := totalRow.FindStringSubmatch(before); row != nil && reason == "" {
		last, err := strconv.Atoi(row[1])
		if err != nil {
			return "", err
		}
		if total > last {
			return "", fmt.Errorf("%d exported names more than in %s (%d); internal packages need "+
				"no list. If users need the names, run: go run ./tools/api -grow \"they ...\"",
				total-last, page, last)
		}
	}
	if line := reasonLine.FindStringSubmatch(before); line != nil && reason == "" {
		reason = line[1]
	}
	return render(packages, total, strings.TrimSuffix(reason, ".")), nil
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

func render(packages []pkg, total int, reason string) string {
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
	if reason != "" {
		fmt.Fprintf(&b, "\nThe number last grew because %s.\n", reason)
	}
	for _, p := range packages {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| kind | name | |\n|---|---|---|\n", p.path, p.doc)
		for _, n := range p.names {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", n.kind, n.name, n.doc)
		}
	}
	return b.String()
}
