package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadPackage_ExportedNames_AreListedAndNeedADocComment(t *testing.T) {
	t.Chdir(t.TempDir())
	source := `package p

// AuthorizationConfig configures.
type AuthorizationConfig struct{ Field int }

// T is an interface.
type T interface {
	// M is a method.
	M()
	Undocumented()
}

type hidden struct{}

// Hidden is a method of a type that is not exported.
func (hidden) Hidden() {}

// The limits.
const (
	A = 1
	B = 2 // B is two.
)

var C = 3

// Get returns a value.
func (*AuthorizationConfig) Get() int { return 0 }

func New() {}

// Map has two type parameters.
type Map[K, V any] struct{}

// Put stores.
func (m *Map[K, V]) Put(K, V) {}
`
	if err := os.Mkdir("p", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("p", "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPackage("p")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("A AuthorizationConfig AuthorizationConfig.Get B C Map Map.Put New T " +
		"T.M T.Undocumented")
	for i := range want {
		want[i] = "p " + want[i]
	}
	if !slices.Equal(p.names, want) {
		t.Errorf("names:\n%q\nwant:\n%q", p.names, want)
	}
	const missing = `p: T.Undocumented has no doc comment
p: C has no doc comment
p: New has no doc comment
p: the package has no doc comment
p: the package has no Example`
	if got := errors.Join(p.missing...).Error(); got != missing {
		t.Errorf("missing:\n%s\nwant:\n%s", got, missing)
	}
}

func TestReadPackage_ExampleInATestFile_IsEnough(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, source := range map[string]string{
		"p.go":      "// Package p is.\npackage p\n\n// A is a number.\nconst A = 1\n",
		"p_test.go": "package p_test\n\nfunc ExampleA() {}\n",
	} {
		if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := readPackage(".")
	if err != nil || len(p.missing) > 0 || !slices.Equal(p.names, []string{". A"}) {
		t.Errorf("names %q, missing %v, %v", p.names, p.missing, err)
	}
}

func TestUpdate_MoreNames_NeedAReasonThatStays(t *testing.T) {
	two := []string{"p A", "p B"}
	if _, err := update("# total: 1\np A\n", two, ""); err == nil ||
		!strings.Contains(err.Error(), "1 exported names more") {
		t.Errorf("a second name without a reason: %v", err)
	}
	grown, err := update("# total: 1\np A\n", two, "hosts need B.")
	if err != nil {
		t.Fatal(err)
	}
	same, err := update(grown, two, "")
	if err != nil || same != grown ||
		!strings.Contains(grown, "\n# The number last grew because hosts need B.\n") {
		t.Errorf("the next list is, with the error %v:\n%s\nafter:\n%s", err, same, grown)
	}
	if fewer, err := update(grown, two[:0], ""); err != nil ||
		!strings.Contains(fewer, "# total: 0\n") {
		t.Errorf("without the names: %v\n%s", err, fewer)
	}
}
