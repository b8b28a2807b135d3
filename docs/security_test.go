package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A row of the tables of threats ends with the tests that show what stops an attack, such as
// "`./ccm` TestA, TestB; `./fleet` TestC", or with a sentence about what is not prevented.
var (
	testPackage = regexp.MustCompile("`(\\./[a-z0-9/]+)`([^`]*)")
	testName    = regexp.MustCompile(`\b(Test|Fuzz|Example)[A-Z]\w+`)
)

func TestSecurityPage_EachDefense_IsShownByATestThatExists(t *testing.T) {
	rows, tests, isThreats := 0, 0, false
	for _, line := range strings.Split(read(t, "docs/explanation/security.md"), "\n") {
		if !strings.HasPrefix(line, "|") {
			isThreats = false
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		isHeader := strings.TrimSpace(cells[len(cells)-1]) == "shown by"
		isThreats = isThreats || isHeader
		if !isThreats || isHeader || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 3 {
			t.Fatalf("the row has %d cells: %s", len(cells), line)
		}
		rows++
		shown := strings.TrimSpace(cells[2])
		if strings.HasPrefix(shown, "not prevented") {
			continue
		}
		found := 0
		for _, group := range testPackage.FindAllStringSubmatch(shown, -1) {
			for _, name := range testName.FindAllString(group[2], -1) {
				found++
				if !hasTest(t, filepath.Join(root, group[1]), name) {
					t.Errorf("%s has no test %s, which shows: %s", group[1], name, cells[0])
				}
			}
		}
		if found == 0 {
			t.Errorf("no test shows: %s", line)
		}
		tests += found
	}
	if rows < 20 || tests < rows/2 {
		t.Errorf("the page has %d rows with %d tests", rows, tests)
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(code), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
