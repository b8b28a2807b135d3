package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"regexp"
	"strings"
)

const (
	maxColumns = 100
	// longString is the length of a string, with its quotes, that may exceed maxColumns. maxBeside
	// limits the rest of its line.
	longString, maxBeside = 60, 80
	// maxRowColumns limits a row of a test's table, which is easier to compare on one line.
	maxRowColumns = 160
)

var tableRow = regexp.MustCompile(`^\s*(".*":\s*)?\{.*\},$`)

// source holds the parts of a Go file that are checked.
type source struct {
	name  string
	lines []string
	texts []text
	// exempt are lines that may be long, because they contain a URL or a part of a raw string.
	exempt map[int]bool
	// longest is the length of the longest string of a line with a long string.
	longest map[int]int
}

func scan(name string, content []byte) (*source, error) {
	s := &source{
		name: name, lines: strings.Split(string(content), "\n"),
		exempt: map[int]bool{}, longest: map[int]int{},
	}
	files := token.NewFileSet()
	file := files.AddFile(name, files.Base(), len(content))
	var errs scanner.ErrorList
	var tokens scanner.Scanner
	tokens.Init(file, content, errs.Add, scanner.ScanComments)
	var comment *text
	end := -1 // the last line of comment
	previous := token.ILLEGAL
	flush := func() {
		if comment != nil {
			s.texts = append(s.texts, *comment)
			comment = nil
		}
	}
	for {
		at, kind, literal := tokens.Scan()
		line := file.Line(at)
		switch kind {
		case token.EOF:
			flush()
			return s, errs.Err()
		case token.COMMENT:
			if isDirective(literal) || strings.Contains(literal, "://") {
				s.exempt[line] = true
			}
			if comment != nil && line == end+1 {
				comment.content += "\n" + uncommented(literal)
			} else {
				flush()
				comment = &text{line: line, content: uncommented(literal)}
			}
			if strings.Contains(comment.content, "Output:") {
				s.exempt[line] = true // the output of an example
			}
			end = line + strings.Count(literal, "\n")
		case token.STRING:
			s.texts = append(s.texts, text{line: line, content: strings.Trim(literal, "\"`")})
			ends := strings.Count(literal, "\n")
			for i := range ends {
				s.exempt[line+i], s.exempt[line+i+1] = true, true
			}
			if length := len([]rune(literal)); length >= longString {
				s.longest[line] = max(s.longest[line], length)
			}
		case token.IDENT:
			if previous == token.FUNC {
				s.texts = append(s.texts, text{line: line, content: words(literal)})
			}
		}
		previous = kind
	}
}

var word = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// words splits a name: TestLease_IsLost becomes "Test Lease Is Lost".
func words(name string) string { return strings.Join(word.FindAllString(name, -1), " ") }

func isDirective(comment string) bool {
	return strings.HasPrefix(comment, "//go:") || strings.HasPrefix(comment, "//nolint")
}

func uncommented(comment string) string {
	if body, ok := strings.CutPrefix(comment, "//"); ok {
		return strings.TrimPrefix(body, " ")
	}
	return strings.TrimSuffix(strings.TrimPrefix(comment, "/*"), "*/")
}

func (s *source) longLines() []finding {
	var found []finding
	for i, line := range s.lines {
		columns := len([]rune(line)) + 3*strings.Count(line, "\t")
		limit := maxColumns
		if strings.HasSuffix(s.name, "_test.go") && tableRow.MatchString(line) {
			limit = maxRowColumns
		}
		if longest := s.longest[i+1]; longest > 0 {
			limit = max(limit, longest+maxBeside)
		}
		if columns > limit && !s.exempt[i+1] {
			message := fmt.Sprintf("%d columns, want %d at most", columns, limit)
			found = append(found, finding{file: s.name, line: i + 1, message: message})
		}
	}
	return found
}

var testName = regexp.MustCompile(`^func (Test[A-Z0-9][A-Za-z0-9]*)\(t \*testing\.T\)`)

// shortTestNames finds names of tests without an underscore, which cannot have the form
// Test<Thing>_<Situation>_<Outcome>.
func (s *source) shortTestNames() []finding {
	var found []finding
	for i, line := range s.lines {
		if match := testName.FindStringSubmatch(line); match != nil {
			message := match[1] + ": write Test<Thing>_<Situation>_<Outcome>"
			found = append(found, finding{file: s.name, line: i + 1, message: message})
		}
	}
	return found
}

var inlineCode = regexp.MustCompile("`[^`\n]*`")

// pageTexts returns the paragraphs of a page without its code.
func pageTexts(page string) []text {
	var texts []text
	paragraph := text{}
	fenced := false
	flush := func(next int) {
		if strings.TrimSpace(paragraph.content) != "" {
			texts = append(texts, paragraph)
		}
		paragraph = text{line: next}
	}
	for i, line := range strings.Split(page, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced || strings.TrimSpace(line) == "" {
			flush(i + 2)
			continue
		}
		if paragraph.content == "" {
			paragraph.line = i + 1
		} else {
			paragraph.content += "\n"
		}
		paragraph.content += inlineCode.ReplaceAllString(line, "``")
	}
	flush(0)
	return texts
}

// trailing begins a comment after code. "##" begins the help of a make target.
var trailing = regexp.MustCompile(` ##? `)

// comments returns the comments of a YAML file, a template of one, a script or a Makefile.
// Consecutive lines are one comment.
func comments(content string) []text {
	var texts []text
	last := 0 // the number of the last line with a comment
	for i, line := range strings.Split(content, "\n") {
		line = strings.TrimSpace(line)
		body, whole := strings.CutPrefix(line, "#")
		if at := trailing.FindStringIndex(line); !whole && at != nil {
			body = line[at[1]:]
		} else if !whole {
			continue
		}
		// "# -- " begins the description of a value of the chart.
		body = strings.TrimPrefix(strings.TrimSpace(body), "-- ")
		body = inlineCode.ReplaceAllString(body, "``")
		if whole && last == i && last > 0 {
			texts[len(texts)-1].content += "\n" + body
		} else {
			texts = append(texts, text{line: i + 1, content: body})
		}
		last = 0
		if whole {
			last = i + 1
		}
	}
	return texts
}

// description is a line of YAML or JSON with a text for people.
var description = regexp.MustCompile(`^[\s-]*"?(?:description|summary|title)"?:\s+(.+?),?$`)

// descriptions returns the values that are texts for people, of a file of YAML or JSON.
func descriptions(content string) []text {
	var texts []text
	for i, line := range strings.Split(content, "\n") {
		if found := description.FindStringSubmatch(line); found != nil {
			body := action.ReplaceAllString(strings.Trim(found[1], `'"`), "``")
			body = inlineCode.ReplaceAllString(body, "``")
			texts = append(texts, text{line: i + 1, content: body})
		}
	}
	return texts
}

var (
	// action is an action of a template.
	action = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	// literal is a string in an action, or a comment.
	literal = regexp.MustCompile(`(?s)/\*.*?\*/|"[^"\n]*"`)
	// expression is a value in a string of JavaScript.
	expression = regexp.MustCompile(`\$\{[^}]*\}`)
	// moduleLiteral is a string or a comment of JavaScript. A string begins after code, so that an
	// apostrophe in a comment begins none.
	moduleLiteral = regexp.MustCompile(
		"(?m)(?:^\\s*//.*(?:\n\\s*//.*)*|\\s// .*$)|'[^'\n]*'|`[^`]*`")
)

// templateTexts returns the texts of a template of the chart: the comments and strings of its
// actions, and the comments of the YAML around them, or the whole text around them if it is for
// people.
func templateTexts(name, content string) []text {
	var texts []text
	for _, at := range action.FindAllStringIndex(content, -1) {
		for _, in := range literal.FindAllStringIndex(content[at[0]:at[1]], -1) {
			begin := at[0] + in[0]
			texts = append(texts, text{
				line:    1 + strings.Count(content[:begin], "\n"),
				content: strings.Trim(content[begin:at[0]+in[1]], `/* "`),
			})
		}
	}
	rest := action.ReplaceAllStringFunc(content, func(code string) string {
		return strings.Repeat("\n", strings.Count(code, "\n"))
	})
	if strings.HasSuffix(name, ".txt") {
		return append(texts, pageTexts(rest)...)
	}
	return append(texts, comments(rest)...)
}

// moduleTexts returns the comments and strings of a module of JavaScript.
func moduleTexts(content string) []text {
	var texts []text
	for _, at := range moduleLiteral.FindAllStringIndex(content, -1) {
		found := content[at[0]:at[1]]
		if begin := strings.TrimSpace(found); strings.HasPrefix(begin, "//") {
			found = moduleComment.ReplaceAllString(found, "")
		} else {
			found = expression.ReplaceAllString(strings.Trim(found, "'`"), "")
		}
		texts = append(texts, text{line: 1 + strings.Count(content[:at[0]], "\n"), content: found})
	}
	return texts
}

var moduleComment = regexp.MustCompile(`(?m)^\s*// ?`)

// pictureTexts returns the texts, the title and the description of an SVG picture, and its
// comments.
func pictureTexts(picture []byte) ([]text, error) {
	var texts []text
	element := ""
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for {
		line, _ := decoder.InputPos()
		part, err := decoder.Token()
		switch t := part.(type) {
		case nil:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return texts, err
		case xml.StartElement:
			element = t.Name.Local
		case xml.Comment:
			texts = append(texts, text{line: line, content: strings.TrimSpace(string(t))})
		case xml.CharData:
			if content := strings.TrimSpace(string(t)); content != "" && element != "style" {
				texts = append(texts, text{line: line, content: content})
			}
		}
	}
}
