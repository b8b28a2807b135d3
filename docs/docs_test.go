// Package docs_test checks the documentation: the Go code in it and in doc comments compiles,
// Examples run, links resolve, names exist, and generated pages are up to date.
package docs_test

import (
	"os"
	"path/filepath"
	"testing"
)

//go:generate go run -C .. ./tools/api
//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^(TestCode|TestMetricsPage|TestFleetPage) .

// root is the folder of the project, relative to this one.
const root = ".."

// pages returns all pages of the documentation, by their paths from the root.
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
