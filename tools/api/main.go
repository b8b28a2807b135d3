// Command api writes docs/reference/api.txt: every exported name of the packages that a host may
// import, without the fields of structs. With -check it compares the file instead. A name without a
// doc comment is an error, and so is a package without an Example. A list that is longer than the
// previous one needs a reason, which the file keeps.
//
//	go run ./tools/api [-check | -grow "they ..."]
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

const list = "docs/reference/api.txt"

// private are the folders of packages that a host does not import.
var private = []string{"bin", "cmd", "docs", "example", "internal", "test", "testdata", "tools"}

func main() {
	check := flag.Bool("check", false, "compare the list and write nothing")
	reason := flag.String("grow", "", "why the list has more names")
	flag.Parse()
	if err := run(*check, *reason); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(check bool, reason string) error {
	names, err := publicNames()
	if err != nil {
		return err
	}
	fmt.Printf("public API: %d exported names\n", len(names))
	before, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	after, err := update(string(before), names, reason)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(list, []byte(after), 0o644)
	}
	if string(before) != after {
		return fmt.Errorf("%s differs from the code; run: go run ./tools/api", list)
	}
	return nil
}

// publicNames returns the names of all packages that a host may import, package by package.
func publicNames() ([]string, error) {
	var (
		names   []string
		missing []error
	)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir() || path == ".":
			return nil
		case strings.HasPrefix(entry.Name(), "."), slices.Contains(private, entry.Name()):
			return filepath.SkipDir
		}
		p, err := readPackage(path)
		names = append(names, p.names...)
		missing = append(missing, p.missing...)
		return err
	})
	return names, errors.Join(append(missing, err)...)
}

const (
	header = `# Exported names that a host may import, without the fields of structs: package, name.
# go run ./tools/api writes this list.
# total: %d
`
	reasonLine = "# The number last grew because "
)

// update returns the new list. It fails if the number of names grows without a reason.
func update(before string, names []string, reason string) (string, error) {
	last, lastReason := 0, ""
	for line := range strings.Lines(before) {
		if because, ok := strings.CutPrefix(line, reasonLine); ok {
			lastReason = strings.TrimSpace(because)
		} else if !strings.HasPrefix(line, "#") {
			last++
		}
	}
	if more := len(names) - last; more > 0 && reason == "" {
		return "", fmt.Errorf("%d exported names more than in %s (%d); internal packages need no "+
			"list. If users need the names, run: go run ./tools/api -grow \"they ...\"",
			more, list, last)
	}
	after := fmt.Sprintf(header, len(names))
	if reason == "" {
		reason = lastReason
	}
	if reason != "" {
		after += reasonLine + strings.TrimSuffix(reason, ".") + ".\n"
	}
	for _, name := range names {
		after += name + "\n"
	}
	return after, nil
}
