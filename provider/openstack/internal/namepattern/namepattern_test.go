package namepattern_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/namepattern"
)

func TestCompile_Negated_FitsTheOthers(t *testing.T) {
	const name = "test-123"
	for _, pattern := range []string{
		"test-*", "~test-.*", "other*", "~other.*", "*",
		"~.*", "test-123", "x",
	} {
		is, err := namepattern.Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		isNot, err := namepattern.Compile("!" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		if is(name) == isNot(name) {
			t.Errorf("the negation of %q has the same result", pattern)
		}
	}
	if fits, err := namepattern.Compile("net-*"); err != nil || fits("net-a/b") || !fits("net-ab") {
		t.Errorf("a wildcard matches a slash (error %v)", err)
	}
	if fits, err := namepattern.Compile("public"); err != nil || fits("") {
		t.Errorf("an empty name matches (error %v)", err)
	}
}

// large are patterns that fit into an annotation, and need from 1 to 128 MiB.
var large = []string{
	`~\pL{1000}`, `~(?i)[\pL\pN]{500}`, `!~(\pL{30}){30}`, `~(((a{10}){10}){10}){1}\pL{999}`, `~` +
		strings.Repeat(`\pL{1000}`, 28), `~(?:\PC?){1000}`,
	`~` + strings.Repeat(`(?:.{1000})`, 22), `~\pL{20,}`, `~(\pL{10}){3,9}`,
}

// most is the number of bytes that a pattern may need.
const most = 4 << 20

// allocated returns the number of bytes that are allocated to compile a pattern.
func allocated(t *testing.T, pattern string) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = namepattern.Compile(pattern)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestCompile_LargeExpression_IsRefusedWithoutBeingCompiled(t *testing.T) {
	for _, pattern := range large {
		if size := allocated(t, pattern); size > most {
			t.Errorf("%q takes %d bytes", pattern, size)
		}
		if _, err := namepattern.Compile(pattern); !errors.Is(err, namepattern.ErrTooLarge) {
			t.Errorf("%q: error %v", pattern, err)
		}
	}
	for _, pattern := range []string{
		`~[a-z]{3,64}`, `~public-(\d{1,3}\.){3}0`, `~\pL\pN*`,
		`~(?i)(prod|stage)-[a-z0-9-]{1,63}`,
	} {
		if err := namepattern.Check(pattern); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestCompile_Malformed_IsAnError(t *testing.T) {
	for _, pattern := range []string{"~(", "!~[", "~a)(b", "[a", "{a,b", "!{a", "~(?P<x"} {
		if _, err := namepattern.Compile(pattern); err == nil ||
			!strings.Contains(err.Error(), "pattern") {
			t.Errorf("%q: error %v", pattern, err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{
		"test-*", "~test-.*", "!~(a|b)", "{a,b}?", "[a-c]", "~a)(b",
		"!", "~", `\E*`, "a\nb", "[]", "{,}", "[^a]", "[a-",
	} {
		f.Add(pattern, "test-1")
	}
	for _, pattern := range large {
		f.Add(pattern, "test-1")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		fits, err := namepattern.Compile(pattern)
		if err != nil {
			return
		}
		if len(pattern) <= 255 {
			if size := allocated(t, pattern); size > most {
				t.Errorf("%q takes %d bytes", pattern, size)
			}
		}
		if !strings.HasPrefix(pattern, "!") {
			negated, err := namepattern.Compile("!" + pattern)
			if err != nil || negated(name) == fits(name) {
				t.Errorf("%q of %q: negated is the same (error %v)", pattern, name, err)
			}
		}
		// A name without special characters matches itself and no other name.
		if pattern != "" && !strings.ContainsAny(pattern, `!~*?[]{}`) &&
			isText(pattern) && isText(name) {
			if fits(name) != (name == pattern) {
				t.Errorf("%q of %q: %v", pattern, name, fits(name))
			}
		}
	})
}

func isText(text string) bool { return strings.ToValidUTF8(text, "") == text }
