package evidence

import (
	"fmt"
	"os"
	"strings"
)

// ResultsMark is the line of a page before the results, which a tool writes.
const ResultsMark = "<!-- results -->"

// ReadPage reads the text of a page until ResultsMark, and the results after it.
func ReadPage(path string) (text, results string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	text, results, found := strings.Cut(string(data), ResultsMark+"\n")
	if !found {
		return "", "", fmt.Errorf("%s has no line %s", path, ResultsMark)
	}
	return text + ResultsMark + "\n", results, nil
}

// Code is a text of a cell that Markdown does not interpret.
func Code(text string) string {
	return "`" + strings.NewReplacer("|", "/", "`", "'").Replace(text) + "`"
}

// Table is a table of a page. A row has the texts of its cells by their columns.
func Table(columns []string, rows []map[string]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %s |\n|%s\n", strings.Join(columns, " | "),
		strings.Repeat("---|", len(columns)))
	for _, row := range rows {
		text.WriteString("|")
		for _, column := range columns {
			fmt.Fprintf(&text, " %s |", row[column])
		}
		text.WriteString("\n")
	}
	return text.String()
}
