package settings

import (
	"fmt"
	"strings"
	"unicode"
)

// Problem is a value that cannot be used.
type Problem struct {
	// Annotation is the full name of the annotation, or the field of the spec.
	Annotation string
	// Value is the value in printable form, cut if it is long. It is empty for an unknown
	// annotation.
	Value string
	// Why is a clause such as "not a number" about Value or, without one, about Annotation.
	Why string
	// Fatal: the Service is not served until the value is corrected. Otherwise the default is used.
	Fatal bool
	// AtCreation: the value is used only when a load balancer is created. An existing one is served
	// all the same.
	AtCreation bool
}

// String is a sentence for an event.
func (p Problem) String() string {
	switch {
	case p.Value == "":
		return fmt.Sprintf("%s is %s", p.Annotation, p.Why)
	case p.Fatal:
		return fmt.Sprintf("%s: %q is %s", p.Annotation, p.Value, p.Why)
	}
	return fmt.Sprintf("%s: %q is %s; the default is used", p.Annotation, p.Value, p.Why)
}

// Fatal returns the fatal problems.
func Fatal(problems []Problem) []Problem {
	var fatal []Problem
	for _, p := range problems {
		if p.Fatal {
			fatal = append(fatal, p)
		}
	}
	return fatal
}

// longest is how many characters of a value are shown. An event holds 1024 bytes.
const longest = 100

// shown makes a value printable. Only an empty value becomes empty.
func shown(value string) string {
	runes := []rune(strings.ToValidUTF8(value, string(unicode.ReplacementChar)))
	if len(runes) > longest {
		runes = append(runes[:longest], '…')
	}
	for i, c := range runes {
		if !unicode.IsPrint(c) {
			runes[i] = unicode.ReplacementChar
		}
	}
	return string(runes)
}
