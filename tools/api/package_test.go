package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadPackage_ExportedNames_HaveTheirKindAndFirstSentence(t *testing.T) {
	folder := t.TempDir()
	source := `// Package p is a test. It has more.
package p

// AuthorizationConfig configures [T]. It has more.
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
	// A is e.g. 1.
	A = 1
	B = 2 // B is two.
	C = 3
)

// Get returns a
// value.
func (*AuthorizationConfig) Get() int { return 0 }

func New() {}

// Map has two type parameters.
type Map[K, V any] struct{}

// Put stores.
func (m *Map[K, V]) Put(K, V) {}
`
	if err := os.WriteFile(filepath.Join(folder, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := readPackage(folder)
	if err != nil {
		t.Fatal(err)
	}
	if p.doc != "Package p is a test." {
		t.Errorf("doc of the package: %q", p.doc)
	}
	want := []name{
		{"const", "A", "A is e.g. 1."},
		{"type", "AuthorizationConfig", "AuthorizationConfig configures T."},
		{"method", "AuthorizationConfig.Get", "Get returns a value."},
		{"const", "B", "B is two."},
		{"const", "C", "The limits."},
		{"type", "Map", "Map has two type parameters."},
		{"method", "Map.Put", "Put stores."},
		{"func", "New", ""},
		{"type", "T", "T is an interface."},
		{"method", "T.M", "M is a method."},
		{"method", "T.Undocumented", ""},
	}
	if !slices.Equal(p.names, want) {
		t.Errorf("names:\n%v\nwant:\n%v", p.names, want)
	}
}

func TestUpdate_MoreNames_NeedAReasonThatStays(t *testing.T) {
	two := []pkg{{path: "p", names: []name{{"func", "A", "A."}, {"func", "B", "B."}}}}
	if _, err := update("| total | 1 |\n", two, 2, ""); err == nil ||
		!strings.Contains(err.Error(), "1 exported names more") {
		t.Errorf("a second name without a reason: %v", err)
	}
	page, err := update("| total | 1 |\n", two, 2, "hosts need B.")
	if err != nil {
		t.Fatal(err)
	}
	same, err := update(page, two, 2, "")
	if err != nil || same != page ||
		!strings.Contains(page, "\nThe number last grew because hosts need B.\n") {
		t.Errorf("the next page is, with the error %v:\n%s\nafter:\n%s", err, same, page)
	}
	if fewer, err := update(page, two[:0], 0, ""); err != nil ||
		!strings.Contains(fewer, "| total | 0 |") {
		t.Errorf("without the names: %v\n%s", err, fewer)
	}
}
