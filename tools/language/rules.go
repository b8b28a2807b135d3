package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// rule is a phrase that texts must not contain.
type rule struct {
	phrase  string
	instead string
	reason  string
	pattern *regexp.Regexp
}

var quoted = regexp.MustCompile("`([^`]+)`")

// parseGlossary reads the table | Avoid | Write | Why |. A phrase with ^ is wrong only at the
// beginning of a sentence.
func parseGlossary(page string) ([]rule, error) {
	var rules []rule
	inside := false
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case len(cells) == 3 && strings.TrimSpace(cells[0]) == "Avoid":
			inside = true
		case inside && len(cells) != 3:
			return nil, fmt.Errorf("a row of %d cells, want 3: %s", len(cells), line)
		case inside:
			for _, match := range quoted.FindAllStringSubmatch(cells[0], -1) {
				phrase := match[1]
				rules = append(rules, rule{
					phrase:  phrase,
					instead: strings.TrimSpace(cells[1]),
					reason:  strings.TrimSpace(cells[2]),
					pattern: patternOf(phrase),
				})
			}
		}
	}
	if len(rules) == 0 {
		return nil, errors.New("the table | Avoid | Write | Why | has no phrase")
	}
	return rules, nil
}

// patternOf matches the phrase as whole words, also across line breaks.
func patternOf(phrase string) *regexp.Regexp {
	words := func(s string) string {
		quoted := regexp.QuoteMeta(strings.TrimSpace(s))
		return strings.ReplaceAll(quoted, " ", `\s+`)
	}
	if opening, ok := strings.CutPrefix(phrase, "^"); ok {
		return regexp.MustCompile(`(?:\A|[.!?]\s+|\n\s*(?:[-*]|\d+\.)\s+|\|\s*)` + words(opening) +
			`\b`)
	}
	end := ""
	if isWord(phrase[len(phrase)-1]) {
		end = `\b`
	}
	return regexp.MustCompile(`(?i)\b` + words(phrase) + end)
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// text is a comment, a string or a paragraph.
type text struct {
	line    int // of the file, at which it begins
	content string
}

type finding struct {
	file    string
	line    int
	message string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.message) }

func checkTexts(file string, texts []text, rules []rule) []finding {
	var found []finding
	for _, t := range texts {
		for _, r := range rules {
			for _, at := range r.pattern.FindAllStringIndex(t.content, -1) {
				line := t.line + strings.Count(t.content[:at[1]], "\n")
				message := fmt.Sprintf("%q: write %s (%s)", r.phrase, r.instead, r.reason)
				found = append(found, finding{file: file, line: line, message: message})
			}
		}
	}
	return found
}
