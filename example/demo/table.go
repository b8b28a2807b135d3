package main

import (
	"strings"
	"unicode/utf8"
)

// A table is a heading and rows, the first cell of which names the thing that the row is about.
type table struct {
	heading []string
	rows    [][]cell
	// quiet tables change too often to tell of each change.
	quiet bool
}

// cell is a text and what to make of it.
type cell struct {
	text string
	mood mood
}

// mood is whether something is as it should be.
type mood int

const (
	neutral mood = iota
	good
	waiting
	bad
	strong
)

// columnGap is between two columns, and columnLeast what is left of a column where there is no room.
const (
	columnGap   = 2
	columnLeast = 4
)

// lines lays a table out in a width, in characters. Columns that do not fit are made narrower, the widest
// first; colour says whether moods are shown.
func (t table) lines(width int, colour bool) []string {
	heading := make([]cell, 0, len(t.heading))
	for _, title := range t.heading {
		heading = append(heading, cell{text: title, mood: strong})
	}
	rows := append([][]cell{heading}, t.rows...)
	widths := columnWidths(rows, width)
	all := make([]string, 0, len(rows))
	for _, row := range rows {
		all = append(all, line(row, widths, width, colour))
	}
	return all
}

func columnWidths(rows [][]cell, width int) []int {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for {
		total, widest := columnGap*(len(widths)-1), 0
		for i, w := range widths {
			total += w
			if w > widths[widest] {
				widest = i
			}
		}
		if total <= width || widths[widest] <= columnLeast {
			return widths
		}
		widths[widest]--
	}
}

// line is one row. What does not fit into the width even with narrow columns is left out.
func line(row []cell, widths []int, width int, colour bool) string {
	var out strings.Builder
	left := width
	for i, c := range row {
		if left <= 0 {
			break
		}
		text := shorten(c.text, min(widths[i], left))
		left -= utf8.RuneCountInString(text)
		out.WriteString(paint(text, c.mood, colour))
		if i == len(row)-1 {
			break
		}
		gap := min(widths[i]-utf8.RuneCountInString(text)+columnGap, left)
		left -= gap
		out.WriteString(strings.Repeat(" ", gap))
	}
	return strings.TrimRight(out.String(), " ")
}

// shorten cuts a text to a number of characters and shows that it did.
func shorten(text string, to int) string {
	runes := []rune(text)
	if len(runes) <= to {
		return text
	}
	if to < 1 {
		return ""
	}
	return string(runes[:to-1]) + "…"
}

// wrap breaks a text between words into lines of a width, and within a word that is longer.
func wrap(text string, width int) []string {
	var all []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			all, line = append(all, line), word
		}
		for runes := []rune(line); len(runes) > width; runes = []rune(line) {
			all, line = append(all, string(runes[:width])), string(runes[width:])
		}
	}
	return append(all, line)
}

func paint(text string, m mood, colour bool) string {
	codes := map[mood]string{good: "32", waiting: "33", bad: "31", strong: "1"}
	code, ok := codes[m]
	if !ok || !colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// changes tells in a line each what is new, other or gone between two looks at the same tables.
func changes(before, after []table) []string {
	var all []string
	for i, now := range after {
		if now.quiet {
			continue
		}
		var then table
		if i < len(before) {
			then = before[i]
		}
		all = append(all, now.changesSince(then)...)
	}
	return all
}

func (t table) changesSince(then table) []string {
	var all []string
	for _, row := range t.rows {
		if told := t.difference(then.row(row[0].text), row); told != "" {
			all = append(all, row[0].text+": "+told)
		}
	}
	for _, row := range then.rows {
		if t.row(row[0].text) == nil {
			all = append(all, row[0].text+": gone")
		}
	}
	return all
}

func (t table) row(name string) []cell {
	for _, row := range t.rows {
		if row[0].text == name {
			return row
		}
	}
	return nil
}

// difference names the cells of a row that are others than before.
func (t table) difference(before, now []cell) string {
	var told []string
	for i := 1; i < len(now); i++ {
		switch {
		case before != nil && before[i].text == now[i].text, before == nil && now[i].text == "":
		case now[i].text == "":
			told = append(told, "no "+strings.ToLower(t.heading[i]))
		default:
			told = append(told, strings.ToLower(t.heading[i])+" "+now[i].text)
		}
	}
	return strings.Join(told, ", ")
}
