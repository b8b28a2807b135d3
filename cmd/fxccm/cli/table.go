package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"k8s.io/component-base/term"
)

// Screen describes where text is printed. The zero value is a file or a pipe.
type Screen struct {
	IsTerminal bool
	// Columns is the width of the terminal. 0: lines are never wrapped.
	Columns int
	// Colors permits ANSI colors.
	Colors bool
}

// ScreenOf describes the terminal of a writer. It has colors unless the environment variable
// NO_COLOR is set (https://no-color.org) or TERM is dumb.
func ScreenOf(out io.Writer, getenv func(string) string) Screen {
	columns, _, err := term.TerminalSize(Underlying(out))
	if err != nil {
		return Screen{}
	}
	return Screen{
		IsTerminal: true, Columns: columns,
		Colors: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
	}
}

// Color is the color of a row.
type Color string

// The colors.
const (
	Plain  Color = ""
	Red    Color = "\x1b[31m"
	Yellow Color = "\x1b[33m"
	reset        = "\x1b[0m"
)

// Tables are texts in aligned columns. Each section has its own columns.
type Tables struct {
	out    strings.Builder
	writer *tabwriter.Writer
	colors []Color
}

// NewTables returns empty tables.
func NewTables() *Tables {
	t := &Tables{}
	t.writer = tabwriter.NewWriter(&t.out, 0, 8, 3, ' ', 0)
	return t
}

// Row adds a row.
func (t *Tables) Row(cells ...string) { t.ColoredRow(Plain, cells...) }

// ColoredRow adds a row that has a color on a screen with colors.
func (t *Tables) ColoredRow(color Color, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.NewReplacer("\n", " ", "\t", " ").Replace(Printable(cell))
	}
	_, _ = fmt.Fprintln(t.writer, strings.Join(cells, "\t"))
	t.colors = append(t.colors, color)
}

// Section begins a section with an empty line and its first row.
func (t *Tables) Section(cells ...string) {
	_ = t.writer.Flush()
	_, _ = t.out.WriteString("\n")
	t.colors = append(t.colors, Plain)
	t.Row(cells...)
}

// rowIndent is the indentation of the lines that continue a row.
const rowIndent = 4

// Text returns the tables for a screen. A row that is wider than the screen continues in indented
// lines, so that nothing of it is lost.
func (t *Tables) Text(screen Screen) (string, error) {
	err := t.writer.Flush()
	var text strings.Builder
	row := 0
	for line := range strings.Lines(t.out.String()) { // none if the tables are empty
		line = wrapped(strings.TrimRight(line, " \n"), screen.Columns, rowIndent)
		if screen.Colors && t.colors[row] != Plain {
			line = string(t.colors[row]) + line + reset
		}
		text.WriteString(line + "\n")
		row++
	}
	return text.String(), err
}

// Print writes the tables for the screen that out is.
func (t *Tables) Print(out io.Writer) error {
	text, err := t.Text(ScreenOf(out, os.Getenv))
	if err != nil {
		return err
	}
	return WriteStyled(out, text)
}

// wrapped wraps a line between words, and indents the lines that continue it. A word that is wider
// than the screen stays whole.
func wrapped(line string, columns, indent int) string {
	if columns <= indent {
		return line
	}
	var out strings.Builder
	for utf8.RuneCountInString(line) > columns {
		first := []rune(line)[:columns+1] // a space may follow a line that just fits
		end := strings.LastIndex(string(first), " ")
		if end < indent { // the first word is too wide
			end = strings.Index(strings.TrimLeft(line, " "), " ")
			if end < 0 {
				break
			}
			end += len(line) - len(strings.TrimLeft(line, " "))
		}
		out.WriteString(strings.TrimRight(line[:end], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[end:], " ")
	}
	return out.String() + line
}

// Printable replaces characters that are not printable, because texts of the cloud could otherwise
// control the terminal, or change the direction in which a line is read. Line breaks and tabs stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
