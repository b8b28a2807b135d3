package cloudconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity tells what becomes of a configuration that has a [Problem].
type Severity int

const (
	// Warning is worth telling, and never refused.
	Warning Severity = iota
	// Mistake is most likely not what was meant. OCCM takes it, so it is refused in strict mode only, and a warning otherwise.
	Mistake
	// Error is always refused: OCCM refuses it too, or fails with it later, or it is about an option of fxccm's own.
	Error
)

// A Problem is something in a configuration that is wrong, or that will surprise. It names options and never repeats a value, so
// that it may be logged whatever was written in place of what.
type Problem struct {
	Severity Severity
	// File is empty if the content was not read from a file, or the Problem is not about a place in one. Line counts from 1, and is
	// 0 if unknown.
	File string
	Line int
	// Section is where Key is, as written in the file: [LoadBalancer], or clouds.prod.auth. One or both can be empty.
	Section string
	Key     string
	// Unknown means that there is no such Key or, if that is empty, no such Section.
	Unknown bool
	// Text is what is wrong, or what to do.
	Text string
}

// String tells all in one line: unknown key "subnet-idd" in [LoadBalancer] (line 7): did you mean "subnet-id"?
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

// Problems are all that a configuration was refused for, a line each.
type Problems []Problem

// maxTold keeps the error short if the file is not what it should be at all.
const maxTold = 50

// Error implements error.
func (p Problems) Error() string {
	var lines []string
	for _, problem := range p[:min(len(p), maxTold)] {
		lines = append(lines, problem.String())
	}
	if more := len(p) - maxTold; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Classify parts problems by what becomes of them. The error is a [Problems]; it is nil if nothing is refused.
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

// byLine sorts problems as a reader meets them in the files, those without a line last.
func byLine(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(boolean(a.Line == 0)-boolean(b.Line == 0), strings.Compare(a.File, b.File), a.Line-b.Line)
	})
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
