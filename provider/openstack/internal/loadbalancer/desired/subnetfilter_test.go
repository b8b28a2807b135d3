package desired

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

// These are the cases of OCCM's own test (loadbalancer_subnet_match_test.go), each also negated,
// and more.
func TestSubnetFilter_EachPattern_MatchesAsWithOCCM(t *testing.T) {
	t.Parallel()
	subnet := neutron.Subnet{Name: "test-123", Tags: []string{"alice", "bob"}}
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
	for tags, want := range map[string]bool{
		"!alice": false, "!other": true, "!alice,peter": false, "!carol,peter": true,
		"!&alice,bob": false, "!&alice,peter": true, "!&carol,peter": true,
	} {
		if got := tagFilter(tags)(subnet.Tags); got != want {
			t.Errorf("%q: %v, want %v", tags, got, want)
		}
	}
}

func FuzzTagFilter(f *testing.F) {
	for _, tags := range []string{
		"alice", "&alice,bob", "!alice", "!&alice,bob", "", ",", "&",
		"!&",
	} {
		f.Add(tags, "alice")
	}
	f.Fuzz(func(t *testing.T, tags, tag string) {
		if strings.HasPrefix(tags, "!") {
			return
		}
		has := []string{tag}
		if tagFilter(tags)(has) == tagFilter("!"+tags)(has) {
			t.Errorf("%q of %q: the negation has the same result", tags, tag)
		}
	})
}
