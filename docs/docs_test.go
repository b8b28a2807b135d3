// Package docs_test keeps the documentation true: the Go code in it and in doc comments compiles
// and, where it is an Example, runs; links lead somewhere; names exist; what is generated is what
// the code says.
package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

//go:generate go run -C .. ./tools/api
//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^(TestCode|TestMetricsPage) .

// root is the folder of the project, seen from this one.
const root = ".."

// pages are all pages of the documentation, by their paths from the root.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md"}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" {
			all = append(all, filepath.Join("docs", path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// keep compares a page with what it should be, or writes it with UPDATE_DOCS=1.
func keep(t *testing.T, page, want string) {
	t.Helper()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(filepath.Join(root, page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if line := firstDifference(string(got), want); line > 0 {
		t.Errorf("%s:%d does not say what the code does; run: go generate ./docs", page, line)
	}
}

// firstDifference is the number of the first line in which two texts differ; 0 if they are the
// same.
func firstDifference(a, b string) int {
	if a == b {
		return 0
	}
	these, those := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(these), len(those)) {
		if these[i] != those[i] {
			return i + 1
		}
	}
	return min(len(these), len(those)) + 1
}

func TestIndex_LinksEveryPage(t *testing.T) {
	const index = "docs/README.md"
	linked := map[string]bool{index: true}
	for _, link := range links(read(t, index)) {
		path, _, _ := strings.Cut(link.target, "#")
		linked[filepath.Join("docs", path)] = true
	}
	for _, page := range pages(t) {
		if !linked[page] {
			t.Errorf("%s does not link %s", index, page)
		}
	}
}
