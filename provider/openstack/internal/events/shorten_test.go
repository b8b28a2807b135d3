package events

import (
	"strings"
	"testing"
)

// A message of a status may have the text of a server.
func TestShorten_AnyText_IsShortAndPrintable(t *testing.T) {
	for message, want := range map[string]string{
		"Octavia: 409 quota":      "Octavia: 409 quota",
		"a\x1b[31mb\nc\u202ed":    "a [31mb c d",
		strings.Repeat("ü", 2000): strings.Repeat("ü", maxMessage) + "...",
	} {
		if got := Shorten(message); got != want {
			t.Errorf("%.20q becomes %.80q", message, got)
		}
	}
}
