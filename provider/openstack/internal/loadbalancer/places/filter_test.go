package places

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
)

// The cases of OCCM's own test (loadbalancer_subnet_match_test.go), each also negated, and more.
func TestSubnetFilter(t *testing.T) {
	subnet := balancer.Subnet{Name: "test-123", Tags: []string{"alice", "bob"}}
	for _, c := range []struct {
		pattern, tags string
		want          bool
	}{
		{"", "", true},
		{"test-123", "", true},
		{"test", "", false},
		{"est-123", "", false},
		{"TEST-123", "", false},
		{"test-*", "", true},
		{"*", "", true},
		{"*-1*", "", true},
		{"other*", "", false},
		{"test-12?", "", true},
		{"test-1?", "", false},
		{"test-[0-9]23", "", true},
		{"test-[4-9]23", "", false},
		{"{prod,test}-123", "", true},
		{"{prod,stage}-123", "", false},
		{"test.123", "", false},
		{"test-(123)", "", false},
		{"~test-.*", "", true},
		{"~.*", "", true},
		{"~other.*", "", false},
		{"~test", "", false},
		{"~123", "", false},
		{"~test-123|other", "", true},
		{"~test|test-123", "", true},
		{"~^test-123$", "", true},
		{"~(?i)TEST-123", "", true},
		{"", "alice", true},
		{"", "other", false},
		{"", "alice,bob", true},
		{"", "alice,peter", true},
		{"", " peter , alice ", true},
		{"", "peter,carol", false},
		{"", "&alice,bob", true},
		{"", "& alice , bob", true},
		{"", "&alice,peter", false},
		{"test-*", "alice", true},
		{"test-*", "&alice,peter", false},
		{"other*", "alice", false},
	} {
		fits, err := subnetFilter(c.pattern, c.tags)
		if err != nil {
			t.Errorf("%q %q: %v", c.pattern, c.tags, err)
			continue
		}
		if got := fits(subnet); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.pattern, c.tags, got, c.want)
		}
	}
	for _, pattern := range []string{"test-*", "~test-.*", "other*", "~other.*", "*", "~.*", "test-123", "x"} {
		is, err := nameFilter(pattern)
		if err != nil {
			t.Fatal(err)
		}
		isNot, err := nameFilter("!" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		if is(subnet.Name) == isNot(subnet.Name) {
			t.Errorf("%q negated is the same", pattern)
		}
	}
	for tags, want := range map[string]bool{
		"!alice": false, "!other": true, "!alice,peter": false, "!carol,peter": true,
		"!&alice,bob": false, "!&alice,peter": true, "!&carol,peter": true,
	} {
		if got := tagFilter(tags)(subnet.Tags); got != want {
			t.Errorf("%q: %v, want %v", tags, got, want)
		}
	}
	if fits, err := nameFilter("net-*"); err != nil || fits("net-a/b") || !fits("net-ab") {
		t.Errorf("a wildcard is for a slash, too (error %v)", err)
	}
	if fits, err := nameFilter("public"); err != nil || fits("") {
		t.Errorf("a subnet without a name has any (error %v)", err)
	}
}

func TestNameFilter_Malformed_IsAnError(t *testing.T) {
	for _, pattern := range []string{"~(", "!~[", "~a)(b", "[a", "{a,b", "!{a", "~(?P<x"} {
		if _, err := nameFilter(pattern); err == nil || !strings.Contains(err.Error(), "pattern") {
			t.Errorf("%q: error %v", pattern, err)
		}
	}
}

func FuzzNameFilter(f *testing.F) {
	for _, pattern := range []string{"test-*", "~test-.*", "!~(a|b)", "{a,b}?", "[a-c]", "~a)(b", "!", "~", `\E*`, "a\nb", "[]", "{,}", "[^a]", "[a-"} {
		f.Add(pattern, "test-1")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		fits, err := nameFilter(pattern)
		if err != nil {
			return
		}
		if !strings.HasPrefix(pattern, "!") {
			negated, err := nameFilter("!" + pattern)
			if err != nil || negated(name) == fits(name) {
				t.Errorf("%q of %q: negated is the same (error %v)", pattern, name, err)
			}
		}
		// A name without anything special fits itself and nothing else.
		if pattern != "" && !strings.ContainsAny(pattern, `!~*?[]{}`) && isText(pattern) && isText(name) {
			if fits(name) != (name == pattern) {
				t.Errorf("%q of %q: %v", pattern, name, fits(name))
			}
		}
	})
}

func isText(text string) bool { return strings.ToValidUTF8(text, "") == text }

func FuzzTagFilter(f *testing.F) {
	for _, tags := range []string{"alice", "&alice,bob", "!alice", "!&alice,bob", "", ",", "&", "!&"} {
		f.Add(tags, "alice")
	}
	f.Fuzz(func(t *testing.T, tags, tag string) {
		if strings.HasPrefix(tags, "!") {
			return
		}
		has := []string{tag}
		if tagFilter(tags)(has) == tagFilter("!"+tags)(has) {
			t.Errorf("%q of %q: negated is the same", tags, tag)
		}
	})
}
