package instances

import (
	"strings"
	"testing"
)

func TestLabelValue_EachText_BecomesAValidLabel(t *testing.T) {
	long := strings.Repeat("a", 62)
	for text, want := range map[string]string{
		"":                     "",
		"nova":                 "nova",
		"AZ 1":                 "AZ-1",
		"a  b//c":              "a-b-c",
		" -_.zone._- ":         "zone",
		"Zürich":               "Z-rich",
		"::":                   "",
		long + "bc":            long + "b",
		long + "-c":            long,
		long + "--":            long,
		strings.Repeat("é", 9): "",
	} {
		got := labelValue(text)
		if got != want {
			t.Errorf("labelValue(%q) = %q, want %q", text, got, want)
		}
		if !isLabelValue(got) {
			t.Errorf("labelValue(%q) = %q, which the API server refuses", text, got)
		}
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("AZ 1")
	f.Add(strings.Repeat("a", 62) + "-b")
	f.Fuzz(func(t *testing.T, text string) {
		got := labelValue(text)
		if !isLabelValue(got) {
			t.Errorf("labelValue(%q) = %q, which the API server refuses", text, got)
		}
		if isLabelValue(text) && got != text {
			t.Errorf("labelValue(%q) = %q, although the text was valid", text, got)
		}
	})
}
