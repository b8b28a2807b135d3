package printable

import (
	"slices"
	"strings"
	"unicode"
)

// shortestID is the length from which a word with a digit counts as an ID.
const shortestID = 8

// WithoutIDs returns the words of a text without those that may be IDs, times or addresses. It is
// for the comparison of failures: many clouds put the ID of the request into each error, so the
// texts of one cause differ.
func WithoutIDs(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_:.", c)
	})
	return strings.Join(slices.DeleteFunc(words, func(word string) bool {
		return len(word) >= shortestID && strings.ContainsFunc(word, unicode.IsDigit)
	}), " ")
}
