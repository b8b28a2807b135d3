package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestLinks_Resolve(t *testing.T) {
	for _, page := range pages(t) {
		for _, link := range links(read(t, page)) {
			if err := follow(page, link.target); err != nil {
				t.Errorf("%s:%d: %v", page, link.line, err)
			}
		}
	}
}

type link struct {
	line   int
	target string
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)|\bsrc="([^"]+)"`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
)

// links are those of a page, and its images.
func links(page string) []link {
	var all []link
	for i, line := range prose(page) {
		for _, found := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""),
			-1) {
			all = append(all, link{line: i + 1, target: found[1] + found[2]})
		}
	}
	return all
}

// prose are the lines of a page; those of code are empty.
func prose(page string) []string {
	lines := strings.Split(page, "\n")
	code := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		if code || fence {
			lines[i] = ""
		}
	}
	return lines
}

// follow returns why a link on a page is broken. It does not follow links to other hosts.
func follow(page, target string) error {
	if strings.HasPrefix(target, "https://") {
		return nil
	}
	path, section, _ := strings.Cut(target, "#")
	to := filepath.Join(filepath.Dir(page), path)
	if path == "" {
		to = page
	}
	if _, err := os.Stat(filepath.Join(root, to)); err != nil {
		return fmt.Errorf("link to %s: %w", target, err)
	}
	if section == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(root, to))
	if err != nil {
		return err
	}
	if !slices.Contains(anchors(string(text)), section) {
		return fmt.Errorf("link to %s: %s has no such section", target, to)
	}
	return nil
}

// anchors are the names of a page's sections, by GitHub's rule.
func anchors(page string) []string {
	var all []string
	for _, line := range prose(page) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return all
}
