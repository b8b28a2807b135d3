// Package namepattern reads the patterns that choose subnets by name: a name with wildcards or,
// after "~", a regular expression, for the whole name; "!" before both negates.
//
// Authors of Services write them, and a regular expression of a few bytes can take 128 MiB when it
// is compiled. So their size is limited.
package namepattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// maxSize limits the size of a compiled pattern: one unit for each instruction and one for each
// bound of a character range. A unit takes less than 100 bytes. \pL has 1,300.
const maxSize = 20_000

// ErrTooLarge is the error of a pattern that takes too much memory when it is compiled.
var ErrTooLarge = errors.New("the regular expression is too large: repeat fewer things less often")

// Check reports whether [Compile] accepts a pattern, without compiling it.
func Check(pattern string) error {
	_, _, err := read(pattern)
	return err
}

// Compile returns a function that matches names.
func Compile(pattern string) (fits func(name string) bool, err error) {
	text, negated, err := read(pattern)
	if err != nil {
		return nil, err
	}
	expression, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	return func(name string) bool { return expression.MatchString(name) != negated }, nil
}

// read returns the pattern as a self-contained regular expression.
func read(pattern string) (text string, negated bool, err error) {
	rest, negated := strings.CutPrefix(pattern, "!")
	text, isExpression := strings.CutPrefix(rest, "~")
	if !isExpression {
		text = wildcardExpression(text)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err == nil && size(parsed) > maxSize {
		err = ErrTooLarge
	}
	if err != nil {
		return "", false, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	return text, negated, nil
}

// size is the size of an expression with its repetitions expanded, as in the compiled form. It does
// not overflow, because the parser refuses more than 1000 repetitions in total.
func size(expression *syntax.Regexp) int {
	sum := 1 + len(expression.Rune)
	for _, sub := range expression.Sub {
		sum += size(sub)
	}
	if expression.Op == syntax.OpRepeat {
		sum *= max(expression.Max, expression.Min+1)
	}
	return sum
}

// wildcardExpression returns the regular expression of a name with wildcards, as OCCM interprets
// them: * is any text without a slash, ? any character, [a-c] one of some, {a,b} a choice.
func wildcardExpression(pattern string) string {
	var text strings.Builder
	choice := false
	for _, c := range pattern {
		switch {
		case c == '*':
			text.WriteString(`[^/]*`)
		case c == '?':
			text.WriteString(`.`)
		case c == '[', c == ']':
			text.WriteRune(c)
		case c == '{' && !choice:
			choice = true
			text.WriteString(`(?:`)
		case c == '}' && choice:
			choice = false
			text.WriteString(`)`)
		case c == ',' && choice:
			text.WriteString(`|`)
		case c == '-':
			text.WriteRune(c) // a range between brackets
		default:
			text.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return text.String()
}
