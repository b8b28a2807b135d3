package webpage

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/fxccm/fxccm/internal/printable"
)

// A Part is a part of an element: an attribute, a text, or another element. Texts and values of
// attributes are escaped when the page is written.
type Part func(parent *html.Node)

// constant is the name of an element or of an attribute. Other packages can pass constants only.
type constant string

// El is an element. The browser must not read its content as a script or a style.
func El(name constant, parts ...Part) Part {
	return func(parent *html.Node) {
		n := &html.Node{Type: html.ElementNode, Data: string(name)}
		All(parts...)(n)
		parent.AppendChild(n)
		switch name {
		case "caption", "dd", "h3", "li", "p", "rect", "summary", "tr":
			Text("\n")(parent) // for readers of the source
		}
	}
}

// Attr is an attribute. Its value must not be a URL, for which there is [Link].
func Attr(key constant, value string) Part {
	return func(parent *html.Node) {
		parent.Attr = append(parent.Attr, html.Attribute{Key: string(key), Val: value})
	}
}

// Class is the attribute of that name.
func Class(names string) Part { return Attr("class", names) }

// Text is a text.
func Text(text string) Part {
	return func(parent *html.Node) {
		parent.AppendChild(&html.Node{Type: html.TextNode, Data: text})
	}
}

// Number is a number as a text.
func Number[T ~int | ~int32 | ~uint64](n T) Part {
	return Text(strconv.FormatInt(int64(n), 10))
}

// All is several parts, or none.
func All(parts ...Part) Part {
	return func(parent *html.Node) {
		for _, part := range parts {
			part(parent)
		}
	}
}

// If is the parts if the condition holds, otherwise nothing.
func If(condition bool, parts ...Part) Part {
	if !condition {
		return All()
	}
	return All(parts...)
}

// Each is one part for each item.
func Each[T any](items []T, part func(T) Part) Part {
	return func(parent *html.Node) {
		for _, item := range items {
			part(item)(parent)
		}
	}
}

// Link is a link to a relative URL. Of any other URL only the parts are shown.
func Link(to string, parts ...Part) Part {
	u, err := url.Parse(to)
	// A browser reads a backslash as a slash.
	if err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(to, "/") ||
		strings.Contains(to, `\`) {
		return All(parts...)
	}
	return El("a", Attr("href", to), All(parts...))
}

// Row is a row of a table's head.
func Row(headings ...string) Part {
	return El("thead", El("tr", Each(headings, func(heading string) Part {
		return El("th", Attr("scope", "col"), Text(heading))
	})))
}

// RowHeading is the cell that names its row.
func RowHeading(parts ...Part) Part { return El("th", Attr("scope", "row"), All(parts...)) }

// maxName is how many characters of a name are shown. Each dot of a name makes two nodes.
const maxName = 512

// Name is a name, which breaks only after a slash or a dot.
func Name(name string) Part {
	name = printable.Text(name, maxName)
	return El("span", Class("name"), Attr("title", name), func(parent *html.Node) {
		for i, part := range split(name) {
			If(i > 0, El("wbr"))(parent)
			Text(part)(parent)
		}
	})
}

// split divides a name after each slash and each dot.
func split(name string) (parts []string) {
	for _, part := range strings.SplitAfter(name, "/") {
		parts = append(parts, strings.SplitAfter(part, ".")...)
	}
	return parts
}

// A text of more than maxText characters is cut to cutText, and shown in whole on demand.
const maxText, cutText = 240, 160

// LongText is a text of any length, such as one of the cloud.
func LongText(text string) Part {
	if begin := cut(text); begin != "" {
		return El("details", El("summary", Text(begin+" …")), Text(text))
	}
	return Text(text)
}

// cut returns the beginning of a long text, up to the end of a word; "" if the text is not long.
func cut(text string) string {
	runes := []rune(text)
	if len(runes) <= maxText {
		return ""
	}
	begin := string(runes[:cutText])
	if at := strings.LastIndexByte(begin, ' '); at > 0 {
		begin = begin[:at]
	}
	return begin
}

// Time is a time as a text for people. "" shows the time itself.
func Time(t time.Time, text string) Part {
	iso := t.UTC().Format(time.RFC3339)
	if text == "" {
		return El("time", Attr("datetime", iso), Text(iso))
	}
	return El("time", Attr("datetime", iso), Attr("title", iso), Text(text))
}
