// Command language checks the texts of this repository against the table of the glossary, the
// length of its lines of Go, and the names of its tests. It prints what to write instead, and fails
// if there is a finding.
//
//	go run ./tools/language [folder ...]
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const glossary = "docs/contributing/glossary.md"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(1)
	}
}

func run(folders []string) error {
	page, err := os.ReadFile(glossary)
	if err != nil {
		return fmt.Errorf("read the glossary from the root of the repository: %w", err)
	}
	rules, err := parseGlossary(string(page))
	if err != nil {
		return fmt.Errorf("%s: %w", glossary, err)
	}
	files, err := list(folders)
	if err != nil {
		return err
	}
	findings := 0
	for _, name := range files {
		found, err := check(name, rules)
		if err != nil {
			return err
		}
		for _, f := range found {
			fmt.Println(f)
		}
		findings += len(found)
	}
	if findings > 0 {
		return fmt.Errorf("%d findings; %s says why", findings, glossary)
	}
	return nil
}

var withTexts = []string{
	".go", ".md", ".tmpl", ".sh", ".yaml", ".json", ".svg", ".mjs", ".tpl", ".txt",
}

// list returns the files with texts below the folders that git tracks or would add.
func list(folders []string) ([]string, error) {
	arguments := append([]string{"ls-files", "-co", "--exclude-standard", "--deduplicate", "--"},
		folders...)
	out, err := exec.Command("git", arguments...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the repository: %w", err)
	}
	var files []string
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSuffix(name, "\n")
		isText := slices.Contains(withTexts, filepath.Ext(name))
		isText = isText || filepath.Base(name) == "Makefile"
		if isText && name != glossary && !strings.Contains(name, "/testdata/") {
			files = append(files, name)
		}
	}
	return files, nil
}

func check(name string, rules []rule) ([]finding, error) {
	content, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, nil // deleted, and not committed yet
	}
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(name) {
	case ".md", ".tmpl":
		return checkTexts(name, pageTexts(string(content)), rules), nil
	case ".svg":
		texts, err := pictureTexts(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return checkTexts(name, texts, rules), nil
	case ".mjs":
		return checkTexts(name, moduleTexts(string(content)), rules), nil
	case ".tpl", ".txt":
		return checkTexts(name, templateTexts(name, string(content)), rules), nil
	case ".yaml", ".sh", "": // a Makefile
		if strings.Contains(name, "/templates/") {
			return checkTexts(name, templateTexts(name, string(content)), rules), nil
		}
		texts := append(comments(string(content)), descriptions(string(content))...)
		return checkTexts(name, texts, rules), nil
	case ".json":
		return checkTexts(name, descriptions(string(content)), rules), nil
	}
	source, err := scan(name, content)
	if err != nil {
		return nil, err
	}
	found := append(source.longLines(), source.shortTestNames()...)
	return append(found, checkTexts(name, source.texts, rules)...), nil
}
