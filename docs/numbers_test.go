package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// measured are the numbers that a page takes from a page of evidence, which a command writes.
var measured = []struct {
	// phrase is the page's, with ... for the number.
	page, phrase string
	// from has the number as the group of find.
	from, find string
}{
	{
		"docs/explanation/fleet.md", "each of another kind, had ... at most, as measured",
		"docs/evidence/drills.md", `\| \d+ others are hostile \|.* (\d+ MiB) \|\n`,
	},
	{
		"docs/how-to/troubleshoot.md", "... with 50 nodes and 10 Services",
		"docs/evidence/benchmarks-occm.md", `\| memory \(resident set\) \|.* (\d+ MiB) \|\n`,
	},
	{
		"docs/explanation/openstack-load-balancers.md", "a deletion took ... requests",
		"docs/evidence/benchmarks-lab.md", `\| 1 Service deleted \|(?:[^|]*\|){3} (\d+) \|`,
	},
	{
		"docs/explanation/openstack-load-balancers.md", "and ten deletions ..., of which",
		"docs/evidence/benchmarks-lab.md", `\| 10 Services deleted \|(?:[^|]*\|){3} (\d+) \|`,
	},
}

func TestPages_MeasuredNumbers_AreThoseOfTheEvidence(t *testing.T) {
	for _, each := range measured {
		found := regexp.MustCompile(each.find).FindStringSubmatch(read(t, each.from))
		if found == nil {
			t.Errorf("%s does not have %s", each.from, each.find)
			continue
		}
		words := strings.Fields(strings.Replace(each.phrase, "...", found[1], 1))
		if text := strings.Join(strings.Fields(read(t, each.page)), " "); !strings.Contains(
			text, strings.Join(words, " ")) {
			t.Errorf("%s does not say %q, which %s has measured", each.page,
				strings.Join(words, " "), each.from)
		}
	}
}
