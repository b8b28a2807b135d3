package places

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
)

// subnetFilter tells which subnets have a name and tags that are asked for; what is empty is not asked for.
func subnetFilter(pattern, tags string) (func(balancer.Subnet) bool, error) {
	hasName := func(string) bool { return true }
	if pattern != "" {
		var err error
		if hasName, err = nameFilter(pattern); err != nil {
			return nil, err
		}
	}
	hasTags := func([]string) bool { return true }
	if tags != "" {
		hasTags = tagFilter(tags)
	}
	return func(s balancer.Subnet) bool { return hasName(s.Name) && hasTags(s.Tags) }, nil
}

// nameFilter reads floating-subnet: a name with wildcards or, after "~", a regular expression, for the whole name; "!" before both
// negates.
func nameFilter(pattern string) (func(string) bool, error) {
	rest, negated := strings.CutPrefix(pattern, "!")
	text, isExpression := strings.CutPrefix(rest, "~")
	if !isExpression {
		text = wildcardExpression(text)
	}
	// By itself first: what is wrong with it must not be mended by what is put around it.
	if _, err := regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("the pattern %q for the names of subnets: %w", pattern, err)
	}
	expression, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q for the names of subnets: %w", pattern, err)
	}
	return func(name string) bool { return expression.MatchString(name) != negated }, nil
}

// wildcardExpression is the regular expression of a name with wildcards, as OCCM takes them: * is any text without a slash, ? any
// character, [a-c] one of some, {a,b} a choice.
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

// tagFilter reads floating-subnet-tags: tags with commas between them, of which a subnet has one or, after "&", all; "!" before both
// negates. So "!a,b" is for subnets that have neither, and "!&a,b" for those that lack one, as OCCM documents it (asking Neutron, it takes
// the one for the other).
func tagFilter(text string) func([]string) bool {
	rest, negated := strings.CutPrefix(text, "!")
	rest, all := strings.CutPrefix(rest, "&")
	var wanted []string
	for tag := range strings.SplitSeq(rest, ",") {
		wanted = append(wanted, strings.TrimSpace(tag))
	}
	return func(tags []string) bool {
		has := func(tag string) bool { return slices.Contains(tags, tag) }
		fits := slices.ContainsFunc(wanted, has)
		if all {
			fits = !slices.ContainsFunc(wanted, func(tag string) bool { return !has(tag) })
		}
		return fits != negated
	}
}
