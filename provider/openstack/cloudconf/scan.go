package cloudconf

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// statement is a section header or an assignment in cloud.conf.
type statement struct {
	line int

	// A header has a section and may have a name. A malformed header has no section.
	header        bool
	section, name string

	// An assignment has a key, and a value unless it is bare.
	key, value string
	bare       bool
	// surprise says why the value is probably not the one that was meant; "" for no reason.
	surprise string
	// isCommented: a comment follows an unquoted value.
	isCommented bool
	// isPartlyQuoted: only a part of the value is in double quotes, which are left out.
	isPartlyQuoted bool
}

// scan reads the syntax of gopkg.in/gcfg.v1, the format of OCCM's files. It reports everything that
// gcfg refuses; test/gcfg compares the two. After a problem it continues with the next line.
//
//	[section]                 names: letters, digits and "-", in any case; the first is a letter
//	[section "name"]          in a name \" and \\ are escapes
//	key = value               # or ; starts a comment; blanks around the value are dropped
//	key = "a value"           in quotes \" \\ \n \t are escapes, and nothing is dropped
//	key = a long \            the value continues in the next line
//	key                       without a value: sets a Boolean and clears a list
func scan(content string) ([]statement, []Problem) {
	s := scanner{rest: content, line: 1, wrong: map[int]bool{}}
	s.encoding()
	for s.rest != "" {
		s.statement()
	}
	return s.statements, s.problems
}

type scanner struct {
	rest       string
	line       int
	statements []statement
	problems   []Problem
	wrong      map[int]bool // lines that have a problem
	// isPartlyQuoted is that of the last value.
	isPartlyQuoted bool
	inSection      bool
	isEarly        bool // a key before the first section is reported
}

// encoding replaces invalid UTF-8 and NULs, which gcfg refuses even in comments.
func (s *scanner) encoding() {
	for i, line := range strings.Split(s.rest, "\n") {
		switch {
		case !utf8.ValidString(line):
			s.problem(i+1, "", "is not UTF-8")
		case strings.Contains(line, "\x00"):
			s.problem(i+1, "", "contains a NUL")
		}
	}
	if len(s.problems) > 0 {
		s.rest = strings.ReplaceAll(strings.ToValidUTF8(s.rest, "\ufffd"), "\x00", "\ufffd")
	}
	if strings.HasPrefix(s.rest, "\ufeff") {
		s.problem(1, "", "begins with a byte order mark; save the file without it")
		s.rest = strings.TrimPrefix(s.rest, "\ufeff")
	}
}

// problem reports only the first problem of a line. It names only a key that is known, because
// another one may be a part of a secret.
func (s *scanner) problem(line int, key, text string) {
	if s.wrong[line] {
		return
	}
	s.wrong[line] = true
	if len(s.problems) > maxShown || !isKey(key) {
		key = ""
	}
	s.problems = append(s.problems, Problem{severity: asError, Line: line, Key: key, Text: text})
}

// isKey reports whether any section has an option with the key.
func isKey(key string) bool {
	return slices.ContainsFunc(table(&Config{}), func(s section) bool {
		return slices.ContainsFunc(s.keys(), func(known string) bool {
			return strings.EqualFold(known, key)
		})
	})
}

func (s *scanner) statement() {
	s.skipBlanks()
	line := s.line
	switch c := s.peek(); {
	case s.atEnd():
	case c == '[':
		header, wrong := s.header()
		s.inSection = true
		header.line = line
		s.statements = append(s.statements, header)
		s.endOfLine(line, "", wrong)
		return
	case unicode.IsLetter(c):
		assignment, wrong := s.assignment()
		if wrong == "" && !s.inSection {
			wrong = "is before the first section; write [Global], or the section of the key, above it"
			s.wrong[line] = s.wrong[line] || s.isEarly // it is reported once
			s.isEarly = true
		}
		assignment.line = line
		if wrong == "" {
			s.statements = append(s.statements, assignment)
		}
		s.endOfLine(line, assignment.key, wrong)
		return
	default:
		s.endOfLine(line, "", "is not a section, a key or a comment")
		return
	}
	s.endOfLine(line, "", "")
}

func (s *scanner) header() (statement, string) {
	broken := statement{header: true}
	s.advance()
	s.skipBlanks()
	if !unicode.IsLetter(s.peek()) {
		return broken, `needs a section name after "["`
	}
	read := statement{header: true, section: s.identifier()}
	s.skipBlanks()
	if s.peek() == '"' {
		name, wrong := s.sectionName()
		if wrong != "" {
			return broken, wrong
		}
		read.name = name
		s.skipBlanks()
	}
	if s.peek() != ']' {
		return broken, `needs "]" at the end of a section header`
	}
	s.advance()
	s.skipBlanks()
	if !s.atEnd() {
		return broken, `has text after "]"`
	}
	return read, ""
}

// sectionName reads the quoted name in a header.
func (s *scanner) sectionName() (name, wrong string) {
	s.advance()
	var text strings.Builder
	for {
		c := s.peek()
		switch {
		case s.rest == "" || c == '\n':
			return "", "has a quote that is not closed"
		case c == '"':
			s.advance()
			if text.Len() == 0 {
				return "", "has an empty name in quotes"
			}
			return text.String(), ""
		case c == '\\':
			s.advance()
			c = s.peek()
			if c != '\\' && c != '"' {
				return "", `has an invalid escape in a name; use \\ or \"`
			}
		}
		text.WriteRune(c)
		s.advance()
	}
}

func (s *scanner) assignment() (statement, string) {
	read := statement{key: s.identifier()}
	s.skipBlanks()
	if s.atEnd() {
		read.bare = true
		return read, ""
	}
	switch c := s.peek(); c {
	case '=':
	case '_':
		return statement{}, `has a "_" in a key; keys are written with "-"`
	default:
		return statement{}, `needs "=" after a key`
	}
	s.advance()
	s.skipBlanks()
	begin := s.rest
	var wrong string
	read.value, wrong = s.value()
	read.isPartlyQuoted = s.isPartlyQuoted
	read.notice(begin[:len(begin)-len(s.rest)], s.rest)
	return read, wrong
}

// isCut is about a value with a # or ; in it.
const isCut = "is cut at # or ;, which begin a comment; put the whole value in double quotes"

// notice compares the value with its text in the file and with the rest of the line.
func (s *statement) notice(written, rest string) {
	const blanks = " \t\r\n"
	before, after := written[max(0, len(written)-1):], rest[min(1, len(rest)):]
	isComment := strings.HasPrefix(rest, "#") || strings.HasPrefix(rest, ";")
	isApart := before != "" && strings.Contains(blanks+`"`, before) ||
		written == "" && (after == "" || strings.Contains(blanks, after[:1]))
	s.isCommented = isComment && before != `"`
	comment, _, _ := strings.Cut(rest, "\n")
	isAcross := !isInQuotes(s.value) && isInQuotes(s.value+strings.TrimSpace(comment))
	switch {
	case isComment && (!isApart || isAcross):
		s.surprise = isCut
	case isInQuotes(s.value) && !strings.Contains(written, `"`):
		s.surprise = `keeps its quotes as a part of the value; use double quotes ("...") ` +
			"instead of them, or around them"
	}
}

// isInQuotes reports whether a text is in quotes that are not those of the format.
func isInQuotes(text string) bool {
	for _, pair := range []string{"''", "``", "“”", "‘’"} {
		open, size := utf8.DecodeRuneInString(pair)
		if len(text) > size && strings.HasPrefix(text, string(open)) &&
			strings.HasSuffix(text, pair[size:]) {
			return true
		}
	}
	return false
}

// value reads up to the end of the line or a comment. Its blanks at the end do not count unless
// they are in quotes, and a carriage return never does.
func (s *scanner) value() (value, wrong string) {
	var text strings.Builder
	counts, quoted, wasQuoted := 0, false, false
	s.isPartlyQuoted = false
	for {
		c := s.peek()
		switch {
		case quoted && (s.rest == "" || c == '\n'):
			return "", `has a quote that is not closed; a " of the value is written as \"`
		case !quoted && s.atEnd():
			return text.String()[:counts], ""
		case c == '\\':
			escaped, wrong := s.escape(quoted)
			if wrong != "" {
				return "", wrong
			}
			text.WriteString(escaped)
			counts = text.Len()
			continue
		case c == '"':
			s.isPartlyQuoted = s.isPartlyQuoted || !quoted && text.Len() > 0
			quoted, wasQuoted = !quoted, true
			counts = text.Len()
		case c != '\r':
			text.WriteRune(c)
			if !blank(c) { // blanks in quotes count at the quote that ends
				counts = text.Len()
				s.isPartlyQuoted = s.isPartlyQuoted || wasQuoted && !quoted
			}
		}
		s.advance()
	}
}

func (s *scanner) escape(quoted bool) (text, wrong string) {
	s.advance()
	if quoted {
		read, ok := map[rune]string{'\\': `\`, '"': `"`, 'n': "\n", 't': "\t"}[s.peek()]
		if !ok {
			return "", `has an invalid escape; use \\ for a "\", or \" \n \t`
		}
		s.advance()
		return read, ""
	}
	s.rest = strings.TrimPrefix(s.rest, "\r")
	switch s.peek() {
	case '\n':
	case '"':
		text = `"`
	default:
		return "", `has a "\" outside of quotes; put the value in double quotes, and write it as \\`
	}
	s.advance()
	return text, ""
}

func (s *scanner) identifier() string {
	end := strings.IndexFunc(s.rest, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-'
	})
	if end < 0 {
		end = len(s.rest)
	}
	name := s.rest[:end]
	s.rest = s.rest[end:]
	return name
}

// endOfLine reports a problem of the statement that began in a line, and skips the rest of the
// current line.
func (s *scanner) endOfLine(line int, key, wrong string) {
	if wrong != "" {
		s.problem(line, key, wrong)
	}
	end := strings.IndexByte(s.rest, '\n')
	if end < 0 {
		s.rest = ""
		return
	}
	s.rest = s.rest[end+1:]
	s.line++
}

func (s *scanner) skipBlanks() { s.rest = strings.TrimLeftFunc(s.rest, blank) }

func blank(c rune) bool { return c == ' ' || c == '\t' || c == '\r' }

// atEnd: the rest of the line is empty or a comment.
func (s *scanner) atEnd() bool { return s.rest == "" || strings.ContainsRune("\n;#", s.peek()) }

// peek is the next character, or utf8.RuneError at the end.
func (s *scanner) peek() rune {
	c, _ := utf8.DecodeRuneInString(s.rest)
	return c
}

func (s *scanner) advance() {
	c, size := utf8.DecodeRuneInString(s.rest)
	if c == '\n' {
		s.line++
	}
	s.rest = s.rest[size:]
}
