package cloudconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// severity decides whether a [Problem] refuses the configuration.
type severity int

const (
	// asWarning is never refused.
	asWarning severity = iota
	// asMistake is probably unintended. OCCM accepts it. It is refused in strict mode and is a
	// warning otherwise.
	asMistake
	// asError is always refused: OCCM refuses it too or fails with it later, or the option is
	// fxccm's own.
	asError
)

// Problem is an error or a surprise in a configuration. It names options and never quotes a value,
// so it is safe to log even if a secret was written in the wrong place.
type Problem struct {
	severity severity
	// File is empty if the content did not come from a file. Line counts from 1; 0 is unknown.
	File string
	Line int
	// Section contains Key: [LoadBalancer], or clouds.prod.auth. Both may be empty.
	Section string
	Key     string
	// Unknown: there is no such key or section. Its name is left out if it may be a secret.
	Unknown bool
	// Text says what is wrong or what to do.
	Text string

	// isHeader: an unknown Section, not a key.
	isHeader bool
	// isCutAway: nothing of a secret is left before the # or ;.
	isCutAway bool
}

// String is one line: unknown key "subnet-idd" in [LoadBalancer] (line 7): did you mean
// "subnet-id"?
func (p Problem) String() string {
	p.Section, p.Key = cut(p.Section, longestName), cut(p.Key, longestName)
	p.Text = cut(p.Text, longestText)
	subject, place := p.subject(), p.place()
	switch {
	case subject == "":
		subject = place
	case place != "":
		subject += " (" + place + ")"
	}
	switch {
	case subject == "":
		return p.Text
	case p.Text == "":
		return subject
	}
	return subject + ": " + p.Text
}

// Error implements error.
func (p Problem) Error() string { return p.String() }

func (p Problem) subject() string {
	subject := p.Section
	if p.Key != "" {
		subject = p.Key
		if p.Unknown {
			subject = fmt.Sprintf("key %q", p.Key)
		}
		if p.Section != "" {
			subject += " in " + p.Section
		}
	} else if p.Unknown && p.Section != "" && p.isHeader {
		subject = "section " + p.Section
	} else if p.Unknown && p.isHeader {
		subject = "section"
	} else if p.Unknown {
		subject = strings.TrimSuffix("key in "+p.Section, " in ")
	}
	if p.Unknown {
		return "unknown " + subject
	}
	return subject
}

func (p Problem) place() string {
	if p.Line == 0 {
		return p.File
	}
	return strings.TrimPrefix(fmt.Sprintf("%s line %d", p.File, p.Line), " ")
}

// Problems are the reasons why a configuration is refused.
type Problems []Problem

// maxShown limits the problems that are shown, for example if the file is of another kind.
const maxShown = 20

// longestName limits a key or a section in a message, and longestText a sentence about it.
const longestName, longestText = 64, 400

// isName reports whether an unknown key or section looks like one. A secret in a line of its own is
// a key for the parser, so only letters and single dashes between them are shown, as in a word that
// an operator has typed.
func isName(written string) bool {
	last := '-'
	for _, c := range written {
		isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !isLetter && (c != '-' && c != '_' || last == '-') {
			return false
		}
		last = c
		if c == '_' {
			last = '-'
		}
	}
	return last != '-' && len(written) <= longestName && isOfOneCase(written)
}

// isOfOneCase reports whether only the first letters of words are in another case than the rest:
// base64 mixes them.
func isOfOneCase(written string) bool {
	changes := 0
	for i := 1; i < len(written); i++ {
		if isUpper(written[i]) && !isUpper(written[i-1]) {
			changes++
		}
	}
	return changes <= 2
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// cut limits a text to a number of bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// Error implements error, with one line per problem.
func (p Problems) Error() string {
	var lines []string
	for _, problem := range p[:min(len(p), maxShown)] {
		lines = append(lines, problem.String())
	}
	if more := len(p) - maxShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// classify splits problems into warnings and refusals. The error is a [Problems]; it is nil if
// nothing is refused.
func classify(problems []Problem, strict bool) (warnings []Problem, err error) {
	limit := asError
	if strict {
		limit = asMistake
	}
	var refused Problems
	for _, p := range problems {
		if p.severity >= limit {
			refused = append(refused, p)
		} else {
			warnings = append(warnings, p)
		}
	}
	if more := len(warnings) - maxShown; more > 0 {
		warnings = append(warnings[:maxShown:maxShown],
			Problem{Text: fmt.Sprintf("and %d more problems", more)})
	}
	if len(refused) > 0 {
		err = refused
	}
	return warnings, err
}

// byLine sorts problems by their position in the files, problems without a line last.
func byLine(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(boolean(a.Line == 0)-boolean(b.Line == 0),
			strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
