package deps_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Go reads the inputs in testdata/fuzz of the target's package only.
func TestFuzzInputs_AreBesideTheirTarget(t *testing.T) {
	found := 0
	if err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == ".git" || entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		parent, target := filepath.Split(path)
		folder, isInputs := strings.CutSuffix(filepath.ToSlash(parent), "/testdata/fuzz/")
		if !isInputs {
			return nil
		}
		found++
		if !declaresTarget(t, folder, target) {
			t.Errorf("%s has inputs of %s, but not this target", folder, target)
		}
		return fs.SkipDir
	}); err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("found the inputs of %d targets, want at least 10", found)
	}
}

func declaresTarget(t *testing.T, folder, target string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(target) + `\(`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if declared.Match(source) {
			return true
		}
	}
	return false
}
