package settings

import (
	"fmt"
	"strings"
	"unicode"
)

// Problem is a value that cannot be used.
type Problem struct {
	// Annotation is the full name, or the field of the spec.
	Annotation string
	// Value is what it says, cut if it is long, and printable. It is empty for an annotation that
	// is not known.
	Value string
	// Why is a clause such as "not a number": what Value, or else Annotation, is.
	Why string
	// Fatal: the Service is not served until it is mended. Else the default holds in its place.
	Fatal bool
	// AtCreation: the value counts only when a load balancer is made. A Service that has one is
	// served whatever it says.
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

// Fatal returns those of the problems that are.
func Fatal(problems []Problem) []Problem {
	var fatal []Problem
	for _, p := range problems {
		if p.Fatal {
			fatal = append(fatal, p)
		}
	}
	return fatal
}

// longest is how many characters of a value are shown. An event has room for 1024 bytes.
const longest = 100

// shown makes a value fit to be shown. Only what is empty becomes empty.
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
