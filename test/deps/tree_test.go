package deps_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section returns the text below a heading of the page, up to the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile(floorsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", floorsPage, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func TestArchitecture_Tree_HasTheFolderOfEachPackage(t *testing.T) {
	var folders []string
	inCode := regexp.MustCompile("`([a-z0-9/]+)`")
	for line := range strings.Lines(section(t, "The tree")) {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		for _, folder := range inCode.FindAllStringSubmatch(cells[1], -1) {
			folders = append(folders, folder[1])
			info, err := os.Stat(filepath.Join("../..", folder[1]))
			if err != nil || !info.IsDir() {
				t.Errorf("the folder %s does not exist: %v", folder[1], err)
			}
		}
	}
	for pkg := range directImports(t) {
		if !belowAny(pkg, folders) {
			t.Errorf("package %s is in no folder of the tree", pkg)
		}
	}
}

func TestArchitecture_Ways_FilesExistAndHaveTheirFunctions(t *testing.T) {
	step := regexp.MustCompile("`([a-z0-9_/]+\\.go)`(?: `([A-Za-z]+)`)?")
	for heading, least := range map[string]int{
		"The way of a Service": 11, "The way of a Node": 8,
		"The way of a cluster of a fleet": 6, "The way of a flag": 4,
	} {
		steps := step.FindAllStringSubmatch(section(t, heading), -1)
		if len(steps) < least {
			t.Errorf("%s: found %d files, want at least %d", heading, len(steps), least)
		}
		var seen []string
		for _, s := range steps {
			source, err := os.ReadFile(filepath.Join("../..", s[1]))
			if err != nil {
				t.Errorf("%s: %v", heading, err)
				continue
			}
			declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + s[2] + `[(\[]`)
			if s[2] != "" && !declared.Match(source) {
				t.Errorf("%s: %s has no function %s", heading, s[1], s[2])
			}
			if slices.Contains(seen, s[1]) {
				t.Errorf("%s goes through %s twice", heading, s[1])
			}
			seen = append(seen, s[1])
		}
	}
}
