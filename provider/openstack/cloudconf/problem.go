package cloudconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity decides whether a [Problem] refuses the configuration.
type Severity int

const (
	// Warning is never refused.
	Warning Severity = iota
	// Mistake is probably unintended. OCCM accepts it. It is refused in strict mode and is a
	// warning otherwise.
	Mistake
	// Error is always refused: OCCM refuses it too or fails with it later, or the option is fxccm's
	// own.
	Error
)

// Problem is an error or a surprise in a configuration. It names options and never quotes a value,
// so it is safe to log even if a secret was written in the wrong place.
type Problem struct {
	Severity Severity
	// File is empty if the content did not come from a file. Line counts from 1; 0 is unknown.
	File string
	Line int
	// Section contains Key: [LoadBalancer], or clouds.prod.auth. Both may be empty.
	Section string
	Key     string
	// Unknown: there is no such Key or, if Key is empty, no such Section.
	Unknown bool
	// Text says what is wrong or what to do.
	Text string
}

// String is one line: unknown key "subnet-idd" in [LoadBalancer] (line 7): did you mean
// "subnet-id"?
func (p Problem) String() string {
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
	} else if p.Unknown {
		subject = "section " + p.Section
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

// maxShown limits the error, for example if the file is of another kind.
const maxShown = 50

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

// Classify splits problems into warnings and refusals. The error is a [Problems]; it is nil if
// nothing is refused.
func Classify(problems []Problem, strict bool) (warnings []Problem, err error) {
	limit := Error
	if strict {
		limit = Mistake
	}
	var refused Problems
	for _, p := range problems {
		if p.Severity >= limit {
			refused = append(refused, p)
		} else {
			warnings = append(warnings, p)
		}
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
