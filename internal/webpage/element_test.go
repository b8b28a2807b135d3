package webpage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// source returns the HTML of a part.
func source(t *testing.T, part Part) string {
	t.Helper()
	document, out := &html.Node{Type: html.DocumentNode}, strings.Builder{}
	part(document)
	if err := html.Render(&out, document); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestName_OfSeveralParts_BreaksOnlyAfterSlashesAndDots(t *testing.T) {
	for name, want := range map[string]string{
		"web":                                  "web",
		"shop/web":                             "shop/<wbr/>web",
		"call LoadBalancer.EnsureLoadBalancer": "call LoadBalancer.<wbr/>EnsureLoadBalancer",
	} {
		if got := source(t, Name(name)); !strings.Contains(got, ">"+want+"<") {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestName_OfAMillionDots_IsCut(t *testing.T) {
	if got := source(t, Name(strings.Repeat(".", 1<<20))); len(got) > 64<<10 ||
		!strings.Contains(got, "...") {
		t.Errorf("%d bytes: %.300s", len(got), got)
	}
}

func TestLink_ToAnotherSite_ShowsOnlyItsText(t *testing.T) {
	for to, want := range map[string]string{
		"#m0":                   `<a href="#m0">x</a>`,
		"?sort=state&state=a":   `<a href="?sort=state&amp;state=a">x</a>`,
		"clusters/a%2Fb":        `<a href="clusters/a%2Fb">x</a>`,
		"javascript:alert(1)":   "x",
		" javascript:alert(1)":  "x",
		"java\nscript:alert(1)": "x",
		"//example.com":         "x",
		`/\example.com`:         "x",
		"https://example.com":   "x",
	} {
		if got := source(t, Link(to, Text("x"))); got != want {
			t.Errorf("%q: %s, want %s", to, got, want)
		}
	}
}

func TestLongText_OfManyCharacters_IsCutAtAWordAndWholeInTheDetails(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("refused: ", 34))
	noBlank := strings.Repeat("ü", maxText+1)
	for text, summary := range map[string]string{
		words: strings.TrimSpace(strings.Repeat("refused: ", cutText/len("refused: "))),
		// Without a blank, it is cut after a character.
		noBlank: strings.Repeat("ü", cutText),
	} {
		want := "<details><summary>" + summary + " …</summary>\n" + text + "</details>"
		if got := source(t, LongText(text)); got != want {
			t.Errorf("it is shown as\n%q, want\n%q", got, want)
		}
	}
	whole := strings.Repeat("ü", maxText)
	if got := source(t, LongText(whole)); got != whole {
		t.Errorf("%d characters are shown as %s", maxText, got)
	}
}

// flat returns the elements, the attributes and the texts below a node, in one form.
func flat(n *html.Node) string {
	var out strings.Builder
	for child := range n.ChildNodes() {
		if child.Type == html.TextNode {
			out.WriteString(child.Data)
			continue
		}
		fmt.Fprintf(&out, "[%v %s %q", child.Type, child.Data, child.Attr)
		out.WriteString(flat(child) + "]")
	}
	return out.String()
}

// FuzzPart checks that a browser reads each text and each value as it was, and nothing else.
func FuzzPart(f *testing.F) {
	f.Add(`</style><script>alert("x")</script>`)
	f.Add(`" onmouseover='alert(1)' x="`)
	f.Add("a&amp;b &lt;i&gt; <!-- <![CDATA[ ]]> --> &#60;b&#62;")
	f.Add("</title></details></time><plaintext>" + strings.Repeat("<b>", maxText))
	f.Add("a/b.c/\r\n\xff")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, "\x00", "") // browsers drop it
		for _, part := range []Part{
			Text(text), Name(text), LongText(text), Bad.Mark(text).Part(),
			Link("?"+text, Text(text)),
			El("p", Class(text), Attr("title", text), Text(text)), Time(time.Time{}, text),
			El("title", Text(text)),
		} {
			div := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
			part(div)
			read := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
			nodes, err := html.ParseFragment(strings.NewReader(source(t, part)), read)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range nodes {
				read.AppendChild(n)
			}
			if got, want := flat(read), flat(div); got != want {
				t.Errorf("%q is read as\n%s\nwant\n%s", text, got, want)
			}
		}
	})
}
