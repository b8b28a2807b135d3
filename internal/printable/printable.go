// Package printable makes texts of others short and harmless, for logs, events, status and pages.
package printable

import (
	"strings"
	"unicode"
)

// Text returns the beginning of a text, at most that many characters, with a space for each
// character that is not printable. A text that is too long ends with three dots.
func Text(text string, characters int) string {
	var out strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > characters {
			out.WriteString("...")
			break
		}
		if !unicode.IsPrint(r) {
			r = ' '
		}
		out.WriteRune(r)
	}
	return out.String()
}
