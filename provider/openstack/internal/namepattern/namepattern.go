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

// largest is the most that a pattern may come to: a unit for each instruction of the compiled
// expression, and one for each bound of a range of characters. A unit takes less than 100 bytes.
// \pL has 1,300.
const largest = 20_000

// ErrTooLarge is the error of a pattern that takes too much memory when it is compiled.
var ErrTooLarge = errors.New("the regular expression is too large: repeat fewer things less often")

// Check tells whether [Compile] can read a pattern. It compiles nothing.
func Check(pattern string) error {
	_, _, err := read(pattern)
	return err
}

// Compile returns what tells whether a name fits.
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

// read returns the pattern's regular expression, which is one by itself: nothing that is put around
// it changes what it means.
func read(pattern string) (text string, negated bool, err error) {
	rest, negated := strings.CutPrefix(pattern, "!")
	text, isExpression := strings.CutPrefix(rest, "~")
	if !isExpression {
		text = wildcardExpression(text)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err == nil && size(parsed) > largest {
		err = ErrTooLarge
	}
	if err != nil {
		return "", false, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	return text, negated, nil
}

// size is what an expression comes to when repetitions are written out, as they are in the compiled
// one. It does not overflow: what is repeated more than 1000 times, all in all, does not parse.
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

// wildcardExpression is the regular expression of a name with wildcards, as OCCM takes them: * is
// any text without a slash, ? any character, [a-c] one of some, {a,b} a choice.
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
