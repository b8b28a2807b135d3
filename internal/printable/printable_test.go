package printable_test

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/printable"
)

func TestText_AnyText_IsShortAndPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"four":                   "four",
		"fives":                  "five...",
		"a\x1b[m":                "a [m",
		"a\u009b\n\xff":          "a  \uFFFD",
		"ü🙂ß€":                   "ü🙂ß€",
		strings.Repeat("€", 1e6): "€€€€...",
	} {
		if got := printable.Text(text, 4); got != want {
			t.Errorf("%.10q becomes %q, want %q", text, got, want)
		}
	}
}
