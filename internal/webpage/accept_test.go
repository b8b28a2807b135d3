package webpage_test

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/webpage"
)

func TestIsPreferred_Headers_APageOnlyForClientsThatPreferIt(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "image/png": false, ",": false, "text/html": true,
		"TEXT/HTML; q=1": true, "text/html;q=0": false, "text/html;q=NaN": false,
		"text/html;q=7": false, "text/html;q=0.4, application/json;q=0.3": true,
		"application/json, text/html;q=0.5":                               false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		strings.Repeat("a/b,", 2000) + "text/html":                        false,
	} {
		if got := webpage.IsPreferred(accept); got != want {
			t.Errorf("%.80q: %t, want %t", accept, got, want)
		}
	}
}

// FuzzIsPreferred checks that only a header that names text/html is answered with a page.
func FuzzIsPreferred(f *testing.F) {
	f.Add("text/html,application/xml;q=0.9,*/*;q=0.8")
	f.Add("application/json;q=1, text/html;q=0.5;level=\"1\"")
	f.Add(";;,,q=, text/html;q*0=1;q*1=x")
	f.Fuzz(func(t *testing.T, accept string) {
		if webpage.IsPreferred(accept) && !strings.Contains(strings.ToLower(accept), "text/html") {
			t.Errorf("%q prefers a page", accept)
		}
	})
}
